/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of waiting jobs, between queues and within one. Between queues a job that the guarantee
 * of its queue covers goes first. Next is the job of the queue with the least share for its weight,
 * compared level by level from the root. The lowest slot decides between equals. Within a queue it
 * is the order of the pending list, which in the order FAIR changes with each start. Invariants:
 * all arithmetic is in integers; apply never uses an order.
 */
#ifndef SK_CORE_DECIDE_ORDER_H
#define SK_CORE_DECIDE_ORDER_H

#include "core/ledger/pending.h"

#define SK_LINE_TRIES_MAX 256u	/* jobs of one queue and kind that are tried without success */
#define SK_LINE_STEPS_MAX 1024u /* jobs behind a blocked one that are looked at */
#define SK_LINE_PICKS_MAX 64u	/* slots in which a job of one queue and kind is looked for */

/* The jobs of one queue and kind from `job` on are still to be tried; 0: none. */
struct sk_line {
	uint32_t job;
	uint32_t tries;
	uint32_t head; /* the first that did not fit, if it blocks those behind it */
	uint32_t last; /* the last that did not fit */
};

struct sk_waiting_queue {
	uint32_t queue;
	struct sk_line line[SK_QUEUE_KINDS];
};

/* The queues that have waiting jobs, by slot. */
struct sk_waiting_queues {
	uint32_t count;
	struct sk_waiting_queue at[SK_QUEUES_LIMIT_MAX + 2];
};

void sk_order_begin(const struct sk_core *core, struct sk_waiting_queues *waiting);
/* The next job to try and its line, or 0. */
uint32_t sk_order_next(const struct sk_core *core, struct sk_waiting_queues *waiting,
		       uint64_t now_ns, struct sk_line **line);
/* True if a job that does not fit holds up those behind it. In an order that backfills, a job that
 * could not start even if all others ended does not. */
bool sk_line_blocks(const struct sk_core *core, uint32_t job);
/* The first job before this one in its line that holds it up, or 0. */
uint32_t sk_line_head(const struct sk_core *core, uint32_t job);
/* The first job at or after `job` that the core itself may place, or 0. */
uint32_t sk_line_settle(const struct sk_core *core, uint32_t job);
/* Begin or end a round of decisions: what was tried before counts no more. */
void sk_order_round(const struct sk_core *core);
/* Have the job not looked at again in this round, where a start changes the order. */
void sk_line_tried(const struct sk_core *core, uint32_t job);
/* The job to look at behind this one, which was tried: `next` if it has not started, or if a start
 * changes no order, and otherwise the first that was not tried. */
uint32_t sk_line_on(const struct sk_core *core, uint32_t job, uint32_t next);
/* The first job to look at behind the one that holds up its line. */
uint32_t sk_line_behind(const struct sk_core *core, uint32_t head);
/* Go on in a line behind a job whose start has changed the order. The user's share counts for jobs
 * with and without devices, so both lines of the queue look anew for who is first. */
void sk_line_started(const struct sk_core *core, struct sk_line *line, uint32_t job);
/* True if the core itself may place `other`, which waits in the line of `job`. */
bool sk_line_has(const struct sk_core *core, uint32_t job, uint32_t other);
/* A job of the queue and kind of this one that `random` picks, or 0: so that each of a line comes
 * to be tried, however long the line is. */
uint32_t sk_line_pick(const struct sk_core *core, uint32_t job, uint64_t random);

/* Depth of the lowest queue, from that of the job up, whose guarantee covers the request beside
 * what is in use; 0: none does. */
uint32_t sk_covered_depth(const struct sk_core *core, const struct sk_job *job);

/* The share of a queue in the cluster, 2^30 being all: the largest of its shares of devices, CPU
 * and memory now in use, plus its decayed device time relative to that of the whole cluster in a
 * steady state. */
uint64_t sk_queue_share(const struct sk_core *core, uint32_t queue, uint64_t now_ns);

#endif
