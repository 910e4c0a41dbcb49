/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a job waits in its queue: in which of the two lists, and whether its user has a line of its
 * own there. For the pending jobs and for the users of fair queues, which rely on each other's
 * order.
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
