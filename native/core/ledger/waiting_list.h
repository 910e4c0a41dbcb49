/* SPDX-License-Identifier: Apache-2.0
 *
 * The place where a job waits in its queue: one of two lists, and in it a line of its user where
 * the order is fair. For the pending jobs and for the users of such queues, which rely on the same
 * places.
 */
#ifndef SK_CORE_LEDGER_WAITING_LIST_H
#define SK_CORE_LEDGER_WAITING_LIST_H

#include "core/state/state.h"

static inline enum sk_queue_kind sk_queue_kind(const struct sk_job *job)
{
	return job->request.gpu_milli ? SK_QUEUE_DEVICE : SK_QUEUE_HOST;
}

static inline struct sk_pending *sk_pending_of(const struct sk_core *core, uint32_t queue,
					       enum sk_queue_kind kind)
{
	return &core->pending[(size_t)queue * SK_QUEUE_KINDS + kind];
}

/* True if the jobs of a level are grouped by users, so that a start changes the order. */
static inline bool sk_pending_by_user(const struct sk_core *core, uint32_t queue)
{
	return core->queues[queue].order == SK_ORDER_FAIR;
}

#endif
