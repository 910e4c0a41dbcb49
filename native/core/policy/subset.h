/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of devices within one node. A share goes to the device with the least room that
 * suffices. Whole devices are taken from the closest group that has enough, and among such groups
 * from the one with the fewest free, so that large groups stay whole. Invariant: ties go to the
 * lowest index.
 */
#ifndef SK_CORE_POLICY_SUBSET_H
#define SK_CORE_POLICY_SUBSET_H

#include "core/state/state.h"

/* Fill the shares of a task of this job on this node; false if its devices do not suffice now. */
bool sk_subset_choose(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      struct sk_place *place);

/* Chooses as sk_subset_choose does, among the devices of a mask only. */
bool sk_subset_choose_among(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t among, struct sk_place *place);

#endif
