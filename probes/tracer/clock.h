/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Readings of the system's clocks in ns, and lengths of time as records store them.
 *
 * Invariant: a reading never fails; every clock that is read here exists on every kernel.
 * Memory: none. Threads: any.
 */
#ifndef SK_TRACER_CLOCK_H
#define SK_TRACER_CLOCK_H

#include <stdint.h>
#include <time.h>

/** The reading of a clock of clock_gettime(2), in ns. */
static inline uint64_t sk_tracer_clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

/** A length in ns that fits into 32 bits; a longer one becomes the largest value. */
static inline uint32_t sk_tracer_saturated(uint64_t ns)
{
	return ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/** The length from one time to a later one, saturated; 0 when the second is the earlier one. */
static inline uint32_t sk_tracer_length(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? sk_tracer_saturated(to_ns - from_ns) : 0;
}

#endif
