/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA cards through NVML: the cheapest call that has each field. Numbers of fields, metrics and
 * reasons are nvml.h's (13.0). */
#include "devices/nvidia.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "devices/card.h"

enum {
	FIELD_ECC = 1,
	FIELD_ECC_SINGLE = 3,
	FIELD_ECC_DOUBLE = 4,
	FIELD_ECC_SINGLE_TOTAL = 5,
	FIELD_ECC_DOUBLE_TOTAL = 6,
	FIELD_RETIRED_SINGLE = 29,
	FIELD_RETIRED_DOUBLE = 30,
	FIELD_RETIRED_PENDING = 31,
	FIELD_VIOLATION_POWER = 74,
	FIELD_VIOLATION_THERMAL = 75,
	FIELD_VIOLATION_SYNC = 76,
	FIELD_VIOLATION_BOARD = 77,
	FIELD_VIOLATION_RELIABILITY = 79,
	FIELD_MEMORY_TEMPERATURE = 82,
	FIELD_ENERGY = 83,
	FIELD_PCIE_REPLAYS = 94,
	FIELD_LINK_TX_KIB = 138,
	FIELD_LINK_RX_KIB = 139,
	FIELD_REMAPPED_CORRECTABLE = 142,
	FIELD_REMAPPED_UNCORRECTABLE = 143,
	FIELD_REMAP_PENDING = 144,
	FIELD_REMAP_FAILED = 145,
	FIELD_LINK_REPLAYS = 161,
	FIELD_LINK_RECOVERIES = 162,
	FIELD_LINK_CHECKSUMS = 163,
	FIELD_LINK_STATE = 165,
	FIELD_POWER_AVERAGE = 185,
	FIELD_POWER_INSTANT = 186,
	FIELD_POWER_LIMIT = 190,
	FIELD_PCIE_TX = 197,
	FIELD_PCIE_RX = 198,
	FIELD_LINK_TX = 202,
	FIELD_LINK_RX = 204,
	FIELD_RECOVERY_ACTION = 230,
	FIELD_SLOWED_THERMAL = 269,
	FIELD_SLOWED_HARD_THERMAL = 270,
	FIELD_SLOWED_BRAKE = 271,
};

enum {
	PORTS = 18, /* NVML_NVLINK_MAX_LINKS */
	PER_PORT = 6,
	KIB = 1024,
	GRAPHICS_MAX = 64,
	COMPUTE_MAX = 256,
	SHARES_MAX = 256,
	LOOK_BACK_US = 1500000, /* samples of processes are of the last second, and some more */
	AVERAGE_US = 1000000,
	SAMPLED_US = 25000,
	SECOND_US = 1000000,
	STAMP_NEAR_S = 3600,
	FAN_VERSION = 12 | 1 << 24,
	CLOCK_SM = 1,
	CLOCK_MEMORY = 2,
	MHZ = 1000000,
};

enum call {
#define X(name, parameters) CALL_##name,
	SK_NVML_READ_TABLE(X)
#undef X
		CALL_FIELD,
	CALL_GPM_METRIC,
	CALL_nvmlGpmSampleAlloc,
	CALL_nvmlGpmMetricsGet,
	CALLS
};

static const char *const names[CALLS] = {
#define X(name, parameters) [CALL_##name] = #name,
	SK_NVML_READ_TABLE(X)
#undef X
		[CALL_FIELD] = "NVML field",
	[CALL_GPM_METRIC] = "GPM metric",
	[CALL_nvmlGpmSampleAlloc] = "nvmlGpmSampleAlloc",
	[CALL_nvmlGpmMetricsGet] = "nvmlGpmMetricsGet",
};

