/* SPDX-License-Identifier: Apache-2.0 */
/* nvmlDeviceGetFieldValues: many values in one call, by the numbers of NVML_FI_*. */
#include <math.h>

#include "sim/nvml/clock.h"
#include "sim/nvml/link.h"

enum {
	FI_ECC_CURRENT = 1,
	FI_ECC_PENDING = 2,
	FI_ECC_SBE_VOL_TOTAL = 3,
	FI_ECC_DBE_VOL_TOTAL = 4,
	FI_ECC_SBE_AGG_TOTAL = 5,
	FI_ECC_DBE_AGG_TOTAL = 6,
	FI_ECC_SBE_VOL_DEV = 11,
	FI_ECC_DBE_VOL_DEV = 12,
	FI_ECC_SBE_AGG_DEV = 22,
	FI_ECC_DBE_AGG_DEV = 23,
	FI_RETIRED_SBE = 29,
	FI_RETIRED_DBE = 30,
	FI_RETIRED_PENDING = 31,
	FI_NVLINK_CRC_FLIT_TOTAL = 38,
	FI_NVLINK_REPLAY_TOTAL = 52,
	FI_NVLINK_RECOVERY_TOTAL = 59,
	FI_PERF_POLICY_POWER = 74,
	FI_PERF_POLICY_LAST = 81,
	FI_MEMORY_TEMP = 82,
	FI_TOTAL_ENERGY = 83,
	FI_NVLINK_SPEED_COMMON = 90,
	FI_NVLINK_LINK_COUNT = 91,
	FI_PCIE_REPLAY_COUNTER = 94,
	FI_NVLINK_DATA_TX = 138,
	FI_NVLINK_DATA_RX = 139,
	FI_NVLINK_RAW_TX = 140,
	FI_NVLINK_RAW_RX = 141,
	FI_REMAPPED_COR = 142,
	FI_REMAPPED_UNC = 143,
	FI_REMAPPED_PENDING = 144,
	FI_REMAPPED_FAILURE = 145,
	FI_NVSWITCH_LINK_COUNT = 147,
	FI_NVLINK_ERROR_REPLAY = 161,
	FI_NVLINK_ERROR_RECOVERY = 162,
	FI_NVLINK_ERROR_CRC = 163,
	FI_NVLINK_GET_SPEED = 164,
	FI_NVLINK_GET_STATE = 165,
	FI_NVLINK_GET_VERSION = 166,
	FI_PCIE_COUNT_CORRECTABLE = 173,
	FI_PCIE_COUNT_NAKS_RECEIVED = 174,
	FI_PCIE_COUNT_LANE_ERROR = 183,
	FI_POWER_AVERAGE = 185,
	FI_POWER_INSTANT = 186,
	FI_POWER_MIN_LIMIT = 187,
	FI_POWER_MAX_LIMIT = 188,
	FI_POWER_DEFAULT_LIMIT = 189,
	FI_POWER_CURRENT_LIMIT = 190,
	FI_ENERGY = 191,
	FI_POWER_REQUESTED_LIMIT = 192,
	FI_TLIMIT_SHUTDOWN = 193,
	FI_TLIMIT_SLOWDOWN = 194,
	FI_TLIMIT_MEM_MAX = 195,
	FI_TLIMIT_GPU_MAX = 196,
	FI_PCIE_COUNT_TX_BYTES = 197,
	FI_PCIE_COUNT_RX_BYTES = 198,
	FI_NVLINK_XMIT_BYTES = 202,
	FI_NVLINK_RCV_BYTES = 204,
	FI_RECOVERY_ACTION = 230,
	FI_HELD_SW_THERMAL = 269,
	FI_HELD_HW_THERMAL = 270,
	FI_HELD_HW_BRAKE = 271,
};

enum { SCOPE_GPU, SCOPE_MODULE, SCOPE_MEMORY };
enum { POLICY_POWER, POLICY_THERMAL };

