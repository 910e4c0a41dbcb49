/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The index of the journal: slot by attempt, lists of slots, recently acknowledged attempts.
 *
 * It consists of plain arrays of fixed size; every operation takes a few steps and no system call.
 */
#ifndef SK_RUNNER_JOURNAL_INDEX_H
#define SK_RUNNER_JOURNAL_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/table.h"

enum { SK_BUCKETS = 8192 };

/** A list of slots, taken from the end, with removal in one step. */
struct sk_runner_slot_list {
	uint16_t slot[SK_SLOTS_MAX];
	uint16_t place[SK_SLOTS_MAX]; /* position + 1, 0 if not in the list */
	uint32_t count;
};

void sk_runner_list_add(struct sk_runner_slot_list *list, uint32_t slot);
void sk_runner_list_remove(struct sk_runner_slot_list *list, uint32_t slot);

struct sk_runner_index {
	struct sk_runner_table *table;
	uint32_t used; /* slots in the index */
	int16_t bucket[SK_BUCKETS];
	int16_t next[SK_SLOTS_MAX];
	int32_t forgotten_bucket[SK_BUCKETS];
	int32_t forgotten_next[SK_FORGOTTEN];
};

/** Make an empty index that knows only the acknowledged attempts of the table. */
void sk_runner_index_init(struct sk_runner_index *index, struct sk_runner_table *table);

void sk_runner_index_add(struct sk_runner_index *index, uint32_t slot);

/** Remove a slot and free it. Its attempt is remembered unless it never started. */
void sk_runner_index_forget(struct sk_runner_index *index, uint32_t slot);

/** Return the slot of a task's attempt, or -1. */
int sk_runner_index_find(const struct sk_runner_index *index, const struct sk_runner_key *key);

/** Return the slot of an attempt of this name, whatever placed it, or -1. */
int sk_runner_index_find_name(const struct sk_runner_index *index, const struct sk_runner_key *key);

/** Return whether the attempt is among the last SK_FORGOTTEN acknowledged ones. */
bool sk_runner_index_is_forgotten(const struct sk_runner_index *index,
				  const struct sk_runner_key *key);

#endif
