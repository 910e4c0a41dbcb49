/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Launches that were promised a record and have none yet, by the ticket that each carries through
 * the vendor's profiler as its external correlation id.
 *
 * Relied on by launches.c, which takes tickets in any thread, and records.c, which settles them in
 * the thread that delivers. A ticket brings back when the call was made, and the oldest open one
 * tells the reader of the segment what it must still wait for.
 * Invariant: a ticket is open or settled, never both; one that is taken while the table is full is
 * 0 and its launch is not timed. What the profiler dropped is settled as lost, oldest first.
 * Threads: take is lock-free for any thread; the rest is for one thread at a time.
 */
#ifndef SK_ROCPROFILER_TICKETS_H
#define SK_ROCPROFILER_TICKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SK_TICKETS = 1 << 16, SK_TICKETS_MARGIN = 256 /* threads inside of take at once */ };

struct sk_ticket {
	_Atomic uint64_t state; /* 2 x number + 1: open, 2 x number + 2: settled */
	uint64_t queued_ns;
	_Atomic uint32_t call_ns;
	uint32_t tid;
};

struct sk_tickets {
	_Atomic uint64_t next; /* number of the next one */
	_Atomic uint64_t low;  /* all before it are settled */
	struct sk_ticket table[SK_TICKETS];
};

/** A ticket for a call made at `queued_ns` by thread `tid`: never 0, except when the table is full.
 */
uint64_t sk_tickets_take(struct sk_tickets *tickets, uint64_t queued_ns, uint32_t tid);

/** The call of the ticket has returned. */
void sk_tickets_returned(struct sk_tickets *tickets, uint64_t ticket, uint64_t now_ns);

/** The record is there. False for what is no open ticket; `ret` is then not written. */
bool sk_tickets_settle(struct sk_tickets *tickets, uint64_t ticket, struct sk_ticket *ret);

/** Settle up to `count` of the oldest open ones whose call was made before `before_ns`; the number
 * that were. */
uint64_t sk_tickets_lose(struct sk_tickets *tickets, uint64_t count, uint64_t before_ns);

/** When the oldest open call was made; 0: none is open. */
uint64_t sk_tickets_oldest(struct sk_tickets *tickets);

#endif
