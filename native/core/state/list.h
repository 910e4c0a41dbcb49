/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked lists of slots. Invariant: every write goes through the journal, so that
 * an undo restores a list.
 */
#ifndef SK_CORE_STATE_LIST_H
#define SK_CORE_STATE_LIST_H

#include "core/state/state.h"

void sk_list_append(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t slot);
/* Insert after `before`, or first if that is 0. */
void sk_list_insert(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t before, uint32_t slot);
void sk_list_remove(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t slot);

#endif
