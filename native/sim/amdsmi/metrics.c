/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics table of a simulated AMD card, as the firmware of an MI300X fills it (format 1.8),
 * and the readings that are parts of it. Times are in ms of the card's accumulation counter.
 */
#include "sim/amdsmi/driver.h"

#include <string.h>

#include "sim/card/sensor.h"

enum {
	FORMAT = 1,
	CONTENT = 8,
	NS_PER_MS = 1000000,
	NS_PER_TICK = 10, /* of the firmware's timestamp */
	MC_PER_C = 1000,
	MW_PER_W = 1000,
	XGMI_LANES = 16,
	PORTS = 8, /* ports in the table */
	KB = 1024,
};

/* Sum of busy percents of each millisecond; 32 bits wide, and it wraps as the real one does. */
static uint32_t activity_acc(double busy_s)
{
	return (uint32_t)(uint64_t)(busy_s * 1000 * 100);
}

static uint16_t celsius(int32_t millidegrees)
{
	return (uint16_t)(millidegrees / MC_PER_C);
}

static void fill_sensors(const struct sk_sim_card *card, struct sk_amd_gpu_metrics *ret)
{
	ret->temperature_hotspot = celsius(sk_sim_temperature_mc(card));
	ret->temperature_mem = celsius(sk_sim_memory_temperature_mc(card));
	ret->average_gfx_activity = (uint16_t)sk_sim_busy_percent(card);
	ret->average_umc_activity = (uint16_t)sk_sim_memory_busy_percent(card);
	ret->current_socket_power = (uint16_t)(sk_sim_power_mw(card) / MW_PER_W);
	ret->energy_accumulator = sk_sim_energy_mj(card) * 65536 / 1000;
	ret->system_clock_counter = sk_amd_now_ns();
	ret->firmware_timestamp = sk_amd_now_ns() / NS_PER_TICK;
	ret->gfx_activity_acc = activity_acc(card->now.busy_s);
	ret->mem_activity_acc = activity_acc(card->now.memory_busy_s);
	if (card->model.fan_max_rpm)
		ret->current_fan_speed =
			(uint16_t)(sk_sim_fan_percent(card) * card->model.fan_max_rpm / 100);
}

static void fill_clocks(const struct sk_sim_card *card, struct sk_amd_gpu_metrics *ret)
{
	ret->current_gfxclk = (uint16_t)sk_sim_clock_mhz(card);
	ret->current_uclk = (uint16_t)sk_sim_memory_clock_mhz(card);
	ret->gfxclk_lock_status = card->now.locked_max_mhz != 0;
	for (uint32_t xcd = 0; xcd < sk_amd_xcds(card); xcd++)
		ret->current_gfxclks[xcd] = ret->current_gfxclk;
}

static void fill_links(const struct sk_sim_card *card, struct sk_amd_gpu_metrics *ret)
{
	const uint16_t tenth_gt_s[] = {0, 25, 50, 80, 160, 320, 640};
	struct sk_amd_traffic traffic = sk_amd_pcie_traffic(card);

	ret->pcie_link_width = (uint16_t)card->model.pcie_width;
	ret->pcie_link_speed = card->model.pcie_gen <= 6 ? tenth_gt_s[card->model.pcie_gen] : 0;
	ret->pcie_bandwidth_inst = (uint64_t)((traffic.sent + traffic.received) / 1e9);
	ret->pcie_bandwidth_acc =
		(uint64_t)((card->now.pcie_tx_bytes + card->now.pcie_rx_bytes) / 1e9);
	ret->pcie_replay_count_acc = card->now.pcie_replays;
	if (!card->model.links)
		return;
	ret->xgmi_link_width = XGMI_LANES;
	ret->xgmi_link_speed = (uint16_t)(card->model.link_gb_s * 8 / XGMI_LANES);
	for (uint32_t port = 0; port < card->model.links && port < PORTS; port++) {
		ret->xgmi_read_data_acc[port] = (uint64_t)card->now.link_rx_bytes[port] / KB;
		ret->xgmi_write_data_acc[port] = (uint64_t)card->now.link_tx_bytes[port] / KB;
		ret->xgmi_link_status[port] = !(card->now.link_down & 1U << port);
	}
}

static void fill_throttling(const struct sk_sim_card *card, struct sk_amd_gpu_metrics *ret)
{
	const uint64_t *why_ns = card->now.why_ns;

	ret->accumulation_counter = sk_amd_now_ns() / NS_PER_MS;
	ret->prochot_residency_acc = why_ns[SK_SIM_WHY_BRAKE] / NS_PER_MS;
	ret->ppt_residency_acc = why_ns[SK_SIM_WHY_POWER] / NS_PER_MS;
	ret->socket_thm_residency_acc =
		(why_ns[SK_SIM_WHY_THERMAL] + why_ns[SK_SIM_WHY_HARD_THERMAL]) / NS_PER_MS;
	ret->vr_thm_residency_acc = ret->hbm_thm_residency_acc = 0;
}

static void fill_partitions(const struct sk_sim_card *card, struct sk_amd_gpu_metrics *ret)
{
	uint32_t count = sk_amd_partitions(card), xcds = sk_amd_xcds(card) / count;

	ret->num_partition = (uint16_t)count;
	for (uint32_t part = 0; part < count; part++)
		for (uint32_t xcd = 0; xcd < xcds; xcd++) {
			ret->xcp_stats[part].gfx_busy_inst[xcd] = sk_sim_busy_percent(card);
			ret->xcp_stats[part].gfx_busy_acc[xcd] = activity_acc(card->now.busy_s);
		}
}

/* Fields without a value stay all ones, which means not available. */
SK_AMD_API amdsmi_get_gpu_metrics_info(void *handle, struct sk_amd_gpu_metrics *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	memset(ret, 0xff, sizeof(*ret));
	ret->common_header = (struct sk_amd_metrics_header){sizeof(*ret), FORMAT, CONTENT};
	fill_sensors(card, ret);
	fill_clocks(card, ret);
	fill_links(card, ret);
	fill_throttling(card, ret);
	fill_partitions(card, ret);
	ret->vram_max_bandwidth = card->model.bandwidth_gb_s;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_metrics_header_info(void *handle, struct sk_amd_metrics_header *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_metrics_header){sizeof(struct sk_amd_gpu_metrics), FORMAT, CONTENT};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_activity(void *handle, struct sk_amd_engine_usage *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_engine_usage){
		.gfx_activity = sk_sim_busy_percent(card),
		.umc_activity = sk_sim_memory_busy_percent(card),
		.mm_activity = SK_AMD_NONE_16,
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_busy_percent(void *handle, uint32_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = sk_sim_busy_percent(card);
	return sk_amd_end(SK_AMD_SUCCESS);
}

static bool count_activity(const struct sk_sim_card *card, struct sk_amd_utilization_counter *ret)
{
	enum { COARSE_GFX = 0, COARSE_MEMORY = 1 };

	if (ret->type == COARSE_GFX)
		ret->value = activity_acc(card->now.busy_s);
	else if (ret->type == COARSE_MEMORY)
		ret->value = activity_acc(card->now.memory_busy_s);
	else
		return false;
	return true;
}

SK_AMD_API amdsmi_get_utilization_count(void *handle, struct sk_amd_utilization_counter *counters,
					uint32_t count, uint64_t *timestamp)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, counters, &card);

	if (status)
		return status;
	for (uint32_t i = 0; i < count; i++)
		if (!count_activity(card, &counters[i]))
			status = SK_AMD_NOT_SUPPORTED;
	if (timestamp)
		*timestamp = sk_amd_now_ns();
	return sk_amd_end(status);
}
