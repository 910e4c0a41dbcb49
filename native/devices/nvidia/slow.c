/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of an NVIDIA card that are read once a second: also ports, processes and samples. */
#include <string.h>

#include "devices/nvidia/card.h"

/* Fields of the record, with their fields of NVML and those of older drivers. */
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

/* Fields of the record that are sums of two fields of NVML. */
static const struct {
	uint16_t id, one, other;
} sums[] = {
	{SK_DEVICE_RETIRED_PAGES, FIELD_RETIRED_SINGLE, FIELD_RETIRED_DOUBLE},
	{SK_DEVICE_REMAPPED_ROWS, FIELD_REMAPPED_CORRECTABLE, FIELD_REMAPPED_UNCORRECTABLE},
};

enum {
	COUNTERS = sizeof(counters) / sizeof(counters[0]),
	SUMS = sizeof(sums) / sizeof(sums[0]),
};

/* GPM metrics: shares of SM, tensor and memory time (nvmlGpmMetricId_t). */
static const struct {
	uint16_t id;
	uint32_t metric;
} metrics[] = {{SK_DEVICE_SM, 2}, {SK_DEVICE_TENSOR, 5}, {SK_DEVICE_MEMORY_BANDWIDTH, 10}};

enum { METRICS = sizeof(metrics) / sizeof(metrics[0]) };

void sk_nvidia_want_slow(struct sk_nvidia_state *state)
{
	state->metrics.version = 1;
	state->metrics.count = METRICS;
	for (uint32_t i = 0; i < METRICS; i++)
		state->metrics.metric[i].id = metrics[i].metric;
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

_Static_assert(2 * (COUNTERS + SUMS) <= SLOW_MAX, "room for all with their older fields");

/* --- once a second -------------------------------------------------------------------------- */

static void read_counters(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_nvidia_state *state = card->state;
	struct sk_device_field *field = record->field;
	const struct nvml_field *slow = state->slow;
	uint32_t count = state->slow_count;
	int code = sk_nvidia_batch(card, state->slow_wanted, state->slow, count);

	for (uint32_t i = 0; i < COUNTERS; i++) {
		struct sk_device_field one = sk_nvidia_found(slow, count, code, counters[i].field);

		if (one.code && counters[i].older)
			one = sk_nvidia_found(slow, count, code, counters[i].older);
		field[counters[i].id] = one;
	}
	for (uint32_t i = 0; i < SUMS; i++) {
		struct sk_device_field one = sk_nvidia_found(slow, count, code, sums[i].one);
		struct sk_device_field other = sk_nvidia_found(slow, count, code, sums[i].other);

		field[sums[i].id] = one.code ? one : other;
		if (!one.code && !other.code)
			field[sums[i].id].value = one.value + other.value;
	}
}

/* Read the limit in force; older drivers have another function for it. */
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
	*limit = sk_nvidia_milli(*limit);
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
	const struct sk_nvidia_state *state = card->state;
	double factor = state->by_kib ? KIB : 1;
	struct sk_device_link link = {.port = port, .errors = NAN};
	uint32_t up = 0;

	link.tx_bytes = value[0].code ? NAN : sk_nvidia_number(&value[0]) * factor;
	link.rx_bytes = value[1].code ? NAN : sk_nvidia_number(&value[1]) * factor;
	if (value[2].code)
		link.up = !ASK(card, nvmlDeviceGetNvLinkState, port, &up) && up;
	else /* active, or asleep */
		link.up = value[2].value == 1 || value[2].value == 2;
	for (uint32_t i = 3; i < PER_PORT; i++)
		if (!value[i].code)
			link.errors = (isnan(link.errors) ? 0 : link.errors) +
				      sk_nvidia_number(&value[i]);
	return link;
}

static void read_links(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_nvidia_state *state = card->state;
	struct sk_device_field *links = &record->field[SK_DEVICE_LINKS];
	int code;

	if (!state->ports) {
		*links = state->no_links;
		return;
	}
	code = sk_nvidia_batch(card, state->link_wanted, state->link, state->ports * PER_PORT);
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

static double share_of(const struct sk_nvidia_state *state, uint32_t pid)
{
	for (uint32_t i = state->shares; i-- > 0;)
		if (state->share[i].pid == pid)
			return state->share[i].sm / 100.0;
	return NAN;
}

/* Read shares of busy time; they stay as they are if the driver has no newer ones. */
static void read_shares(struct sk_device_card *card, struct sk_nvidia_state *state)
{
	uint64_t since_us = sk_device_clock(CLOCK_REALTIME) / 1000 - LOOK_BACK_US;
	uint32_t count = SHARES_MAX;

	if (ASK(card, nvmlDeviceGetProcessUtilization, state->share_next, &count, since_us))
		return;
	state->shares = count < SHARES_MAX ? count : SHARES_MAX;
	memcpy(state->share, state->share_next, state->shares * sizeof(state->share[0]));
}

/* List processes by NVML's newest function, or by the one before. */
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

static struct sk_device_process process_row(const struct sk_nvidia_state *state,
					    const struct nvml_process *process, uint32_t kind)
{
	struct sk_device_process row = {.pid = process->pid, .kind = kind};

	row.memory_bytes = process->memory == UINT64_MAX ? NAN : (double)process->memory;
	row.busy_ratio = share_of(state, process->pid);
	return row;
}

static void read_processes(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_nvidia_state *state = card->state;
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

/* Read all samples that the driver still has; the history adds only new ones. */
static void read_samples(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_nvidia_state *state = card->state;
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

/* Read metrics of GPM, which are differences of two samples; each second replaces the older one. */
static void read_gpm(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_nvidia_state *state = card->state;
	struct sk_device_field all = state->no_gpm;
	bool compared = state->compared;
	int code = 0;

	if (!all.code) {
		code = ASK(card, nvmlGpmSampleGet, state->sample[state->newest]);
		all = sk_device_said(CALL_nvmlGpmSampleGet, code, 0);
		state->compared = !code;
	}
	if (!all.code && !compared)
		all = sk_device_absent(CALL_nvmlGpmSampleGet, SK_DEVICE_FIRST);
	if (!all.code) {
		state->metrics.sample[0] = state->sample[1 - state->newest];
		state->metrics.sample[1] = state->sample[state->newest];
		sk_device_enter(card, CALL_nvmlGpmMetricsGet);
		code = sk_nvml.nvmlGpmMetricsGet ? sk_nvml.nvmlGpmMetricsGet(&state->metrics)
						 : NVML_FUNCTION_NOT_FOUND;
		all = sk_device_said(CALL_nvmlGpmMetricsGet, sk_device_leave(card, code), 0);
	}
	state->newest = state->compared ? 1 - state->newest : state->newest;
	for (uint32_t i = 0; i < METRICS; i++)
		record->field[metrics[i].id] =
			all.code ? all : metric_field(&state->metrics.metric[i]);
}

void sk_nvidia_slow(struct sk_device_card *card, struct sk_device_record *record)
{
	read_counters(card, record);
	read_limit(card, record);
	read_board(card, record);
	read_links(card, record);
	read_processes(card, record);
	read_samples(card, record);
	read_gpm(card, record);
}
