/* SPDX-License-Identifier: Apache-2.0 */
/* AMD cards through AMD SMI: their unchanging parts, and the metrics table ten times a second.
 * The table has W, C, MHz and percent; residencies count ticks of the firmware, a millisecond each
 * (amdsmi.h). */
#include "devices/amd/card.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_NS = 1000000 };

/* One count of the energy accumulator, if the library does not tell it (amdsmi.h). */
#define ENERGY_COUNT_UJ 15.259

/* X(entry of the metrics table, its type). */
#define ENTRY_TABLE(X)                                                                             \
	X(temperature_edge, uint16_t)                                                              \
	X(temperature_hotspot, uint16_t)                                                           \
	X(temperature_mem, uint16_t)                                                               \
	X(average_gfx_activity, uint16_t)                                                          \
	X(average_umc_activity, uint16_t)                                                          \
	X(average_socket_power, uint16_t)                                                          \
	X(current_socket_power, uint16_t)                                                          \
	X(current_gfxclk, uint16_t)                                                                \
	X(current_gfxclks, uint16_t)                                                               \
	X(current_uclk, uint16_t)                                                                  \
	X(energy_accumulator, uint64_t)                                                            \
	X(prochot_residency_acc, uint64_t)                                                         \
	X(ppt_residency_acc, uint64_t)                                                             \
	X(socket_thm_residency_acc, uint64_t)

/* Entries follow the calls that read, since an absent entry names itself as a call. */
enum {
	BEFORE_ENTRIES = READ_CALLS - 1,
#define X(name, type) ENTRY_##name,
	ENTRY_TABLE(X)
#undef X
		CALLS
};

static const char *const names[CALLS] = {
#define X(name, parameters) [CALL_##name] = #name,
	SK_AMD_READ_TABLE(X)
#undef X
#define X(name, type) [ENTRY_##name] = "gpu_metrics " #name,
		ENTRY_TABLE(X)
#undef X
};

/* Bytes of an entry of the metrics table, or of the first one of a list. */
enum {
#define X(name, type) BYTES_##name = sizeof(type),
	ENTRY_TABLE(X)
#undef X
};

/* An entry of the metrics table. */
#define ENTRY(state, name) entry(state, ENTRY_##name, &(state)->metrics.name, BYTES_##name)

/* --- what does not change ------------------------------------------------------------------- */

static int begin(struct sk_device_card *card)
{
	struct sk_amd_state *state = card->state ? card->state : calloc(1, sizeof(*state));
	struct amd_asic *asic = calloc(1, sizeof(*asic));
	uint64_t count, at;
	float resolution_uj = 0;
	int code;

	card->state = state;
	if (!state || !asic) {
		free(asic);
		return -ENOMEM;
	}
	code = ASK(card, amdsmi_get_energy_count, &count, &resolution_uj, &at);
	state->count_j = (!code && resolution_uj > 0 ? resolution_uj : ENERGY_COUNT_UJ) * 1e-6;
	code = ASK(card, amdsmi_get_gpu_asic_info, asic);
	state->units = code || asic->units == UINT32_MAX ? 0 : asic->units;
	state->total_code = ASK(card, amdsmi_get_gpu_memory_total, AMD_VRAM, &state->total);
	for (uint32_t i = 0; i < RESIDENCIES; i++)
		state->residency[i] = NAN;
	free(asic);
	return 0;
}

static void end(struct sk_device_card *card)
{
	free(card->state);
	card->state = NULL;
}

/* --- ten times a second --------------------------------------------------------------------- */

static struct sk_device_field entry(const struct sk_amd_state *state, int32_t call, const void *at,
				    size_t bytes)
{
	uint64_t value = 0;

	if (state->metrics_code)
		return SAID(amdsmi_get_gpu_metrics_info, state->metrics_code, 0);
	memcpy(&value, at, bytes); /* little endian */
	if (value == UINT64_MAX >> (64 - 8 * bytes))
		return sk_device_absent(call, SK_DEVICE_NOT_APPLICABLE);
	return sk_device_value((double)value);
}

