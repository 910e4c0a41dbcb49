/* SPDX-License-Identifier: Apache-2.0
 *
 * Backfilling: jobs that start ahead of a blocked one without delaying it, since the plan does not
 * get worse. Invariants: with exact estimates, no job of the same queue delays a planned start;
 * without estimates, overtaking jobs hold no more than the first blocked one can do without, so it
 * starts once those have ended that did not overtake it.
 *
 * A pass is bounded, and a line is not. Behind the first jobs, which are tried in their order, a
 * pass tries those of clients that had few tries: in the next part of the line, among the jobs that
 * have just come, and anywhere in the line. So no number of jobs of one client keeps those of
 * another from being tried, and nobody passes many by having come late.
 */
#ifndef SK_CORE_DECIDE_BACKFILL_H
#define SK_CORE_DECIDE_BACKFILL_H

#include "core/decide/order.h"
#include "core/decide/trial.h"

#define SK_CLIENTS_TRIED_MAX 16u /* clients whose tries are counted apart */
#define SK_CLIENT_TRIES_FEW 16u	 /* tries of one client, beyond which a pass looks for others */

/* Start the jobs that may start behind the first job of this line that did not fit, or of a line
 * that blocks nobody, behind the last one that was tried. */
void sk_backfill(struct sk_trial *trial, const struct sk_line *line);

#endif
