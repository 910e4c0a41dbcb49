/* SPDX-License-Identifier: Apache-2.0 */
/* Intel cards through Level Zero Sysman. Sysman has no power sensor: power is the difference of the
 * energy counter between two rounds. A card of several tiles has domains for each of them, which
 * are added up; where one cannot be read the card has no value. Numbers are zes_api.h's. */
#include "devices/intel.h"

#include <errno.h>
#include <stdlib.h>

#include "devices/card.h"

enum {
	TILES = 16,
	MEMORIES = 64,
	PROCESSES = 128,
	MHZ = 1000000,
	MICRO = 1000000,
	US = 1000,
	GPU = 0, /* zes_freq_domain_t */
	MEMORY = 1,
	HOTSPOT = 0, /* zes_temp_sensors_t: the hottest of all */
	DIE = 1,
	SENSORS = 3,
	RAS_COMPUTE = 3, /* zes_ras_error_cat_t: compute, fixed function and caches */
	RAS_CACHE = 5,
	PORT_HEALTHY = 1, /* zes_fabric_port_status_t */
	PORT_DEGRADED = 2,
	ECC_ENABLED = 1,
};

enum call {
#define X(name, parameters) CALL_##name,
	SK_ZES_READ_TABLE(X)
#undef X
		CALLS
};

static const char *const names[CALLS] = {
#define X(name, parameters) [CALL_##name] = #name,
	SK_ZES_READ_TABLE(X)
#undef X
};

/* Call a function about a handle of the card; one that the loader lacks is not supported. */
#define ASK(card, function, ...)                                                                   \
	(sk_zes.function ? (sk_device_enter(card, CALL_##function),                                \
			    sk_device_leave(card, sk_zes.function(__VA_ARGS__)))                   \
			 : ZES_NOT_THERE)

#define SAID(function, code, value) sk_device_said(CALL_##function, code, (double)(value))

/* A domain by its handle, or why there is none. */
struct domain {
	void *handle;
	struct sk_device_field absent;
};

struct state {
	uint32_t powers;
	void *power[TILES];
	struct sk_device_field no_power;
	struct zes_counter energy[TILES]; /* of the round before */
	struct domain engine, clock[2], sensor[SENSORS];
	struct zes_counter active; /* of the round before */
	uint32_t memories;
	void *memory[MEMORIES];
	struct sk_device_field no_memory;
	uint64_t moved, moved_at_us;
	uint32_t sets;
	void *set[ZES_HANDLES_MAX];
	bool is_uncorrectable[ZES_HANDLES_MAX];
	struct sk_device_field no_sets;
	uint32_t ports;
	void *port[SK_DEVICE_LINKS_MAX];
	struct sk_device_field no_ports;
	struct zes_process process[PROCESSES];
};

/* --- what does not change ------------------------------------------------------------------- */

typedef int (*list_function)(void *, uint32_t *, void **);

/* Handles that a function lists, none where it fails; the absence of what they would say. */
static uint32_t listed(struct sk_device_card *card, int32_t call, list_function list,
		       void **handles, uint32_t most, struct sk_device_field *ret_absent)
{
	uint32_t count = most;
	int code = ZES_NOT_THERE;

	if (list) {
		sk_device_enter(card, call);
		code = sk_device_leave(card, list(card->handle, &count, handles));
	}
	*ret_absent = sk_device_absent(call, code ? code : SK_DEVICE_NONE);
	return code ? 0 : count < most ? count : most;
}

#define LIST(card, function, handles, ret_absent)                                                  \
	listed(card, CALL_##function, sk_zes.function, handles,                                    \
	       sizeof(handles) / sizeof((handles)[0]), ret_absent)

static uint32_t tiles_of(struct sk_device_card *card)
{
	static _Thread_local struct zes_device device;

	device = (struct zes_device){.stype = ZES_DEVICE_PROPERTIES};
	return ASK(card, zesDeviceGetProperties, card->handle, &device) ? 0 : device.tiles;
}

static bool has_tile(const uint32_t *tile, uint32_t count, uint32_t wanted)
{
	for (uint32_t i = 0; i < count; i++)
		if (tile[i] == wanted)
			return true;
	return false;
}

/* The first domain of the whole device, else the first of each tile: all of them or none. */
static void find_power(struct sk_device_card *card, struct state *state)
{
	void *found[ZES_HANDLES_MAX];
	uint32_t count, tile[TILES];
	int unknown = 0;

	count = LIST(card, zesDeviceEnumPowerDomains, found, &state->no_power);
	state->powers = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct zes_power own = {.stype = ZES_POWER_PROPERTIES};
		int code = ASK(card, zesPowerGetProperties, found[i], &own);

		if (code) {
			unknown = code;
		} else if (!own.on_tile) {
			state->power[0] = found[i];
			state->powers = 1;
			return;
		} else if (state->powers < TILES && !has_tile(tile, state->powers, own.tile)) {
			tile[state->powers] = own.tile;
			state->power[state->powers++] = found[i];
		}
	}
	if (unknown && count == 1) {
		state->power[0] = found[0];
		state->powers = 1;
	} else if (unknown) {
		state->no_power = sk_device_absent(CALL_zesPowerGetProperties, unknown);
		state->powers = 0;
	} else if (count && state->powers < tiles_of(card)) {
		state->no_power.code = SK_DEVICE_INCOMPLETE;
		state->powers = 0;
	}
}

