/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes and partitions of a simulated AMD card. A partition mode is stored, but does not turn
 * one card into several.
 */
#include "sim/amdsmi/driver.h"

#include <string.h>

enum {
	MODE_BITS = 0xff, /* of `partitioned`: compute mode, memory mode above it, isolation */
	MEMORY_SHIFT = 8,
	ISOLATED = 1 << 16,
	SPX = 1,
	CPX = 5,
	NPS1 = 1,
	NPS4 = 4,
};

static const struct {
	const char *name;
	uint32_t count;
} COMPUTE[] = {[SPX] = {"SPX", 1}, {"DPX", 2}, {"TPX", 3}, {"QPX", 4}, [CPX] = {"CPX", 8}};

uint32_t sk_amd_compute_partition(const struct sk_sim_card *card)
{
	uint32_t mode = card->partitioned & MODE_BITS;

	return mode >= SPX && mode <= CPX ? mode : SPX;
}

uint32_t sk_amd_partitions(const struct sk_sim_card *card)
{
	return COMPUTE[sk_amd_compute_partition(card)].count;
}

static uint32_t memory_partition(const struct sk_sim_card *card)
{
	uint32_t mode = card->partitioned >> MEMORY_SHIFT & MODE_BITS;

	return mode ? mode : NPS1;
}

static bool in_use(const struct sk_sim_card *card)
{
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid)
			return true;
	return false;
}

/* The driver reports no engine time of compute queues, so there is none here. */
SK_AMD_API amdsmi_get_gpu_process_list(void *handle, uint32_t *count, struct sk_amd_proc_info *ret)
{
	struct sk_sim_card *card;
	uint32_t found = 0, status = sk_amd_begin(__func__, handle, count, &card);

	if (status)
		return status;
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		const struct sk_sim_process *process = &card->process[i];

		if (!process->pid)
			continue;
		if (ret && found < *count) {
			ret[found] = (struct sk_amd_proc_info){
				.pid = (uint32_t)process->pid,
				.mem = process->memory_bytes,
				.memory_usage = {.vram_mem = process->memory_bytes},
				.cu_occupancy = (uint32_t)(process->share * card->load.compute *
							   card->model.units),
			};
			sk_amd_copy(ret[found].name, sizeof(ret->name), process->name);
		}
		found++;
	}
	if (ret && found > *count)
		return sk_amd_end(SK_AMD_INSUFFICIENT_SIZE);
	*count = found;
	return sk_amd_end(SK_AMD_SUCCESS);
}

/* Add a process to a list that has each pid once; those past its end are only counted. */
static uint32_t gather(const struct sk_sim_card *card, const struct sk_sim_process *process,
		       struct sk_amd_process_info *list, uint32_t room, uint32_t found)
{
	uint32_t occupied = (uint32_t)(process->share * card->load.compute * card->model.units);

	for (uint32_t i = 0; i < found && i < room; i++) {
		if (list[i].process_id != (uint32_t)process->pid)
			continue;
		list[i].vram_usage += process->memory_bytes;
		list[i].cu_occupancy += occupied;
		return found;
	}
	if (found < room)
		list[found] = (struct sk_amd_process_info){
			.process_id = (uint32_t)process->pid,
			.vram_usage = process->memory_bytes,
			.cu_occupancy = occupied,
		};
	return found + 1;
}

/* List every process of every card once. */
static uint32_t gather_all(struct sk_amd_process_info list[SK_SIM_CARDS * SK_SIM_PROCESSES])
{
	uint32_t found = 0;

	for (uint32_t place = 0; place < sk_amd_count(); place++)
		for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
			if (sk_amd_card(place)->process[i].pid)
				found = gather(sk_amd_card(place), &sk_amd_card(place)->process[i],
					       list, SK_SIM_CARDS * SK_SIM_PROCESSES, found);
	return found;
}

