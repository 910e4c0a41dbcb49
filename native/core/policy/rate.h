/* SPDX-License-Identifier: Apache-2.0
 *
 * Ratings: how good one node, and which of its devices, would be for one task under each placement.
 * Invariant: a rating depends on the shape of the job, the node, the configuration and
 * observations, never on other nodes or on earlier ratings.
 */
#ifndef SK_CORE_POLICY_RATE_H
#define SK_CORE_POLICY_RATE_H

#include "core/policy/hints.h"

/* The rating; the lowest is best, SK_SCORE_NONE if the task does not fit now. Reservations,
 * affinity and limits of queues are not considered. */
uint32_t sk_rate(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		 uint32_t node);

/* Fill the shares that the rating stands for; false if the node does not fit. */
bool sk_rate_shares(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		    uint32_t node, struct sk_place *place);

/* False if the task does not fit the node now; else the devices among which every placement
 * chooses. */
bool sk_rate_offers(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		    uint64_t *ret);
/* True if the task could take its devices from among these offered ones. */
bool sk_rate_suffices(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      uint64_t among);

/* True if a placement decides among equals by a second rating, that of SK_PLACEMENT_BEST. */
static inline bool sk_rate_twice(enum sk_placement how)
{
	return how == SK_PLACEMENT_POWER || how == SK_PLACEMENT_THERMAL ||
	       how == SK_PLACEMENT_FASTEST;
}

/* The reason why this node was taken, called before the task is. Only what its rating read is named
 * as an observation; if there was nothing to read, the reason says so. */
uint16_t sk_rate_why(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		     uint32_t node, struct sk_place *place);
/* Name the samples by which devices of the node were left out for a warning of their health. */
void sk_rate_note_warned(const struct sk_core *core, uint32_t node, struct sk_place *place);
/* Add an observation that was read; 0 and repeats are left out. */
void sk_rate_note(struct sk_place *place, uint64_t observation);

#endif
