/* SPDX-License-Identifier: Apache-2.0
 *
 * Which devices within one node. Relied on by the policies, which choose the node. A share goes to
 * the device with the least room that suffices. Whole devices are taken from the closest group
 * that has enough, and among such groups from the one with the fewest free, so that large groups
 * stay whole; ties go to the lowest index.
 */
#ifndef SK_CORE_POLICY_SUBSET_H
#define SK_CORE_POLICY_SUBSET_H

#include "core/state/state.h"

/* Fill shares of a task of this job on this node; false where its devices do not do now. */
bool sk_subset_choose(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      struct sk_place *place);

/* The same among these devices of it only. */
bool sk_subset_choose_among(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t among, struct sk_place *place);

#endif
