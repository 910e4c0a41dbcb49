/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot is recorded whole when it is taken and again when it is given back, because a slot given
 * back may be taken by another owner within one propose.
 */
#include <string.h>

#include "core/state/journal.h"
#include "core/state/pool.h"

static void *pool_element(struct sk_chain chain, uint32_t slot)
{
	return (char *)chain.base + slot * chain.stride;
}

static uint32_t *pool_link(struct sk_chain chain, uint32_t slot)
{
	return (uint32_t *)((char *)pool_element(chain, slot) + chain.offset);
}

uint32_t sk_pool_take(struct sk_core *core, struct sk_pool *pool, struct sk_chain chain)
{
	uint32_t slot = pool->free_first;

	if (slot) {
		SK_SET(core, pool->free_first, *pool_link(chain, slot));
	} else if (pool->fresh < pool->end) {
		slot = pool->fresh;
		SK_ADD(core, pool->fresh, 1);
	} else {
		return 0;
	}
	SK_ADD(core, pool->used, 1);
	sk_journal_note(core, pool_element(chain, slot), chain.stride);
	memset(pool_element(chain, slot), 0, chain.stride);
	return slot;
}

void sk_pool_give(struct sk_core *core, struct sk_pool *pool, struct sk_chain chain, uint32_t slot)
{
	sk_journal_note(core, pool_element(chain, slot), chain.stride);
	memset(pool_element(chain, slot), 0, chain.stride);
	*pool_link(chain, slot) = pool->free_first;
	SK_SET(core, pool->free_first, slot);
	SK_ADD(core, pool->used, -1u);
}
