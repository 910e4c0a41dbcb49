/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Partition of a card into instances: their sizes, their places, and free places.
 *
 * Sizes and places are those of NVIDIA's MIG user guide for A100 and H200 (nvidia-smi mig -lgip and
 * -lgipp). Invariant: no two instances of a card share a slice of its memory.
 */
#ifndef SK_SIM_CARD_PARTITION_H
#define SK_SIM_CARD_PARTITION_H

#include "sim/card/card.h"

enum {
	SK_SIM_SLICES = 7,
	SK_SIM_MEMORY_SLICES = 8,
	SK_SIM_SIZES = 5,
	SK_SIM_PLACES = 7, /* largest number of places of one size */
};

/** One size, in the order of NVML_GPU_INSTANCE_PROFILE_*. */
struct sk_sim_size {
	uint32_t slices, memory_slices;
	uint32_t id; /* as nvidia-smi numbers it */
	uint32_t decoders;
	uint32_t places;
	uint8_t place[SK_SIM_PLACES]; /* first memory slice */
};

extern const struct sk_sim_size sk_sim_sizes[SK_SIM_SIZES];

/** Return an instance's index in sk_sim_sizes, by the name of its profile. */
uint32_t sk_sim_size_of(const struct sk_sim_partition *partition);

/** Resources of an instance of this size on this card. */
uint32_t sk_sim_size_units(const struct sk_sim_model *model, uint32_t size);
uint64_t sk_sim_size_bytes(const struct sk_sim_model *model, uint32_t size);
uint32_t sk_sim_size_gb(const struct sk_sim_model *model,
			uint32_t size); /* memory in the profile's name */

/** Return whether an instance of this size fits there now. */
bool sk_sim_partition_fits(const struct sk_sim_card *card, uint32_t size, uint32_t start);

/** Number of instances of this size that still fit. */
uint32_t sk_sim_partition_room(const struct sk_sim_card *card, uint32_t size);

/** Place that the driver would choose: the last free one. -ENOSPC. */
int sk_sim_partition_place(const struct sk_sim_card *card, uint32_t size, uint32_t *ret);

/** Make an instance at a place, without a compute instance; returns its slot. -ENOSPC. */
int sk_sim_partition_make(struct sk_sim_card *card, uint32_t size, uint32_t start);

/** Return whether a process runs in it. */
bool sk_sim_partition_busy(const struct sk_sim_card *card, const struct sk_sim_partition *at);

#endif
