/* SPDX-License-Identifier: Apache-2.0
 *
 * Ratings of all nodes for each shape of request, kept from one decision to the
 * next. Relied on by policy.c, and by whoever changes a node, through journal.h
 * and device.c. Invariant: what is answered equals a rating of every node from
 * scratch; sk_core_scores_check compares the two.
 */
#ifndef SK_CORE_POLICY_SCORE_H
#define SK_CORE_POLICY_SCORE_H

#include "core/policy/hints.h"

/* The ratings by node slot of this placement for such jobs as they are now,
 * `hints->end` of them; the lowest is best, SK_SCORE_NONE where it does not fit.
 * Good until something changes or two other shapes were asked for. */
const uint32_t *sk_score_all(const struct sk_core *core, const struct sk_job *job,
			     enum sk_placement how);

/* The slot with the lowest rating, of equals the one with the lowest second
 * rating, of equals the first; 0 where no node fits. `second` may be NULL. */
uint32_t sk_score_least(const struct sk_hints *hints, const uint32_t *first,
			const uint32_t *second);

/* Nodes that fit. */
uint32_t sk_score_count(const struct sk_hints *hints, const uint32_t *scores);

#endif
