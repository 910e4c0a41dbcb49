/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG: its mode, and the creation and destruction of GPU and compute instances, as nvml.h describes
 * it. A mode that cannot be changed at once waits for the next reset. An instance is in use while
 * it has a process or a compute instance. A handle is invalid after its instance is gone.
 */
#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"
#include "sim/card/partition.h"

uint32_t sk_nvml_size(uint32_t id)
{
	for (uint32_t i = 0; i < SK_SIM_SIZES; i++)
		if (sk_sim_sizes[i].id == id)
			return i;
	return UINT32_MAX;
}

static bool can_be_cut(const struct sk_sim_card *card)
{
	return card->model.flags & SK_SIM_HAS_PARTITIONS;
}

static bool in_use(const struct sk_sim_card *card)
{
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid)
			return true;
	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++)
		if (card->partition[i].used)
			return true;
	return false;
}

/* Ampere's cards are reset for it, later ones are not. */
static nvmlReturn_t activate(struct sk_sim_card *card)
{
	if (card->partitioned == card->partitioned_next)
		return NVML_SUCCESS;
	if (in_use(card))
		return NVML_ERROR_IN_USE;
	if (!strcmp(card->model.architecture, "ampere"))
		sk_sim_card_reset(card);
	card->partitioned = card->partitioned_next;
	return NVML_SUCCESS;
}

SK_NVML nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, uint32_t mode,
					  nvmlReturn_t *activation)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, __func__);

	if (failed)
		return failed;
	if (mode > 1 || !activation)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (!can_be_cut(call.card))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	call.card->partitioned_next = mode;
	*activation =
		call.card->now.state == SK_SIM_OK ? activate(call.card) : NVML_ERROR_RESET_REQUIRED;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t placements(const char *function, nvmlDevice_t device, uint32_t id,
			       nvmlGpuInstancePlacement_t *ret, uint32_t *count)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, function);
	uint32_t size = sk_nvml_size(id);

	if (failed)
		return failed;
	if (!count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (!can_be_cut(call.card) || size == UINT32_MAX)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*count = sk_sim_sizes[size].places;
	for (uint32_t i = 0; ret && i < *count; i++)
		ret[i] = (nvmlGpuInstancePlacement_t){sk_sim_sizes[size].place[i],
						      sk_sim_sizes[size].memory_slices};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, uint32_t id,
								nvmlGpuInstancePlacement_t *ret,
								uint32_t *count)
{
	return placements(__func__, device, id, ret, count);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, uint32_t id,
								   nvmlGpuInstancePlacement_t *ret,
								   uint32_t *count)
{
	return placements(__func__, device, id, ret, count);
}

