/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * NVML's functions and the structures that they fill, with the layouts of nvml.h (13.0).
 *
 * Memory: one table of functions for the process. Threads: any, after `sk_nvidia_open`.
 */
#ifndef SK_DEVICES_NVIDIA_NVML_H
#define SK_DEVICES_NVIDIA_NVML_H

#include <stddef.h>
#include <stdint.h>

enum {
	NVML_NOT_SUPPORTED = 3,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPM_METRICS = 512, /* room for more than any nvml.h names */
};

struct nvml_field {
	uint32_t id, scope;
	int64_t timestamp_us, latency_us;
	uint32_t type; /* nvmlValueType_t */
	int32_t code;
	uint64_t value;
};

struct nvml_process {
	uint32_t pid;
	uint64_t memory;
	uint32_t instance, compute_instance;
};

struct nvml_share {
	uint32_t pid;
	uint64_t timestamp_us;
	uint32_t sm, memory, encoder, decoder;
};

struct nvml_sample {
	uint64_t timestamp_us;
	uint64_t value; /* 32 bits except for types 2 and 3 */
};

struct nvml_metric {
	uint32_t id;
	int32_t code;
	double value;
	const char *text[3];
};

struct nvml_metrics {
	uint32_t version, count;
	void *sample[2];
	struct nvml_metric metric[NVML_GPM_METRICS];
};

struct nvml_memory {
	uint64_t total, free, used;
};

struct nvml_rates {
	uint32_t gpu, memory;
};

struct nvml_fan {
	uint32_t version, fan, speed;
};

struct nvml_gpm_support {
	uint32_t version, supported;
};

_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct nvml_process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct nvml_share) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct nvml_sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(struct nvml_metric) == 40, "nvmlGpmMetric_t");
_Static_assert(offsetof(struct nvml_metrics, metric) == 24, "nvmlGpmMetricsGet_t");

/** X(name, parameters) of functions that read, which take the handle first. */
#define SK_NVML_READ_TABLE(X)                                                                      \
	X(nvmlDeviceGetFieldValues, (void *, int, struct nvml_field *))                            \
	X(nvmlDeviceGetUtilizationRates, (void *, struct nvml_rates *))                            \
	X(nvmlDeviceGetTemperature, (void *, uint32_t, uint32_t *))                                \
	X(nvmlDeviceGetClockInfo, (void *, uint32_t, uint32_t *))                                  \
	X(nvmlDeviceGetPowerUsage, (void *, uint32_t *))                                           \
	X(nvmlDeviceGetTotalEnergyConsumption, (void *, uint64_t *))                               \
	X(nvmlDeviceGetCurrentClocksEventReasons, (void *, uint64_t *))                            \
	X(nvmlDeviceGetCurrentClocksThrottleReasons, (void *, uint64_t *))                         \
	X(nvmlDeviceGetCudaComputeCapability, (void *, int *, int *))                              \
	X(nvmlDeviceGetMemoryInfo, (void *, struct nvml_memory *))                                 \
	X(nvmlDeviceGetFanSpeed, (void *, uint32_t *))                                             \
	X(nvmlDeviceGetFanSpeedRPM, (void *, struct nvml_fan *))                                   \
	X(nvmlDeviceGetEnforcedPowerLimit, (void *, uint32_t *))                                   \
	X(nvmlDeviceGetPowerManagementLimit, (void *, uint32_t *))                                 \
	X(nvmlDeviceGetCurrPcieLinkGeneration, (void *, uint32_t *))                               \
	X(nvmlDeviceGetCurrPcieLinkWidth, (void *, uint32_t *))                                    \
	X(nvmlDeviceGetNvLinkState, (void *, uint32_t, uint32_t *))                                \
	X(nvmlDeviceGetComputeRunningProcesses_v3, (void *, uint32_t *, struct nvml_process *))    \
	X(nvmlDeviceGetComputeRunningProcesses_v2, (void *, uint32_t *, struct nvml_process *))    \
	X(nvmlDeviceGetGraphicsRunningProcesses_v3, (void *, uint32_t *, struct nvml_process *))   \
	X(nvmlDeviceGetGraphicsRunningProcesses_v2, (void *, uint32_t *, struct nvml_process *))   \
	X(nvmlDeviceGetProcessUtilization, (void *, struct nvml_share *, uint32_t *, uint64_t))    \
	X(nvmlDeviceGetSamples,                                                                    \
	  (void *, uint32_t, uint64_t, uint32_t *, uint32_t *, struct nvml_sample *))              \
	X(nvmlGpmQueryDeviceSupport, (void *, struct nvml_gpm_support *))                          \
	X(nvmlGpmSampleGet, (void *, void *))

/** X(name, parameters) of the other functions. */
#define SK_NVML_OTHER_TABLE(X)                                                                     \
	X(nvmlInit_v2, (void))                                                                     \
	X(nvmlDeviceGetHandleByUUID, (const char *, void **))                                      \
	X(nvmlGpmSampleAlloc, (void **))                                                           \
	X(nvmlGpmSampleFree, (void *))                                                             \
	X(nvmlGpmMetricsGet, (struct nvml_metrics *))                                              \
	X(nvmlDeviceSetPowerManagementLimit, (void *, uint32_t))                                   \
	X(nvmlDeviceSetGpuLockedClocks, (void *, uint32_t, uint32_t))                              \
	X(nvmlDeviceResetGpuLockedClocks, (void *))

/** The library's functions; NULL for one that it lacks. */
struct sk_nvml {
#define X(name, parameters) int(*name) parameters;
	SK_NVML_READ_TABLE(X)
	SK_NVML_OTHER_TABLE(X)
#undef X
};

extern struct sk_nvml sk_nvml;

/** Text of a code; NULL in a library without this function. */
extern const char *(*sk_nvml_words)(int code);

/** Implement `open`, `find` and `write` of struct sk_device_vendor. Settings are `limit_mw`, a
 * power limit, and `clocks`: the lowest clock in MHz in the upper 32 bits and the highest in the
 * lower ones, or 0 to unlock them. */
int sk_nvidia_open(char *why, size_t size);
int sk_nvidia_find(const char *uuid, void **ret, char *why, size_t size);
int sk_nvidia_write(void *handle, const char *what, uint64_t value, char *why, size_t size);

#endif
