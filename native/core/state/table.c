/* SPDX-License-Identifier: Apache-2.0
 *
 * Hash chains: insertion is at the head, removal relinks the one cell that points to the element.
 */
#include "core/state/journal.h"
#include "core/state/table.h"

static uint32_t *hash_link(struct sk_chain chain, uint32_t slot)
{
	return (uint32_t *)((char *)chain.base + slot * chain.stride + chain.offset);
}

void sk_table_insert(struct sk_core *core, struct sk_table *table, struct sk_chain chain,
		     uint64_t hash, uint32_t slot)
{
	uint32_t *bucket = &table->buckets[hash & table->mask];

	SK_SET(core, *hash_link(chain, slot), *bucket);
	SK_SET(core, *bucket, slot);
}

void sk_table_remove(struct sk_core *core, struct sk_table *table, struct sk_chain chain,
		     uint64_t hash, uint32_t slot)
{
	uint32_t *cell = &table->buckets[hash & table->mask];

	while (*cell != slot)
		cell = hash_link(chain, *cell);
	SK_SET(core, *cell, *hash_link(chain, slot));
}
