/* SPDX-License-Identifier: Apache-2.0
 *
 * What one node would be for one task under each placement, and which of its
 * devices. Relied on by score.c, which keeps the ratings, and by policy.c.
 * Invariant: a rating depends on the job's shape, the node and what is
 * configured and observed, never on other nodes or on what was rated before.
 */
#ifndef SK_CORE_POLICY_RATE_H
#define SK_CORE_POLICY_RATE_H

#include "core/policy/hints.h"

/* The lowest is best; SK_SCORE_NONE where it does not fit now. Not looked at:
 * reservations, the company of groups and gangs, limits of queues. */
uint32_t sk_rate(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		 uint32_t node);

/* Fill the shares that the rating stands for; false where the node does not
 * fit. */
bool sk_rate_shares(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		    uint32_t node, struct sk_place *place);

/* Whether a placement has a second rating, that of SK_PLACEMENT_BEST, which
 * decides among equals. */
static inline bool sk_rate_twice(enum sk_placement how)
{
	return how == SK_PLACEMENT_POWER || how == SK_PLACEMENT_THERMAL;
}

/* Why this node was taken, before the task is: only what its rating read is named, and where there
 * was nothing to read the reason says so. */
uint16_t sk_rate_why(const struct sk_core *core, enum sk_placement how, uint32_t node,
		     struct sk_place *place);
/* An observation that was read; 0, and what is named already, adds nothing. */
void sk_rate_note(struct sk_place *place, uint64_t observation);

/* What is observed of a device, or NULL. */
const struct sk_sample *sk_sample_of(const struct sk_core *core, uint32_t node, uint32_t index);
/* Watts (in mW) that one more task on this device adds, by the model's table.
 */
uint32_t sk_device_adds_mw(const struct sk_core *core, uint32_t node, uint32_t index);

#endif
