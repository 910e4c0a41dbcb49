/* SPDX-License-Identifier: Apache-2.0
 *
 * Which requests are typical: given by the operator, or found by counting what
 * was submitted. Relied on by rate.c, whose fragmentation is measured against
 * them. Invariant: they change only by sk_core_workload or after every
 * SK_CLASSES_EVERY submits, since a change voids all ratings.
 */
#ifndef SK_CORE_POLICY_WORKLOAD_H
#define SK_CORE_POLICY_WORKLOAD_H

#include "core/policy/hints.h"

/* A job was submitted for good. */
void sk_workload_count(const struct sk_core *core, const struct sk_job *job);

/* Make the tables anew if there are device models that they do not know yet. */
void sk_workload_look(const struct sk_core *core);

/* Whether any typical request for devices is known. */
static inline bool sk_workload_known(const struct sk_core *core)
{
	return core->hints->tables[SK_FRAG_DEFAULT].lanes != 0;
}

#endif
