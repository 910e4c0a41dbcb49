/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of an Intel card that are read once a second: also ports and processes. */
#include "devices/intel/card.h"

static void read_memory(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct sk_intel_state *state = card->state;
	struct sk_device_field used = state->no_memory, unused = state->no_memory;

	if (state->memories)
		used = unused = sk_device_value(0);
	for (uint32_t i = 0; i < state->memories && !used.code; i++) {
		struct zes_memory now = {.stype = ZES_MEM_STATE};
		int code = ASK(card, zesMemoryGetState, state->memory[i], &now);

		used = SAID(zesMemoryGetState, code, used.value + (double)(now.size - now.free));
		unused = SAID(zesMemoryGetState, code, unused.value + (double)now.free);
	}
	record->field[SK_DEVICE_MEMORY_USED] = used;
	record->field[SK_DEVICE_MEMORY_FREE] = unused;
}

static void read_bandwidth(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_intel_state *state = card->state;
	struct sk_device_field *share = &record->field[SK_DEVICE_MEMORY_BANDWIDTH];
	uint64_t moved = 0, most = 0, at_us = 0, before = state->moved;
	uint64_t passed_us;

	*share = state->no_memory;
	for (uint32_t i = 0; i < state->memories; i++) {
		struct zes_bandwidth now = {0};
		int code = ASK(card, zesMemoryGetBandwidth, state->memory[i], &now);

		*share = SAID(zesMemoryGetBandwidth, code, 0);
		if (code)
			return;
		moved += now.read + now.written;
		most += now.most;
		at_us = now.at_us;
	}
	if (!state->memories)
		return;
	passed_us = at_us - state->moved_at_us;
	*share = sk_intel_first(CALL_zesMemoryGetBandwidth);
	if (state->moved_at_us && at_us > state->moved_at_us && most && moved >= before) {
		*share = sk_device_value((double)(moved - before) /
					 ((double)most * (double)passed_us / MICRO));
		share->window_us = (uint32_t)passed_us;
	}
	state->moved = moved;
	state->moved_at_us = at_us;
}

/* Read the sustained limit of one domain, in mW. */
static struct sk_device_field sustained(struct sk_device_card *card, void *domain)
{
	struct zes_limit limit[ZES_LIMITS_MAX] = {0};
	uint32_t count = ZES_LIMITS_MAX;
	int code;

	for (uint32_t i = 0; i < ZES_LIMITS_MAX; i++)
		limit[i].stype = ZES_POWER_LIMIT_EXT;
	code = ASK(card, zesPowerGetLimitsExt, domain, &count, limit);
	for (uint32_t i = 0; !code && i < count && i < ZES_LIMITS_MAX; i++)
		if (limit[i].level == ZES_LEVEL_SUSTAINED)
			return sk_device_value(limit[i].limit_mw);
	return sk_device_absent(CALL_zesPowerGetLimitsExt, code ? code : SK_DEVICE_NONE);
}

static void read_limits(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct sk_intel_state *state = card->state;
	struct sk_device_field *field = record->field, limit = state->no_power;
	struct zes_range range = {0};
	struct zes_counter slowed = {0};
	void *clock = state->clock[GPU].handle;
	double mw = 0;
	int code;

	for (uint32_t i = 0; i < state->powers; i++) {
		limit = sustained(card, state->power[i]);
		if (limit.code)
			break;
		mw += limit.value;
		limit.value = mw / 1000;
	}
	field[SK_DEVICE_POWER_LIMIT] = limit;
	field[SK_DEVICE_CLOCK_LIMIT] = field[SK_DEVICE_THROTTLE_TIME] = state->clock[GPU].absent;
	if (!clock)
		return;
	code = ASK(card, zesFrequencyGetRange, clock, &range);
	field[SK_DEVICE_CLOCK_LIMIT] =
		sk_intel_known(CALL_zesFrequencyGetRange, code, range.max, MHZ);
	code = ASK(card, zesFrequencyGetThrottleTime, clock, &slowed);
	field[SK_DEVICE_THROTTLE_TIME] = SAID(zesFrequencyGetThrottleTime, code, slowed.value * US);
}