/* The engine group of all engines, else of all compute engines, else of one (zes_engine_group_t).
 */
static void find_engine(struct sk_device_card *card, struct state *state)
{
	static const uint32_t wanted[] = {0, 1, 4};
	void *found[ZES_HANDLES_MAX];
	uint32_t count, best = sizeof(wanted) / sizeof(wanted[0]);

	count = LIST(card, zesDeviceEnumEngineGroups, found, &state->engine.absent);
	state->engine.handle = NULL;
	for (uint32_t i = 0; i < count; i++) {
		struct zes_kind kind = {.stype = ZES_ENGINE_PROPERTIES};

		if (ASK(card, zesEngineGetProperties, found[i], &kind))
			continue;
		for (uint32_t k = 0; k < best; k++)
			if (kind.type == wanted[k]) {
				best = k;
				state->engine.handle = found[i];
			}
	}
}

static void find_clocks(struct sk_device_card *card, struct state *state)
{
	void *found[ZES_HANDLES_MAX];
	struct sk_device_field absent;
	uint32_t count;

	count = LIST(card, zesDeviceEnumFrequencyDomains, found, &absent);
	for (uint32_t i = 0; i < 2; i++)
		state->clock[i] = (struct domain){NULL, absent};
	for (uint32_t i = 0; i < count; i++) {
		struct zes_kind kind = {.stype = ZES_FREQ_PROPERTIES};

		if (!ASK(card, zesFrequencyGetProperties, found[i], &kind) && kind.type < 2 &&
		    !state->clock[kind.type].handle)
			state->clock[kind.type].handle = found[i];
	}
}

static void find_sensors(struct sk_device_card *card, struct state *state)
{
	void *found[ZES_HANDLES_MAX];
	struct sk_device_field absent;
	uint32_t count;

	count = LIST(card, zesDeviceEnumTemperatureSensors, found, &absent);
	for (uint32_t i = 0; i < SENSORS; i++)
		state->sensor[i] = (struct domain){NULL, absent};
	for (uint32_t i = 0; i < count; i++) {
		struct zes_kind kind = {.stype = ZES_TEMP_PROPERTIES};

		if (!ASK(card, zesTemperatureGetProperties, found[i], &kind) &&
		    kind.type < SENSORS && !state->sensor[kind.type].handle)
			state->sensor[kind.type].handle = found[i];
	}
}

static void find_errors(struct sk_device_card *card, struct state *state)
{
	void *found[ZES_HANDLES_MAX];
	uint32_t count;

	count = LIST(card, zesDeviceEnumRasErrorSets, found, &state->no_sets);
	state->sets = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct zes_kind kind = {.stype = ZES_RAS_PROPERTIES};

		if (ASK(card, zesRasGetProperties, found[i], &kind))
			continue;
		state->set[state->sets] = found[i];
		state->is_uncorrectable[state->sets++] = kind.type != 0;
	}
}

