/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Handles of the driver to what is known of them: a table of fixed size, open addressing.
 *
 * Relied on by the parts of the Level Zero tracer, under its lock. A full table refuses, and what
 * it refuses is not known: the tracer then counts and does not time.
 * Memory: the caller's, zeroed. Cost: no allocation.
 */
#ifndef SK_LEVELZERO_MAP_H
#define SK_LEVELZERO_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct sk_ze_entry {
	const void *handle; /* NULL: free */
	uint64_t value;
};

/* `size` is a power of two. */
struct sk_ze_map {
	struct sk_ze_entry *entries;
	uint32_t size;
	uint32_t count;
};

static inline uint32_t sk_ze_map_home(const struct sk_ze_map *map, const void *handle)
{
	return (uint32_t)((uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (map->size - 1);
}

static inline struct sk_ze_entry *sk_ze_map_find(const struct sk_ze_map *map, const void *handle)
{
	uint32_t at = sk_ze_map_home(map, handle);

	for (; map->entries[at].handle; at = (at + 1) & (map->size - 1))
		if (map->entries[at].handle == handle)
			return &map->entries[at];
	return NULL;
}

/** Set or replace; false when the table is three quarters full. */
static inline bool sk_ze_map_set(struct sk_ze_map *map, const void *handle, uint64_t value)
{
	struct sk_ze_entry *found = sk_ze_map_find(map, handle);

	if (found) {
		found->value = value;
		return true;
	}
	if (!handle || map->count >= map->size / 4 * 3)
		return false;
	uint32_t at = sk_ze_map_home(map, handle);

	while (map->entries[at].handle)
		at = (at + 1) & (map->size - 1);
	map->entries[at] = (struct sk_ze_entry){handle, value};
	map->count++;
	return true;
}

static inline void sk_ze_map_remove(struct sk_ze_map *map, const void *handle)
{
	struct sk_ze_entry *found = sk_ze_map_find(map, handle);

	if (!found)
		return;
	uint32_t hole = (uint32_t)(found - map->entries), mask = map->size - 1;

	/* What follows moves up unless it is at home between the hole and itself. */
	for (uint32_t at = (hole + 1) & mask; map->entries[at].handle; at = (at + 1) & mask) {
		uint32_t home = sk_ze_map_home(map, map->entries[at].handle);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		map->entries[hole] = map->entries[at];
		hole = at;
	}
	map->entries[hole].handle = NULL;
	map->count--;
}

#endif
