/* SPDX-License-Identifier: Apache-2.0
 *
 * When each blocked job would start if running jobs end as estimated and no job overtakes. A job
 * without an estimate ends at an unknown time, or never if it has overtaken the first blocked one.
 * Backfilling asks whether a job delays a start of the plan. Invariant: the state is as before
 * after each function.
 */
#ifndef SK_CORE_DECIDE_PLAN_H
#define SK_CORE_DECIDE_PLAN_H

#include "core/decide/trial.h"

#define SK_PLAN_JOBS_MAX 32u	 /* blocked jobs with a reservation, SK_ORDER_CONSERVATIVE */
#define SK_PLAN_ENDS_MAX 256u	 /* ends of running jobs that a plan looks at */
#define SK_PLAN_CHECKS_MAX 16u	 /* plans made anew to see whether a job would delay one */
#define SK_PLAN_NODES_MAX 16384u /* nodes whose jobs a plan looks at */

struct sk_plan_end {
	uint64_t at_ns;
	uint32_t job;
};

/* Ends by time, equal times in order of arrival; `beyond_ns` is the first that was left out. */
struct sk_plan_ends {
	struct sk_plan_end at[SK_PLAN_ENDS_MAX + 1];
	uint32_t count;
	uint64_t beyond_ns;
};

/* A planned start. If it is unknown, it is not before `at_ns`. */
struct sk_planned {
	uint64_t at_ns;
	bool known;
};

struct sk_plan {
	struct sk_trial *trial;
	struct sk_plan_ends ends;
	uint32_t jobs[SK_PLAN_JOBS_MAX];
	struct sk_planned starts[SK_PLAN_JOBS_MAX];
	uint32_t count;
	uint32_t most; /* reservations that the order grants */
	uint32_t head; /* the first that did not fit and blocks the others; 0: none does */
	uint32_t checks;
	bool gathered;
	bool made; /* `starts` are those of these jobs as the state is now */
	bool cut;  /* the last plan was not completed */
};

/* Give a blocked job a reservation, if the order grants one more. */
void sk_plan_reserve(struct sk_plan *plan, uint32_t job);
/* Make the plan; it is needed only once a job fits, and where one is blocked. */
void sk_plan_ready(struct sk_plan *plan);
/* True if a job that ends then, with what it takes, delays no planned start. */
bool sk_plan_keeps(struct sk_plan *plan, uint32_t job, uint64_t end_ns);
/* Have the plan know when a job ends that was started. */
void sk_plan_end_add(struct sk_plan_ends *ends, uint64_t at_ns, uint32_t job);

#endif
