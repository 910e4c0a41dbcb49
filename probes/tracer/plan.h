/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The plan of a governed tracer: in each period it times launches in one window, as long as the
 * budget pays for.
 *
 * Time is cut into periods, and in each one a window is drawn at random, so that no part of a job
 * goes unseen for long. Periods differ in length by chance, so that a job with a rhythm of its own
 * is not always seen at the same beat. Outside of windows launches are counted where that is cheap
 * enough. Otherwise nothing is seen there, and a window begins with a lead in which launches are
 * only counted: counting slows the job less, so the lead shows the rate of launches. Counted and
 * timed parts side by side also show how much the looking itself slows the job
 * (sk_trace_cover_unseen of native/trace).
 *
 * Invariant: a plan depends on the past alone, so what a window shows has no bias.
 *
 * Pure: time, costs and the seed come in as arguments. Memory: the caller's. Threads: one.
 */
#ifndef SK_TRACER_PLAN_H
#define SK_TRACER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SK_TRACER_BUDGET_PPM = 10000,  /* default: 1 % of the job's time */
	SK_TRACER_BUDGET_PLANNED = 75, /* percent of a budget, for a tracer that measures its own
					  cost but not how it disturbs the job */
};

/** The lengths that a tracer chooses for its windows. */
struct sk_tracer_limits {
	uint64_t period_ns;	/* mean length; a period is half of it to one and a half times it */
	uint64_t period_max_ns; /* largest mean length, where even the shortest window is over
				   budget */
	uint64_t window_ns;	/* mean length of the shortest timed window */
	unsigned patience;	/* periods in which counting alone may be somewhat over budget */
};

/** The measured cost of looking, in parts of the job's time. */
struct sk_tracer_costs {
	double timed;	    /* while launches are timed in a drawn window */
	double whole;	    /* while all time is timed; 0: as in a window */
	double counted;	    /* while they are only counted */
	uint64_t switch_ns; /* to begin and end one window */
	uint64_t tail_ns;   /* how long after a window launches still cost what timed ones do */
};

struct sk_tracer_plan {
	struct sk_tracer_limits limits;
	uint64_t random;
	uint64_t from_ns; /* start of the period; 0: none yet */
	uint64_t period_ns;
	uint64_t lead_ns; /* start of the lead, where launches are not counted all the time */
	uint64_t timed_from_ns;
	uint64_t timed_to_ns;
	double timed; /* smoothed costs, by which periods are planned */
	double whole;
	double counted;
	unsigned over_budget; /* consecutive periods in which counting was over budget */
	uint32_t outside;     /* enum sk_phase */
};

void sk_tracer_plan_init(struct sk_tracer_plan *plan, const struct sk_tracer_limits *limits,
			 uint64_t seed);

/** Begin a period at `now_ns`. Its cost is the budget at most, unless even the shortest window in
 * the longest period costs more. */
void sk_tracer_plan_period(struct sk_tracer_plan *plan, const struct sk_tracer_costs *costs,
			   uint32_t budget_ppm, uint64_t now_ns);

/** Begin a short period in which launches are only counted, to learn what that costs. */
void sk_tracer_plan_count(struct sk_tracer_plan *plan, uint64_t now_ns, uint64_t length_ns);

/** Return whether the period is over or there was none. */
bool sk_tracer_plan_is_over(const struct sk_tracer_plan *plan, uint64_t now_ns);

/** Return whether all of the period is timed, so that nothing is drawn. */
bool sk_tracer_plan_is_whole(const struct sk_tracer_plan *plan);

/** Return the phase at `now_ns`; `ret_next_ns` is set to the time of the next change. */
uint32_t sk_tracer_plan_phase(const struct sk_tracer_plan *plan, uint64_t now_ns,
			      uint64_t *ret_next_ns);

/** Return the length of the period, as the segment tells it with each window, or 0 where nothing is
 * drawn. */
static inline uint64_t sk_tracer_plan_chosen(const struct sk_tracer_plan *plan)
{
	return sk_tracer_plan_is_whole(plan) ? 0 : plan->period_ns;
}

#endif
