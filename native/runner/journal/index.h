/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Which slot an attempt has, lists of slots, and which attempts were acknowledged lately.
 *
 * Relied on by the fleet. Plain arrays of fixed size, everything in a few steps, no system call.
 */
#ifndef SK_INDEX_H
#define SK_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/table.h"

enum { SK_BUCKETS = 8192 };

/** A list of slots with removal in one step; taken from the end. */
struct sk_slot_list {
	uint16_t slot[SK_SLOTS_MAX];
	uint16_t place[SK_SLOTS_MAX]; /* position + 1, 0 if not in the list */
	uint32_t count;
};

void sk_list_add(struct sk_slot_list *list, uint32_t slot);
void sk_list_remove(struct sk_slot_list *list, uint32_t slot);

struct sk_index {
	struct sk_table *table;
	uint32_t used; /* slots in the index */
	int16_t bucket[SK_BUCKETS];
	int16_t next[SK_SLOTS_MAX];
	int32_t forgotten_bucket[SK_BUCKETS];
	int32_t forgotten_next[SK_FORGOTTEN];
};

/** Empty but for the acknowledged attempts that the table remembers. */
void sk_index_init(struct sk_index *index, struct sk_table *table);

void sk_index_add(struct sk_index *index, uint32_t slot);

/** Take a slot out and free it; unless it never started, its attempt is remembered. */
void sk_index_forget(struct sk_index *index, uint32_t slot);

/** Slot of an attempt, or -1. */
int sk_index_find(const struct sk_index *index, uint64_t job, uint32_t attempt);

/** Whether the attempt was acknowledged, as far back as SK_FORGOTTEN attempts. */
bool sk_index_is_forgotten(const struct sk_index *index, uint64_t job, uint32_t attempt);

#endif