static void read_bus(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;
	struct zes_pci_state state = {.stype = ZES_PCI_STATE};
	struct zes_pci_stats stats = {0};
	int code = ASK(card, zesDevicePciGetState, card->handle, &state);

	field[SK_DEVICE_PCIE_GEN] =
		sk_intel_known(CALL_zesDevicePciGetState, code, state.speed.gen, 1);
	field[SK_DEVICE_PCIE_WIDTH] =
		sk_intel_known(CALL_zesDevicePciGetState, code, state.speed.width, 1);
	code = ASK(card, zesDevicePciGetStats, card->handle, &stats);
	field[SK_DEVICE_PCIE_TX] = SAID(zesDevicePciGetStats, code, stats.tx);
	field[SK_DEVICE_PCIE_RX] = SAID(zesDevicePciGetStats, code, stats.rx);
	field[SK_DEVICE_PCIE_REPLAYS] = SAID(zesDevicePciGetStats, code, stats.replays);
}

/* Count errors of the card's own parts: not resets, nor errors of programs, of the driver or of the
 * display. */
static void read_errors(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct sk_intel_state *state = card->state;
	struct sk_device_field counts[2] = {state->no_sets, state->no_sets};
	struct zes_ecc ecc = {.stype = ZES_ECC_PROPERTIES};
	int code = ASK(card, zesDeviceGetEccState, card->handle, &ecc);
	bool seen[2] = {false, false};

	record->field[SK_DEVICE_ECC_ENABLED] =
		SAID(zesDeviceGetEccState, code, ecc.current == ECC_ENABLED);
	for (uint32_t i = 0; i < state->sets; i++) {
		struct sk_device_field *count = &counts[state->is_uncorrectable[i]];
		struct zes_ras ras = {.stype = ZES_RAS_STATE};
		double before = seen[state->is_uncorrectable[i]] ? count->value : 0;

		if (seen[state->is_uncorrectable[i]] && count->code)
			continue;
		seen[state->is_uncorrectable[i]] = true;
		code = ASK(card, zesRasGetState, state->set[i], 0,
			   &ras); /* 0: nothing is cleared */
		for (uint32_t k = RAS_COMPUTE; k <= RAS_CACHE; k++)
			before += (double)ras.category[k];
		*count = SAID(zesRasGetState, code, before);
	}
	record->field[SK_DEVICE_ECC_CORRECTED] = counts[0];
	record->field[SK_DEVICE_ECC_UNCORRECTED] = counts[1];
}

static void read_links(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct sk_intel_state *state = card->state;
	struct sk_device_field *links = &record->field[SK_DEVICE_LINKS];

	*links = state->ports ? sk_device_value(state->ports) : state->no_ports;
	for (uint32_t i = 0; i < state->ports; i++) {
		struct zes_port port = {.stype = ZES_PORT_STATE};
		struct zes_moved moved = {0};
		int code = ASK(card, zesFabricPortGetState, state->port[i], &port);

		if (code) {
			*links = SAID(zesFabricPortGetState, code, 0);
			return;
		}
		code = ASK(card, zesFabricPortGetThroughput, state->port[i], &moved);
		record->link[i] = (struct sk_device_link){
			.tx_bytes = code ? NAN : (double)moved.tx,
			.rx_bytes = code ? NAN : (double)moved.rx,
			.errors = NAN,
			.peer = (uint64_t)port.remote.fabric + 1,
			.port = i,
			.up = port.status == PORT_HEALTHY || port.status == PORT_DEGRADED,
		};
	}
}

static void read_processes(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_intel_state *state = card->state;
	uint32_t count = PROCESSES;
	int code;

	for (uint32_t i = 0; i < PROCESSES; i++)
		state->process[i] = (struct zes_process){.stype = ZES_PROCESS_STATE};
	code = ASK(card, zesDeviceProcessesGetState, card->handle, &count, state->process);
	count = code ? 0 : count < PROCESSES ? count : PROCESSES;
	record->field[SK_DEVICE_PROCESSES] = SAID(zesDeviceProcessesGetState, code, count);
	for (uint32_t i = 0; i < count; i++)
		record->process[i] = (struct sk_device_process){
			.memory_bytes = (double)state->process[i].memory,
			.busy_ratio = NAN,
			.pid = state->process[i].pid,
			.kind = SK_DEVICE_COMPUTE,
		};
}

void sk_intel_slow(struct sk_device_card *card, struct sk_device_record *record)
{
	record->field[SK_DEVICE_HOTSPOT_TEMPERATURE] = sk_intel_degrees(card, HOTSPOT);
	read_memory(card, record);
	read_bandwidth(card, record);
	read_limits(card, record);
	read_bus(card, record);
	read_errors(card, record);
	read_links(card, record);
	read_processes(card, record);
}
