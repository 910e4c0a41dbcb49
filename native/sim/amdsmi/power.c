/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power, energy and clocks of a simulated AMD card, and their settings. Units are the library's:
 * power in W, caps in uW, energy in counts of 2^-16 J, clocks in MHz or Hz.
 */
#include "sim/amdsmi/driver.h"
#include "sim/card/request.h"
#include "sim/card/sensor.h"

enum { MW_PER_W = 1000, UW_PER_MW = 1000, HZ_PER_MHZ = 1000000 };

/* One count of the energy accumulator: 15.259 uJ. */
static const float COUNT_UJ = 15.2587890625F;

SK_AMD_API amdsmi_get_power_info(void *handle, struct sk_amd_power_info *ret)
{
	struct sk_sim_card *card;
	uint32_t watts, status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	watts = sk_sim_power_mw(card) / MW_PER_W;
	*ret = (struct sk_amd_power_info){
		.socket_power = watts,
		.current_socket_power = watts,
		.average_socket_power = SK_AMD_NONE_16, /* as on every card since MI300 */
		.gfx_voltage = SK_AMD_NONE_16,
		.soc_voltage = SK_AMD_NONE_16,
		.mem_voltage = SK_AMD_NONE_16,
		.power_limit = card->now.limit_mw / MW_PER_W,
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_is_gpu_power_management_enabled(void *handle, bool *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = true;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_power_cap_info(void *handle, uint32_t sensor,
				     struct sk_amd_power_cap_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	if (sensor) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	*ret = (struct sk_amd_power_cap_info){
		.power_cap = (uint64_t)card->now.limit_mw * UW_PER_MW,
		.default_power_cap = (uint64_t)card->model.limit_default_mw * UW_PER_MW,
		.dpm_cap = card->model.clock_max_mhz,
		.min_power_cap = (uint64_t)card->model.limit_min_mw * UW_PER_MW,
		.max_power_cap = (uint64_t)card->model.limit_max_mw * UW_PER_MW,
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_set_power_cap(void *handle, uint32_t sensor, uint64_t cap_uw)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);
	uint64_t cap_mw = cap_uw / UW_PER_MW;

	if (status)
		return status;
	if (sensor) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	if (cap_mw > UINT32_MAX || sk_sim_card_limit(card, (uint32_t)cap_mw))
		return sk_amd_end(SK_AMD_INPUT_OUT_OF_BOUNDS);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_energy_count(void *handle, uint64_t *count, float *resolution,
				   uint64_t *timestamp)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, count, &card);

	if (status)
		return status;
	if (!(card->model.flags & SK_SIM_HAS_ENERGY)) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	*count = sk_sim_energy_mj(card) * 65536 / 1000;
	if (resolution)
		*resolution = COUNT_UJ;
	if (timestamp) {
		*timestamp = sk_amd_now_ns();
	}
	return sk_amd_end(SK_AMD_SUCCESS);
}

static void graphics_clock(const struct sk_sim_card *card, struct sk_amd_clk_info *ret)
{
	ret->clk = sk_sim_clock_mhz(card);
	ret->min_clk = card->model.clock_min_mhz;
	ret->max_clk = card->model.clock_max_mhz;
	if (card->now.locked_min_mhz)
		ret->min_clk = card->now.locked_min_mhz;
	if (card->now.locked_max_mhz) {
		ret->max_clk = card->now.locked_max_mhz;
	}
	ret->clk_locked = card->now.locked_max_mhz != 0;
}

SK_AMD_API amdsmi_get_clock_info(void *handle, uint32_t type, struct sk_amd_clk_info *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_clk_info){.clk_deep_sleep = UINT8_MAX};
	if (type == SK_AMD_CLOCK_GFX) {
		graphics_clock(card, ret);
	} else if (type == SK_AMD_CLOCK_MEM) {
		ret->clk = sk_sim_memory_clock_mhz(card);
		ret->min_clk = ret->max_clk = card->model.memory_mhz;
		ret->clk_locked = UINT8_MAX;
	} else {
		status = SK_AMD_NOT_SUPPORTED;
	}
	return sk_amd_end(status);
}

static void add_level(struct sk_amd_frequencies *levels, uint64_t mhz, bool current)
{
	if (current)
		levels->current = levels->num_supported;
	levels->frequency[levels->num_supported++] = mhz * HZ_PER_MHZ;
}

/* List the lowest, the present and the highest clock, as pp_dpm_sclk lists fine-grained clocks. */
static void graphics_levels(const struct sk_sim_card *card, struct sk_amd_frequencies *ret)
{
	uint64_t now = sk_sim_clock_mhz(card);
	bool low = now <= card->model.clock_min_mhz, high = now >= card->model.clock_max_mhz;

	add_level(ret, card->model.clock_min_mhz, low);
	if (!low && !high)
		add_level(ret, now, true);
	add_level(ret, card->model.clock_max_mhz, high);
}

SK_AMD_API amdsmi_get_clk_freq(void *handle, uint32_t type, struct sk_amd_frequencies *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_frequencies){.has_deep_sleep = false};
	if (type == SK_AMD_CLOCK_GFX) {
		graphics_levels(card, ret);
	} else if (type == SK_AMD_CLOCK_MEM) {
		add_level(ret, sk_sim_memory_clock_mhz(card), true);
	} else {
		status = SK_AMD_NOT_SUPPORTED;
	}
	return sk_amd_end(status);
}

