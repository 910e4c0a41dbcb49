/* SPDX-License-Identifier: Apache-2.0 */
/* AMD cards through AMD SMI: the metrics table is read ten times a second, all else once a second.
 * The table has W, C, MHz and percent; caps are in microwatts; residencies count ticks of the
 * firmware, a millisecond each (amdsmi.h). */
#include "devices/amd/amdsmi.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "devices/card.h"

enum {
	MHZ = 1000000,
	KB = 1024,
	TICK_NS = 1000000,
	FAN_MOST = 255,
	PROCESSES = SK_DEVICE_PROCESSES_MAX,
	LINK_UP = 1, /* amdsmi_xgmi_link_status_type_t */
	RESIDENCIES = 3,
};

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

enum {
#define X(name, parameters) CALL_##name,
	SK_AMD_READ_TABLE(X)
#undef X
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

/* Call a function about the card; one that the library lacks is not supported. */
#define ASK(card, function, ...)                                                                   \
	(sk_amd.function ? (sk_device_enter(card, CALL_##function),                                \
			    sk_device_leave(card, sk_amd.function((card)->handle, __VA_ARGS__)))   \
			 : AMD_NOT_SUPPORTED)

#define SAID(function, code, value) sk_device_said(CALL_##function, code, (double)(value))

/* Bytes of an entry of the metrics table, or of the first one of a list. */
enum {
#define X(name, type) BYTES_##name = sizeof(type),
	ENTRY_TABLE(X)
#undef X
};

/* An entry of the metrics table. */
#define ENTRY(state, name) entry(state, ENTRY_##name, &(state)->metrics.name, BYTES_##name)

struct state {
	struct amd_metrics metrics;
	int metrics_code;
	double count_j; /* one count of the energy accumulator */
	uint32_t units;
	uint64_t total;
	int total_code;
	double residency[RESIDENCIES]; /* of the round before; NAN: none */
	struct amd_links links;
	struct amd_process process[PROCESSES];
};

/* --- what does not change ------------------------------------------------------------------- */

static int begin(struct sk_device_card *card)
{
	struct state *state = card->state ? card->state : calloc(1, sizeof(*state));
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

static struct sk_device_field entry(const struct state *state, int32_t call, const void *at,
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
	struct state *state = card->state;
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
	struct state *state = card->state;
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

/* --- once a second -------------------------------------------------------------------------- */

static void read_memory(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct state *state = card->state;
	uint64_t used = 0;
	int code = ASK(card, amdsmi_get_gpu_memory_usage, AMD_VRAM, &used);
	struct sk_device_field all = SAID(amdsmi_get_gpu_memory_usage, code, used);

	record->field[SK_DEVICE_MEMORY_USED] = all;
	if (!code)
		all = SAID(amdsmi_get_gpu_memory_total, state->total_code, state->total - used);
	record->field[SK_DEVICE_MEMORY_FREE] = all;
}

static void read_board(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;
	struct amd_cap cap = {0};
	struct amd_clock clock = {0};
	int64_t fan = 0;
	int code = ASK(card, amdsmi_get_power_cap_info, 0, &cap);

	field[SK_DEVICE_POWER_LIMIT] = SAID(amdsmi_get_power_cap_info, code, (double)cap.now / 1e6);
	code = ASK(card, amdsmi_get_clock_info, AMD_CLOCK, &clock);
	if (!code && clock.most == UINT32_MAX)
		code = SK_DEVICE_NOT_APPLICABLE;
	field[SK_DEVICE_CLOCK_LIMIT] = SAID(amdsmi_get_clock_info, code, (double)clock.most * MHZ);
	code = ASK(card, amdsmi_get_gpu_fan_speed, 0, &fan);
	field[SK_DEVICE_FAN] = SAID(amdsmi_get_gpu_fan_speed, code, (double)fan / FAN_MOST);
	code = ASK(card, amdsmi_get_gpu_fan_rpms, 0, &fan);
	field[SK_DEVICE_FAN_RPM] = SAID(amdsmi_get_gpu_fan_rpms, code, fan);
}

static void read_errors(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;
	struct amd_errors errors = {0};
	uint64_t enabled = 0;
	uint32_t pages = 0;
	int code = ASK(card, amdsmi_get_gpu_total_ecc_count, &errors);

	field[SK_DEVICE_ECC_CORRECTED] =
		SAID(amdsmi_get_gpu_total_ecc_count, code, errors.correctable);
	field[SK_DEVICE_ECC_UNCORRECTED] =
		SAID(amdsmi_get_gpu_total_ecc_count, code, errors.uncorrectable);
	code = ASK(card, amdsmi_get_gpu_ecc_enabled, &enabled);
	field[SK_DEVICE_ECC_ENABLED] = SAID(amdsmi_get_gpu_ecc_enabled, code, enabled != 0);
	/* Without a list the call gives the number of pages. */
	code = ASK(card, amdsmi_get_gpu_bad_page_info, &pages, NULL);
	field[SK_DEVICE_RETIRED_PAGES] = SAID(amdsmi_get_gpu_bad_page_info, code, pages);
}

/* PCIe generation of a transfer rate: 2500 MT/s is the first one, each next one is about twice as
 * fast. */
static uint32_t generation(uint32_t speed_mt)
{
	static const uint32_t least[] = {5000, 8000, 16000, 32000, 64000};
	uint32_t made = 1;

	for (uint32_t i = 0; i < sizeof(least) / sizeof(least[0]); i++)
		made += speed_mt >= least[i];
	return made;
}

static void read_bus(struct sk_device_card *card, struct sk_device_record *record)
{
	struct sk_device_field *field = record->field;
	struct amd_pcie pcie = {0};
	int code = ASK(card, amdsmi_get_pcie_info, &pcie);
	const int none = SK_DEVICE_NOT_APPLICABLE;

	field[SK_DEVICE_PCIE_WIDTH] = SAID(
		amdsmi_get_pcie_info, !code && pcie.width == UINT16_MAX ? none : code, pcie.width);
	field[SK_DEVICE_PCIE_GEN] =
		SAID(amdsmi_get_pcie_info, !code && pcie.speed_mt == UINT32_MAX ? none : code,
		     generation(pcie.speed_mt));
	field[SK_DEVICE_PCIE_REPLAYS] =
		SAID(amdsmi_get_pcie_info, !code && pcie.replays == UINT64_MAX ? none : code,
		     pcie.replays);
}

static void read_links(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	struct amd_states states = {0};
	uint32_t count = 0;
	int code = ASK(card, amdsmi_get_link_metrics, &state->links), untold;

	if (!code)
		count = state->links.count < AMD_LINKS ? state->links.count : AMD_LINKS;
	record->field[SK_DEVICE_LINKS] = SAID(amdsmi_get_link_metrics, code, count);
	if (code)
		return;
	untold = ASK(card, amdsmi_get_gpu_xgmi_link_status, &states);
	states.count = states.count < AMD_STATES ? states.count : AMD_STATES;
	for (uint32_t i = 0; i < count; i++)
		record->link[i] = (struct sk_device_link){
			.tx_bytes = (double)state->links.link[i].written_kb * KB,
			.rx_bytes = (double)state->links.link[i].read_kb * KB,
			.errors = NAN,
			.peer = state->links.link[i].bdf,
			.port = i,
			.up = untold || (i < states.count && states.state[i] == LINK_UP),
		};
}

static void read_processes(struct sk_device_card *card, struct sk_device_record *record)
{
	struct state *state = card->state;
	uint32_t count = PROCESSES;
	int code = ASK(card, amdsmi_get_gpu_process_list, &count, state->process);

	count = code ? 0 : count < PROCESSES ? count : PROCESSES;
	record->field[SK_DEVICE_PROCESSES] = SAID(amdsmi_get_gpu_process_list, code, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct amd_process *from = &state->process[i];
		struct sk_device_process *row = &record->process[i];

		*row = (struct sk_device_process){.pid = from->pid, .kind = SK_DEVICE_COMPUTE};
		row->memory_bytes = (double)(from->vram ? from->vram : from->memory);
		row->busy_ratio = from->occupied_units == UINT32_MAX || !state->units
					  ? NAN
					  : (double)from->occupied_units / state->units;
		memcpy(row->name, from->name, sizeof(row->name) - 1);
	}
}

static void slow(struct sk_device_card *card, struct sk_device_record *record)
{
	read_memory(card, record);
	read_board(card, record);
	read_errors(card, record);
	read_bus(card, record);
	read_links(card, record);
	read_processes(card, record);
}

const struct sk_device_vendor sk_device_amd = {
	.name = "amd",
	.call = names,
	.calls = CALLS,
	.open = sk_amd_open,
	.find = sk_amd_find,
	.begin = begin,
	.fast = fast,
	.slow = slow,
	.write = sk_amd_write,
	.end = end,
};
