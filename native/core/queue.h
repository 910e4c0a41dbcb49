/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending jobs: strict priority, FIFO within one. Two queues, one for jobs that ask for devices
 * and one for those that ask for none, so that the latter never wait for a device. Relied on by
 * job.c and policy.c. Within a priority the order is that of job ids.
 */
#ifndef STOKER_CORE_QUEUE_H
#define STOKER_CORE_QUEUE_H

#include "core/state.h"

static inline enum sk_queue_kind sk_queue_kind(const struct sk_job *job)
{
	return job->gpu_milli ? SK_QUEUE_DEVICE : SK_QUEUE_HOST;
}

void sk_queue_append(struct sk_core *core, uint32_t job);
void sk_queue_remove(struct sk_core *core, uint32_t job);
/* The job of the highest rank, or 0. */
uint32_t sk_queue_head(const struct sk_core *core, enum sk_queue_kind kind);
/* The job that comes after this one, or 0. */
uint32_t sk_queue_next(const struct sk_core *core, uint32_t job);

#endif
