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

/* Find the domains of all nodes for the levels of these ranks. */
void sk_level_domains(const struct sk_core *core, const struct sk_request *request, uint32_t ranks);

/* A node of the domain with least room after this one, so that a small gang leaves large domains
 * whole; 0: there are no more. Begin with 0. */
uint32_t sk_level_next(const struct sk_core *core, uint32_t domain);

/* Device milli, or milli of processors for a job without devices, that the domain of this node had
 * free. */
uint64_t sk_level_room(const struct sk_core *core, uint32_t domain);

#endif
