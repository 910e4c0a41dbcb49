/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is next: among the queues, and within one. Relied on by propose.c and preempt.c, never by
 * apply. Between queues a job that its queue's guarantee covers goes first; then the queue with the
 * least share for its weight, compared level by level from the root; then the lowest slot. Within
 * a queue it is the pending list's order. Integers only.
 */
#ifndef SK_CORE_DECIDE_ORDER_H
#define SK_CORE_DECIDE_ORDER_H

#include "core/ledger/pending.h"

#define SK_LINE_TRIES_MAX 256u /* jobs of one queue and kind that are looked at in vain */

/* The jobs of one queue and kind from `job` on are still to be looked at; 0: none. */
struct sk_line {
	uint32_t job;
	uint32_t tries;
	uint32_t head; /* the first that did not fit */
};

struct sk_waiting_queue {
	uint32_t queue;
	struct sk_line line[SK_QUEUE_KINDS];
};

/* The queues that have anybody waiting, by slot. */
struct sk_waiting_queues {
	uint32_t count;
	struct sk_waiting_queue at[SK_QUEUES_LIMIT_MAX + 2];
};

void sk_order_begin(const struct sk_core *core, struct sk_waiting_queues *waiting);
/* The next job to look at and its line, or 0. */
uint32_t sk_order_next(const struct sk_core *core, struct sk_waiting_queues *waiting,
		       uint64_t now_ns, struct sk_line **line);
/* Whether a job that does not fit holds up those behind it. Where others may be backfilled, one
 * that could not start as things are, whoever ended, does not. */
bool sk_line_blocks(const struct sk_core *core, uint32_t job);
/* The first job before this one in its line that holds it up, or 0. */
uint32_t sk_line_head(const struct sk_core *core, uint32_t job);
/* The first at or after `job` that the core itself may place, or 0. */
uint32_t sk_line_settle(const struct sk_core *core, uint32_t job);

/* Depth of the lowest queue, from the job's own up, whose guarantee covers all that the job asks
 * for beside what is held; 0: none does. */
uint32_t sk_covered_depth(const struct sk_core *core, const struct sk_job *job);

/* A queue's share of the cluster, 2^30 being all: the largest of its shares of devices, CPU and
 * memory now held, and its decayed device time against the whole cluster's in a steady state. */
uint64_t sk_queue_share(const struct sk_core *core, uint32_t queue, uint64_t now_ns);

#endif
