/* SPDX-License-Identifier: Apache-2.0
 *
 * Slots of an array, taken and given back. Invariant: slots never used are counted, not listed, so
 * that init touches no memory of the elements.
 */
#ifndef SK_CORE_STATE_POOL_H
#define SK_CORE_STATE_POOL_H

#include "core/state/state.h"

/* A zeroed slot, or 0 if all are taken. `chain` names the uint32_t free link of the elements. */
uint32_t sk_pool_take(struct sk_core *core, struct sk_pool *pool, struct sk_chain chain);
void sk_pool_give(struct sk_core *core, struct sk_pool *pool, struct sk_chain chain, uint32_t slot);

#endif