static int begin(struct sk_device_card *card)
{
	struct state *state = card->state ? card->state : calloc(1, sizeof(*state));

	if (!state)
		return -ENOMEM;
	card->state = state;
	for (uint32_t i = 0; i < TILES; i++)
		state->energy[i] = (struct zes_counter){0};
	state->active = (struct zes_counter){0};
	state->moved_at_us = 0;
	find_power(card, state);
	find_engine(card, state);
	find_clocks(card, state);
	find_sensors(card, state);
	find_errors(card, state);
	state->memories = LIST(card, zesDeviceEnumMemoryModules, state->memory, &state->no_memory);
	state->ports = LIST(card, zesDeviceEnumFabricPorts, state->port, &state->no_ports);
	return 0;
}

static void end(struct sk_device_card *card)
{
	free(card->state);
	card->state = NULL;
}

/* --- ten times a second --------------------------------------------------------------------- */

static struct sk_device_field first_of(int32_t call)
{
	return sk_device_absent(call, SK_DEVICE_FIRST);
}

/* Add what one domain drew between two rounds, each counter by its own clock. */
static void add_power(struct sk_device_field *power, const struct zes_counter *before,
		      const struct zes_counter *now)
{
	uint64_t passed_us = now->at_us - before->at_us;

	if (power->code)
		return;
	if (!before->at_us || now->at_us <= before->at_us || now->value < before->value) {
		*power = first_of(CALL_zesPowerGetEnergyCounter);
		return;
	}
	power->value += (double)(now->value - before->value) / (double)passed_us;
	if (passed_us > power->window_us)
		power->window_us = (uint32_t)passed_us;
}

static void read_energy(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	struct sk_device_field power = state->no_power, energy = state->no_power;

	if (state->powers)
		power = energy = sk_device_value(0);
	for (uint32_t i = 0; i < state->powers && !energy.code; i++) {
		struct zes_counter now = {0};
		int code = ASK(card, zesPowerGetEnergyCounter, state->power[i], &now);

		if (code) {
			power = energy = SAID(zesPowerGetEnergyCounter, code, 0);
			break;
		}
		add_power(&power, &state->energy[i], &now);
		energy.value += (double)now.value / MICRO;
		state->energy[i] = now;
		record->energy_ns = now.at_us * US;
	}
	record->field[SK_DEVICE_POWER] = power;
	record->field[SK_DEVICE_ENERGY] = energy;
}

static struct sk_device_field busy(struct sk_device_card *card)
{
	struct state *state = card->state;
	struct zes_counter now = {0}, before = state->active;
	double share;
	int code;

	if (!state->engine.handle)
		return state->engine.absent;
	code = ASK(card, zesEngineGetActivity, state->engine.handle, &now);
	if (code)
		return SAID(zesEngineGetActivity, code, 0);
	state->active = now;
	if (!before.at_us || now.at_us <= before.at_us || now.value < before.value)
		return first_of(CALL_zesEngineGetActivity);
	share = (double)(now.value - before.value) / (double)(now.at_us - before.at_us);
	return sk_device_value(share < 1 ? share : 1);
}

static struct sk_device_field degrees(struct sk_device_card *card, uint32_t sensor)
{
	const struct state *state = card->state;
	double value = 0;
	int code;

	if (!state->sensor[sensor].handle)
		return state->sensor[sensor].absent;
	code = ASK(card, zesTemperatureGetState, state->sensor[sensor].handle, &value);
	return SAID(zesTemperatureGetState, code, value);
}

/* -1 means that the driver does not know. */
static struct sk_device_field known(int32_t call, int code, double value, double factor)
{
	if (!code && value < 0)
		return sk_device_absent(call, SK_DEVICE_NOT_KNOWN);
	return sk_device_said(call, code, value * factor);
}

