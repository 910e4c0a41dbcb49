/* SPDX-License-Identifier: Apache-2.0 */
/* The table of open tickets: a ring by number, whose tickets are settled in any order. */
#include "tickets.h"

#include "tracer/clock.h"

static struct sk_rocp_ticket *place(struct sk_rocp_tickets *tickets, uint64_t number)
{
	return &tickets->table[number % SK_ROCP_TICKETS];
}

uint64_t sk_rocp_tickets_take(struct sk_rocp_tickets *tickets, uint64_t queued_ns, uint32_t tid)
{
	uint64_t low = atomic_load_explicit(&tickets->low, memory_order_relaxed);

	/* Other threads may be between this check and their number, hence the margin. */
	if (atomic_load_explicit(&tickets->next, memory_order_relaxed) - low >=
	    SK_ROCP_TICKETS - SK_ROCP_TICKETS_MARGIN)
		return 0;
	uint64_t number = atomic_fetch_add_explicit(&tickets->next, 1, memory_order_relaxed);
	struct sk_rocp_ticket *ticket = place(tickets, number);

	ticket->queued_ns = queued_ns;
	ticket->tid = tid;
	atomic_store_explicit(&ticket->call_ns, 0, memory_order_relaxed);
	/* Pairs with the acquire of the thread that settles the ticket: the rest is filled. */
	atomic_store_explicit(&ticket->state, 2 * number + 1, memory_order_release);
	return number + 1;
}

void sk_rocp_tickets_returned(struct sk_rocp_tickets *tickets, uint64_t ticket, uint64_t now_ns)
{
	struct sk_rocp_ticket *found = place(tickets, ticket - 1);
	uint64_t length = now_ns - found->queued_ns;

	/* The ticket may be settled and its place taken meanwhile; then the later launch has a
	 * slightly wrong length. */
	if (atomic_load_explicit(&found->state, memory_order_relaxed) == 2 * ticket - 1)
		atomic_store_explicit(&found->call_ns, sk_tracer_saturated(length),
				      memory_order_relaxed);
}

/* Move `low` over settled tickets. A number whose state is older is being taken just now. */
static void advance(struct sk_rocp_tickets *tickets)
{
	uint64_t low = tickets->low, next = tickets->next;

	while (low != next && atomic_load_explicit(&place(tickets, low)->state,
						   memory_order_acquire) == 2 * low + 2)
		low++;
	tickets->low = low;
}

bool sk_rocp_tickets_settle(struct sk_rocp_tickets *tickets, uint64_t ticket,
			    struct sk_rocp_ticket *ret)
{
	struct sk_rocp_ticket *found = place(tickets, ticket - 1);

	if (!ticket || atomic_load_explicit(&found->state, memory_order_acquire) != 2 * ticket - 1)
		return false;
	ret->queued_ns = found->queued_ns;
	ret->tid = found->tid;
	atomic_init(&ret->call_ns, atomic_load_explicit(&found->call_ns, memory_order_relaxed));
	atomic_store_explicit(&found->state, 2 * ticket, memory_order_relaxed);
	advance(tickets);
	return true;
}

uint64_t sk_rocp_tickets_lose(struct sk_rocp_tickets *tickets, uint64_t count, uint64_t before_ns)
{
	uint64_t lost = 0, next = tickets->next;

	for (uint64_t number = tickets->low; number != next && lost < count; number++) {
		struct sk_rocp_ticket *found = place(tickets, number);

		if (atomic_load_explicit(&found->state, memory_order_acquire) != 2 * number + 1)
			continue;
		if (found->queued_ns >= before_ns)
			break;
		atomic_store_explicit(&found->state, 2 * number + 2, memory_order_relaxed);
		lost++;
	}
	advance(tickets);
	return lost;
}

uint64_t sk_rocp_tickets_oldest(struct sk_rocp_tickets *tickets)
{
	uint64_t low, next;

	advance(tickets);
	low = tickets->low;
	next = tickets->next;
	/* The first open ticket is the oldest; one that is being taken is newer than any earlier
	 * look. */
	for (; low != next; low++)
		if (atomic_load_explicit(&place(tickets, low)->state, memory_order_acquire) ==
		    2 * low + 1)
			return place(tickets, low)->queued_ns;
	return 0;
}
