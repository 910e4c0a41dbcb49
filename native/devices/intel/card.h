/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * State of an Intel card that is read, numbers of zes_api.h, and helpers that turn answers of
 * Sysman into fields of the record.
 *
 * Memory: the state is the card's, allocated by `begin`. Threads: the card's own thread.
 */
#ifndef SK_DEVICES_INTEL_CARD_H
#define SK_DEVICES_INTEL_CARD_H

#include "devices/card.h"
#include "devices/intel/zes.h"

enum {
	TILES = 16,
	MEMORIES = 64,
	PROCESSES = 128,
	MHZ = 1000000,
	MICRO = 1000000,
	US = 1000,
	GPU = 0, /* zes_freq_domain_t */
	MEMORY = 1,
	HOTSPOT = 0, /* zes_temp_sensors_t: the hottest of all */
	DIE = 1,
	SENSORS = 3,
	RAS_COMPUTE = 3, /* zes_ras_error_cat_t: compute, fixed function and caches */
	RAS_CACHE = 5,
	PORT_HEALTHY = 1, /* zes_fabric_port_status_t */
	PORT_DEGRADED = 2,
	ECC_ENABLED = 1,
};

enum {
#define X(name, parameters) CALL_##name,
	SK_ZES_READ_TABLE(X)
#undef X
		CALLS
};

/* Call a function of a handle of the card; a function that the loader lacks is not supported. */
#define ASK(card, function, ...)                                                                   \
	(sk_zes.function ? (sk_device_enter(card, CALL_##function),                                \
			    sk_device_leave(card, sk_zes.function(__VA_ARGS__)))                   \
			 : ZES_NOT_THERE)

#define SAID(function, code, value) sk_device_said(CALL_##function, code, (double)(value))

/** A domain: its handle, or the absence that all its fields get. */
struct sk_intel_domain {
	void *handle;
	struct sk_device_field absent;
};

/** One card. */
struct sk_intel_state {
	uint32_t powers;
	void *power[TILES];
	struct sk_device_field no_power;
	struct zes_counter energy[TILES]; /* of the round before */
	struct sk_intel_domain engine, clock[2], sensor[SENSORS];
	struct zes_counter active; /* of the round before */
	uint32_t memories;
	void *memory[MEMORIES];
	struct sk_device_field no_memory;
	uint64_t moved, moved_at_us;
	uint32_t sets;
	void *set[ZES_HANDLES_MAX];
	bool is_uncorrectable[ZES_HANDLES_MAX];
	struct sk_device_field no_sets;
	uint32_t ports;
	void *port[SK_DEVICE_LINKS_MAX];
	struct sk_device_field no_ports;
	struct zes_process process[PROCESSES];
};

/** The absence of a difference of two rounds after the first round. */
static inline struct sk_device_field sk_intel_first(int32_t call)
{
	return sk_device_absent(call, SK_DEVICE_FIRST);
}

/** A number times `factor`; -1 means that the driver does not know it. */
static inline struct sk_device_field sk_intel_known(int32_t call, int code, double value,
						    double factor)
{
	if (!code && value < 0)
		return sk_device_absent(call, SK_DEVICE_NOT_KNOWN);
	return sk_device_said(call, code, value * factor);
}

/** A temperature sensor, in C. */
struct sk_device_field sk_intel_degrees(struct sk_device_card *card, uint32_t sensor);

/** Implements `slow` of struct sk_device_vendor. */
void sk_intel_slow(struct sk_device_card *card, struct sk_device_record *record);

#endif
