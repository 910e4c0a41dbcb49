/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of an AMD card that are read once a second: also links and processes. Caps are in
 * microwatts, links count KB. */
#include <string.h>

#include "devices/amd/card.h"

enum {
	KB = 1024,
	FAN_MOST = 255,
	LINK_UP = 1, /* amdsmi_xgmi_link_status_type_t */
};

static void read_memory(struct sk_device_card *card, struct sk_device_record *record)
{
	const struct sk_amd_state *state = card->state;
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
	struct sk_amd_state *state = card->state;
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
	struct sk_amd_state *state = card->state;
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

void sk_amd_slow(struct sk_device_card *card, struct sk_device_record *record)
{
	read_memory(card, record);
	read_board(card, record);
	read_errors(card, record);
	read_bus(card, record);
	read_links(card, record);
	read_processes(card, record);
}