struct answer {
	uint32_t type;
	double number; /* of NVML_VALUE_DOUBLE */
	uint64_t value;
};

typedef bool (*sk_nvml_part)(const struct sk_sim_card *card, const nvmlFieldValue_t *asked,
			     struct answer *ret);

static bool number(struct answer *ret, uint64_t value)
{
	*ret = (struct answer){.type = NVML_VALUE_U64, .value = value};
	return true;
}

static bool small(struct answer *ret, uint32_t value)
{
	*ret = (struct answer){.type = NVML_VALUE_U32, .value = value};
	return true;
}

static bool signed_number(struct answer *ret, int value)
{
	*ret = (struct answer){.type = NVML_VALUE_I64, .value = (uint64_t)(int64_t)value};
	return true;
}

static bool ecc(const struct sk_sim_card *card, const nvmlFieldValue_t *asked, struct answer *ret)
{
	const struct sk_sim_now *now = &card->now;

	if (!(card->model.flags & SK_SIM_HAS_ECC))
		return false;
	switch (asked->fieldId) {
	case FI_ECC_CURRENT:
	case FI_ECC_PENDING:
		return small(ret, 1);
	case FI_ECC_SBE_VOL_TOTAL:
	case FI_ECC_SBE_VOL_DEV:
		return number(ret, now->ecc_corrected);
	case FI_ECC_DBE_VOL_TOTAL:
	case FI_ECC_DBE_VOL_DEV:
		return number(ret, now->ecc_uncorrected);
	case FI_ECC_SBE_AGG_TOTAL:
	case FI_ECC_SBE_AGG_DEV:
		return number(ret, now->ecc_corrected_total);
	case FI_ECC_DBE_AGG_TOTAL:
	case FI_ECC_DBE_AGG_DEV:
		return number(ret, now->ecc_uncorrected_total);
	case FI_RETIRED_SBE:
	case FI_REMAPPED_COR:
		return small(ret, 0);
	case FI_RETIRED_DBE:
		return small(ret, now->retired_pages);
	case FI_RETIRED_PENDING:
		return small(ret, now->retired_pending);
	case FI_REMAPPED_UNC:
		return small(ret, now->remapped_rows);
	case FI_REMAPPED_PENDING:
		return small(ret, now->remap_pending);
	case FI_REMAPPED_FAILURE:
		return small(ret, now->remap_failed);
	default:
		return false;
	}
}

static bool limits(const struct sk_sim_card *card, const nvmlFieldValue_t *asked,
		   struct answer *ret)
{
	switch (asked->fieldId) {
	case FI_POWER_MIN_LIMIT:
		return small(ret, card->model.limit_min_mw);
	case FI_POWER_MAX_LIMIT:
		return small(ret, card->model.limit_max_mw);
	case FI_POWER_DEFAULT_LIMIT:
		return small(ret, card->model.limit_default_mw);
	case FI_POWER_CURRENT_LIMIT:
	case FI_POWER_REQUESTED_LIMIT:
		return small(ret, card->now.limit_mw);
	default:
		return false;
	}
}

/* Power of the memory at present; a module is one card here. */
static bool power(const struct sk_sim_card *card, const nvmlFieldValue_t *asked, struct answer *ret)
{
	double memory_w = card->model.physics.memory_w * card->now.memory_busy;

	if (asked->scopeId > SCOPE_MEMORY)
		return false;
	if (asked->scopeId == SCOPE_MEMORY)
		return asked->fieldId == FI_POWER_INSTANT
			       ? small(ret, (uint32_t)lround(memory_w * 1e3))
			       : false;
	switch (asked->fieldId) {
	case FI_POWER_AVERAGE:
		return small(ret, sk_sim_power_mw(card));
	case FI_POWER_INSTANT:
		return card->model.flags & SK_SIM_HAS_INSTANT_POWER
			       ? small(ret, sk_sim_power_instant_mw(card))
			       : false;
	case FI_TOTAL_ENERGY:
	case FI_ENERGY:
		return card->model.flags & SK_SIM_HAS_ENERGY ? number(ret, sk_sim_energy_mj(card))
							     : false;
	default:
		return limits(card, asked, ret);
	}
}

