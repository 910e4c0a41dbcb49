/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots of an array, given and taken back. Relied on by jobs, tasks, keys and device chunks.
 * Slots never used are counted, not listed, so that init touches no element's memory.
 */
#ifndef SK_CORE_STATE_POOL_H
#define SK_CORE_STATE_POOL_H

#include "core/state/state.h"

/* A zeroed slot, or 0 where all are taken. `chain` names the elements' uint32_t free link. */
uint32_t sk_pool_take(struct sk_core *core, struct sk_pool *pool, struct sk_chain chain);
void sk_pool_give(struct sk_core *core, struct sk_pool *pool, struct sk_chain chain, uint32_t slot);

#endif
