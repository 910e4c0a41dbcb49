/* SPDX-License-Identifier: Apache-2.0 */
/* The launch throttle in a traced process: a thread sleeps until the agent lets its launch in. */
#include "tracer/parts.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* clock_nanosleep would be a cancellation point, so the system call is made directly. */
static void sleep_until(uint64_t ns)
{
	struct timespec at = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Return the slot of the calling thread if its wait is to be recorded. */
static struct sk_tracer_slot *watched_slot(void)
{
	bool sees = sk_tracer_phase(sk_tracer_mode()) == SK_PHASE_TIMED;

	return sees && sk_tracer_options.on_throttled ? sk_tracer_slot() : NULL;
}

/* A launch that has waited goes even when its thread wakes up after the window: otherwise a small
 * share would let none in. Signals may end a sleep early. */
static uint64_t wait_until(uint64_t opens, uint64_t now)
{
	while (now < opens) {
		sleep_until(opens);
		now = sk_tracer_now();
	}
	return now;
}

/* Wait and record it; the reader settles nothing before that. The launch may be made inside of
 * another one, from a callback. */
static uint64_t wait_recorded(struct sk_tracer_slot *slot, uint64_t opens, uint64_t from)
{
	_Atomic uint64_t *calling = &slot->shared->calling_ns;
	uint64_t outer = atomic_load_explicit(calling, memory_order_relaxed), now;

	atomic_store_explicit(calling, outer ? outer : from, memory_order_relaxed);
	now = wait_until(opens, from);
	sk_tracer_options.on_throttled(slot, from, now);
	/* Pairs with the reader, which loads heads after this word: the record is published. */
	atomic_store_explicit(calling, outer, memory_order_release);
	return now;
}

void sk_tracer_wait_throttled(void)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;
	uint64_t from = sk_tracer_now(), now;
	uint64_t opens =
		sk_throttle_opens(atomic_load_explicit(&header->hold, memory_order_relaxed), from);
	int before = errno;

	if (!opens)
		return;
	struct sk_tracer_slot *slot = watched_slot();

	now = slot ? wait_recorded(slot, opens, from) : wait_until(opens, from);
	errno = before;
	atomic_fetch_add_explicit(&header->held, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&header->held_ns, now - from, memory_order_relaxed);
}
