/* SPDX-License-Identifier: Apache-2.0
 *
 * Evidence: what a placement by signals or scores read when it chose, of the chosen node and of the
 * next best. Invariant: evidence is a hint of this replica, kept in a table of fixed size; no
 * decision reads it.
 */
#ifndef SK_CORE_POLICY_EVIDENCE_H
#define SK_CORE_POLICY_EVIDENCE_H

#include "core/policy/hints.h"

/* A node that was compared, with the place of the task there and its score. */
struct sk_compared {
	uint32_t node; /* 0: none */
	const struct sk_place *place;
	uint64_t score;
};

/* True for the placements whose choice evidence can tell. */
bool sk_evidence_tells(enum sk_placement how);
/* True for those of them that compare nodes by nothing but a score, for which the next best is
 * sought among few nodes only. */
bool sk_evidence_scores(enum sk_placement how);

/* Keep what was read of the node that was taken and of the next best, called before the task is
 * placed; where a device of the node taken was nearer, that one is kept instead. */
void sk_evidence_keep(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		      struct sk_compared taken, struct sk_compared other);

#endif