/* Limits as distances from where the card begins to slow down, negative above it. */
static bool heat(const struct sk_sim_card *card, const nvmlFieldValue_t *asked, struct answer *ret)
{
	const struct sk_sim_model *model = &card->model;

	switch (asked->fieldId) {
	case FI_MEMORY_TEMP:
		if (!(model->flags & SK_SIM_HAS_MEMORY_TEMPERATURE))
			return false;
		return small(ret, (uint32_t)((sk_sim_memory_temperature_mc(card) + 500) / 1000));
	case FI_TLIMIT_SHUTDOWN:
		return signed_number(ret, model->target_c - model->shutdown_c);
	case FI_TLIMIT_SLOWDOWN:
		return signed_number(ret, model->target_c - model->slowdown_c);
	case FI_TLIMIT_MEM_MAX:
	case FI_TLIMIT_GPU_MAX:
		return signed_number(ret, 0);
	default:
		return false;
	}
}

static bool held(const struct sk_sim_card *card, const nvmlFieldValue_t *asked, struct answer *ret)
{
	const uint64_t *ns = card->now.why_ns;
	uint32_t id = asked->fieldId;

	if (id >= FI_PERF_POLICY_POWER && id <= FI_PERF_POLICY_LAST)
		return number(ret, sk_nvml_held_ns(card, id - FI_PERF_POLICY_POWER));
	switch (id) {
	case FI_HELD_SW_THERMAL:
		return number(ret, ns[SK_SIM_WHY_THERMAL]);
	case FI_HELD_HW_THERMAL:
		return number(ret, ns[SK_SIM_WHY_HARD_THERMAL]);
	case FI_HELD_HW_BRAKE:
		return number(ret, ns[SK_SIM_WHY_BRAKE]);
	default:
		return false;
	}
}

static bool pcie(const struct sk_sim_card *card, const nvmlFieldValue_t *asked, struct answer *ret)
{
	uint32_t id = asked->fieldId;

	if (id == FI_PCIE_REPLAY_COUNTER)
		return small(ret, (uint32_t)card->now.pcie_replays);
	if (id == FI_PCIE_COUNT_TX_BYTES)
		return number(ret, (uint64_t)card->now.pcie_tx_bytes);
	if (id == FI_PCIE_COUNT_RX_BYTES)
		return number(ret, (uint64_t)card->now.pcie_rx_bytes);
	if (id == FI_PCIE_COUNT_CORRECTABLE || id == FI_PCIE_COUNT_NAKS_RECEIVED)
		return small(ret, (uint32_t)card->now.pcie_replays);
	if (id > FI_PCIE_COUNT_NAKS_RECEIVED && id <= FI_PCIE_COUNT_LANE_ERROR)
		return small(ret, 0);
	return false;
}

/* A number selects one link, UINT32_MAX all of them. */
static double over_links(const struct sk_sim_card *card, const double *bytes, uint32_t link)
{
	double sum = 0;

	for (uint32_t i = 0; i < card->model.links; i++)
		if (link == UINT32_MAX || link == i)
			sum += bytes[i];
	return sum;
}

static uint64_t link_errors(const struct sk_sim_card *card, uint32_t link)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < card->model.links; i++)
		if (link == UINT32_MAX || link == i)
			sum += card->now.link_errors[i];
	return sum;
}

