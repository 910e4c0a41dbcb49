/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Level Zero Sysman's functions and the structures that they fill, with the layouts of zes_api.h.
 *
 * Memory: one table of functions for the process. Threads: any, after `sk_intel_open`.
 */
#ifndef SK_DEVICES_INTEL_ZES_H
#define SK_DEVICES_INTEL_ZES_H

#include <stddef.h>
#include <stdint.h>

enum {
	ZES_UNSUPPORTED = 0x78000003,
	ZES_NOT_THERE = 0x78000003, /* code of a function that the loader lacks */
	ZES_DEVICE_PROPERTIES = 0x1,
	ZES_PCI_PROPERTIES = 0x2,
	ZES_ENGINE_PROPERTIES = 0x5,
	ZES_FREQ_PROPERTIES = 0x9,
	ZES_POWER_PROPERTIES = 0xd,
	ZES_RAS_PROPERTIES = 0xf,
	ZES_TEMP_PROPERTIES = 0x14,
	ZES_PROCESS_STATE = 0x16,
	ZES_PCI_STATE = 0x17,
	ZES_PORT_STATE = 0x19,
	ZES_FREQ_STATE = 0x1b,
	ZES_MEM_STATE = 0x1e,
	ZES_RAS_STATE = 0x22,
	ZES_ECC_PROPERTIES = 0x26,
	ZES_POWER_LIMIT_EXT = 0x27,
	ZES_LEVEL_SUSTAINED = 1,
	ZES_LIMITS_MAX = 16,
	ZES_HANDLES_MAX = 64,
};

struct zes_device {
	uint32_t stype;
	void *next;
	struct {
		uint32_t stype;
		void *next;
		uint32_t type, vendor, device, flags, subdevice, clock;
		uint64_t most_memory;
		uint32_t contexts, priority, threads, width, units, subslices, slices;
		uint64_t timer;
		uint32_t timestamp_bits, kernel_timestamp_bits;
		uint8_t uuid[16];
		char name[256];
	} core;
	uint32_t tiles;
	char text[6][64];
};

struct zes_pci_speed {
	int32_t gen, width;
	int64_t bandwidth;
};

struct zes_pci_properties {
	uint32_t stype;
	void *next;
	uint32_t domain, bus, device, function;
	struct zes_pci_speed most;
	uint8_t counters[3];
};

struct zes_pci_state {
	uint32_t stype;
	void *next;
	uint32_t status, quality, stability;
	struct zes_pci_speed speed;
};

struct zes_pci_stats {
	uint64_t timestamp, replays, packets, rx, tx;
	struct zes_pci_speed speed;
};

/* The first properties of engines and temperature sensors; the others are not read. */
struct zes_kind {
	uint32_t stype;
	void *next;
	uint32_t type;
	uint8_t on_tile;
	uint32_t tile;
	uint64_t rest[4];
};

struct zes_power {
	uint32_t stype;
	void *next;
	uint8_t on_tile;
	uint32_t tile;
	uint8_t can_control, threshold;
	int32_t usual_mw, least_mw, most_mw;
};

struct zes_limit {
	uint32_t stype;
	void *next;
	uint32_t level, source, unit;
	uint8_t enabled_locked, enabled, interval_locked;
	int32_t interval_ms;
	uint8_t limit_locked;
	int32_t limit_mw;
};

struct zes_sustained {
	uint8_t enabled;
	int32_t power_mw, interval_ms;
};

/* Counter of a power domain in uJ or of an engine in us, and its time in us. */
struct zes_counter {
	uint64_t value, at_us;
};

struct zes_freq {
	uint32_t stype;
	void *next;
	double voltage, request, tdp, efficient, actual;
	uint32_t reasons;
};

struct zes_range {
	double min, max;
};

struct zes_memory {
	uint32_t stype;
	void *next;
	uint32_t health;
	uint64_t free, size;
};

struct zes_bandwidth {
	uint64_t read, written, most, at_us;
};

struct zes_ecc {
	uint32_t stype;
	void *next;
	uint32_t current, pending, action;
};

struct zes_ras {
	uint32_t stype;
	void *next;
	uint64_t category[7];
};

struct zes_port {
	uint32_t stype;
	void *next;
	uint32_t status, quality, failure;
	struct {
		uint32_t fabric, attach;
		uint8_t port;
	} remote;
	struct {
		int64_t bits;
		int32_t lanes;
	} rx, tx;
};

struct zes_moved {
	uint64_t at_us, rx, tx;
};

struct zes_process {
	uint32_t stype;
	void *next;
	uint32_t pid;
	uint64_t memory, shared;
	uint32_t engines;
};

