/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Tickets of launches that have no record yet. A launch carries its ticket through the vendor's
 * profiler as external correlation id.
 *
 * launches.c takes tickets in any thread, and records.c settles them in the thread that delivers. A
 * ticket brings back when the call was made, and the oldest open one tells the reader of the
 * segment what to wait for. Invariant: a ticket is open or settled, never both. When the table is
 * full the ticket is 0 and the launch is not timed. Records that the profiler dropped are settled
 * as lost, oldest first.
 *
 * Memory: the caller's, zeroed. Threads: any thread may take, without a lock; the other functions
 * are called by one thread at a time.
 */
#ifndef SK_ROCPROFILER_TICKETS_H
#define SK_ROCPROFILER_TICKETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SK_ROCP_TICKETS = 1 << 16,
	SK_ROCP_TICKETS_MARGIN = 256 /* threads that are inside of take at once */
};

struct sk_rocp_ticket {
	_Atomic uint64_t state; /* 2 x number + 1: open; 2 x number + 2: settled */
	uint64_t queued_ns;
	_Atomic uint32_t call_ns;
	uint32_t tid;
};

struct sk_rocp_tickets {
	_Atomic uint64_t next; /* number of the next ticket */
	_Atomic uint64_t low;  /* all tickets before it are settled */
	struct sk_rocp_ticket table[SK_ROCP_TICKETS];
};

/** Take a ticket for a call made at `queued_ns` by thread `tid`. It is never 0, except when the
 * table is full. */
uint64_t sk_rocp_tickets_take(struct sk_rocp_tickets *tickets, uint64_t queued_ns, uint32_t tid);

/** Note that the ticket's call has returned. */
void sk_rocp_tickets_returned(struct sk_rocp_tickets *tickets, uint64_t ticket, uint64_t now_ns);

/** Settle a ticket: its record has come. False when the ticket is not open; `ret` is not written
 * then. */
bool sk_rocp_tickets_settle(struct sk_rocp_tickets *tickets, uint64_t ticket,
			    struct sk_rocp_ticket *ret);

/** Settle, as lost, up to `count` of the oldest open tickets whose call was made before
 * `before_ns`. Returns how many. */
uint64_t sk_rocp_tickets_lose(struct sk_rocp_tickets *tickets, uint64_t count, uint64_t before_ns);

/** Return when the oldest open ticket's call was made; 0: none is open. */
uint64_t sk_rocp_tickets_oldest(struct sk_rocp_tickets *tickets);

#endif
