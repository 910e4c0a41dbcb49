/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Parts that all functions of the simulated Level Zero share: handles, and the gate of each call.
 *
 * Invariant: between a begin that returned success and its end the node is locked.
 */
#ifndef SK_SIM_LEVELZERO_DRIVER_H
#define SK_SIM_LEVELZERO_DRIVER_H

#include <stdbool.h>

#include "sim/levelzero/abi.h"
#include "sim/node/node.h"

#ifdef SK_ZE_LOADER
#define SK_ZE_API __attribute__((visibility("default"))) uint32_t
#else
#define SK_ZE_API uint32_t
#endif

/** Parts of a card, which have handles. */
enum sk_ze_kind {
	SK_ZE_POWER,
	SK_ZE_FREQUENCY,   /* 0 GPU, 1 memory */
	SK_ZE_TEMPERATURE, /* 0 all, 1 GPU, 2 memory */
	SK_ZE_ENGINE,	   /* 0 all, 1 compute */
	SK_ZE_MEMORY,
	SK_ZE_RAS, /* 0 correctable, 1 uncorrectable */
	SK_ZE_FAN,
	SK_ZE_PORT,
	SK_ZE_KINDS,
};

/** Begin a call of a card; on success the node is locked. `out` is NULL if the caller made a
 * mistake. */
uint32_t sk_ze_begin(const char *function, void *device, const void *out, struct sk_sim_card **ret);
/** Begin a call of a part of a device, with its number in `index`. */
uint32_t sk_ze_begin_part(const char *function, void *part, enum sk_ze_kind kind, const void *out,
			  uint32_t *index, struct sk_sim_card **ret);
/** Begin a call of no card. */
uint32_t sk_ze_begin_all(const char *function, const void *out);
/** End a call; returns `result`. */
uint32_t sk_ze_end(uint32_t result);

/** Return the number of tiles with a power domain; 0 if the card has one domain. */
uint32_t sk_ze_power_tiles(const struct sk_sim_card *card);

/** Give handles of the first `have` parts of a kind, as every Enum call does. */
uint32_t sk_ze_enumerate(const char *function, void *device, enum sk_ze_kind kind, uint32_t *count,
			 void **ret);

/** Return whether the caller may change settings; the real files belong to root. */
bool sk_ze_may_set(void);
uint32_t sk_ze_init(const char *function, bool sysman);
uint32_t sk_ze_count(void);
struct sk_sim_card *sk_ze_card(uint32_t place);
uint32_t sk_ze_place(const struct sk_sim_card *card);
void *sk_ze_device(uint32_t place);
bool sk_ze_device_place(const void *device, uint32_t *ret);
void *sk_ze_driver(void);
struct sk_sim_node *sk_ze_node(void);
uint64_t sk_ze_now_us(void);

void sk_ze_uuid(const struct sk_sim_card *card, uint8_t ret[16]);
void sk_ze_core_properties(const struct sk_sim_card *card, struct sk_ze_device_properties *ret);
/** Find the record of this type in a chain of extensions, or NULL. */
void *sk_ze_extension(void *chain, uint32_t stype);

uint32_t zeDriverGet(uint32_t *count, void **ret);
uint32_t zeDeviceGet(void *driver, uint32_t *count, void **ret);

#endif
