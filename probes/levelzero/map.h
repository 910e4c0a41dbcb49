/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A map from handles of the driver to the tracer's values: a table of fixed size, open addressing.
 *
 * A full table refuses a handle; the tracer then counts launches with it and does not time them.
 * Memory: the caller's, zeroed; no allocation. Threads: one at a time, which has the tracer's lock.
 */
#ifndef SK_LEVELZERO_MAP_H
#define SK_LEVELZERO_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct sk_levelzero_entry {
	const void *handle; /* NULL: free */
	uint64_t value;
};

/* `size` is a power of two. */
struct sk_levelzero_map {
	struct sk_levelzero_entry *entries;
	uint32_t size;
	uint32_t count;
};

static inline uint32_t sk_levelzero_map_home(const struct sk_levelzero_map *map, const void *handle)
{
	return (uint32_t)((uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (map->size - 1);
}

static inline struct sk_levelzero_entry *sk_levelzero_map_find(const struct sk_levelzero_map *map,
							       const void *handle)
{
	uint32_t at = sk_levelzero_map_home(map, handle);

	for (; map->entries[at].handle; at = (at + 1) & (map->size - 1))
		if (map->entries[at].handle == handle)
			return &map->entries[at];
	return NULL;
}

/** Set or replace a value; false when the table is three quarters full. */
static inline bool sk_levelzero_map_set(struct sk_levelzero_map *map, const void *handle,
					uint64_t value)
{
	struct sk_levelzero_entry *found = sk_levelzero_map_find(map, handle);

	if (found) {
		found->value = value;
		return true;
	}
	if (!handle || map->count >= map->size / 4 * 3)
		return false;
	uint32_t at = sk_levelzero_map_home(map, handle);

	while (map->entries[at].handle)
		at = (at + 1) & (map->size - 1);
	map->entries[at] = (struct sk_levelzero_entry){handle, value};
	map->count++;
	return true;
}

static inline void sk_levelzero_map_remove(struct sk_levelzero_map *map, const void *handle)
{
	struct sk_levelzero_entry *found = sk_levelzero_map_find(map, handle);

	if (!found)
		return;
	uint32_t hole = (uint32_t)(found - map->entries), mask = map->size - 1;

	/* Entries behind the hole move up, unless they are at home between the hole and their
	 * place. */
	for (uint32_t at = (hole + 1) & mask; map->entries[at].handle; at = (at + 1) & mask) {
		uint32_t home = sk_levelzero_map_home(map, map->entries[at].handle);

		if (((at - home) & mask) < ((at - hole) & mask))
			continue;
		map->entries[hole] = map->entries[at];
		hole = at;
	}
	map->entries[hole].handle = NULL;
	map->count--;
}

#endif
