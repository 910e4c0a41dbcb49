/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of a node and of devices: the only choices in the core. Each placement is a rating of
 * nodes (rate.h), of which the lowest wins; ties go to the lowest node slot and device index.
 * SK_PLACEMENT_BINPACK uses the indexes of free amounts. A fraction goes onto the most used device
 * that still fits. A task of whole devices goes to the node with the fewest free ones that suffice,
 * and a task without devices to the least busy of a few nodes. Invariant: apply never chooses.
 */
#ifndef SK_CORE_POLICY_POLICY_H
#define SK_CORE_POLICY_POLICY_H

#include "core/ledger/task.h"

/* The placement that applies to this job: its own, its queue's or that of a queue above. */
enum sk_placement sk_policy_placement(const struct sk_core *core, const struct sk_job *job);

/* Fill node, shares, reason, candidates and observations for one task of this job; false if it fits
 * nowhere now. */
bool sk_policy_choose(const struct sk_core *core, uint32_t job, uint64_t now_ns, uint64_t seed,
		      struct sk_place *place);

/* True if the job can be placed only once a choice for it is there. */
bool sk_policy_lacks_choice(const struct sk_core *core, const struct sk_job *job);

#endif
