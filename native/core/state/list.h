/* SPDX-License-Identifier: Apache-2.0
 *
 * Intrusive doubly linked lists of slots. Relied on by jobs, tasks, keys and queues. Invariant:
 * every write goes through the journal, so that a list is as before after an undo.
 */
#ifndef STOKER_CORE_LIST_H
#define STOKER_CORE_LIST_H

#include <stddef.h>
#include <stdint.h>

struct sk_core;

struct sk_link {
	uint32_t prev;
	uint32_t next;
};

struct sk_list {
	uint32_t first;
	uint32_t last;
};

/* Where the links of a list live: `base` is the array, `stride` its element, `offset` the link. */
struct sk_chain {
	void *base;
	size_t stride;
	size_t offset;
};

#define SK_CHAIN(array, member)                                                                    \
	((struct sk_chain){(array), sizeof *(array),                                               \
			   (size_t)((char *)&(array)->member - (char *)(array))})

static inline struct sk_link *sk_chain_link(struct sk_chain chain, uint32_t slot)
{
	return (struct sk_link *)((char *)chain.base + slot * chain.stride + chain.offset);
}

void sk_list_append(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t slot);
/* After `before`, or first where that is 0. */
void sk_list_insert(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t before, uint32_t slot);
void sk_list_remove(struct sk_core *core, struct sk_list *list, struct sk_chain chain,
		    uint32_t slot);

#endif
