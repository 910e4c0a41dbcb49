/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MIG: queries of instances and of their sizes; instance.c creates and destroys them. A GPU
 * instance shares its handle with its one compute instance, which is as large.
 */
#include <stdio.h>
#include <string.h>

#include "sim/nvml/library.h"
#include "sim/card/partition.h"

#define MIB (1ull << 20)

static bool can_be_cut(const struct sk_sim_card *card)
{
	return card->model.flags & SK_SIM_HAS_PARTITIONS;
}

static const struct sk_sim_size *size_of(const struct sk_sim_partition *partition)
{
	return &sk_sim_sizes[sk_sim_size_of(partition)];
}

SK_NVML nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, uint32_t *ret, uint32_t *ret_pending)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_card(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret || !ret_pending)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (!can_be_cut(call.card))
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*ret = call.card->partitioned;
	*ret_pending = call.card->partitioned_next;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML_VALUE(nvmlDeviceGetMaxMigDeviceCount, uint32_t, can_be_cut(card) ? SK_SIM_SLICES : 0)

SK_NVML nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	*ret = call.instance != 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

/* Begin a query about an instance. */
static nvmlReturn_t ask(struct sk_nvml_call *call, nvmlDevice_t device, const char *function,
			const void *ret)
{
	nvmlReturn_t failed = sk_nvml_begin_any(call, device, function);

	if (failed)
		return failed;
	if (!ret || !call->instance)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	return NVML_SUCCESS;
}

static nvmlReturn_t ask_gpu_instance(struct sk_nvml_call *call, nvmlDevice_t device,
				     const char *function, const void *ret)
{
	nvmlReturn_t failed = sk_nvml_begin_gpu_instance(call, device, function);

	if (failed)
		return failed;
	if (!ret || !call->instance)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	return NVML_SUCCESS;
}

static const struct sk_sim_partition *instance(const struct sk_nvml_call *call)
{
	return &call->card->partition[call->instance - 1];
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, ret);

	if (failed)
		return failed;
	*ret = instance(&call)->instance;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, ret);

	if (failed)
		return failed;
	*ret = 0;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device,
								  nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__, ret);

	if (failed)
		return failed;
	*ret = sk_nvml_handle(call.index, 0);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t attributes(const char *function, nvmlDevice_t device,
			       nvmlDeviceAttributes_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, function, ret);
	const struct sk_sim_size *size;

	if (failed)
		return failed;
	size = size_of(instance(&call));
	*ret = (nvmlDeviceAttributes_t){
		.multiprocessorCount = instance(&call)->units,
		.sharedCopyEngineCount = size->slices,
		.sharedDecoderCount = size->decoders,
		.gpuInstanceSliceCount = size->slices,
		.computeInstanceSliceCount = size->slices,
		.memorySizeMB = instance(&call)->memory_bytes / MIB,
	};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *ret)
{
	return attributes(__func__, device, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *ret)
{
	return attributes(__func__, device, ret);
}

/* Begin a query about a card's instances. */
static nvmlReturn_t ask_card(struct sk_nvml_call *call, nvmlDevice_t device, const char *function,
			     const void *ret)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, device, function);

	if (failed)
		return failed;
	if (!ret)
		return sk_nvml_end(call, NVML_ERROR_INVALID_ARGUMENT);
	if (!can_be_cut(call->card) || !call->card->partitioned)
		return sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED);
	return NVML_SUCCESS;
}

