/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * When a governed tracer times launches: one window in each period, as long as the budget pays for.
 *
 * Relied on by every tracer (probes/opencl/duty.c, probes/cupti/modes.c, governed/phase.h), which
 * measures what looking costs and carries out the phases. Time is cut into periods; in each one a
 * window is drawn at random, so that no part of a job goes unseen for long. Periods differ in
 * length, by chance, so that a job with a rhythm of its own is not always seen at the same beat.
 * Outside of windows launches are counted where that is cheap enough, else nothing is seen; then a
 * window begins with a lead in which they are only counted, which slows the job less: that is where
 * the rate of launches is known from. Counted and timed parts side by side also tell how much the
 * looking itself slows the job (sk_trace_cover_unseen in native/trace/statistics/windows.h).
 * Invariant: what is planned depends on the past alone, so what a window shows has no bias.
 * Pure: time, costs and the seed come in as arguments. Memory: the caller's. Threads: one.
 */
#ifndef SK_GOVERNED_WINDOWS_H
#define SK_GOVERNED_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SK_BUDGET_PPM = 10000,	/* where none is told: 1 % of the job's time */
	SK_BUDGET_PLANNED = 75, /* percent of a budget, for who measures all but what he disturbs */
};

/** What a tracer's windows can be; its own choice. */
struct sk_tracer_limits {
	uint64_t period_ns;	/* on average; half of it to one and a half times it, by chance */
	uint64_t period_max_ns; /* the same, where the shortest window is dear */
	uint64_t window_ns;	/* the shortest that is timed, on average as well */
	unsigned patience;	/* periods in which counting alone may be somewhat too dear */
};

/** What looking costs, as parts of the job's time; all measured. */
struct sk_tracer_costs {
	double timed;	    /* while launches are timed */
	double counted;	    /* while they are only counted */
	uint64_t switch_ns; /* of one window: to begin and end it */
	uint64_t tail_ns;   /* how long after it launches go on to cost what timed ones do */
};

struct sk_tracer_plan {
	struct sk_tracer_limits limits;
	uint64_t random;
	uint64_t from_ns; /* of the period; 0: none yet */
	uint64_t period_ns;
	uint64_t lead_ns; /* from here on launches are counted, where they are not all the time */
	uint64_t timed_from_ns;
	uint64_t timed_to_ns;
	double timed; /* costs as periods go by them */
	double counted;
	unsigned dear;	  /* periods one after the other in which counting was too dear */
	uint32_t outside; /* enum sk_phase */
};

void sk_tracer_plan_init(struct sk_tracer_plan *windows, const struct sk_tracer_limits *limits,
			 uint64_t seed);

/** Begin a period at `now_ns`. Its cost is the budget at most, unless even the shortest window in
 * the longest period costs more. */
void sk_tracer_plan_period(struct sk_tracer_plan *windows, const struct sk_tracer_costs *costs,
			   uint32_t budget_ppm, uint64_t now_ns);

/** Begin a short period in which launches are only counted, to learn what that costs. */
void sk_tracer_plan_count(struct sk_tracer_plan *windows, uint64_t now_ns, uint64_t length_ns);

/** Is the period over, or was there none? */
bool sk_tracer_plan_is_over(const struct sk_tracer_plan *windows, uint64_t now_ns);

/** Whether all of the period is timed, so that nothing is drawn. */
bool sk_tracer_plan_is_whole(const struct sk_tracer_plan *windows);

/** The phase at `now_ns`, and in `ret_next_ns` when to ask again. */
uint32_t sk_tracer_plan_phase(const struct sk_tracer_plan *windows, uint64_t now_ns,
			      uint64_t *ret_next_ns);

/** What the segment says of this period's windows: its length, or 0 where nothing is drawn. */
static inline uint64_t sk_tracer_plan_chosen(const struct sk_tracer_plan *windows)
{
	return sk_tracer_plan_is_whole(windows) ? 0 : windows->period_ns;
}

#endif
