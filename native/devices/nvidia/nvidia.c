/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA cards through NVML: their parts, and the fields that are read ten times a second, each
 * with the cheapest call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "devices/nvidia/card.h"

static const char *const names[CALLS] = {
#define X(name, parameters) [CALL_##name] = #name,
	SK_NVML_READ_TABLE(X)
#undef X
		[CALL_FIELD] = "NVML field",
	[CALL_GPM_METRIC] = "GPM metric",
	[CALL_nvmlGpmSampleAlloc] = "nvmlGpmSampleAlloc",
	[CALL_nvmlGpmMetricsGet] = "nvmlGpmMetricsGet",
};

static const uint32_t fast_fields[] = {FIELD_POWER_INSTANT, FIELD_POWER_AVERAGE, FIELD_ENERGY,
				       FIELD_MEMORY_TEMPERATURE};

_Static_assert(sizeof(fast_fields) / sizeof(fast_fields[0]) == FAST, "each has its place");

/* --- field values --------------------------------------------------------------------------- */

double sk_nvidia_number(const struct nvml_field *field)
{
	uint64_t raw = field->value;
	double real;

	switch (field->type) { /* nvmlValueType_t: which bytes of the union are used */
	case 0:
		memcpy(&real, &raw, sizeof(real));
		return real;
	case 1:
		return (uint32_t)raw;
	case 4:
		return (double)(int64_t)raw;
	case 5:
		return (int32_t)raw;
	case 6:
		return (uint16_t)raw;
	default:
		return (double)raw;
	}
}

static struct sk_device_field decoded(const struct nvml_field *field)
{
	struct sk_device_field made = sk_device_said(CALL_FIELD, field->code, 0);
	int64_t now_s = (int64_t)(sk_device_clock(CLOCK_REALTIME) / 1000000000u);

	if (field->code) {
		made.number = (uint16_t)field->id;
		return made;
	}
	made.value = sk_nvidia_number(field);
	/* Some drivers give no stamp, or one of another clock. */
	if (llabs(field->timestamp_us / 1000000 - now_s) < STAMP_NEAR_S)
		made.t_ns = field->timestamp_us * 1000;
	return made;
}

/* Read a batch. If the call fails, each of its fields has that absence. */
int sk_nvidia_batch(struct sk_device_card *card, const struct nvml_field *wanted,
		    struct nvml_field *ret, uint32_t count)
{
	memcpy(ret, wanted, count * sizeof(*ret));
	return ASK(card, nvmlDeviceGetFieldValues, (int)count, ret);
}

struct sk_device_field sk_nvidia_found(const struct nvml_field *fields, uint32_t count, int code,
				       uint32_t id)
{
	if (code)
		return sk_device_absent(CALL_nvmlDeviceGetFieldValues, code);
	for (uint32_t i = 0; i < count; i++)
		if (fields[i].id == id)
			return decoded(&fields[i]);
	return sk_device_absent(SK_DEVICE_NO_CALL, SK_DEVICE_NOT_READ);
}

/* --- what does not change ------------------------------------------------------------------- */

static void find_ports(struct sk_device_card *card, struct sk_nvidia_state *state)
{
	struct nvml_field newer = {.id = FIELD_LINK_TX};
	uint32_t up = 0;
	int code = 0;

	for (state->ports = 0; state->ports < PORTS; state->ports++) {
		code = ASK(card, nvmlDeviceGetNvLinkState, state->ports, &up);
		if (code)
			break;
	}
	state->no_links = sk_device_absent(CALL_nvmlDeviceGetNvLinkState, code);
	if (!state->ports)
		return;
	code = ASK(card, nvmlDeviceGetFieldValues, 1, &newer);
	state->by_kib = code || newer.code;
	for (uint32_t port = 0; port < state->ports; port++) {
		const uint32_t ids[PER_PORT] = {
			state->by_kib ? FIELD_LINK_TX_KIB : FIELD_LINK_TX,
			state->by_kib ? FIELD_LINK_RX_KIB : FIELD_LINK_RX,
			FIELD_LINK_STATE,
			FIELD_LINK_REPLAYS,
			FIELD_LINK_RECOVERIES,
			FIELD_LINK_CHECKSUMS,
		};

		for (uint32_t i = 0; i < PER_PORT; i++)
			state->link_wanted[port * PER_PORT + i] =
				(struct nvml_field){.id = ids[i], .scope = port};
	}
}

