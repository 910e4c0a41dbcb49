/* SPDX-License-Identifier: Apache-2.0
 *
 * Typical requests: given by the operator, or found by counting submits. Fragmentation is measured
 * against them. Invariant: they change only by sk_core_workload, sk_core_workload_learn or after
 * every SK_CLASSES_EVERY submits, since a change voids all ratings.
 */
#ifndef SK_CORE_POLICY_WORKLOAD_H
#define SK_CORE_POLICY_WORKLOAD_H

#include "core/policy/hints.h"

/* Count a job that was submitted for good. */
void sk_workload_count(const struct sk_core *core, const struct sk_job *job);

/* Count all jobs of the state, the oldest first. */
void sk_workload_count_all(const struct sk_core *core);

/* Make the tables anew if they lack a device model of the state. */
void sk_workload_look(const struct sk_core *core);

/* True if any typical request for devices is known. */
static inline bool sk_workload_known(const struct sk_core *core)
{
	return core->hints->tables[SK_FRAG_DEFAULT].lanes != 0;
}

#endif
