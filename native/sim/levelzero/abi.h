/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The interface between a caller of Level Zero and the simulated driver: results, kinds, records.
 *
 * It is declared from the specification: Level Zero 1.4, with the records of later versions that
 * pyzes 0.1.3 has. tests/native/sim/test_levelzero_layout.py compares every record's size and
 * places with pyzes' classes, and with the headers of libze-dev where that is installed. For that
 * test the names of members are the specification's.
 */
#ifndef SK_SIM_LEVELZERO_ABI_H
#define SK_SIM_LEVELZERO_ABI_H

#include <stddef.h>
#include <stdint.h>

enum sk_ze_result {
	SK_ZE_SUCCESS = 0,
	SK_ZE_NOT_READY = 1,
	SK_ZE_DEVICE_LOST = 0x70000001,
	SK_ZE_REQUIRES_RESET = 0x70000006,
	SK_ZE_NO_PERMISSION = 0x70010000,
	SK_ZE_DEPENDENCY_UNAVAILABLE = 0x70020000,
	SK_ZE_UNINITIALIZED = 0x78000001,
	SK_ZE_UNSUPPORTED_VERSION = 0x78000002,
	SK_ZE_UNSUPPORTED_FEATURE = 0x78000003,
	SK_ZE_INVALID_ARGUMENT = 0x78000004,
	SK_ZE_NULL_HANDLE = 0x78000005,
	SK_ZE_IN_USE = 0x78000006,
	SK_ZE_NULL_POINTER = 0x78000007,
	SK_ZE_UNSUPPORTED_ENUMERATION = 0x7800000d,
	SK_ZE_UNKNOWN = 0x7ffffffe,
};

enum { SK_ZE_API_VERSION = 0x10004, SK_ZE_TYPE_GPU = 1, SK_ZE_VENDOR_INTEL = 0x8086 };

enum sk_zes_stype {
	SK_ZES_POWER_EXT_PROPERTIES = 0x28,
	SK_ZES_DEVICE_EXT_PROPERTIES = 0x2d,
};

enum sk_zes_throttle {
	SK_ZES_THROTTLE_POWER_CAP = 1 << 0,
	SK_ZES_THROTTLE_THERMAL = 1 << 3,
	SK_ZES_THROTTLE_PSU = 1 << 4,
	SK_ZES_THROTTLE_RANGE = 1 << 5,
};

enum sk_zes_event {
	SK_ZES_EVENT_DETACH = 1 << 0,
	SK_ZES_EVENT_MEM_HEALTH = 1 << 9,
	SK_ZES_EVENT_FABRIC_HEALTH = 1 << 10,
	SK_ZES_EVENT_RAS_CORRECTABLE = 1 << 12,
	SK_ZES_EVENT_RAS_UNCORRECTABLE = 1 << 13,
	SK_ZES_EVENT_RESET_REQUIRED = 1 << 14,
};

struct sk_ze_driver_uuid {
	uint8_t id[16];
};

struct sk_ze_driver_properties {
	uint32_t stype;
	void *pNext;
	struct sk_ze_driver_uuid uuid;
	uint32_t driverVersion;
};

struct sk_ze_device_uuid {
	uint8_t id[16];
};

struct sk_ze_device_properties {
	uint32_t stype;
	void *pNext;
	uint32_t type;
	uint32_t vendorId;
	uint32_t deviceId;
	uint32_t flags;
	uint32_t subdeviceId;
	uint32_t coreClockRate;
	uint64_t maxMemAllocSize;
	uint32_t maxHardwareContexts;
	uint32_t maxCommandQueuePriority;
	uint32_t numThreadsPerEU;
	uint32_t physicalEUSimdWidth;
	uint32_t numEUsPerSubslice;
	uint32_t numSubslicesPerSlice;
	uint32_t numSlices;
	uint64_t timerResolution;
	uint32_t timestampValidBits;
	uint32_t kernelTimestampValidBits;
	struct sk_ze_device_uuid uuid;
	char name[256];
};

struct sk_ze_device_memory_properties {
	uint32_t stype;
	void *pNext;
	uint32_t flags;
	uint32_t maxClockRate;
	uint32_t maxBusWidth;
	uint64_t totalSize;
	char name[256];
};