/* The driver allocates samples of GPM. */
static void find_gpm(struct sk_device_card *card, struct sk_nvidia_state *state)
{
	struct nvml_gpm_support support = {.version = 1};
	int code = ASK(card, nvmlGpmQueryDeviceSupport, &support);

	state->no_gpm = sk_device_absent(CALL_nvmlGpmQueryDeviceSupport, code);
	state->compared = false;
	if (!code && !support.supported)
		state->no_gpm.code = SK_DEVICE_NONE;
	for (uint32_t i = 0; i < 2 && !state->no_gpm.code && !state->sample[i]; i++) {
		code = sk_nvml.nvmlGpmSampleAlloc ? sk_nvml.nvmlGpmSampleAlloc(&state->sample[i])
						  : NVML_FUNCTION_NOT_FOUND;
		if (code)
			state->no_gpm = sk_device_absent(CALL_nvmlGpmSampleAlloc, code);
	}
}

/* The sensor of GA100 and GH100 (A100, A30, H100, H200) samples 25 ms of each 100 ms (arXiv
 * 2312.02741); GetPowerUsage is an average on chips newer than GA100 (nvml.h). */
static void find_sensor(struct sk_device_card *card, struct sk_nvidia_state *state)
{
	int major = 0, minor = 0;
	int code = ASK(card, nvmlDeviceGetCudaComputeCapability, &major, &minor);

	state->partly = !code && (major == 8 || major == 9) && minor == 0;
	state->averages = !code && (major > 8 || (major == 8 && minor > 0));
}

static int begin(struct sk_device_card *card)
{
	struct sk_nvidia_state *state = card->state ? card->state : calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	card->state = state;
	for (uint32_t i = 0; i < FAST; i++)
		state->fast_wanted[i].id = fast_fields[i];
	sk_nvidia_want_slow(state);
	find_sensor(card, state);
	find_ports(card, state);
	find_gpm(card, state);
	return 0;
}

static void end(struct sk_device_card *card)
{
	struct sk_nvidia_state *state = card->state;

	for (uint32_t i = 0; state && i < 2; i++)
		if (state->sample[i] && sk_nvml.nvmlGpmSampleFree)
			sk_nvml.nvmlGpmSampleFree(state->sample[i]);
	free(state);
	card->state = NULL;
}

/* --- ten times a second --------------------------------------------------------------------- */

static struct sk_device_field windowed(struct sk_device_field field, uint32_t window_us)
{
	field.window_us = window_us;
	return field;
}

/* Read the newest power and the average; older drivers have another function for them. */
static void read_power(struct sk_device_card *card, struct sk_device_record *record,
		       struct sk_device_field newest, struct sk_device_field average)
{
	const struct sk_nvidia_state *state = card->state;
	struct sk_device_field only = newest;
	bool is_mean = false;
	uint32_t mw = 0;

	if (newest.code || average.code) {
		int code = ASK(card, nvmlDeviceGetPowerUsage, &mw);

		only = sk_device_said(CALL_nvmlDeviceGetPowerUsage, code, mw);
		if (state->averages && average.code)
			average = only;
		is_mean = newest.code && !code && state->averages;
		newest = newest.code ? only : newest;
	}
	newest = windowed(newest, is_mean ? AVERAGE_US : state->partly ? SAMPLED_US : 0);
	record->field[SK_DEVICE_POWER] = sk_nvidia_milli(newest);
	record->field[SK_DEVICE_POWER_AVERAGE] = sk_nvidia_milli(windowed(average, AVERAGE_US));
}