/* Call a function about the card; the code of one that the library lacks is NVML's own. */
#define ASK(card, function, ...)                                                                   \
	(sk_nvml.function ? (sk_device_enter(card, CALL_##function),                               \
			     sk_device_leave(card, sk_nvml.function((card)->handle, __VA_ARGS__))) \
			  : NVML_FUNCTION_NOT_FOUND)

static const uint32_t fast_fields[] = {FIELD_POWER_INSTANT, FIELD_POWER_AVERAGE, FIELD_ENERGY,
				       FIELD_MEMORY_TEMPERATURE};

enum { FAST = sizeof(fast_fields) / sizeof(fast_fields[0]) };

/* A field of the record, the field of NVML, and the one that an older driver has instead. */
static const struct {
	uint16_t id, field, older;
} counters[] = {
	{SK_DEVICE_THROTTLE_POWER, FIELD_VIOLATION_POWER, 0},
	{SK_DEVICE_THROTTLE_THERMAL, FIELD_SLOWED_THERMAL, FIELD_VIOLATION_THERMAL},
	{SK_DEVICE_THROTTLE_HARD_THERMAL, FIELD_SLOWED_HARD_THERMAL, 0},
	{SK_DEVICE_THROTTLE_BRAKE, FIELD_SLOWED_BRAKE, 0},
	{SK_DEVICE_THROTTLE_SYNC, FIELD_VIOLATION_SYNC, 0},
	{SK_DEVICE_THROTTLE_BOARD, FIELD_VIOLATION_BOARD, 0},
	{SK_DEVICE_THROTTLE_RELIABILITY, FIELD_VIOLATION_RELIABILITY, 0},
	{SK_DEVICE_ECC_ENABLED, FIELD_ECC, 0},
	{SK_DEVICE_ECC_CORRECTED, FIELD_ECC_SINGLE, 0},
	{SK_DEVICE_ECC_UNCORRECTED, FIELD_ECC_DOUBLE, 0},
	{SK_DEVICE_ECC_CORRECTED_TOTAL, FIELD_ECC_SINGLE_TOTAL, 0},
	{SK_DEVICE_ECC_UNCORRECTED_TOTAL, FIELD_ECC_DOUBLE_TOTAL, 0},
	{SK_DEVICE_RETIRED_PENDING, FIELD_RETIRED_PENDING, 0},
	{SK_DEVICE_REMAP_PENDING, FIELD_REMAP_PENDING, 0},
	{SK_DEVICE_REMAP_FAILED, FIELD_REMAP_FAILED, 0},
	{SK_DEVICE_RECOVERY_ACTION, FIELD_RECOVERY_ACTION, 0},
	{SK_DEVICE_PCIE_REPLAYS, FIELD_PCIE_REPLAYS, 0},
	{SK_DEVICE_PCIE_TX, FIELD_PCIE_TX, 0},
	{SK_DEVICE_PCIE_RX, FIELD_PCIE_RX, 0},
	{SK_DEVICE_POWER_LIMIT, FIELD_POWER_LIMIT, 0},
};

/* A field of the record that is the sum of two fields of NVML. */
static const struct {
	uint16_t id, one, other;
} sums[] = {
	{SK_DEVICE_RETIRED_PAGES, FIELD_RETIRED_SINGLE, FIELD_RETIRED_DOUBLE},
	{SK_DEVICE_REMAPPED_ROWS, FIELD_REMAPPED_CORRECTABLE, FIELD_REMAPPED_UNCORRECTABLE},
};

enum {
	COUNTERS = sizeof(counters) / sizeof(counters[0]),
	SUMS = sizeof(sums) / sizeof(sums[0]),
	SLOW = 2 * COUNTERS + 2 * SUMS, /* room for all of them with their older fields */
};

/* GPM metrics: shares of SM, tensor and memory time (nvmlGpmMetricId_t). */
static const struct {
	uint16_t id;
	uint32_t metric;
} metrics[] = {{SK_DEVICE_SM, 2}, {SK_DEVICE_TENSOR, 5}, {SK_DEVICE_MEMORY_BANDWIDTH, 10}};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

struct state {
	bool averages; /* GetPowerUsage is an average: GA100 and older chips excepted */
	bool partly;   /* the sensor looks at a quarter of the time */
	struct nvml_field fast_wanted[FAST], fast[FAST];
	uint32_t slow_count;
	struct nvml_field slow_wanted[SLOW], slow[SLOW];
	uint32_t ports;
	bool by_kib; /* links count in KiB: before NVLink 5 */
	struct nvml_field link_wanted[PORTS * PER_PORT], link[PORTS * PER_PORT];
	struct sk_device_field no_links, no_gpm;
	void *sample[2];
	uint32_t turn; /* which of both samples is taken next */
	bool compared; /* the other sample was taken */
	struct nvml_metrics metrics;
	struct nvml_process process[COMPUTE_MAX + GRAPHICS_MAX];
	uint32_t shares;
	struct nvml_share share[SHARES_MAX], share_next[SHARES_MAX];
	struct nvml_sample power[SK_DEVICE_SAMPLES_MAX];
};

/* --- field values --------------------------------------------------------------------------- */

static double number(uint32_t type, uint64_t raw)
{
	double real;

	switch (type) { /* nvmlValueType_t: the type says which bytes of the union count */
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
	made.value = number(field->type, field->value);
	/* A driver may stamp nothing, or by another clock. */
	if (llabs(field->timestamp_us / 1000000 - now_s) < STAMP_NEAR_S)
		made.t_ns = field->timestamp_us * 1000;
	return made;
}

/* Milliwatts to watts, millijoules to joules. */
static struct sk_device_field milli(struct sk_device_field field)
{
	field.value /= 1000;
	return field;
}

/* Ask for a batch; where the call itself fails each field is that absence. */
static int batch(struct sk_device_card *card, const struct nvml_field *wanted,
		 struct nvml_field *ret, uint32_t count)
{
	memcpy(ret, wanted, count * sizeof(*ret));
	return ASK(card, nvmlDeviceGetFieldValues, (int)count, ret);
}

static struct sk_device_field found(const struct nvml_field *fields, uint32_t count, int code,
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

static void want_slow(struct state *state)
{
	state->slow_count = 0;
	for (uint32_t i = 0; i < COUNTERS; i++) {
		state->slow_wanted[state->slow_count++].id = counters[i].field;
		if (counters[i].older)
			state->slow_wanted[state->slow_count++].id = counters[i].older;
	}
	for (uint32_t i = 0; i < SUMS; i++) {
		state->slow_wanted[state->slow_count++].id = sums[i].one;
		state->slow_wanted[state->slow_count++].id = sums[i].other;
	}
}

static void find_ports(struct sk_device_card *card, struct state *state)
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

/* Samples of GPM are the driver's memory. */
static void find_gpm(struct sk_device_card *card, struct state *state)
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
	state->metrics.version = 1;
	state->metrics.count = METRICS;
	for (uint32_t i = 0; i < METRICS; i++)
		state->metrics.metric[i].id = metrics[i].metric;
}

/* The sensor of GA100 and GH100 (A100, A30, H100, H200) looks at 25 ms of each 100 ms (arXiv
 * 2312.02741); GetPowerUsage is an average on chips newer than GA100 (nvml.h). */
static void find_sensor(struct sk_device_card *card, struct state *state)
{
	int major = 0, minor = 0;
	int code = ASK(card, nvmlDeviceGetCudaComputeCapability, &major, &minor);

	state->partly = !code && (major == 8 || major == 9) && minor == 0;
	state->averages = !code && (major > 8 || (major == 8 && minor > 0));
}

static int begin(struct sk_device_card *card)
{
	struct state *state = card->state ? card->state : calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	card->state = state;
	for (uint32_t i = 0; i < FAST; i++)
		state->fast_wanted[i].id = fast_fields[i];
	want_slow(state);
	find_sensor(card, state);
	find_ports(card, state);
	find_gpm(card, state);
	return 0;
}

static void end(struct sk_device_card *card)
{
	struct state *state = card->state;

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

/* The newest value and the average, of older drivers by the function that they have instead. */
static void read_power(struct sk_device_card *card, struct sk_device_record *record,
		       struct sk_device_field newest, struct sk_device_field average)
{
	const struct state *state = card->state;
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
	record->field[SK_DEVICE_POWER] = milli(newest);
	record->field[SK_DEVICE_POWER_AVERAGE] = milli(windowed(average, AVERAGE_US));
}

static struct sk_device_field energy(struct sk_device_card *card, struct sk_device_field field)
{
	uint64_t mj = 0;
	int code;

	if (!field.code)
		return milli(field);
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
	struct state *state = card->state;
	struct sk_device_field *field = record->field;
	struct nvml_rates rates = {0};
	uint32_t degrees = 0;
	int code = batch(card, state->fast_wanted, state->fast, FAST);

	read_power(card, record, found(state->fast, FAST, code, FIELD_POWER_INSTANT),
		   found(state->fast, FAST, code, FIELD_POWER_AVERAGE));
	field[SK_DEVICE_ENERGY] = energy(card, found(state->fast, FAST, code, FIELD_ENERGY));
	field[SK_DEVICE_MEMORY_TEMPERATURE] =
		found(state->fast, FAST, code, FIELD_MEMORY_TEMPERATURE);
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

/* --- once a second -------------------------------------------------------------------------- */

static void read_counters(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	struct sk_device_field *field = record->field;
	const struct nvml_field *slow = state->slow;
	uint32_t count = state->slow_count;
	int code = batch(card, state->slow_wanted, state->slow, count);

	for (uint32_t i = 0; i < COUNTERS; i++) {
		struct sk_device_field one = found(slow, count, code, counters[i].field);

		if (one.code && counters[i].older)
			one = found(slow, count, code, counters[i].older);
		field[counters[i].id] = one;
	}
	for (uint32_t i = 0; i < SUMS; i++) {
		struct sk_device_field one = found(slow, count, code, sums[i].one);
		struct sk_device_field other = found(slow, count, code, sums[i].other);

		field[sums[i].id] = one.code ? one : other;
		if (!one.code && !other.code)
			field[sums[i].id].value = one.value + other.value;
	}
}

/* The limit in force, of older drivers by the functions that they have instead. */
static void read_limit(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *limit = &record->field[SK_DEVICE_POWER_LIMIT];
	uint32_t mw = 0;
	int code;

	if (limit->code) {
		code = ASK(card, nvmlDeviceGetEnforcedPowerLimit, &mw);
		*limit = sk_device_said(CALL_nvmlDeviceGetEnforcedPowerLimit, code, mw);
	}
	if (limit->code == NVML_FUNCTION_NOT_FOUND || limit->code == NVML_NOT_SUPPORTED) {
		code = ASK(card, nvmlDeviceGetPowerManagementLimit, &mw);
		*limit = sk_device_said(CALL_nvmlDeviceGetPowerManagementLimit, code, mw);
	}
	*limit = milli(*limit);
}

static void read_board(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;
	struct nvml_memory memory = {0};
	struct nvml_fan fan = {.version = FAN_VERSION};
	uint32_t value = 0;
	int code = ASK(card, nvmlDeviceGetMemoryInfo, &memory);

	field[SK_DEVICE_MEMORY_USED] =
		sk_device_said(CALL_nvmlDeviceGetMemoryInfo, code, (double)memory.used);
	field[SK_DEVICE_MEMORY_FREE] =
		sk_device_said(CALL_nvmlDeviceGetMemoryInfo, code, (double)memory.free);
	code = ASK(card, nvmlDeviceGetFanSpeed, &value);
	field[SK_DEVICE_FAN] = sk_device_said(CALL_nvmlDeviceGetFanSpeed, code, value / 100.0);
	code = ASK(card, nvmlDeviceGetFanSpeedRPM, &fan);
	field[SK_DEVICE_FAN_RPM] = sk_device_said(CALL_nvmlDeviceGetFanSpeedRPM, code, fan.speed);
	code = ASK(card, nvmlDeviceGetCurrPcieLinkGeneration, &value);
	field[SK_DEVICE_PCIE_GEN] =
		sk_device_said(CALL_nvmlDeviceGetCurrPcieLinkGeneration, code, value);
	code = ASK(card, nvmlDeviceGetCurrPcieLinkWidth, &value);
	field[SK_DEVICE_PCIE_WIDTH] =
		sk_device_said(CALL_nvmlDeviceGetCurrPcieLinkWidth, code, value);
}

static struct sk_device_link read_link(struct sk_device_card *card, uint32_t port,
				       const struct nvml_field *value)
{
	const struct state *state = card->state;
	double factor = state->by_kib ? KIB : 1;
	struct sk_device_link link = {.port = port, .errors = NAN};
	uint32_t up = 0;

	link.tx_bytes = value[0].code ? NAN : number(value[0].type, value[0].value) * factor;
	link.rx_bytes = value[1].code ? NAN : number(value[1].type, value[1].value) * factor;
	if (value[2].code)
		link.up = !ASK(card, nvmlDeviceGetNvLinkState, port, &up) && up;
	else /* active, or asleep */
		link.up = value[2].value == 1 || value[2].value == 2;
	for (uint32_t i = 3; i < PER_PORT; i++)
		if (!value[i].code)
			link.errors = (isnan(link.errors) ? 0 : link.errors) +
				      number(value[i].type, value[i].value);
	return link;
}

static void read_links(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	struct sk_device_field *links = &record->field[SK_DEVICE_LINKS];
	int code;

	if (!state->ports) {
		*links = state->no_links;
		return;
	}
	code = batch(card, state->link_wanted, state->link, state->ports * PER_PORT);
	*links = sk_device_said(CALL_nvmlDeviceGetFieldValues, code, state->ports);
	if (code == NVML_NOT_SUPPORTED || code == NVML_FUNCTION_NOT_FOUND) {
		*links = sk_device_value(state->ports);
		for (uint32_t i = 0; i < state->ports * PER_PORT; i++)
			state->link[i].code = code;
	}
	for (uint32_t port = 0; port < state->ports && !links->code; port++)
		record->link[port] = read_link(card, port, &state->link[port * PER_PORT]);
}

/* --- processes ------------------------------------------------------------------------------ */

static double share_of(const struct state *state, uint32_t pid)
{
	for (uint32_t i = state->shares; i-- > 0;)
		if (state->share[i].pid == pid)
			return state->share[i].sm / 100.0;
	return NAN;
}

/* A driver that has nothing newer leaves the shares of the last second standing. */
static void read_shares(struct sk_device_card *card, struct state *state)
{
	uint64_t since_us = sk_device_clock(CLOCK_REALTIME) / 1000 - LOOK_BACK_US;
	uint32_t count = SHARES_MAX;

	if (ASK(card, nvmlDeviceGetProcessUtilization, state->share_next, &count, since_us))
		return;
	state->shares = count < SHARES_MAX ? count : SHARES_MAX;
	memcpy(state->share, state->share_next, state->shares * sizeof(state->share[0]));
}

/* NVML's newest structure, or the one before. */
#define LIST(card, kind, code, call, count, rows)                                                  \
	do {                                                                                       \
		call = CALL_nvmlDeviceGet##kind##RunningProcesses_v3;                              \
		code = ASK(card, nvmlDeviceGet##kind##RunningProcesses_v3, &(count), rows);        \
		if (code == NVML_FUNCTION_NOT_FOUND) {                                             \
			call = CALL_nvmlDeviceGet##kind##RunningProcesses_v2;                      \
			code = ASK(card, nvmlDeviceGet##kind##RunningProcesses_v2, &(count),       \
				   rows);                                                          \
		}                                                                                  \
	} while (0)

static struct sk_device_process process_row(const struct state *state,
					    const struct nvml_process *process, uint32_t kind)
{
	struct sk_device_process row = {.pid = process->pid, .kind = kind};

	row.memory_bytes = process->memory == UINT64_MAX ? NAN : (double)process->memory;
	row.busy_ratio = share_of(state, process->pid);
	return row;
}

static void read_processes(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	struct nvml_process *graphics = &state->process[COMPUTE_MAX];
	uint32_t counts[2] = {COMPUTE_MAX, GRAPHICS_MAX}, rows = 0;
	int32_t call, other_call;
	int code, other;

	LIST(card, Compute, code, call, counts[0], state->process);
	LIST(card, Graphics, other, other_call, counts[1], graphics);
	counts[0] = code ? 0 : counts[0];
	counts[1] = other ? 0 : counts[1];
	record->field[SK_DEVICE_PROCESSES] =
		code ? sk_device_absent(call, code) : sk_device_said(other_call, other, 0);
	if (!counts[0] && !counts[1])
		return;
	read_shares(card, state);
	for (uint32_t i = 0; i < counts[0]; i++)
		record->process[rows++] = process_row(state, &state->process[i], SK_DEVICE_COMPUTE);
	for (uint32_t i = 0; i < counts[1]; i++)
		record->process[rows++] = process_row(state, &graphics[i], SK_DEVICE_GRAPHICS);
	record->field[SK_DEVICE_PROCESSES] = sk_device_value(rows);
}

/* --- samples -------------------------------------------------------------------------------- */

/* All that the driver still has; the reader keeps those that are new. */
static void read_samples(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	uint32_t type = 0, count = SK_DEVICE_SAMPLES_MAX;
	int code = ASK(card, nvmlDeviceGetSamples, 0, 0, &type, &count, state->power);

	count = code ? 0 : count < SK_DEVICE_SAMPLES_MAX ? count : SK_DEVICE_SAMPLES_MAX;
	record->field[SK_DEVICE_POWER_SAMPLES] =
		sk_device_said(CALL_nvmlDeviceGetSamples, code, count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t mw = state->power[i].value;

		if (type != 2 && type != 3)
			mw = (uint32_t)mw;
		record->sample[i] = (struct sk_device_sample){
			(int64_t)state->power[i].timestamp_us * 1000, (double)mw / 1000};
	}
}

static struct sk_device_field metric_field(const struct nvml_metric *metric)
{
	struct sk_device_field made =
		sk_device_said(CALL_GPM_METRIC, metric->code, metric->value / 100);

	made.number = (uint16_t)metric->id;
	made.window_us = SECOND_US;
	return made;
}

/* A metric is the difference of two samples, which are taken in turn. */
static void read_gpm(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	struct sk_device_field all = state->no_gpm;
	bool compared = state->compared;
	int code = 0;

	if (!all.code) {
		code = ASK(card, nvmlGpmSampleGet, state->sample[state->turn]);
		all = sk_device_said(CALL_nvmlGpmSampleGet, code, 0);
		state->compared = !code;
	}
	if (!all.code && !compared)
		all = sk_device_absent(CALL_nvmlGpmSampleGet, SK_DEVICE_FIRST);
	if (!all.code) {
		state->metrics.sample[0] = state->sample[1 - state->turn];
		state->metrics.sample[1] = state->sample[state->turn];
		sk_device_enter(card, CALL_nvmlGpmMetricsGet);
		code = sk_nvml.nvmlGpmMetricsGet ? sk_nvml.nvmlGpmMetricsGet(&state->metrics)
						 : NVML_FUNCTION_NOT_FOUND;
		all = sk_device_said(CALL_nvmlGpmMetricsGet, sk_device_leave(card, code), 0);
	}
	state->turn = state->compared ? 1 - state->turn : state->turn;
	for (uint32_t i = 0; i < METRICS; i++)
		record->field[metrics[i].id] =
			all.code ? all : metric_field(&state->metrics.metric[i]);
}

static void slow(struct sk_device_card *card, struct sk_device_record *record)
{
	read_counters(card, record);
	read_limit(card, record);
	read_board(card, record);
	read_links(card, record);
	read_processes(card, record);
	read_samples(card, record);
	read_gpm(card, record);
}

const struct sk_device_vendor sk_device_nvidia = {
	.name = "nvidia",
	.call = names,
	.calls = CALLS,
	.open = sk_nvidia_open,
	.find = sk_nvidia_find,
	.begin = begin,
	.fast = fast,
	.slow = slow,
	.write = sk_nvidia_write,
	.end = end,
};