static struct sk_device_field scaled(struct sk_device_field field, double factor)
{
	field.value *= factor;
	return field;
}

static struct sk_device_field divided(struct sk_device_field field, double divisor)
{
	field.value /= divisor;
	return field;
}

static struct sk_device_field either(struct sk_device_field one, struct sk_device_field other)
{
	return one.code ? other : one;
}

/* Residencies count the time for which each reason lowered the clock; a reason is in force if its
 * residency grew since the round before. */
static void read_residencies(struct sk_device_card *card, struct sk_device_record *record)
{
	static const struct {
		uint16_t id, reason;
	} table[RESIDENCIES] = {
		{SK_DEVICE_THROTTLE_POWER, SK_DEVICE_AT_POWER_LIMIT},
		{SK_DEVICE_THROTTLE_THERMAL, SK_DEVICE_THERMAL},
		{SK_DEVICE_THROTTLE_BRAKE, SK_DEVICE_POWER_BRAKE},
	};
	struct sk_amd_state *state = card->state;
	const struct sk_device_field ticks[RESIDENCIES] = {
		ENTRY(state, ppt_residency_acc),
		ENTRY(state, socket_thm_residency_acc),
		ENTRY(state, prochot_residency_acc),
	};
	struct sk_device_field *throttle = &record->field[SK_DEVICE_THROTTLE];
	uint32_t reasons = 0;
	bool known = false;

	for (uint32_t i = 0; i < RESIDENCIES; i++) {
		record->field[table[i].id] = scaled(ticks[i], TICK_NS);
		if (ticks[i].code)
			continue;
		known = true;
		if (ticks[i].value > state->residency[i])
			reasons |= table[i].reason;
		state->residency[i] = ticks[i].value;
	}
	*throttle = known ? sk_device_value(reasons) : ticks[RESIDENCIES - 1];
}

static void fast(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_amd_state *state = card->state;
	struct sk_device_field *field = record->field;
	struct sk_device_field hotspot;

	state->metrics_code = ASK(card, amdsmi_get_gpu_metrics_info, &state->metrics);
	hotspot = ENTRY(state, temperature_hotspot);
	field[SK_DEVICE_HOTSPOT_TEMPERATURE] = hotspot;
	field[SK_DEVICE_TEMPERATURE] = either(ENTRY(state, temperature_edge), hotspot);
	field[SK_DEVICE_MEMORY_TEMPERATURE] = ENTRY(state, temperature_mem);
	field[SK_DEVICE_BUSY] = divided(ENTRY(state, average_gfx_activity), 100);
	field[SK_DEVICE_MEMORY_BUSY] = divided(ENTRY(state, average_umc_activity), 100);
	/* Cards with several dies have a list instead, whose first entry is taken. */
	field[SK_DEVICE_CLOCK] =
		scaled(either(ENTRY(state, current_gfxclk), ENTRY(state, current_gfxclks)), MHZ);
	field[SK_DEVICE_MEMORY_CLOCK] = scaled(ENTRY(state, current_uclk), MHZ);
	field[SK_DEVICE_POWER_AVERAGE] = ENTRY(state, average_socket_power);
	field[SK_DEVICE_POWER] =
		either(ENTRY(state, current_socket_power), field[SK_DEVICE_POWER_AVERAGE]);
	field[SK_DEVICE_ENERGY] = scaled(ENTRY(state, energy_accumulator), state->count_j);
	read_residencies(card, record);
}

const struct sk_device_vendor sk_device_amd = {
	.name = "amd",
	.call = names,
	.calls = CALLS,
	.open = sk_amd_open,
	.find = sk_amd_find,
	.begin = begin,
	.fast = fast,
	.slow = sk_amd_slow,
	.write = sk_amd_write,
	.end = end,
};
