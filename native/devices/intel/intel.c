/* SPDX-License-Identifier: Apache-2.0 */
/* Intel cards through Level Zero Sysman: their domains, and the fields that are read ten times a
 * second. Sysman has no power sensor, so power is the difference of the energy counter between two
 * rounds. A card with several tiles has one domain for each; a value of the card is their sum, and
 * absent if one of them cannot be read. */
#include <errno.h>
#include <stdlib.h>

#include "devices/intel/card.h"

static const char *const names[CALLS] = {
#define X(name, parameters) [CALL_##name] = #name,
	SK_ZES_READ_TABLE(X)
#undef X
};

/* --- what does not change ------------------------------------------------------------------- */

typedef int (*list_function)(void *, uint32_t *, void **);

/* List handles; if there are none, `ret_absent` is the absence of their fields. */
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

/* Find the first domain of the whole device, or else the first of each tile, if all have one. */
static void find_power(struct sk_device_card *card, struct sk_intel_state *state)
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

/* Find the engine group of all engines, or else of all compute engines, or else of one engine
 * (zes_engine_group_t). */
static void find_engine(struct sk_device_card *card, struct sk_intel_state *state)
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

static void find_clocks(struct sk_device_card *card, struct sk_intel_state *state)
{
	void *found[ZES_HANDLES_MAX];
	struct sk_device_field absent;
	uint32_t count;

	count = LIST(card, zesDeviceEnumFrequencyDomains, found, &absent);
	for (uint32_t i = 0; i < 2; i++)
		state->clock[i] = (struct sk_intel_domain){NULL, absent};
	for (uint32_t i = 0; i < count; i++) {
		struct zes_kind kind = {.stype = ZES_FREQ_PROPERTIES};

		if (!ASK(card, zesFrequencyGetProperties, found[i], &kind) && kind.type < 2 &&
		    !state->clock[kind.type].handle)
			state->clock[kind.type].handle = found[i];
	}
}

static void find_sensors(struct sk_device_card *card, struct sk_intel_state *state)
{
	void *found[ZES_HANDLES_MAX];
	struct sk_device_field absent;
	uint32_t count;

	count = LIST(card, zesDeviceEnumTemperatureSensors, found, &absent);
	for (uint32_t i = 0; i < SENSORS; i++)
		state->sensor[i] = (struct sk_intel_domain){NULL, absent};
	for (uint32_t i = 0; i < count; i++) {
		struct zes_kind kind = {.stype = ZES_TEMP_PROPERTIES};

		if (!ASK(card, zesTemperatureGetProperties, found[i], &kind) &&
		    kind.type < SENSORS && !state->sensor[kind.type].handle)
			state->sensor[kind.type].handle = found[i];
	}
}

static void find_errors(struct sk_device_card *card, struct sk_intel_state *state)
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
	struct sk_intel_state *state = card->state ? card->state : calloc(1, sizeof(*state));

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

/* Add the power of one domain between two rounds, by the clock of its counter. */
static void add_power(struct sk_device_field *power, const struct zes_counter *before,
		      const struct zes_counter *now)
{
	uint64_t passed_us = now->at_us - before->at_us;

	if (power->code)
		return;
	if (!before->at_us || now->at_us <= before->at_us || now->value < before->value) {
		*power = sk_intel_first(CALL_zesPowerGetEnergyCounter);
		return;
	}
	power->value += (double)(now->value - before->value) / (double)passed_us;
	if (passed_us > power->window_us)
		power->window_us = (uint32_t)passed_us;
}

static void read_energy(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_intel_state *state = card->state;
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
	struct sk_intel_state *state = card->state;
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
		return sk_intel_first(CALL_zesEngineGetActivity);
	share = (double)(now.value - before.value) / (double)(now.at_us - before.at_us);
	return sk_device_value(share < 1 ? share : 1);
}

struct sk_device_field sk_intel_degrees(struct sk_device_card *card, uint32_t sensor)
{
	const struct sk_intel_state *state = card->state;
	double value = 0;
	int code;

	if (!state->sensor[sensor].handle)
		return state->sensor[sensor].absent;
	code = ASK(card, zesTemperatureGetState, state->sensor[sensor].handle, &value);
	return SAID(zesTemperatureGetState, code, value);
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

/* Read the clock of a frequency domain, and its throttle reasons if `ret_reasons` is not NULL. */
static struct sk_device_field clock_of(struct sk_device_card *card, uint32_t domain,
				       struct sk_device_field *ret_reasons)
{
	const struct sk_intel_state *state = card->state;
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
	return sk_intel_known(CALL_zesFrequencyGetState, code, now.actual, MHZ);
}

static void fast(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;

	read_energy(card, record);
	field[SK_DEVICE_TEMPERATURE] = sk_intel_degrees(card, DIE);
	field[SK_DEVICE_MEMORY_TEMPERATURE] = sk_intel_degrees(card, DIE + 1);
	field[SK_DEVICE_BUSY] = busy(card);
	field[SK_DEVICE_CLOCK] = clock_of(card, GPU, &field[SK_DEVICE_THROTTLE]);
	field[SK_DEVICE_MEMORY_CLOCK] = clock_of(card, MEMORY, NULL);
}

const struct sk_device_vendor sk_device_intel = {
	.name = "intel",
	.call = names,
	.calls = CALLS,
	.open = sk_intel_open,
	.find = sk_intel_find,
	.begin = begin,
	.fast = fast,
	.slow = sk_intel_slow,
	.write = sk_intel_write,
	.end = end,
};
