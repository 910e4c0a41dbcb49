/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * CLOCK_MONOTONIC as one thread reads it often: the CPU's time stamp counter, added to a reading of
 * both that is at most a millisecond old.
 *
 * clock_gettime(2) takes 20 ns on a virtual machine and the counter 9 ns, and a traced launch with
 * its wait needs four readings. The counter serves only where the kernel itself keeps time by it
 * and the process may read it; elsewhere, and until its rate is known, the clock is read.
 *
 * Invariants: the readings of one thread never go back, and they differ from CLOCK_MONOTONIC by
 * less than 150 ns while the counter's rate is steady. A jump, or a change of the rate by more than
 * 1 in 4,000, is noticed at the next reading of both, a millisecond later. Memory: the caller's.
 * Threads: the one that owns the state.
 */
#ifndef SK_TRACER_THREAD_CLOCK_H
#define SK_TRACER_THREAD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/** All zero is a clock that is read with clock_gettime. */
struct sk_thread_clock {
	bool usable;	     /* the counter may be used; see sk_thread_clock_is_usable */
	bool trusted;	     /* the scale was measured twice in a row */
	uint64_t count;	     /* the counter at the latest reading of both */
	uint64_t ns;	     /* CLOCK_MONOTONIC then */
	uint64_t reach;	     /* counts from then on that may be laid out; 0: the clock is read */
	uint64_t scale;	     /* ns of a count, in units of 2^-32; 0: not known yet */
	uint64_t base_count; /* an earlier reading of both, by which the scale is measured */
	uint64_t base_ns;
	uint64_t latest_ns; /* the latest time that was returned for a reading of the clock */
};

/** Return whether the kernel keeps time by the counter and lets this process read it; reads a file.
 */
bool sk_thread_clock_is_usable(void);

/** Read CLOCK_MONOTONIC, and the counter before and after it. */
uint64_t sk_thread_clock_read(struct sk_thread_clock *clock);

/** Take in a reading: `ns` was read between two values of the counter. Return the time to use. */
uint64_t sk_thread_clock_take(struct sk_thread_clock *clock, uint64_t before, uint64_t ns,
			      uint64_t after);

static inline uint64_t sk_thread_clock_count(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/** Return whether the time at `count` follows from the latest reading, and the time. */
static inline bool sk_thread_clock_lay_out(const struct sk_thread_clock *clock, uint64_t count,
					   uint64_t *ret_ns)
{
	uint64_t passed = count - clock->count;

	if (passed >= clock->reach)
		return false;
	*ret_ns = clock->ns + (passed * clock->scale >> 32);
	return true;
}

/** Return the time of CLOCK_MONOTONIC in ns. */
static inline uint64_t sk_thread_clock_now(struct sk_thread_clock *clock)
{
	uint64_t ns;

	return sk_thread_clock_lay_out(clock, sk_thread_clock_count(), &ns)
		       ? ns
		       : sk_thread_clock_read(clock);
}

#endif
