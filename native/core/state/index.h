/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes by class (number of free devices, amount of free milli): one bitmap of node slots per
 * class. Best fit is the first bit of the lowest class that suffices, so the order does not depend
 * on history. device.c keeps the index and policy.c reads it.
 */
#ifndef SK_CORE_STATE_INDEX_H
#define SK_CORE_STATE_INDEX_H

#include "core/state/state.h"

void sk_index_add(struct sk_core *core, struct sk_index *index, uint32_t class, uint32_t slot);
void sk_index_remove(struct sk_core *core, struct sk_index *index, uint32_t class, uint32_t slot);
bool sk_index_has(const struct sk_index *index, uint32_t class, uint32_t slot);

/* The next (class, slot) at or after the given one; false at the end. */
bool sk_index_next(const struct sk_index *index, uint32_t *class, uint32_t *slot);

/* The lowest bit at or after `from` among `words` words, or words * 64. */
uint32_t sk_bits_next(const uint64_t *bits, uint32_t words, uint32_t from);

#endif
