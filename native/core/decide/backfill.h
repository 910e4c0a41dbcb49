/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that start ahead of a blocked one without delaying it. Relied on by propose.c. The blocked
 * jobs get a plan: when each would start if running jobs end as estimated and nobody overtakes; one
 * without an estimate ends some day, or never if it has overtaken the first of them. Another job
 * starts only if the plan stays as it is or gets better. Invariants: by exact estimates, nothing of
 * the same queue delays a planned start; without any, who overtakes holds no more than what the
 * first can do without, so it starts once those have ended that did not overtake it.
 */
#ifndef SK_CORE_DECIDE_BACKFILL_H
#define SK_CORE_DECIDE_BACKFILL_H

#include "core/decide/order.h"
#include "core/decide/trial.h"

#define SK_PLAN_JOBS_MAX 32u	 /* blocked jobs with a reservation, SK_ORDER_CONSERVATIVE */
#define SK_PLAN_ENDS_MAX 256u	 /* ends of running jobs that a plan looks at */
#define SK_PLAN_CHECKS_MAX 16u	 /* plans made anew to see whether a job would delay one */
#define SK_PLAN_NODES_MAX 16384u /* nodes whose jobs a plan looks at */

/* Start what may start behind the first job of this line that did not fit. */
void sk_backfill(struct sk_trial *trial, const struct sk_line *line);

#endif