struct sk_ze_device_compute_properties {
	uint32_t stype;
	void *pNext;
	uint32_t maxTotalGroupSize;
	uint32_t maxGroupSizeX;
	uint32_t maxGroupSizeY;
	uint32_t maxGroupSizeZ;
	uint32_t maxGroupCountX;
	uint32_t maxGroupCountY;
	uint32_t maxGroupCountZ;
	uint32_t maxSharedLocalMemory;
	uint32_t numSubGroupSizes;
	uint32_t subGroupSizes[8];
};

struct sk_zes_device_properties {
	uint32_t stype;
	void *pNext;
	struct sk_ze_device_properties core;
	uint32_t numSubdevices;
	char serialNumber[64];
	char boardNumber[64];
	char brandName[64];
	char modelName[64];
	char vendorName[64];
	char driverVersion[64];
};

struct sk_zes_device_state {
	uint32_t stype;
	void *pNext;
	uint32_t reset;
	uint32_t repaired;
};

struct sk_zes_process_state {
	uint32_t stype;
	void *pNext;
	uint32_t processId;
	uint64_t memSize;
	uint64_t sharedSize;
	uint32_t engines;
};

struct sk_zes_pci_address {
	uint32_t domain;
	uint32_t bus;
	uint32_t device;
	uint32_t function;
};

struct sk_zes_pci_speed {
	int32_t gen;
	int32_t width;
	int64_t maxBandwidth;
};

struct sk_zes_pci_properties {
	uint32_t stype;
	void *pNext;
	struct sk_zes_pci_address address;
	struct sk_zes_pci_speed maxSpeed;
	uint8_t haveBandwidthCounters;
	uint8_t havePacketCounters;
	uint8_t haveReplayCounters;
};

struct sk_zes_pci_state {
	uint32_t stype;
	void *pNext;
	uint32_t status;
	uint32_t qualityIssues;
	uint32_t stabilityIssues;
	struct sk_zes_pci_speed speed;
};

struct sk_zes_pci_stats {
	uint64_t timestamp;
	uint64_t replayCounter;
	uint64_t packetCounter;
	uint64_t rxCounter;
	uint64_t txCounter;
	struct sk_zes_pci_speed speed;
};

struct sk_zes_device_ecc_desc {
	uint32_t stype;
	void *pNext;
	uint32_t state;
};

struct sk_zes_device_ecc_properties {
	uint32_t stype;
	void *pNext;
	uint32_t currentState;
	uint32_t pendingState;
	uint32_t pendingAction;
};

struct sk_zes_uuid {
	uint8_t id[16];
};

struct sk_zes_device_ext_properties {
	uint32_t stype;
	void *pNext;
	struct sk_zes_uuid uuid;
	uint32_t type;
	uint32_t flags;
};

struct sk_zes_subdevice_exp_properties {
	uint32_t stype;
	void *pNext;
	uint32_t subdeviceId;
	struct sk_zes_uuid uuid;
};

struct sk_zes_mem_properties {
	uint32_t stype;
	void *pNext;
	uint32_t type;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
	uint32_t location;
	uint64_t physicalSize;
	int32_t busWidth;
	int32_t numChannels;
};

struct sk_zes_mem_state {
	uint32_t stype;
	void *pNext;
	uint32_t health;
	uint64_t free;
	uint64_t size;
};

struct sk_zes_mem_bandwidth {
	uint64_t readCounter;
	uint64_t writeCounter;
	uint64_t maxBandwidth;
	uint64_t timestamp;
};

struct sk_zes_power_properties {
	uint32_t stype;
	void *pNext;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
	uint8_t canControl;
	uint8_t isEnergyThresholdSupported;
	int32_t defaultLimit;
	int32_t minLimit;
	int32_t maxLimit;
};

struct sk_zes_power_limit_ext_desc {
	uint32_t stype;
	void *pNext;
	uint32_t level;
	uint32_t source;
	uint32_t limitUnit;
	uint8_t enabledStateLocked;
	uint8_t enabled;
	uint8_t intervalValueLocked;
	int32_t interval;
	uint8_t limitValueLocked;
	int32_t limit;
};

