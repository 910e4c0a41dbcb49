/* SPDX-License-Identifier: Apache-2.0
 *
 * Links between slots of an array: the types of intrusive lists, and where an array keeps them.
 */
#ifndef SK_CORE_STATE_CHAIN_H
#define SK_CORE_STATE_CHAIN_H

#include <stddef.h>
#include <stdint.h>

struct sk_link {
	uint32_t prev;
	uint32_t next;
};

struct sk_list {
	uint32_t first;
	uint32_t last;
};

/* The place of the links of a list: `base` is the array, `stride` the size of an element, `offset`
 * the link in it. */
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

#endif
