/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One clock seen from CLOCK_MONOTONIC: pairs of readings in, offset, drift and error out.
 *
 * Pure: it reads no clock. A pair is a reading of the other clock between two of CLOCK_MONOTONIC,
 * so its error is at most half of the bracket.
 *
 * Invariant: `error_ns` of a row is the half width of the newest pair plus the largest distance of
 * any pair of the window from the line, so it shows a clock that does not run straight. A clock
 * that was set does not drift: the window starts anew and the step is counted. Memory: the
 * caller's. Threads: one.
 */
#ifndef SK_CLOCKS_FIT_H
#define SK_CLOCKS_FIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SK_FIT_PAIRS = 64,	     /* the window: so many newest pairs */
	SK_FIT_DRIFT_AFTER_MS = 500, /* a drift from less time would be the noise of the readings */
};

struct sk_clock_pair {
	uint64_t at_ns;	   /* CLOCK_MONOTONIC, the middle of the bracket */
	uint64_t clock_ns; /* the other clock, in nanoseconds as it counts them */
	uint64_t error_ns; /* half of the bracket */
};

struct sk_clock_fit {
	struct sk_clock_pair pairs[SK_FIT_PAIRS];
	uint32_t count; /* pairs in the window */
	uint32_t next;	/* where the next one goes */
	uint32_t steps; /* times the clock was set */
};

struct sk_clock_row {
	uint64_t reference_ns; /* reading of the other clock that `offset_ns` belongs to */
	uint64_t refreshed_ns; /* CLOCK_MONOTONIC of the newest pair */
	int64_t offset_ns;     /* CLOCK_MONOTONIC minus the other clock, at `reference_ns` */
	int64_t drift_ppb;     /* gain of CLOCK_MONOTONIC over the other clock */
	uint64_t error_ns;
	uint32_t pairs;
	uint32_t steps;
	bool has_drift; /* the window is long enough to tell one */
};

/** Add one pair; false when it shows that the clock was set. */
bool sk_clock_fit_add(struct sk_clock_fit *fit, const struct sk_clock_pair *pair);

/** Compute the line through the window; false while there is no pair. */
bool sk_clock_fit_row(const struct sk_clock_fit *fit, struct sk_clock_row *ret);

/** Return a reading of the other clock on CLOCK_MONOTONIC. */
static inline uint64_t sk_clock_row_place(const struct sk_clock_row *row, uint64_t clock_ns)
{
	int64_t since = (int64_t)(clock_ns - row->reference_ns);
	__int128 drift = (__int128)since * row->drift_ppb / 1000000000;

	return clock_ns + (uint64_t)row->offset_ns + (uint64_t)(int64_t)drift;
}

#endif
