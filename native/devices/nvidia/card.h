/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * State of an NVIDIA card that is read, numbers of nvml.h (13.0), and helpers that turn fields of
 * NVML into fields of the record.
 *
 * Memory: the state is the card's, allocated by `begin`. Threads: the card's own thread.
 */
#ifndef SK_DEVICES_NVIDIA_CARD_H
#define SK_DEVICES_NVIDIA_CARD_H

#include "devices/card.h"
#include "devices/nvidia/nvml.h"

enum {
	FIELD_ECC = 1,
	FIELD_ECC_SINGLE = 3,
	FIELD_ECC_DOUBLE = 4,
	FIELD_ECC_SINGLE_TOTAL = 5,
	FIELD_ECC_DOUBLE_TOTAL = 6,
	FIELD_RETIRED_SINGLE = 29,
	FIELD_RETIRED_DOUBLE = 30,
	FIELD_RETIRED_PENDING = 31,
	FIELD_VIOLATION_POWER = 74,
	FIELD_VIOLATION_THERMAL = 75,
	FIELD_VIOLATION_SYNC = 76,
	FIELD_VIOLATION_BOARD = 77,
	FIELD_VIOLATION_RELIABILITY = 79,
	FIELD_MEMORY_TEMPERATURE = 82,
	FIELD_ENERGY = 83,
	FIELD_PCIE_REPLAYS = 94,
	FIELD_LINK_TX_KIB = 138,
	FIELD_LINK_RX_KIB = 139,
	FIELD_REMAPPED_CORRECTABLE = 142,
	FIELD_REMAPPED_UNCORRECTABLE = 143,
	FIELD_REMAP_PENDING = 144,
	FIELD_REMAP_FAILED = 145,
	FIELD_LINK_REPLAYS = 161,
	FIELD_LINK_RECOVERIES = 162,
	FIELD_LINK_CHECKSUMS = 163,
	FIELD_LINK_STATE = 165,
	FIELD_POWER_AVERAGE = 185,
	FIELD_POWER_INSTANT = 186,
	FIELD_POWER_LIMIT = 190,
	FIELD_PCIE_TX = 197,
	FIELD_PCIE_RX = 198,
	FIELD_LINK_TX = 202,
	FIELD_LINK_RX = 204,
	FIELD_RECOVERY_ACTION = 230,
	FIELD_SLOWED_THERMAL = 269,
	FIELD_SLOWED_HARD_THERMAL = 270,
	FIELD_SLOWED_BRAKE = 271,
};

enum {
	PORTS = 18, /* NVML_NVLINK_MAX_LINKS */
	PER_PORT = 6,
	KIB = 1024,
	GRAPHICS_MAX = 64,
	COMPUTE_MAX = 256,
	SHARES_MAX = 256,
	LOOK_BACK_US = 1500000, /* processes are sampled once a second, with some delay */
	AVERAGE_US = 1000000,
	SAMPLED_US = 25000,
	SECOND_US = 1000000,
	STAMP_NEAR_S = 3600,
	FAN_VERSION = 12 | 1 << 24,
	CLOCK_SM = 1,
	CLOCK_MEMORY = 2,
	MHZ = 1000000,
};

enum {
#define X(name, parameters) CALL_##name,
	SK_NVML_READ_TABLE(X)
#undef X
		CALL_FIELD,
	CALL_GPM_METRIC,
	CALL_nvmlGpmSampleAlloc,
	CALL_nvmlGpmMetricsGet,
	CALLS
};

/* Call a function of the card; a function that the library lacks gives NVML's own code for that. */
#define ASK(card, function, ...)                                                                   \
	(sk_nvml.function ? (sk_device_enter(card, CALL_##function),                               \
			     sk_device_leave(card, sk_nvml.function((card)->handle, __VA_ARGS__))) \
			  : NVML_FUNCTION_NOT_FOUND)

enum {
	FAST = 4,
	SLOW_MAX = 64, /* room for all fields that are read once a second */
};

/** One card. */
struct sk_nvidia_state {
	bool averages; /* GetPowerUsage is an average, except on GA100 and older chips */
	bool partly;   /* the sensor samples a quarter of the time */
	struct nvml_field fast_wanted[FAST], fast[FAST];
	uint32_t slow_count;
	struct nvml_field slow_wanted[SLOW_MAX], slow[SLOW_MAX];
	uint32_t ports;
	bool by_kib; /* links count in KiB, before NVLink 5 */
	struct nvml_field link_wanted[PORTS * PER_PORT], link[PORTS * PER_PORT];
	struct sk_device_field no_links, no_gpm;
	void *sample[2];
	uint32_t newest; /* index of the sample that is taken next */
	bool compared;	 /* the other sample was taken */
	struct nvml_metrics metrics;
	struct nvml_process process[COMPUTE_MAX + GRAPHICS_MAX];
	uint32_t shares;
	struct nvml_share share[SHARES_MAX], share_next[SHARES_MAX];
	struct nvml_sample power[SK_DEVICE_SAMPLES_MAX];
};

/** Read a batch of fields. Returns the code of the call. */
int sk_nvidia_batch(struct sk_device_card *card, const struct nvml_field *wanted,
		    struct nvml_field *ret, uint32_t count);

/** The field `id` of a batch whose call gave `code`. */
struct sk_device_field sk_nvidia_found(const struct nvml_field *fields, uint32_t count, int code,
				       uint32_t id);

/** The number in a field's union. */
double sk_nvidia_number(const struct nvml_field *field);

/** Choose the fields that are read once a second. */
void sk_nvidia_want_slow(struct sk_nvidia_state *state);

/** Implements `slow` of struct sk_device_vendor. */
void sk_nvidia_slow(struct sk_device_card *card, struct sk_device_record *record);

/** A field in W or J from one in mW or mJ. */
static inline struct sk_device_field sk_nvidia_milli(struct sk_device_field field)
{
	field.value /= 1000;
	return field;
}

#endif
