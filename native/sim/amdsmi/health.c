/* SPDX-License-Identifier: Apache-2.0 */
/* Heat, fans, memory errors, throttling and resets of a simulated AMD card. */
#include "sim/amdsmi/driver.h"
#include "sim/card/sensor.h"

enum {
	MC_PER_C = 1000,
	NS_PER_MS = 1000000,
	NS_PER_US = 1000,
	PAGE_BYTES = 4096,
	FIRST_BAD_PAGE = 0x1000,
	PAGE_THRESHOLD = 256, /* bad pages after which the driver refuses the card */
	FAN_STEPS = 255,
	PERCENT = 100,
};

static bool limit_of(const struct sk_sim_card *card, uint32_t sensor, uint32_t metric, int64_t *ret)
{
	if (sensor == SK_AMD_VRAM && metric == SK_AMD_TEMP_CRITICAL) {
		*ret = card->model.memory_max_c;
	} else if (sensor == SK_AMD_HOTSPOT && metric == SK_AMD_TEMP_CRITICAL) {
		*ret = card->model.slowdown_c;
	} else if (sensor == SK_AMD_HOTSPOT &&
		   (metric == SK_AMD_TEMP_EMERGENCY || metric == SK_AMD_TEMP_SHUTDOWN)) {
		*ret = card->model.shutdown_c;
	} else {
		return false;
	}
	return true;
}

/* Temperatures are whole degrees. An MI300X has no edge sensor. */
SK_AMD_API amdsmi_get_temp_metric(void *handle, uint32_t sensor, uint32_t metric, int64_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	if (metric == SK_AMD_TEMP_CURRENT && sensor == SK_AMD_HOTSPOT) {
		*ret = sk_sim_temperature_mc(card) / MC_PER_C;
	} else if (metric == SK_AMD_TEMP_CURRENT && sensor == SK_AMD_VRAM) {
		*ret = sk_sim_memory_temperature_mc(card) / MC_PER_C;
	} else if (!limit_of(card, sensor, metric, ret)) {
		status = SK_AMD_NOT_SUPPORTED;
	}
	return sk_amd_end(status);
}

