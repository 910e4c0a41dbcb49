/* SPDX-License-Identifier: Apache-2.0
 *
 * Evidence: what a placement by signals read when it chose, of the chosen node and of the next
 * best. Invariant: evidence is a hint of this replica, kept in a table of fixed size; no decision
 * reads it.
 */
#ifndef SK_CORE_POLICY_EVIDENCE_H
#define SK_CORE_POLICY_EVIDENCE_H

#include "core/policy/hints.h"

/* Keep what was read for `place`, called before the task is placed. `other` is the place it would
 * have had on the next best node `other_node`, which is 0 if there was none; where a device of the
 * chosen node was nearer, that one is kept instead. */
void sk_evidence_keep(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		      uint32_t node, const struct sk_place *place, uint32_t other_node,
		      const struct sk_place *other);

#endif