static uint32_t lock_clocks(struct sk_sim_card *card, uint64_t low, uint64_t high)
{
	if (!(card->model.flags & SK_SIM_HAS_LOCKED_CLOCKS))
		return SK_AMD_NOT_SUPPORTED;
	if (low > high || low < card->model.clock_min_mhz || high > card->model.clock_max_mhz) {
		return SK_AMD_INVAL;
	}
	card->now.locked_min_mhz = (uint32_t)low;
	card->now.locked_max_mhz = (uint32_t)high;
	return SK_AMD_SUCCESS;
}

SK_AMD_API amdsmi_set_gpu_clk_range(void *handle, uint64_t low, uint64_t high, uint32_t type)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	if (type != SK_AMD_CLOCK_GFX) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	return sk_amd_end(lock_clocks(card, low, high));
}

SK_AMD_API amdsmi_set_gpu_clk_limit(void *handle, uint32_t type, uint32_t limit, uint64_t mhz)
{
	enum { LIMIT_MIN = 0, LIMIT_MAX = 1 };
	struct sk_sim_card *card;
	uint32_t low, high, status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	if (type != SK_AMD_CLOCK_GFX) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	low = card->now.locked_min_mhz ? card->now.locked_min_mhz : card->model.clock_min_mhz;
	high = card->now.locked_max_mhz ? card->now.locked_max_mhz : card->model.clock_max_mhz;
	return sk_amd_end(limit == LIMIT_MIN   ? lock_clocks(card, mhz, high)
			  : limit == LIMIT_MAX ? lock_clocks(card, low, mhz)
					       : SK_AMD_INVAL);
}

SK_AMD_API amdsmi_set_gpu_perf_determinism_mode(void *handle, uint64_t mhz)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	status = lock_clocks(card, card->model.clock_min_mhz, mhz);
	if (!status) {
		card->now.locked_min_mhz = 0; /* only a ceiling, which is determinism mode */
	}
	return sk_amd_end(status);
}

SK_AMD_API amdsmi_get_gpu_perf_level(void *handle, uint32_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = !card->now.locked_max_mhz  ? SK_AMD_PERF_AUTO
	       : card->now.locked_min_mhz ? SK_AMD_PERF_MANUAL
					  : SK_AMD_PERF_DETERMINISM;
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* AUTO unlocks the clocks; the other levels have no effect without their own calls. */
SK_AMD_API amdsmi_set_gpu_perf_level(void *handle, uint32_t level)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	if (level != SK_AMD_PERF_AUTO) {
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	}
	sk_sim_card_lock(card, 0, 0);
	return sk_amd_end(SK_AMD_SUCCESS);
}