struct sk_zes_power_ext_properties {
	uint32_t stype;
	void *pNext;
	uint32_t domain;
	struct sk_zes_power_limit_ext_desc *defaultLimit;
};

struct sk_zes_power_energy_counter {
	uint64_t energy;
	uint64_t timestamp;
};

struct sk_zes_power_sustained_limit {
	uint8_t enabled;
	int32_t power;
	int32_t interval;
};

struct sk_zes_power_burst_limit {
	uint8_t enabled;
	int32_t power;
};

struct sk_zes_power_peak_limit {
	int32_t powerAC;
	int32_t powerDC;
};

struct sk_zes_freq_properties {
	uint32_t stype;
	void *pNext;
	uint32_t type;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
	uint8_t canControl;
	uint8_t isThrottleEventSupported;
	double min;
	double max;
};

struct sk_zes_freq_range {
	double min;
	double max;
};

struct sk_zes_freq_state {
	uint32_t stype;
	void *pNext;
	double currentVoltage;
	double request;
	double tdp;
	double efficient;
	double actual;
	uint32_t throttleReasons;
};

struct sk_zes_freq_throttle_time {
	uint64_t throttleTime;
	uint64_t timestamp;
};

struct sk_zes_temp_properties {
	uint32_t stype;
	void *pNext;
	uint32_t type;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
	double maxTemperature;
	uint8_t isCriticalTempSupported;
	uint8_t isThreshold1Supported;
	uint8_t isThreshold2Supported;
};

struct sk_zes_temp_threshold {
	uint8_t enableLowToHigh;
	uint8_t enableHighToLow;
	double threshold;
};

struct sk_zes_temp_config {
	uint32_t stype;
	void *pNext;
	uint8_t enableCritical;
	struct sk_zes_temp_threshold threshold1;
	struct sk_zes_temp_threshold threshold2;
};

struct sk_zes_engine_properties {
	uint32_t stype;
	void *pNext;
	uint32_t type;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
};

struct sk_zes_engine_stats {
	uint64_t activeTime;
	uint64_t timestamp;
};

struct sk_zes_ras_properties {
	uint32_t stype;
	void *pNext;
	uint32_t type;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
};

struct sk_zes_ras_state {
	uint32_t stype;
	void *pNext;
	uint64_t category[7];
};

struct sk_zes_fan_properties {
	uint32_t stype;
	void *pNext;
	uint8_t onSubdevice;
	uint32_t subdeviceId;
	uint8_t canControl;
	uint32_t supportedModes;
	uint32_t supportedUnits;
	int32_t maxRPM;
	int32_t maxPoints;
};

struct sk_zes_fan_speed {
	int32_t speed;
	uint32_t units;
};

struct sk_zes_fabric_port_id {
	uint32_t fabricId;
	uint32_t attachId;
	uint8_t portNumber;
};

struct sk_zes_fabric_port_speed {
	int64_t bitRate;
	int32_t width;
};

struct sk_zes_fabric_port_properties {
	uint32_t stype;
	void *pNext;
	char model[256];
	uint8_t onSubdevice;
	uint32_t subdeviceId;
	struct sk_zes_fabric_port_id portId;
	struct sk_zes_fabric_port_speed maxRxSpeed;
	struct sk_zes_fabric_port_speed maxTxSpeed;
};

struct sk_zes_fabric_port_config {
	uint32_t stype;
	void *pNext;
	uint8_t enabled;
	uint8_t beaconing;
};

struct sk_zes_fabric_port_state {
	uint32_t stype;
	void *pNext;
	uint32_t status;
	uint32_t qualityIssues;
	uint32_t failureReasons;
	struct sk_zes_fabric_port_id remotePortId;
	struct sk_zes_fabric_port_speed rxSpeed;
	struct sk_zes_fabric_port_speed txSpeed;
};

struct sk_zes_fabric_port_throughput {
	uint64_t timestamp;
	uint64_t rxCounter;
	uint64_t txCounter;
};

struct sk_zes_fabric_link_type {
	char desc[256];
};

#endif