SK_AMD_API amdsmi_get_gpu_compute_process_info(struct sk_amd_process_info *ret, uint32_t *count)
{
	struct sk_amd_process_info list[SK_SIM_CARDS * SK_SIM_PROCESSES];
	uint32_t found, status = sk_amd_begin_all(__func__, count);

	if (status)
		return status;
	found = gather_all(list);
	if (ret && found > *count)
		return sk_amd_end(SK_AMD_INSUFFICIENT_SIZE);
	if (ret)
		memcpy(ret, list, found * sizeof(*ret));
	*count = found;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_compute_process_info_by_pid(uint32_t pid, struct sk_amd_process_info *ret)
{
	struct sk_amd_process_info list[SK_SIM_CARDS * SK_SIM_PROCESSES];
	uint32_t found, status = sk_amd_begin_all(__func__, ret);

	if (status)
		return status;
	found = gather_all(list);
	for (uint32_t i = 0; i < found; i++) {
		if (list[i].process_id == pid) {
			*ret = list[i];
			return sk_amd_end(SK_AMD_SUCCESS);
		}
	}
	return sk_amd_end(SK_AMD_NOT_FOUND);
}

SK_AMD_API amdsmi_get_gpu_compute_process_gpus(uint32_t pid, uint32_t *ret, uint32_t *count)
{
	uint32_t found = 0, status = sk_amd_begin_all(__func__, count);

	if (status)
		return status;
	for (uint32_t place = 0; place < sk_amd_count(); place++)
		for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
			if ((uint32_t)sk_amd_card(place)->process[i].pid != pid || !pid)
				continue;
			if (ret && found < *count)
				ret[found] = place;
			found++;
			break;
		}
	if (ret && found > *count)
		return sk_amd_end(SK_AMD_INSUFFICIENT_SIZE);
	*count = found;
	return sk_amd_end(found ? SK_AMD_SUCCESS : SK_AMD_NOT_FOUND);
}

static uint32_t told(const char *name, uint32_t bytes, char *ret)
{
	if (bytes <= strlen(name))
		return sk_amd_end(SK_AMD_INSUFFICIENT_SIZE);
	sk_amd_copy(ret, bytes, name);
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_compute_partition(void *handle, char *ret, uint32_t bytes)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	return told(COMPUTE[sk_amd_compute_partition(card)].name, bytes, ret);
}

SK_AMD_API amdsmi_set_gpu_compute_partition(void *handle, uint32_t mode)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	if (mode < SPX || mode > CPX)
		return sk_amd_end(SK_AMD_INVAL);
	if (!(card->model.flags & SK_SIM_HAS_PARTITIONS))
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	if (in_use(card))
		return sk_amd_end(SK_AMD_BUSY);
	card->partitioned = (card->partitioned & ~(uint32_t)MODE_BITS) | mode;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_memory_partition(void *handle, char *ret, uint32_t bytes)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	return told(memory_partition(card) == NPS4 ? "NPS4" : "NPS1", bytes, ret);
}

SK_AMD_API amdsmi_set_gpu_memory_partition(void *handle, uint32_t mode)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	if (mode != NPS1 && mode != NPS4)
		return sk_amd_end(SK_AMD_INVAL);
	if (!(card->model.flags & SK_SIM_HAS_PARTITIONS))
		return sk_amd_end(SK_AMD_NOT_SUPPORTED);
	if (in_use(card))
		return sk_amd_end(SK_AMD_BUSY);
	card->partitioned &= ~(uint32_t)(MODE_BITS << MEMORY_SHIFT);
	card->partitioned |= mode << MEMORY_SHIFT;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_memory_partition_config(void *handle,
						  struct sk_amd_memory_partition_config *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_memory_partition_config){
		.partition_caps = card->model.flags & SK_SIM_HAS_PARTITIONS ? NPS1 | NPS4 : NPS1,
		.mp_mode = memory_partition(card),
	};
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API
amdsmi_get_gpu_accelerator_partition_profile(void *handle,
					     struct sk_amd_accelerator_partition_profile *ret,
					     uint32_t *partition_id)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (struct sk_amd_accelerator_partition_profile){
		.profile_type = sk_amd_compute_partition(card),
		.num_partitions = sk_amd_partitions(card),
		.memory_caps = card->model.flags & SK_SIM_HAS_PARTITIONS ? NPS1 | NPS4 : NPS1,
		.profile_index = sk_amd_compute_partition(card) - SPX,
	};
	if (partition_id)
		*partition_id = 0;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_get_gpu_process_isolation(void *handle, uint32_t *ret)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin(__func__, handle, ret, &card);

	if (status)
		return status;
	*ret = (card->partitioned & ISOLATED) != 0;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_set_gpu_process_isolation(void *handle, uint32_t isolated)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	if (status)
		return status;
	if (isolated > 1)
		return sk_amd_end(SK_AMD_INVAL);
	card->partitioned &= ~(uint32_t)ISOLATED;
	card->partitioned |= isolated ? ISOLATED : 0;
	return sk_amd_end(SK_AMD_SUCCESS);
}

SK_AMD_API amdsmi_clean_gpu_local_data(void *handle)
{
	struct sk_sim_card *card;
	uint32_t status = sk_amd_begin_set(__func__, handle, &card);

	return status ? status : sk_amd_end(SK_AMD_SUCCESS);
}
