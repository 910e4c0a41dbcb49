/* SPDX-License-Identifier: Apache-2.0
 *
 * Backfilling: jobs that start ahead of a blocked one without delaying it. A plan says when each
 * blocked job would start if running jobs end as estimated and no job overtakes. A job without an
 * estimate ends at an unknown time, or never if it has overtaken the first blocked one. Another job
 * starts only if the plan does not get worse. Invariants: with exact estimates, no job of the same
 * queue delays a planned start; without estimates, overtaking jobs hold no more than the first
 * blocked one can do without, so it starts once those have ended that did not overtake it.
 */
#ifndef SK_CORE_DECIDE_BACKFILL_H
#define SK_CORE_DECIDE_BACKFILL_H

#include "core/decide/order.h"
#include "core/decide/trial.h"

#define SK_PLAN_JOBS_MAX 32u	 /* blocked jobs with a reservation, SK_ORDER_CONSERVATIVE */
#define SK_PLAN_ENDS_MAX 256u	 /* ends of running jobs that a plan looks at */
#define SK_PLAN_CHECKS_MAX 16u	 /* plans made anew to see whether a job would delay one */
#define SK_PLAN_NODES_MAX 16384u /* nodes whose jobs a plan looks at */

/* Start the jobs that may start behind the first job of this line that did not fit. */
void sk_backfill(struct sk_trial *trial, const struct sk_line *line);

#endif
