/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The interface of NVML's callers and this library: codes and layouts, as nvml.h 13.5 has them.
 *
 * Invariant: sizes and offsets equal those of pynvml's classes of the same names, which a test
 * compares; names are NVML's own for that reason.
 */
#ifndef SK_SIM_NVML_ABI_H
#define SK_SIM_NVML_ABI_H

#include <stdint.h>

#define SK_NVML __attribute__((visibility("default")))

typedef int nvmlReturn_t;
typedef const struct sk_nvml_device *nvmlDevice_t;

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
	NVML_ERROR_IN_USE = 19,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999,
};

enum { NVML_VALUE_DOUBLE, NVML_VALUE_U32, NVML_VALUE_ULONG, NVML_VALUE_U64, NVML_VALUE_I64 };

#define NVML_NO_INSTANCE UINT32_MAX

/** The version member of a structure: its size and number. */
#define NVML_VERSION(type, number) ((uint32_t)(sizeof(type) | (uint32_t)(number) << 24))

typedef union {
	double dVal;
	int siVal;
	uint32_t uiVal;
	unsigned long ulVal;
	uint64_t ullVal;
	int64_t sllVal;
	uint16_t usVal;
} nvmlValue_t;

typedef struct {
	char busIdLegacy[16];
	uint32_t domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	uint32_t version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
	char busId[32];
} nvmlPciInfoExt_v1_t;

typedef struct {
	uint32_t version, type;
	union {
		char str[41];
		unsigned char bytes[16];
	} value;
} nvmlUUID_t;

typedef struct {
	uint32_t gpu, memory;
} nvmlUtilization_t;

typedef struct {
	uint64_t total, free, used;
} nvmlMemory_t;

typedef struct {
	uint32_t version;
	uint64_t total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	uint64_t bar1Total, bar1Free, bar1Used;
} nvmlBAR1Memory_t;

typedef struct {
	uint32_t pid;
	uint64_t usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	uint32_t pid;
	uint64_t usedGpuMemory;
	uint32_t gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

typedef struct {
	uint32_t pid;
	uint64_t usedGpuMemory;
	uint32_t gpuInstanceId, computeInstanceId;
	uint64_t usedGpuCcProtectedMemory;
} nvmlProcessDetail_v1_t;

typedef struct {
	uint32_t version, mode, numProcArrayEntries;
	nvmlProcessDetail_v1_t *procArray;
} nvmlProcessDetailList_v1_t;

typedef struct {
	uint32_t pid;
	uint64_t timeStamp;
	uint32_t smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	uint64_t timeStamp;
	uint32_t pid, smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
	uint32_t version, processSamplesCount;
	uint64_t lastSeenTimeStamp;
	nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;

typedef struct {
	uint32_t multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount;
	uint32_t sharedEncoderCount, sharedJpegCount, sharedOfaCount;
	uint32_t gpuInstanceSliceCount, computeInstanceSliceCount;
	uint64_t memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
	uint32_t max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct {
	uint64_t timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;

typedef struct {
	uint64_t referenceTime, violationTime;
} nvmlViolationTime_t;

typedef struct {
	uint32_t fieldId, scopeId;
	int64_t timestamp, latencyUsec;
	uint32_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
	nvmlDevice_t device;
	uint64_t eventType, eventData;
	uint32_t gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

typedef struct {
	uint64_t l1Cache, l2Cache, deviceMemory, registerFile;
} nvmlEccErrorCounts_t;

typedef struct {
	uint32_t version;
	uint64_t aggregateUncParity, aggregateUncSecDed, aggregateCor;
	uint64_t volatileUncParity, volatileUncSecDed, volatileCor;
	uint64_t aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie;
	uint64_t aggregateUncBucketMcu, aggregateUncBucketOther;
	uint32_t bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;

typedef struct {
	uint32_t version, sensorType;
	int temperature;
} nvmlTemperature_v1_t;

typedef struct {
	uint32_t version;
	int marginTemperature;
} nvmlMarginTemperature_v1_t;

typedef struct {
	uint32_t count;
	struct {
		int controller, defaultMinTemp, defaultMaxTemp, currentTemp, target;
	} sensor[3];
} nvmlGpuThermalSettings_t;

typedef struct {
	uint32_t version, fan, speed;
} nvmlFanSpeedInfo_v1_t;

typedef struct {
	uint32_t flags;
	struct {
		uint32_t bIsPresent, percentage, incThreshold, decThreshold;
	} utilization[8];
} nvmlGpuDynamicPstatesInfo_t;

typedef struct {
	uint32_t version, powerScope, powerValueMw;
} nvmlPowerValue_v2_t;

typedef struct {
	uint32_t version;
	char branch[80];
} nvmlSystemDriverBranchInfo_v1_t;

typedef struct {
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	uint32_t cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct {
	uint32_t version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	uint32_t cliqueId;
	unsigned char state;
	uint32_t healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
	uint32_t version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	uint32_t cliqueId;
	unsigned char state;
	uint32_t healthMask;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
	uint32_t start, size;
} nvmlGpuInstancePlacement_t;

typedef struct {
	uint32_t id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	uint32_t copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	uint64_t memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
	uint32_t version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
	uint32_t copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
	uint64_t memorySizeMB;
	char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
	nvmlDevice_t device;
	uint32_t id, profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
	uint32_t start, size;
} nvmlComputeInstancePlacement_t;

typedef struct {
	uint32_t id, sliceCount, instanceCount, multiprocessorCount, sharedCopyEngineCount;
	uint32_t sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
	uint32_t version, id, sliceCount, instanceCount, multiprocessorCount;
	uint32_t sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount;
	uint32_t sharedOfaCount;
	char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
	nvmlDevice_t device;
	nvmlDevice_t gpuInstance;
	uint32_t id, profileId;
	nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct {
	uint32_t metricId;
	nvmlReturn_t nvmlReturn;
	double value;
	struct {
		const char *shortName, *longName, *unit;
	} metricInfo;
} nvmlGpmMetric_t;

enum { NVML_GPM_METRIC_MAX = 477 };

typedef struct {
	uint32_t version, numMetrics;
	struct sk_nvml_gpm *sample1, *sample2;
	nvmlGpmMetric_t metrics[NVML_GPM_METRIC_MAX];
} nvmlGpmMetricsGet_t;

typedef struct {
	uint32_t version, isSupportedDevice;
} nvmlGpmSupport_t;

#endif
