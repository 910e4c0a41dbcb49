/* SPDX-License-Identifier: Apache-2.0 */
/* A launch that came while launches are held: its thread sleeps until they are let in. */
#include "tracer/tracer.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The system call itself, since the function would be a place where a thread can be cancelled. */
static void sleep_until(uint64_t ns)
{
	struct timespec at = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

void sk_tracer_wait_for_turn(void)
{
	struct sk_segment_header *header = &sk_tracer->segment->header;
	uint64_t from = sk_tracer_now(), now = from;
	uint64_t opens =
		sk_hold_opens(atomic_load_explicit(&header->hold, memory_order_relaxed), now);
	int before = errno;

	/* Who has waited goes, also where it wakes up so late that the window is over: else a small
	 * share would be none. Signals may end a sleep early. */
	while (now < opens) {
		sleep_until(opens);
		now = sk_tracer_now();
	}
	errno = before;
	if (!opens)
		return;
	atomic_fetch_add_explicit(&header->held, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&header->held_ns, now - from, memory_order_relaxed);
}
