/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The clocks of the system against CLOCK_MONOTONIC, which every time of a trace is on.
 *
 * A clock is read between two readings of CLOCK_MONOTONIC, the closest of several; what was read
 * goes into fit.h. Threads: one for a table. Cost: READINGS x 3 clock readings a clock, about a
 * microsecond.
 */
#ifndef SK_CLOCKS_CLOCKS_H
#define SK_CLOCKS_CLOCKS_H

#include "clocks/fit.h"

enum sk_clock_source {
	SK_CLOCK_REALTIME,
	SK_CLOCK_MONOTONIC_RAW,
	SK_CLOCK_BOOTTIME,
	SK_CLOCK_TICKS, /* the processor's counter: TSC, or CNTVCT on arm64 */
	SK_CLOCK_SOURCES,
};

/** How the processor's counter can be used. */
struct sk_clock_ticks {
	uint64_t hz;	  /* 0: not usable, `why` says so */
	bool measured;	  /* else the processor or the hypervisor says it */
	const char *name; /* "TSC" or "CNTVCT" */
	const char *why;
};

struct sk_clock_table {
	struct sk_clock_ticks ticks;
	struct sk_clock_fit fits[SK_CLOCK_SOURCES];
};

/** CLOCK_MONOTONIC ns. */
uint64_t sk_clock_monotonic(void);

/** The closest of `tries` bracketed readings. False where the source cannot be read. */
bool sk_clock_read(enum sk_clock_source source, const struct sk_clock_ticks *ticks, unsigned tries,
		   struct sk_clock_pair *ret);

/** The same for a reading by `read`, which gives ns of any clock; false where `read` fails. */
bool sk_clock_bracket(bool (*read)(void *state, uint64_t *ret), void *state, unsigned tries,
		      struct sk_clock_pair *ret);

/** What the counter is; measures its rate for 20 ms where nobody says it. */
void sk_clock_ticks_find(struct sk_clock_ticks *ret);

/** One pair more for every source. */
void sk_clock_table_refresh(struct sk_clock_table *table);

/** "REALTIME", "MONOTONIC_RAW", "BOOTTIME", "TSC". */
const char *sk_clock_name(enum sk_clock_source source);

#endif