static struct sk_device_field energy(struct sk_device_card *card, struct sk_device_field field)
{
	uint64_t mj = 0;
	int code;

	if (!field.code)
		return sk_nvidia_milli(field);
	code = ASK(card, nvmlDeviceGetTotalEnergyConsumption, &mj);
	return sk_device_said(CALL_nvmlDeviceGetTotalEnergyConsumption, code, (double)mj / 1000);
}

/* Bits of nvmlClocksEventReasons up to 0x100 are those of enum sk_device_reason, in its order. */
static struct sk_device_field reasons(struct sk_device_card *card)
{
	uint64_t bits = 0;
	int32_t call = CALL_nvmlDeviceGetCurrentClocksEventReasons;
	int code = ASK(card, nvmlDeviceGetCurrentClocksEventReasons, &bits);

	if (code == NVML_FUNCTION_NOT_FOUND || code == NVML_NOT_SUPPORTED) {
		call = CALL_nvmlDeviceGetCurrentClocksThrottleReasons;
		code = ASK(card, nvmlDeviceGetCurrentClocksThrottleReasons, &bits);
	}
	return sk_device_said(call, code, (double)(bits & 0x1ff));
}

_Static_assert(SK_DEVICE_DISPLAY_CLOCKS == 0x100 && SK_DEVICE_POWER_BRAKE == 0x80 &&
		       SK_DEVICE_THERMAL == 0x20,
	       "as nvmlClocksEventReasons has them");

static struct sk_device_field clock_of(struct sk_device_card *card, uint32_t kind)
{
	uint32_t mhz = 0;
	int code = ASK(card, nvmlDeviceGetClockInfo, kind, &mhz);

	return sk_device_said(CALL_nvmlDeviceGetClockInfo, code, (double)mhz * MHZ);
}

static void fast(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_nvidia_state *state = card->state;
	struct sk_device_field *field = record->field;
	struct nvml_rates rates = {0};
	uint32_t degrees = 0;
	int code = sk_nvidia_batch(card, state->fast_wanted, state->fast, FAST);

	read_power(card, record, sk_nvidia_found(state->fast, FAST, code, FIELD_POWER_INSTANT),
		   sk_nvidia_found(state->fast, FAST, code, FIELD_POWER_AVERAGE));
	field[SK_DEVICE_ENERGY] =
		energy(card, sk_nvidia_found(state->fast, FAST, code, FIELD_ENERGY));
	field[SK_DEVICE_MEMORY_TEMPERATURE] =
		sk_nvidia_found(state->fast, FAST, code, FIELD_MEMORY_TEMPERATURE);
	code = ASK(card, nvmlDeviceGetTemperature, 0, &degrees);
	field[SK_DEVICE_TEMPERATURE] = sk_device_said(CALL_nvmlDeviceGetTemperature, code, degrees);
	field[SK_DEVICE_CLOCK] = clock_of(card, CLOCK_SM);
	field[SK_DEVICE_MEMORY_CLOCK] = clock_of(card, CLOCK_MEMORY);
	code = ASK(card, nvmlDeviceGetUtilizationRates, &rates);
	field[SK_DEVICE_BUSY] =
		sk_device_said(CALL_nvmlDeviceGetUtilizationRates, code, rates.gpu / 100.0);
	field[SK_DEVICE_MEMORY_BUSY] =
		sk_device_said(CALL_nvmlDeviceGetUtilizationRates, code, rates.memory / 100.0);
	field[SK_DEVICE_THROTTLE] = reasons(card);
}

const struct sk_device_vendor sk_device_nvidia = {
	.name = "nvidia",
	.call = names,
	.calls = CALLS,
	.open = sk_nvidia_open,
	.find = sk_nvidia_find,
	.begin = begin,
	.fast = fast,
	.slow = sk_nvidia_slow,
	.write = sk_nvidia_write,
	.end = end,
};
