/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending jobs of each queue by level and id. A queue has two lists, one for jobs that request
 * devices and one for the others, so that the latter never wait for a device. Invariant: the level
 * of a job is fixed while it is queued. It is its priority, or, for the orders by time, a
 * logarithmic class of that time, four to a factor of two.
 */
#ifndef SK_CORE_LEDGER_PENDING_H
#define SK_CORE_LEDGER_PENDING_H

#include "core/ledger/waiting_list.h"

/* True if two orders use the same levels, so that jobs may stay where they are. */
bool sk_pending_same_levels(uint16_t a, uint16_t b);
/* True if a job that does not fit holds up all behind it; in other orders some may overtake. */
static inline bool sk_pending_blocks(uint16_t order)
{
	return order == SK_ORDER_FIFO || order == SK_ORDER_BACKFILL ||
	       order == SK_ORDER_CONSERVATIVE || order == SK_ORDER_FAIR;
}

/* The level that this job has in its queue now; 0 goes first. */
uint16_t sk_pending_level(const struct sk_core *core, const struct sk_job *job);
/* The level of a time. */
uint16_t sk_pending_time_level(uint64_t ns);

/* Insert behind all jobs of its level that have smaller ids. */
void sk_pending_append(struct sk_core *core, uint32_t job);
void sk_pending_remove(struct sk_core *core, uint32_t job);
/* The first job of a queue, or 0. */
uint32_t sk_pending_first(const struct sk_core *core, uint32_t queue, enum sk_queue_kind kind);
/* The job of the same queue and kind that comes after this one as things are, or 0. */
uint32_t sk_pending_next(const struct sk_core *core, uint32_t job);

#endif
