/* SPDX-License-Identifier: Apache-2.0
 *
 * Insertion and removal take constant time.
 */
#include "core/state/journal.h"
#include "core/state/list.h"

void sk_list_insert(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t before, uint32_t slot)
{
	struct sk_link *link = sk_chain_link(chain, slot);
	uint32_t after = before ? sk_chain_link(chain, before)->next : list->first;

	SK_SET(core, link->prev, before);
	SK_SET(core, link->next, after);
	if (before)
		SK_SET(core, sk_chain_link(chain, before)->next, slot);
	else
		SK_SET(core, list->first, slot);
	if (after)
		SK_SET(core, sk_chain_link(chain, after)->prev, slot);
	else
		SK_SET(core, list->last, slot);
}

void sk_list_append(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t slot)
{
	sk_list_insert(core, list, chain, list->last, slot);
}

void sk_list_remove(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t slot)
{
	struct sk_link *link = sk_chain_link(chain, slot);

	if (link->prev)
		SK_SET(core, sk_chain_link(chain, link->prev)->next, link->next);
	else
		SK_SET(core, list->first, link->next);
	if (link->next)
		SK_SET(core, sk_chain_link(chain, link->next)->prev, link->prev);
	else
		SK_SET(core, list->last, link->prev);
	SK_SET(core, link->prev, 0);
	SK_SET(core, link->next, 0);
}
