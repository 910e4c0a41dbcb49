/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Under `governed`: when to look, so that looking costs no more than its budget.
 *
 * Relied on by modes.c. Time is cut into periods; in each one window is drawn, at a moment that is
 * random within the period, so that nothing periodic in the job is always or never seen. Its
 * length is what the budget pays for, by costs measured in the periods before; outside of it
 * calls are counted where that is cheap enough, else nothing is seen.
 * Pure: time and costs come in as arguments. Threads: one.
 */
#ifndef SK_CUPTI_GOVERN_H
#define SK_CUPTI_GOVERN_H

#include <stdbool.h>
#include <stdint.h>

/** What looking costs, as parts of the job's time; all measured. */
struct sk_govern_costs {
	double timed;	    /* while everything is timed */
	double counted;	    /* while calls are only counted */
	uint64_t switch_ns; /* of one window: to begin and end it, and to wait for its records */
	uint64_t tail_ns;   /* how long a window's records are waited for, at the timed cost */
};

struct sk_govern {
	uint64_t random;
	uint64_t from_ns; /* of the period; 0: none yet */
	uint64_t period_ns;
	uint64_t window_from_ns;
	uint64_t window_to_ns;
	uint32_t outside; /* enum sk_phase */
};

void sk_govern_init(struct sk_govern *govern, uint64_t seed);

/** Begin a period at `now_ns`. */
void sk_govern_plan(struct sk_govern *govern, const struct sk_govern_costs *costs,
		    uint32_t budget_ppm, uint64_t now_ns);

/** Begin a short period in which calls are only counted, to learn what that costs. */
void sk_govern_count_only(struct sk_govern *govern, uint64_t now_ns, uint64_t length_ns);

/** Is the period over, or was there none? */
bool sk_govern_is_over(const struct sk_govern *govern, uint64_t now_ns);

/** The phase at `now_ns`, and in `ret_next_ns` when to ask again. */
uint32_t sk_govern_phase(const struct sk_govern *govern, uint64_t now_ns, uint64_t *ret_next_ns);

/** Whether the window is all of its period, so that nothing is drawn. */
bool sk_govern_is_whole(const struct sk_govern *govern);

#endif
