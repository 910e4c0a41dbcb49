/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom to stop so that a blocked job fits. Relied on by propose.c. Victims are preemptible jobs of
 * the same queue that go after the blocked one, and, where a guarantee covers the blocked one, jobs
 * of other queues that hold more than theirs. Invariants: nobody is stopped unless the job fits
 * afterwards; a job is stopped at most SK_PREEMPTIONS_MAX times; what already stops counts as free,
 * so that no more are stopped meanwhile.
 */
#ifndef SK_CORE_DECIDE_PREEMPT_H
#define SK_CORE_DECIDE_PREEMPT_H

#include "core/decide/order.h"
#include "core/decide/trial.h"

#define SK_PREEMPTIONS_MAX 8u	  /* of one job; then it stays to its end */
#define SK_PREEMPT_BATCH_MAX 128u /* jobs preempted by one propose */
#define SK_PREEMPT_NODES_MAX 64u  /* nodes that are compared for a job of one task */
#define SK_VICTIMS_MAX 64u	  /* jobs that are considered together, the cheapest */

/* Make room for a job that did not fit, if it may have others stopped and that helps. */
void sk_preempt_for(struct sk_trial *trial, uint32_t job);

#endif
