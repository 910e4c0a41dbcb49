/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger of one device, in milli-shares, and the two indexes that follow it. Invariants:
 * used <= capacity <= 1000, and free + used + unavailable = capacity. An up node is in free_whole
 * under its devices_free. It is in free_part under every amount from 1 to 999 that one of its
 * available devices has free. A down node is in neither.
 */
#ifndef SK_CORE_LEDGER_DEVICE_H
#define SK_CORE_LEDGER_DEVICE_H

#include "core/state/state.h"

static inline struct sk_device *sk_device_at(const struct sk_core *core, uint32_t node,
					     uint32_t index)
{
	uint32_t chunk = core->nodes[node].chunks[index / SK_CHUNK_DEVICES];

	return &core->chunks[chunk].devices[index % SK_CHUNK_DEVICES];
}

/* Milli that may still be given; 0 while the device is unavailable. */
static inline uint32_t sk_device_free(const struct sk_device *device)
{
	return device->available ? (uint32_t)(device->capacity - device->used) : 0;
}

static inline uint64_t sk_device_memory_free(const struct sk_device *device)
{
	return device->memory_bytes > device->memory_used
		       ? device->memory_bytes - device->memory_used
		       : 0;
}

/* The group of devices that a task with this wish needs together: a link, a NUMA node, or what is
 * in both; 0 if the device is in none. */
static inline uint32_t sk_device_group(const struct sk_device *device, uint32_t together)
{
	uint32_t link = together & SK_LINKED ? device->link : 0;
	uint32_t numa = together & SK_ONE_NUMA ? device->numa : 0;

	return (together & SK_LINKED && !link) || (together & SK_ONE_NUMA && !numa)
		       ? 0
		       : link << 16 | numa;
}

/* Replace the record, and keep counts and indexes. */
void sk_device_put(struct sk_core *core, uint32_t node, uint32_t index, struct sk_device device);

/* The lowest index with exactly this much free, or SK_NODE_DEVICES_MAX. */
uint32_t sk_device_with_free(const struct sk_core *core, uint32_t node, uint32_t milli,
			     uint32_t from);

/* The lowest class from `least` on under which one of the two indexes has the node; UINT32_MAX:
 * none. */
uint32_t sk_device_class(const struct sk_core *core, const struct sk_index *index, uint32_t node,
			 uint32_t least);

/* Sum what the devices of the node are, after one of them changed. */
void sk_devices_sum(struct sk_core *core, uint32_t node);
/* Drop a device that its node no longer reports, if no task holds it. */
void sk_device_forget(struct sk_core *core, uint32_t node, uint32_t index);

/* Enter or leave both indexes when the node goes up or down. */
void sk_devices_index(struct sk_core *core, uint32_t node);
void sk_devices_unindex(struct sk_core *core, uint32_t node);

#endif