static nvmlReturn_t create(const char *function, nvmlDevice_t device, uint32_t id,
			   const nvmlGpuInstancePlacement_t *at, nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_setting(&call, device, function);
	uint32_t size = sk_nvml_size(id), start;
	int slot;

	if (failed)
		return failed;
	if (!can_be_cut(call.card) || !call.card->partitioned)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	if (!ret || size == UINT32_MAX || (at && at->size != sk_sim_sizes[size].memory_slices))
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (at)
		start = at->start;
	else if (sk_sim_partition_place(call.card, size, &start))
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
	slot = sk_sim_partition_make(call.card, size, start);
	if (slot < 0)
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
	*ret = sk_nvml_handle(call.index, (uint32_t)slot + 1);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, uint32_t id,
						 nvmlDevice_t *ret)
{
	return create(__func__, device, id, NULL, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, uint32_t id,
							      const nvmlGpuInstancePlacement_t *at,
							      nvmlDevice_t *ret)
{
	return at ? create(__func__, device, id, at, ret) : NVML_ERROR_INVALID_ARGUMENT;
}

/* Begin a function of a GPU instance; `ret` is NULL if the caller made a mistake. */
static nvmlReturn_t ask(struct sk_nvml_call *call, nvmlDevice_t device, const char *function,
			const void *ret, struct sk_sim_partition **at)
{
	nvmlReturn_t failed = sk_nvml_begin_gpu_instance(call, device, function);

	*at = NULL;
	if (failed)
		return failed;
	if (!ret || !call->instance)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	*at = &call->card->partition[call->instance - 1];
	return NVML_SUCCESS;
}

static nvmlReturn_t ask_to_change(struct sk_nvml_call *call, nvmlDevice_t device,
				  const char *function, const void *ret,
				  struct sk_sim_partition **at)
{
	nvmlReturn_t failed = ask(call, device, function, ret, at);

	return failed ? failed : sk_nvml_privileged(call);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceDestroy(nvmlDevice_t device)
{
	struct sk_nvml_call call;
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask_to_change(&call, device, __func__, device, &at);

	if (failed)
		return failed;
	if (at->compute || sk_sim_partition_busy(call.card, at))
		return sk_nvml_end(&call, NVML_ERROR_IN_USE);
	memset(at, 0, sizeof(*at));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* Give an instance a UUID that no other device of the node has. */
static void identify(struct sk_nvml_call *call, struct sk_sim_partition *at)
{
	uint32_t word[4];

	for (int i = 0; i < 4; i++)
		word[i] = (uint32_t)(sk_sim_node_chance(call->node) * 0x1p32);
	snprintf(at->uuid, sizeof(at->uuid), "MIG-%08x-%04x-5%03x-8%03x-%04x%08x", word[0],
		 word[1] >> 16, word[1] & 0xfff, word[2] >> 20, word[2] & 0xffff, word[3]);
}

static nvmlReturn_t create_compute(const char *function, nvmlDevice_t device, uint32_t profile,
				   const nvmlComputeInstancePlacement_t *where, nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask_to_change(&call, device, function, ret, &at);

	if (failed)
		return failed;
	if (profile >= SK_SIM_SIZES)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (profile != sk_sim_size_of(at))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	if (at->compute || (where && where->start))
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_RESOURCES);
	identify(&call, at);
	at->compute = 1;
	*ret = device;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlDevice_t device, uint32_t profile,
							  nvmlDevice_t *ret)
{
	return create_compute(__func__, device, profile, NULL, ret);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(
	nvmlDevice_t device, uint32_t profile, const nvmlComputeInstancePlacement_t *where,
	nvmlDevice_t *ret)
{
	return where ? create_compute(__func__, device, profile, where, ret)
		     : NVML_ERROR_INVALID_ARGUMENT;
}

SK_NVML nvmlReturn_t nvmlComputeInstanceDestroy(nvmlDevice_t device)
{
	struct sk_nvml_call call;
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask_to_change(&call, device, __func__, device, &at);

	if (failed)
		return failed;
	if (!at->compute)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (sk_sim_partition_busy(call.card, at))
		return sk_nvml_end(&call, NVML_ERROR_IN_USE);
	at->compute = 0;
	memset(at->uuid, 0, sizeof(at->uuid));
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlDevice_t device,
									uint32_t profile,
									uint32_t *ret)
{
	struct sk_nvml_call call;
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask(&call, device, __func__, ret, &at);

	if (failed)
		return failed;
	if (profile != sk_sim_size_of(at))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*ret = !at->compute;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(
	nvmlDevice_t device, uint32_t profile, nvmlComputeInstancePlacement_t *ret, uint32_t *count)
{
	struct sk_nvml_call call;
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask(&call, device, __func__, count, &at);

	if (failed)
		return failed;
	if (profile != sk_sim_size_of(at))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*count = 1;
	if (ret)
		*ret = (nvmlComputeInstancePlacement_t){0, sk_sim_sizes[profile].slices};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlDevice_t device, uint32_t profile,
							nvmlDevice_t *ret, uint32_t *count)
{
	struct sk_nvml_call call;
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask(&call, device, __func__, count, &at);

	if (failed)
		return failed;
	*count = at->compute && profile == sk_sim_size_of(at);
	if (ret && *count)
		*ret = device;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* There is one kind of engine profile, in which all engines are shared. */
static nvmlReturn_t ask_profile(struct sk_nvml_call *call, nvmlDevice_t device,
				const char *function, uint32_t profile, uint32_t engines,
				const void *ret, nvmlComputeInstanceProfileInfo_t *info)
{
	struct sk_sim_partition *at;
	nvmlReturn_t failed = ask(call, device, function, ret, &at);

	if (failed)
		return failed;
	if (engines || profile != sk_sim_size_of(at))
		return sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED);
	*info = (nvmlComputeInstanceProfileInfo_t){
		.id = profile,
		.sliceCount = sk_sim_sizes[profile].slices,
		.instanceCount = 1,
		.multiprocessorCount = at->units,
		.sharedCopyEngineCount = sk_sim_sizes[profile].slices,
		.sharedDecoderCount = sk_sim_sizes[profile].decoders,
	};
	return NVML_SUCCESS;
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(
	nvmlDevice_t device, uint32_t profile, uint32_t engines,
	nvmlComputeInstanceProfileInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlComputeInstanceProfileInfo_t info;
	nvmlReturn_t failed = ask_profile(&call, device, __func__, profile, engines, ret, &info);

	if (failed)
		return failed;
	*ret = info;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(
	nvmlDevice_t device, uint32_t profile, uint32_t engines,
	nvmlComputeInstanceProfileInfo_v2_t *ret)
{
	struct sk_nvml_call call;
	nvmlComputeInstanceProfileInfo_t info;
	nvmlReturn_t failed = ask_profile(&call, device, __func__, profile, engines, ret, &info);

	if (failed)
		return failed;
	if (ret->version != NVML_VERSION(*ret, 2))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	memcpy(&ret->id, &info, sizeof(info));
	snprintf(ret->name, sizeof(ret->name), "MIG %s",
		 call.card->partition[call.instance - 1].profile);
	return sk_nvml_end(&call, NVML_SUCCESS);
}
