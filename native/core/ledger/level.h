/* SPDX-License-Identifier: Apache-2.0
 *
 * Levels of the topology: the keys of node labels, such as rack. Nodes with one label of a key are
 * a domain of that level. Choices, refusals and explanations of gangs that stay within a domain
 * rely on it. Invariant: the domains that were made are scratch; no state depends on them.
 */
#ifndef SK_CORE_LEDGER_LEVEL_H
#define SK_CORE_LEDGER_LEVEL_H

#include "core/state/state.h"

/* The label of a node by which it belongs to a domain of this level; 0: it has none. Taints and
 * costs do not count. */
uint64_t sk_level_label(const struct sk_node *node, uint64_t level);

/* True if two nodes are in one domain of every level that the request names with one of these
 * ranks, as bits. */
bool sk_level_same(const struct sk_core *core, const struct sk_request *request, uint32_t ranks,
		   uint32_t node, uint32_t other);

/* True if a task of the job may go on this node beside those that were placed before, as far as
 * levels decide. */
bool sk_level_joins(const struct sk_core *core, const struct sk_job *job, uint32_t node);

/* The first level that the request requires; 0: none. */
uint64_t sk_level_required(const struct sk_request *request);

/* Forget the domains that were found. */
void sk_level_begin(const struct sk_core *core);

/* Put the node into its domain for the levels of these ranks. Returns the domain, which is its
 * first node; 0: the node lacks a label. Nodes come in the order of their slots. */
uint32_t sk_level_enter(const struct sk_core *core, const struct sk_request *request,
			uint32_t ranks, uint32_t node);

/* The sum that is kept for this domain. */
static inline uint64_t *sk_level_room(const struct sk_core *core, uint32_t domain)
{
	return &core->domains->room[domain];
}

/* Find the domains of all nodes for the levels of these ranks. Only domains with so much room stay:
 * milli of devices, or of processors for a job without devices, which are free. */
void sk_level_domains(const struct sk_core *core, const struct sk_request *request, uint32_t ranks,
		      uint64_t least);

/* Take out the domain with least room, so that a small gang leaves large domains whole; 0: there
 * are no more. */
uint32_t sk_level_take(const struct sk_core *core);

/* The first node, and the one after another, of the domain that was found; of all nodes if it is
 * 0. */
uint32_t sk_level_first(const struct sk_core *core, uint32_t domain);
uint32_t sk_level_after(const struct sk_core *core, uint32_t domain, uint32_t node);

#endif
