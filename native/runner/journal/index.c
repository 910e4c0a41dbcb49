/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/journal/index.h"

#include <string.h>

void sk_runner_list_add(struct sk_runner_slot_list *list, uint32_t slot)
{
	if (list->place[slot])
		return;
	list->slot[list->count++] = (uint16_t)slot;
	list->place[slot] = (uint16_t)list->count;
}

void sk_runner_list_remove(struct sk_runner_slot_list *list, uint32_t slot)
{
	uint32_t place = list->place[slot];
	uint16_t last;

	if (!place)
		return;
	last = list->slot[--list->count];
	list->slot[place - 1] = last;
	list->place[last] = (uint16_t)place;
	list->place[slot] = 0;
}

/** Return the chain of a name; a start of the same name from another placing is in the same one. */
static uint32_t bucket_of(const struct sk_runner_key *key)
{
	uint64_t hash = (key->job * 0x9e3779b97f4a7c15u) ^ (key->attempt * 0xff51afd7ed558ccdu) ^
			(key->task * 0xc4ceb9fe1a85ec53u);

	return (uint32_t)(hash >> 40) % SK_BUCKETS;
}

static uint32_t bucket_of_slot(const struct sk_runner_index *index, uint32_t slot)
{
	return bucket_of(&index->table->slot[slot].taken.key);
}

void sk_runner_index_add(struct sk_runner_index *index, uint32_t slot)
{
	uint32_t bucket = bucket_of_slot(index, slot);

	index->next[slot] = index->bucket[bucket];
	index->bucket[bucket] = (int16_t)slot;
	index->used++;
}

static void remove_slot(struct sk_runner_index *index, uint32_t slot)
{
	int16_t *at = &index->bucket[bucket_of_slot(index, slot)];

	while (*at != (int16_t)slot)
		at = &index->next[*at];
	*at = index->next[slot];
	index->used--;
}

int sk_runner_index_find(const struct sk_runner_index *index, const struct sk_runner_key *key)
{
	int16_t slot = index->bucket[bucket_of(key)];

	while (slot >= 0 && !sk_runner_key_equal(&index->table->slot[slot].taken.key, key))
		slot = index->next[slot];
	return slot;
}

int sk_runner_index_find_name(const struct sk_runner_index *index, const struct sk_runner_key *key)
{
	int16_t slot = index->bucket[bucket_of(key)];

	while (slot >= 0 && !sk_runner_same_name(&index->table->slot[slot].taken.key, key))
		slot = index->next[slot];
	return slot;
}

/** Add entry `place` of the ring of acknowledged attempts to its chain. */
static void forgotten_add(struct sk_runner_index *index, uint32_t place)
{
	const struct sk_runner_key *key = &index->table->forgotten[place];
	int32_t *bucket = &index->forgotten_bucket[bucket_of(key)];

	index->forgotten_next[place] = *bucket;
	*bucket = (int32_t)place;
}

static void forgotten_remove(struct sk_runner_index *index, uint32_t place)
{
	const struct sk_runner_key *key = &index->table->forgotten[place];
	int32_t *at = &index->forgotten_bucket[bucket_of(key)];

	while (*at >= 0 && *at != (int32_t)place)
		at = &index->forgotten_next[*at];
	if (*at >= 0)
		*at = index->forgotten_next[place];
}

bool sk_runner_index_is_forgotten(const struct sk_runner_index *index,
				  const struct sk_runner_key *key)
{
	int32_t place = index->forgotten_bucket[bucket_of(key)];

	while (place >= 0 && !sk_runner_key_equal(&index->table->forgotten[place], key))
		place = index->forgotten_next[place];
	return place >= 0;
}

void sk_runner_index_init(struct sk_runner_index *index, struct sk_runner_table *table)
{
	uint64_t count = atomic_load_explicit(&table->forgotten_count, memory_order_acquire);
	uint32_t filled = count < SK_FORGOTTEN ? (uint32_t)count : SK_FORGOTTEN;

	index->table = table;
	index->used = 0;
	memset(index->bucket, 0xff, sizeof(index->bucket));
	memset(index->forgotten_bucket, 0xff, sizeof(index->forgotten_bucket));
	for (uint32_t i = 0; i < filled; i++)
		forgotten_add(index, i);
}

void sk_runner_index_forget(struct sk_runner_index *index, uint32_t slot)
{
	struct sk_runner_table *table = index->table;
	uint64_t count = atomic_load_explicit(&table->forgotten_count, memory_order_relaxed);
	bool remembered = table->slot[slot].ended.cause != SK_CAUSE_NEVER_STARTED;

	remove_slot(index, slot);
	if (remembered && count >= SK_FORGOTTEN)
		forgotten_remove(index, (uint32_t)(count % SK_FORGOTTEN));
	sk_runner_slot_forget(table, slot);
	if (remembered)
		forgotten_add(index, (uint32_t)(count % SK_FORGOTTEN));
}