static uint32_t fan(const char *function, void *handle, uint32_t sensor, bool rpm, int64_t *ret)
{
	struct sk_sim_card *card;
	uint32_t steps, status = sk_amd_begin(function, handle, ret, &card);

	if (status)
		return status;
	if (sensor || !card->model.fan_max_rpm) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	steps = rpm ? card->model.fan_max_rpm : FAN_STEPS;
	*ret = (int64_t)sk_sim_fan_percent(card) * steps / PERCENT;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_fan_rpms(void *handle, uint32_t sensor, int64_t *ret)
{
	return fan(__func__, handle, sensor, true, ret);
}

SK_AMD_API amdsmi_get_gpu_fan_speed(void *handle, uint32_t sensor, int64_t *ret)
{
	return fan(__func__, handle, sensor, false, ret);
}

SK_AMD_API amdsmi_get_gpu_fan_speed_max(void *handle, uint32_t sensor, uint64_t *ret)
{
	int64_t now;
	uint32_t status = fan(__func__, handle, sensor, false, ret ? &now : NULL);

	if (!status)
		*ret = FAN_STEPS;
	return status;
}

static uint32_t ecc(const char *function, void *handle, bool counts, struct sk_amd_error_count *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(function, handle, ret, &card);

	if (status)
		return status;
	if (!(card->model.flags & SK_SIM_HAS_ECC)) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	*ret = (struct sk_amd_error_count){.deferred_count = 0};
	if (counts) {
		ret->correctable_count = card->now.ecc_corrected;
		ret->uncorrectable_count = card->now.ecc_uncorrected;
	}
	return sk_amd_end(SK_AMD_SUCCESS);
}

static bool one_block(uint64_t block)
{
	return block && block <= SK_AMD_BLOCK_LAST && !(block & (block - 1));
}

/* The simulation has errors of memory controllers alone. */
SK_AMD_API amdsmi_get_gpu_ecc_count(void *handle, uint64_t block, struct sk_amd_error_count *ret)
{
	if (!one_block(block))
		return SK_AMD_INVAL;
	return ecc(__func__, handle, block == SK_AMD_BLOCK_UMC, ret);
}

SK_AMD_API amdsmi_get_gpu_total_ecc_count(void *handle, struct sk_amd_error_count *ret)
{
	return ecc(__func__, handle, true, ret);
}

SK_AMD_API amdsmi_get_gpu_ecc_enabled(void *handle, uint64_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = card->model.flags & SK_SIM_HAS_ECC ? SK_AMD_BLOCK_UMC : 0;
	return sk_amd_end(SK_AMD_SUCCESS);
}

static uint32_t block_state(const char *function, void *handle, uint64_t block, uint32_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(function, handle, ret, &card);

	if (status)
		return status;
	if (!one_block(block)) {
		return sk_amd_end(SK_AMD_INVAL);
	}
	*ret = block == SK_AMD_BLOCK_UMC && card->model.flags & SK_SIM_HAS_ECC
		       ? SK_AMD_RAS_ENABLED
		       : SK_AMD_RAS_DISABLED;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_ecc_status(void *handle, uint64_t block, uint32_t *ret)
{
	return block_state(__func__, handle, block, ret);
}

SK_AMD_API amdsmi_get_gpu_ras_block_features_enabled(void *handle, uint64_t block, uint32_t *ret)
{
	return block_state(__func__, handle, block, ret);
}

SK_AMD_API amdsmi_get_gpu_ras_feature_info(void *handle, struct sk_amd_ras_feature *ret)
{
	enum { EEPROM = 0x21000, POISON = 8 };
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	if (!(card->model.flags & SK_SIM_HAS_ECC)) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	*ret = (struct sk_amd_ras_feature){EEPROM, POISON};
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* List retired pages first, then those that wait for a restart. Addresses are consecutive. */
static uint32_t pages(const char *function, void *handle, bool pending, uint32_t *count,
		      struct sk_amd_retired_page_record *ret)
{
	enum { RESERVED = 0, PENDING = 1 };
	struct sk_sim_card *card;
	uint32_t have, status = sk_amd_begin(function, handle, count, &card);

	if (status)
		return status;
	have = card->now.retired_pages + (pending ? card->now.retired_pending : 0);
	for (uint32_t i = 0; ret && i < have && i < *count; i++) {
		ret[i] = (struct sk_amd_retired_page_record){
			.page_address = FIRST_BAD_PAGE + (uint64_t)i * PAGE_BYTES,
			.page_size = PAGE_BYTES,
			.status = i < card->now.retired_pages ? RESERVED : PENDING,
		};
	}
	if (ret && have > *count)
		return sk_amd_end(SK_AMD_INSUFFICIENT_SIZE);
	*count = have;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_bad_page_info(void *handle, uint32_t *count,
					struct sk_amd_retired_page_record *ret)
{
	return pages(__func__, handle, true, count, ret);
}

SK_AMD_API amdsmi_get_gpu_memory_reserved_pages(void *handle, uint32_t *count,
						struct sk_amd_retired_page_record *ret)
{
	return pages(__func__, handle, false, count, ret);
}

SK_AMD_API amdsmi_get_gpu_bad_page_threshold(void *handle, uint32_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = PAGE_THRESHOLD;
	return sk_amd_end(SK_AMD_SUCCESS);
}

static uint64_t heat_ms(const struct sk_sim_card *card)
{
	return (card->now.why_ns[SK_SIM_WHY_THERMAL] + card->now.why_ns[SK_SIM_WHY_HARD_THERMAL]) /
	       NS_PER_MS;
}

static void violation_counts(const struct sk_sim_card *card, struct sk_amd_violation_status *ret)
{
	ret->acc_counter = sk_amd_now_ns() / NS_PER_MS;
	ret->acc_prochot_thrm = card->now.why_ns[SK_SIM_WHY_BRAKE] / NS_PER_MS;
	ret->acc_ppt_pwr = card->now.why_ns[SK_SIM_WHY_POWER] / NS_PER_MS;
	ret->acc_socket_thrm = heat_ms(card);
	ret->acc_vr_thrm = 0;
	ret->acc_hbm_thrm = 0;
}

static uint64_t share(uint64_t now, uint64_t before, uint64_t passed)
{
	return passed ? (now - before) * PERCENT / passed : 0;
}

/* Percentages cover the time since this process asked last, as the real ones cover two reads. */
static void violation_shares(const struct sk_sim_card *card, struct sk_amd_violation_status *ret)
{
	static struct sk_amd_violation_status before[SK_SIM_CARDS];
	struct sk_amd_violation_status *last = &before[sk_amd_place(card)];
	uint64_t passed = ret->acc_counter - last->acc_counter;
	uint32_t why = card->now.why;

	ret->per_prochot_thrm = share(ret->acc_prochot_thrm, last->acc_prochot_thrm, passed);
	ret->per_ppt_pwr = share(ret->acc_ppt_pwr, last->acc_ppt_pwr, passed);
	ret->per_socket_thrm = share(ret->acc_socket_thrm, last->acc_socket_thrm, passed);
	ret->per_vr_thrm = ret->per_hbm_thrm = 0;
	ret->active_prochot_thrm = (why & 1U << SK_SIM_WHY_BRAKE) != 0;
	ret->active_ppt_pwr = (why & 1U << SK_SIM_WHY_POWER) != 0;
	ret->active_socket_thrm =
		(why & (1U << SK_SIM_WHY_THERMAL | 1U << SK_SIM_WHY_HARD_THERMAL)) != 0;
	ret->active_vr_thrm = ret->active_hbm_thrm = 0;
	*last = *ret;
}

/* Fields that are not simulated keep the library's "not available", all bits set. */
SK_AMD_API amdsmi_get_violation_status(void *handle, struct sk_amd_violation_status *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	__builtin_memset(ret, 0xff, sizeof(*ret));
	ret->reference_timestamp = ret->violation_timestamp = sk_amd_now_ns() / NS_PER_US;
	violation_counts(card, ret);
	violation_shares(card, ret);
	return sk_amd_end(SK_AMD_SUCCESS);
}