SK_NVML nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, uint32_t index,
							 nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_card(&call, device, __func__, ret);

	if (failed)
		return failed;
	if (index >= SK_SIM_SLICES)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (!call.card->partition[index].compute)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	*ret = sk_nvml_handle(call.index, index + 1);
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, uint32_t profile,
					       nvmlDevice_t *ret, uint32_t *count)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_card(&call, device, __func__, count);
	uint32_t there = 0;

	if (failed)
		return failed;
	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++) {
		const struct sk_sim_partition *one = &call.card->partition[i];

		if (!one->used || size_of(one)->id != profile)
			continue;
		if (ret)
			ret[there] = sk_nvml_handle(call.index, i + 1);
		there++;
	}
	*count = there;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, uint32_t id,
						  nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_card(&call, device, __func__, ret);

	if (failed)
		return failed;
	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++) {
		if (!call.card->partition[i].used || call.card->partition[i].instance != id)
			continue;
		*ret = sk_nvml_handle(call.index, i + 1);
		return sk_nvml_end(&call, NVML_SUCCESS);
	}
	return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlDevice_t device, nvmlGpuInstanceInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_gpu_instance(&call, device, __func__, ret);

	if (failed)
		return failed;
	*ret = (nvmlGpuInstanceInfo_t){
		.device = sk_nvml_handle(call.index, 0),
		.id = instance(&call)->instance,
		.profileId = size_of(instance(&call))->id,
		.placement = {instance(&call)->start, size_of(instance(&call))->memory_slices},
	};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlDevice_t device, uint32_t id,
							   nvmlDevice_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_gpu_instance(&call, device, __func__, ret);

	if (failed)
		return failed;
	if (id || !instance(&call)->compute)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	*ret = device;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static nvmlReturn_t compute_info(const char *function, nvmlDevice_t device,
				 nvmlComputeInstanceInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, function, ret);

	if (failed)
		return failed;
	*ret = (nvmlComputeInstanceInfo_t){
		.device = sk_nvml_handle(call.index, 0),
		.gpuInstance = device,
		.profileId = sk_sim_size_of(instance(&call)),
		.placement = {0, size_of(instance(&call))->slices},
	};
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlDevice_t device, nvmlComputeInstanceInfo_t *ret)
{
	return compute_info(__func__, device, ret);
}

SK_NVML nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlDevice_t device,
						   nvmlComputeInstanceInfo_t *ret)
{
	return compute_info(__func__, device, ret);
}

static nvmlGpuInstanceProfileInfo_v2_t describe(const struct sk_sim_card *card, uint32_t profile)
{
	const struct sk_sim_size *size = &sk_sim_sizes[profile];
	nvmlGpuInstanceProfileInfo_v2_t info = {
		.id = size->id,
		.sliceCount = size->slices,
		.instanceCount = size->places,
		.multiprocessorCount = sk_sim_size_units(&card->model, profile),
		.copyEngineCount = size->slices,
		.decoderCount = size->decoders,
		.memorySizeMB = sk_sim_size_bytes(&card->model, profile) / MIB,
	};

	snprintf(info.name, sizeof(info.name), "MIG %ug.%ugb", size->slices,
		 sk_sim_size_gb(&card->model, profile));
	return info;
}

static nvmlReturn_t profile_info(const char *function, nvmlDevice_t device, uint32_t profile,
				 nvmlGpuInstanceProfileInfo_v2_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_card(&call, device, function, ret);
	uint32_t version;

	if (failed)
		return failed;
	version = ret->version;
	if (version != NVML_VERSION(*ret, 2))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	if (profile >= SK_SIM_SIZES)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*ret = describe(call.card, profile);
	ret->version = version;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, uint32_t profile,
							  nvmlGpuInstanceProfileInfo_v2_t *ret)
{
	return profile_info(__func__, device, profile, ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, uint32_t id,
							      nvmlGpuInstanceProfileInfo_v2_t *ret)
{
	return profile_info(__func__, device, sk_nvml_size(id), ret);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, uint32_t profile,
							 nvmlGpuInstanceProfileInfo_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_card(&call, device, __func__, ret);
	nvmlGpuInstanceProfileInfo_v2_t info;

	if (failed)
		return failed;
	if (profile >= SK_SIM_SIZES)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	info = describe(call.card, profile);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &info.id, offsetof(nvmlGpuInstanceProfileInfo_t, memorySizeMB));
	ret->memorySizeMB = info.memorySizeMB;
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, uint32_t id,
							       uint32_t *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask_card(&call, device, __func__, ret);

	if (failed)
		return failed;
	if (sk_nvml_size(id) == UINT32_MAX)
		return sk_nvml_end(&call, NVML_ERROR_NOT_SUPPORTED);
	*ret = sk_sim_partition_room(call.card, sk_nvml_size(id));
	return sk_nvml_end(&call, NVML_SUCCESS);
}
