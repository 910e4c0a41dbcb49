/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes: identity, totals, and whether anything may be placed there. Invariants: a slot is in use
 * exactly if its bit is set; an up node is indexed.
 */
#ifndef SK_CORE_LEDGER_NODE_H
#define SK_CORE_LEDGER_NODE_H

#include "core/state/state.h"

/* The slot, or 0. */
uint32_t sk_node_find(const struct sk_core *core, uint64_t id);
/* Create a down, empty node in the lowest free slot; 0 if there is none. */
uint32_t sk_node_create(struct sk_core *core, uint64_t id);
/* Create a node in a given free slot, when a state is restored. */
void sk_node_create_at(struct sk_core *core, uint32_t slot, uint64_t id);
/* Remove a node that is down and has no tasks. */
/* The label with the lowest cost, or NULL. */
const struct sk_label *sk_node_cost(const struct sk_node *node);
void sk_node_remove(struct sk_core *core, uint32_t node);
void sk_node_set_up(struct sk_core *core, uint32_t node, bool up, uint16_t reason);
/* Make room for `devices` indexes; false if the limit of devices is reached. */
bool sk_node_grow(struct sk_core *core, uint32_t node, uint16_t devices);
/* The node in use at or after this slot, or 0. */
uint32_t sk_node_next(const struct sk_core *core, uint32_t slot);

/* Unreserved amounts; 0 if a node came back smaller than what is reserved. */
static inline uint64_t sk_node_cpu_free(const struct sk_node *node)
{
	return node->cpu > node->cpu_used ? node->cpu - node->cpu_used : 0;
}

static inline uint64_t sk_node_memory_free(const struct sk_node *node)
{
	return node->memory > node->memory_used ? node->memory - node->memory_used : 0;
}

#endif