/* Read a field of the whole card, for any scope. */
static bool all_links(const struct sk_sim_card *card, uint32_t id, struct answer *ret)
{
	switch (id) {
	case FI_NVLINK_LINK_COUNT:
	case FI_NVSWITCH_LINK_COUNT:
		return small(ret, card->model.links);
	case FI_NVLINK_CRC_FLIT_TOTAL:
	case FI_NVLINK_REPLAY_TOTAL:
		return number(ret, link_errors(card, UINT32_MAX));
	case FI_NVLINK_RECOVERY_TOTAL:
		return number(ret, 0);
	case FI_NVLINK_SPEED_COMMON:
		return small(ret, card->model.link_gb_s * 1000);
	default:
		return false;
	}
}

static bool one_link(const struct sk_sim_card *card, uint32_t id, uint32_t link, struct answer *ret)
{
	switch (id) {
	case FI_NVLINK_GET_SPEED:
		return small(ret, card->model.link_gb_s * 1000);
	case FI_NVLINK_GET_STATE:
		return small(ret, !(card->now.link_down & 1u << link % SK_SIM_LINKS));
	case FI_NVLINK_GET_VERSION:
		return small(ret, sk_nvml_link_version(card));
	case FI_NVLINK_ERROR_REPLAY:
	case FI_NVLINK_ERROR_CRC:
		return number(ret, link_errors(card, link));
	case FI_NVLINK_ERROR_RECOVERY:
		return number(ret, 0);
	default:
		return false;
	}
}

static bool links(const struct sk_sim_card *card, const nvmlFieldValue_t *asked, struct answer *ret)
{
	const struct sk_sim_now *now = &card->now;
	uint32_t link = asked->scopeId;

	if (!card->model.links)
		return false;
	if (all_links(card, asked->fieldId, ret))
		return true;
	if (link != UINT32_MAX && link >= card->model.links)
		return false;
	switch (asked->fieldId) {
	case FI_NVLINK_DATA_TX:
	case FI_NVLINK_RAW_TX:
		return number(ret, (uint64_t)over_links(card, now->link_tx_bytes, link) / 1024);
	case FI_NVLINK_DATA_RX:
	case FI_NVLINK_RAW_RX:
		return number(ret, (uint64_t)over_links(card, now->link_rx_bytes, link) / 1024);
	case FI_NVLINK_XMIT_BYTES:
		return number(ret, (uint64_t)over_links(card, now->link_tx_bytes, link));
	case FI_NVLINK_RCV_BYTES:
		return number(ret, (uint64_t)over_links(card, now->link_rx_bytes, link));
	default:
		return one_link(card, asked->fieldId, link, ret);
	}
}

static bool recovery(const struct sk_sim_card *card, const nvmlFieldValue_t *asked,
		     struct answer *ret)
{
	return asked->fieldId == FI_RECOVERY_ACTION ? small(ret, card->now.recovery) : false;
}

static const sk_nvml_part parts[] = {power, heat, held, ecc, pcie, links, recovery};

static void put(nvmlFieldValue_t *field, const struct answer *answer)
{
	field->valueType = answer->type;
	field->value.ullVal = 0;
	if (answer->type == NVML_VALUE_U32)
		field->value.uiVal = (uint32_t)answer->value;
	else
		field->value.ullVal = answer->value;
}

static void look_up(struct sk_nvml_call *call, nvmlFieldValue_t *field)
{
	struct answer answer;

	field->timestamp = (int64_t)sk_nvml_us(call->node, call->node->now_ns);
	field->latencyUsec = 0;
	if (call->card->now.state == SK_SIM_NEEDS_RESET && field->fieldId != FI_RECOVERY_ACTION) {
		field->nvmlReturn = NVML_ERROR_RESET_REQUIRED;
		return;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!parts[i](call->card, field, &answer))
			continue;
		put(field, &answer);
		field->nvmlReturn = NVML_SUCCESS;
		return;
	}
	field->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
}

SK_NVML nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
					      nvmlFieldValue_t *fields)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (count <= 0 || !fields)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	for (int i = 0; i < count; i++)
		look_up(&call, &fields[i]);
	return sk_nvml_end(&call, NVML_SUCCESS);
}
