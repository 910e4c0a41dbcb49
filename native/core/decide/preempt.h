/* SPDX-License-Identifier: Apache-2.0
 *
 * Preemption: which jobs to stop so that a blocked job fits. Victims are preemptible jobs of the
 * same queue that go after the blocked one, and, if a guarantee covers the blocked one, jobs of
 * other queues that use more than their guarantee. Invariants: a job is stopped only if the blocked
 * one fits afterwards; a job is stopped at most SK_PREEMPTIONS_MAX times; a stopping job counts as
 * free, so that no more are stopped meanwhile.
 */
#ifndef SK_CORE_DECIDE_PREEMPT_H
#define SK_CORE_DECIDE_PREEMPT_H

#include "core/decide/order.h"
#include "core/decide/trial.h"

#define SK_PREEMPTIONS_MAX 8u	  /* preemptions of one job; after that it runs to its end */
#define SK_PREEMPT_BATCH_MAX 128u /* jobs preempted by one propose */
#define SK_PREEMPT_NODES_MAX 64u  /* nodes that are compared for a job of one task */
#define SK_VICTIMS_MAX 64u	  /* jobs that are considered together, the cheapest first */

/* Make room for a job that did not fit, if it may preempt others and that helps. */
void sk_preempt_for(struct sk_trial *trial, uint32_t job);

#endif
