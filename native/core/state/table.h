/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots by hash. Chains go through the elements themselves, so that removal touches one cell and
 * nothing is ever rehashed. Invariant: the number of buckets is fixed at init, a power of two not
 * less than the slots.
 */
#ifndef SK_CORE_STATE_TABLE_H
#define SK_CORE_STATE_TABLE_H

#include "core/state/state.h"

/* The finalizer of splitmix64 (Steele, Lea, Flood 2014): every input bit reaches every other. */
static inline uint64_t sk_mix(uint64_t value)
{
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
	return value ^ (value >> 31);
}

static inline uint32_t sk_table_first(const struct sk_table *table, uint64_t hash)
{
	return table->buckets[hash & table->mask];
}

/* `chain` names the uint32_t hash link of the elements. */
void sk_table_insert(struct sk_core *core, struct sk_table *table, struct sk_chain chain,
		     uint64_t hash, uint32_t slot);
void sk_table_remove(struct sk_core *core, struct sk_table *table, struct sk_chain chain,
		     uint64_t hash, uint32_t slot);

#endif
