/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Clocks in nanoseconds, and arithmetic of instants that never wraps.
 *
 * Two readings of one clock are often taken in different places, so the one called `now` may be the
 * older. An instant ahead of `now` has lasted no time; a plain unsigned difference would be
 * centuries.
 */
#ifndef SK_RUNNER_SITE_CLOCK_H
#define SK_RUNNER_SITE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SK_MS ((uint64_t)1000000)
#define SK_SECOND ((uint64_t)1000000000)

static inline uint64_t sk_runner_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SK_SECOND + (uint64_t)now.tv_nsec;
}

/** Return the time since `then`; 0 if it is ahead of `now`. */
static inline uint64_t sk_runner_since(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/** Return the time until `then`; 0 if it has passed. */
static inline uint64_t sk_runner_until(uint64_t now, uint64_t then)
{
	return sk_runner_since(then, now);
}

/** Return the instant `duration` after `from`; UINT64_MAX, which never comes, on overflow. */
static inline uint64_t sk_runner_after(uint64_t from, uint64_t duration)
{
	return duration < UINT64_MAX - from ? from + duration : UINT64_MAX;
}

/** Return a duration as the timespec of nanosleep(2) and ppoll(2). */
static inline struct timespec sk_runner_timespec(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / SK_SECOND),
		.tv_nsec = (long)(ns % SK_SECOND),
	};
}

#endif
