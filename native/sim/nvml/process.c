/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a card or of one of its instances, and their shares of its load. */
#include <math.h>

#include "sim/nvml/library.h"

enum { COMPUTE = 1, GRAPHICS = 2, MPS = 3 };

static bool is_there(const struct sk_nvml_call *call, const struct sk_sim_process *process)
{
	if (!process->pid)
		return false;
	if (!call->instance)
		return true;
	return process->instance == call->card->partition[call->instance - 1].instance;
}

static uint32_t count_of(const struct sk_nvml_call *call, uint32_t kind)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		const struct sk_sim_process *process = &call->card->process[i];

		count += is_there(call, process) && process->kind == kind;
	}
	return count;
}

/* The oldest layout lacks the instances, the newer ones have them. */
static void put(void *ret, uint32_t at, bool oldest, const struct sk_sim_process *process)
{
	uint32_t instance = process->instance ? process->instance : NVML_NO_INSTANCE;
	uint32_t compute = process->instance ? 0 : NVML_NO_INSTANCE;

	if (oldest) {
		((nvmlProcessInfo_v1_t *)ret)[at] = (nvmlProcessInfo_v1_t){
			.pid = (uint32_t)process->pid, .usedGpuMemory = process->memory_bytes};
		return;
	}
	((nvmlProcessInfo_v2_t *)ret)[at] = (nvmlProcessInfo_v2_t){
		.pid = (uint32_t)process->pid,
		.usedGpuMemory = process->memory_bytes,
		.gpuInstanceId = instance,
		.computeInstanceId = compute,
	};
}

static nvmlReturn_t running(const char *function, nvmlDevice_t device, uint32_t kind, bool oldest,
			    uint32_t *count, void *ret)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, function);
	uint32_t room, there, at = 0;

	if (failed)
		return failed;
	if (!count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	room = *count;
	there = count_of(&call, kind);
	*count = there;
	if (there > room || (there && !ret))
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		const struct sk_sim_process *process = &call.card->process[i];

		if (is_there(&call, process) && process->kind == kind)
			put(ret, at++, oldest, process);
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}

#define RUNNING(name, kind, oldest, type)                                                          \
	SK_NVML nvmlReturn_t name(nvmlDevice_t device, uint32_t *count, type *ret)                 \
	{                                                                                          \
		return running(__func__, device, kind, oldest, count, ret);                        \
	}

RUNNING(nvmlDeviceGetComputeRunningProcesses, COMPUTE, true, nvmlProcessInfo_v1_t)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE, false, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE, false, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS, true, nvmlProcessInfo_v1_t)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS, false, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS, false, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, MPS, true, nvmlProcessInfo_v1_t)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS, false, nvmlProcessInfo_v2_t)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS, false, nvmlProcessInfo_v2_t)

SK_NVML nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
							   nvmlProcessDetailList_v1_t *list)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = sk_nvml_begin_any(&call, device, __func__);
	uint32_t kind, room, at = 0;

	if (failed)
		return failed;
	if (!list || list->mode > GRAPHICS)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (list->version != NVML_VERSION(*list, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	kind = list->mode + 1; /* compute, graphics, MPS */
	room = list->numProcArrayEntries;
	list->numProcArrayEntries = count_of(&call, kind);
	if (list->numProcArrayEntries > room || (list->numProcArrayEntries && !list->procArray))
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		const struct sk_sim_process *process = &call.card->process[i];
		uint32_t instance = process->instance;

		if (!is_there(&call, process) || process->kind != kind)
			continue;
		list->procArray[at++] = (nvmlProcessDetail_v1_t){
			.pid = (uint32_t)process->pid,
			.usedGpuMemory = process->memory_bytes,
			.gpuInstanceId = instance ? instance : NVML_NO_INSTANCE,
			.computeInstanceId = instance ? 0 : NVML_NO_INSTANCE,
		};
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}

static uint32_t percent(double share)
{
	return (uint32_t)lround(fmin(fmax(share, 0), 1) * 100);
}

/* Give one sample for each process, of the newest period, unless the caller has it. Without room
 * the answer is the number of samples. */
static uint32_t fresh(const struct sk_nvml_call *call, uint64_t seen_us)
{
	const struct sk_sim_point *sample = sk_sim_sample(call->card, 0);
	uint32_t count = 0;

	if (!sample || sk_nvml_us(call->node, sample->at_ns) <= seen_us)
		return 0;
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		count += call->card->process[i].pid != 0;
	return count;
}

/* With MIG the real driver has no figures of processes. */
static nvmlReturn_t ask(struct sk_nvml_call *call, nvmlDevice_t device, const char *function)
{
	nvmlReturn_t failed = sk_nvml_begin_card(call, device, function);

	if (failed || !call->card->partitioned)
		return failed;
	return sk_nvml_end(call, NVML_ERROR_NOT_SUPPORTED);
}

SK_NVML nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
						     nvmlProcessUtilizationSample_t *ret,
						     uint32_t *count, uint64_t seen_us)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__);
	const struct sk_sim_point *sample;
	uint32_t room, at = 0;

	if (failed)
		return failed;
	if (!count)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	room = *count;
	*count = fresh(&call, seen_us);
	if (!*count)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	if (!ret || room < *count) {
		*count = SK_SIM_PROCESSES;
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	}
	sample = sk_sim_sample(call.card, 0);
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		const struct sk_sim_process *process = &call.card->process[i];

		if (!process->pid)
			continue;
		ret[at++] = (nvmlProcessUtilizationSample_t){
			.pid = (uint32_t)process->pid,
			.timeStamp = sk_nvml_us(call.node, sample->at_ns),
			.smUtil = percent(sample->busy * process->share),
			.memUtil = percent(sample->memory_busy * process->share),
		};
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}

SK_NVML nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
							   nvmlProcessesUtilizationInfo_v1_t *info)
{
	struct sk_nvml_call call;
	nvmlReturn_t failed = ask(&call, device, __func__);
	const struct sk_sim_point *sample;
	uint32_t room, at = 0;

	if (failed)
		return failed;
	if (!info)
		return sk_nvml_end(&call, NVML_ERROR_INVALID_ARGUMENT);
	if (info->version != NVML_VERSION(*info, 1))
		return sk_nvml_end(&call, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	room = info->processSamplesCount;
	info->processSamplesCount = fresh(&call, info->lastSeenTimeStamp);
	if (!info->processSamplesCount)
		return sk_nvml_end(&call, NVML_ERROR_NOT_FOUND);
	if (!info->procUtilArray || room < info->processSamplesCount)
		return sk_nvml_end(&call, NVML_ERROR_INSUFFICIENT_SIZE);
	sample = sk_sim_sample(call.card, 0);
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		const struct sk_sim_process *process = &call.card->process[i];

		if (!process->pid)
			continue;
		info->procUtilArray[at++] = (nvmlProcessUtilizationInfo_v1_t){
			.timeStamp = sk_nvml_us(call.node, sample->at_ns),
			.pid = (uint32_t)process->pid,
			.smUtil = percent(sample->busy * process->share),
			.memUtil = percent(sample->memory_busy * process->share),
		};
	}
	return sk_nvml_end(&call, NVML_SUCCESS);
}