static double reason_bits(uint32_t found)
{
	static const struct {
		uint32_t bits, reason;
	} table[] = {
		{0x1 | 0x2 | 0x200, SK_DEVICE_AT_POWER_LIMIT},
		{0x4, SK_DEVICE_AT_CURRENT_LIMIT},
		{0x8 | 0x100, SK_DEVICE_THERMAL},
		{0x10, SK_DEVICE_POWER_BRAKE},
		{0x20, SK_DEVICE_APPLICATION_CLOCKS},
		{0x40, SK_DEVICE_HARDWARE_RANGE},
		{0x80, SK_DEVICE_VOLTAGE},
	};
	uint32_t made = 0;

	for (uint32_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (found & table[i].bits)
			made |= table[i].reason;
	return made;
}

/* The clock of a frequency domain and, where `ret_reasons` is given, what holds it back. */
static struct sk_device_field clock_of(struct sk_device_card *card, uint32_t domain,
				       struct sk_device_field *ret_reasons)
{
	const struct state *state = card->state;
	struct zes_freq now = {.stype = ZES_FREQ_STATE};
	int code;

	if (!state->clock[domain].handle) {
		if (ret_reasons)
			*ret_reasons = state->clock[domain].absent;
		return state->clock[domain].absent;
	}
	code = ASK(card, zesFrequencyGetState, state->clock[domain].handle, &now);
	if (ret_reasons)
		*ret_reasons = SAID(zesFrequencyGetState, code, reason_bits(now.reasons));
	return known(CALL_zesFrequencyGetState, code, now.actual, MHZ);
}

static void fast(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;

	read_energy(card, record);
	field[SK_DEVICE_TEMPERATURE] = degrees(card, DIE);
	field[SK_DEVICE_MEMORY_TEMPERATURE] = degrees(card, DIE + 1);
	field[SK_DEVICE_BUSY] = busy(card);
	field[SK_DEVICE_CLOCK] = clock_of(card, GPU, &field[SK_DEVICE_THROTTLE]);
	field[SK_DEVICE_MEMORY_CLOCK] = clock_of(card, MEMORY, NULL);
}

/* --- once a second -------------------------------------------------------------------------- */

static void read_memory(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct state *state = card->state;
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
	struct state *state = card->state;
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
	*share = first_of(CALL_zesMemoryGetBandwidth);
	if (state->moved_at_us && at_us > state->moved_at_us && most && moved >= before) {
		*share = sk_device_value((double)(moved - before) /
					 ((double)most * (double)passed_us / MICRO));
		share->window_us = (uint32_t)passed_us;
	}
	state->moved = moved;
	state->moved_at_us = at_us;
}

/* The sustained limit of one domain, in mW. */
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
	const struct state *state = card->state;
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
	field[SK_DEVICE_CLOCK_LIMIT] = known(CALL_zesFrequencyGetRange, code, range.max, MHZ);
	code = ASK(card, zesFrequencyGetThrottleTime, clock, &slowed);
	field[SK_DEVICE_THROTTLE_TIME] = SAID(zesFrequencyGetThrottleTime, code, slowed.value * US);
}

static void read_bus(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;
	struct zes_pci_state state = {.stype = ZES_PCI_STATE};
	struct zes_pci_stats stats = {0};
	int code = ASK(card, zesDevicePciGetState, card->handle, &state);

	field[SK_DEVICE_PCIE_GEN] = known(CALL_zesDevicePciGetState, code, state.speed.gen, 1);
	field[SK_DEVICE_PCIE_WIDTH] = known(CALL_zesDevicePciGetState, code, state.speed.width, 1);
	code = ASK(card, zesDevicePciGetStats, card->handle, &stats);
	field[SK_DEVICE_PCIE_TX] = SAID(zesDevicePciGetStats, code, stats.tx);
	field[SK_DEVICE_PCIE_RX] = SAID(zesDevicePciGetStats, code, stats.rx);
	field[SK_DEVICE_PCIE_REPLAYS] = SAID(zesDevicePciGetStats, code, stats.replays);
}

/* Errors of the card's own parts. Resets, errors that any program can make, the driver's and the
 * display's are not among them. */
static void read_errors(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct state *state = card->state;
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
	const struct state *state = card->state;
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
	struct state *state = card->state;
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

static void slow(struct sk_device_card *card, struct sk_device_record *record)
{
	record->field[SK_DEVICE_HOTSPOT_TEMPERATURE] = degrees(card, HOTSPOT);
	read_memory(card, record);
	read_bandwidth(card, record);
	read_limits(card, record);
	read_bus(card, record);
	read_errors(card, record);
	read_links(card, record);
	read_processes(card, record);
}

const struct sk_device_vendor sk_device_intel = {
	.name = "intel",
	.call = names,
	.calls = CALLS,
	.open = sk_intel_open,
	.find = sk_intel_find,
	.begin = begin,
	.fast = fast,
	.slow = slow,
	.write = sk_intel_write,
	.end = end,
};