_Static_assert(sizeof(struct zes_limit) == 48 && offsetof(struct zes_limit, limit_mw) == 40,
	       "zes_power_limit_ext_desc_t");
_Static_assert(offsetof(struct zes_device, tiles) == 384, "zes_device_properties_t");
_Static_assert(sizeof(struct zes_process) == 48, "zes_process_state_t");
_Static_assert(sizeof(struct zes_port) == 72, "zes_fabric_port_state_t");

/** X(name, parameters) of functions that read, which take a handle first. */
#define SK_ZES_READ_TABLE(X)                                                                       \
	X(zesDeviceGetProperties, (void *, struct zes_device *))                                   \
	X(zesDeviceEnumPowerDomains, (void *, uint32_t *, void **))                                \
	X(zesPowerGetProperties, (void *, struct zes_power *))                                     \
	X(zesPowerGetEnergyCounter, (void *, struct zes_counter *))                                \
	X(zesPowerGetLimitsExt, (void *, uint32_t *, struct zes_limit *))                          \
	X(zesDeviceEnumEngineGroups, (void *, uint32_t *, void **))                                \
	X(zesEngineGetProperties, (void *, struct zes_kind *))                                     \
	X(zesEngineGetActivity, (void *, struct zes_counter *))                                    \
	X(zesDeviceEnumFrequencyDomains, (void *, uint32_t *, void **))                            \
	X(zesFrequencyGetProperties, (void *, struct zes_kind *))                                  \
	X(zesFrequencyGetState, (void *, struct zes_freq *))                                       \
	X(zesFrequencyGetRange, (void *, struct zes_range *))                                      \
	X(zesFrequencyGetThrottleTime, (void *, struct zes_counter *))                             \
	X(zesDeviceEnumTemperatureSensors, (void *, uint32_t *, void **))                          \
	X(zesTemperatureGetProperties, (void *, struct zes_kind *))                                \
	X(zesTemperatureGetState, (void *, double *))                                              \
	X(zesDeviceEnumMemoryModules, (void *, uint32_t *, void **))                               \
	X(zesMemoryGetState, (void *, struct zes_memory *))                                        \
	X(zesMemoryGetBandwidth, (void *, struct zes_bandwidth *))                                 \
	X(zesDevicePciGetState, (void *, struct zes_pci_state *))                                  \
	X(zesDevicePciGetStats, (void *, struct zes_pci_stats *))                                  \
	X(zesDeviceGetEccState, (void *, struct zes_ecc *))                                        \
	X(zesDeviceEnumRasErrorSets, (void *, uint32_t *, void **))                                \
	X(zesRasGetProperties, (void *, struct zes_kind *))                                        \
	X(zesRasGetState, (void *, uint8_t, struct zes_ras *))                                     \
	X(zesDeviceEnumFabricPorts, (void *, uint32_t *, void **))                                 \
	X(zesFabricPortGetState, (void *, struct zes_port *))                                      \
	X(zesFabricPortGetThroughput, (void *, struct zes_moved *))                                \
	X(zesDeviceProcessesGetState, (void *, uint32_t *, struct zes_process *))

/** X(name, parameters) of the other functions. */
#define SK_ZES_OTHER_TABLE(X)                                                                      \
	X(zesInit, (uint32_t))                                                                     \
	X(zesDriverGet, (uint32_t *, void **))                                                     \
	X(zesDeviceGet, (void *, uint32_t *, void **))                                             \
	X(zesDevicePciGetProperties, (void *, struct zes_pci_properties *))                        \
	X(zesDeviceGetCardPowerDomain, (void *, void **))                                          \
	X(zesPowerSetLimitsExt, (void *, uint32_t *, struct zes_limit *))                          \
	X(zesPowerGetLimits, (void *, struct zes_sustained *, void *, void *))                     \
	X(zesPowerSetLimits, (void *, const struct zes_sustained *, const void *, const void *))   \
	X(zesFrequencySetRange, (void *, const struct zes_range *))

/** The loader's functions; NULL for one that it lacks. */
struct sk_zes {
#define X(name, parameters) int(*name) parameters;
	SK_ZES_READ_TABLE(X)
	SK_ZES_OTHER_TABLE(X)
#undef X
};

extern struct sk_zes sk_zes;

/** Implement `open`, `find` and `write` of struct sk_device_vendor. A setting without a number is
 * the whole card's. A number behind its name (`/<n>`) is that of a domain in Sysman's list; a card
 * with several tiles has one domain for each tile. */
int sk_intel_open(char *why, size_t size);
int sk_intel_find(const char *address, void **ret, char *why, size_t size);
int sk_intel_write(void *handle, const char *what, uint64_t value, char *why, size_t size);

#endif
