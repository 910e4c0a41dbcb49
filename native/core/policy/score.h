/* SPDX-License-Identifier: Apache-2.0
 *
 * Ratings of all nodes for each shape of request, kept from one decision to the next. Invariant:
 * every answer equals a rating of every node from scratch; sk_core_scores_check compares the two.
 */
#ifndef SK_CORE_POLICY_SCORE_H
#define SK_CORE_POLICY_SCORE_H

#include "core/policy/hints.h"

/* The ratings of this placement for such jobs as the nodes are now, by node slot, `hints->end` of
 * them. The lowest is best, SK_SCORE_NONE means that the task does not fit. They are valid until
 * something changes or two other shapes are used. */
const uint32_t *sk_score_all(const struct sk_core *core, const struct sk_job *job,
			     enum sk_placement how);

/* The slot with the lowest rating; among equals that with the lowest second rating, then the first;
 * 0 if no node fits. `second` may be NULL. */
uint32_t sk_score_least(const struct sk_hints *hints, const uint32_t *first,
			const uint32_t *second);

/* The number of nodes that fit. */
uint32_t sk_score_count(const struct sk_hints *hints, const uint32_t *scores);

#endif
