/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The clocks of the system against CLOCK_MONOTONIC, to which every time of a trace belongs.
 *
 * A clock is read between two readings of CLOCK_MONOTONIC, and the closest of several readings goes
 * into fit.h. Threads: one per table. Cost: READINGS x 3 clock readings a clock, about a
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

/** The usable rate of the processor's counter. */
struct sk_clock_ticks {
	uint64_t hz;	  /* 0: not usable, for the reason in `why` */
	bool measured;	  /* else the processor or the hypervisor states it */
	const char *name; /* "TSC" or "CNTVCT" */
	const char *why;
};

struct sk_clock_table {
	struct sk_clock_ticks ticks;
	struct sk_clock_fit fits[SK_CLOCK_SOURCES];
};

/** CLOCK_MONOTONIC ns. */
uint64_t sk_clock_monotonic(void);

/** Read a clock: the closest of `tries` bracketed readings. False if the source cannot be read. */
bool sk_clock_read(enum sk_clock_source source, const struct sk_clock_ticks *ticks, unsigned tries,
		   struct sk_clock_pair *ret);

/** Read any clock by `read`, which gives ns, in the same way; false if `read` fails. */
bool sk_clock_bracket(bool (*read)(void *state, uint64_t *ret), void *state, unsigned tries,
		      struct sk_clock_pair *ret);

/** Find the counter and its rate; the rate is measured for 20 ms if nothing states it. */
void sk_clock_ticks_find(struct sk_clock_ticks *ret);

/** Add one pair for every source. */
void sk_clock_table_refresh(struct sk_clock_table *table);

/** "REALTIME", "MONOTONIC_RAW", "BOOTTIME", "TSC". */
const char *sk_clock_name(enum sk_clock_source source);

#endif
