/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs from submit until they are forgotten, with the effects that report it. Invariants: a job is
 * in `live` (by id) until it ends and in `finished` (by end) after; it is queued or held exactly
 * while pending; it ends once; ids only grow.
 */
#ifndef SK_CORE_LEDGER_JOB_LIFE_H
#define SK_CORE_LEDGER_JOB_LIFE_H

#include "core/ledger/effect.h"

/* Give out the next `count` numbers, for jobs that are created now or later. */
void sk_job_numbers(struct sk_core *core, uint64_t count);
/* Create a pending, queued job with a number that was given out and has no job. The caller made
 * sure of that, and of room. */
uint32_t sk_job_create(const struct sk_act *act, const struct sk_submit *submit, uint64_t number);
/* Move between states that are not final, with an effect. `node` is the id of the cause or 0. */
void sk_job_move(const struct sk_act *act, uint32_t job, enum sk_state state, uint16_t reason,
		 uint64_t node);
/* End a job that holds no task; the oldest ended job beyond the limit is forgotten. */
void sk_job_finish(const struct sk_act *act, uint32_t job, enum sk_state state, uint64_t node);
/* Charge the device time of the attempt to the job and its queue. */
void sk_job_account(const struct sk_act *act, uint32_t job);
/* Make a job pending once more: after a pause because it failed or was not begun, or at once
 * because it was preempted. */
void sk_job_again(const struct sk_act *act, uint32_t job, uint64_t node);
/* End an attempt whose last task has ended with a verdict: the job finishes or waits again. */
void sk_job_end(const struct sk_act *act, uint32_t job, uint64_t node);
void sk_job_forget(const struct sk_act *act, uint32_t job, uint16_t reason);
/* Tell the nodes of all tasks of this job to stop them. */
void sk_job_stop_tasks(const struct sk_act *act, uint32_t job, uint16_t reason);
/* Tell the nodes of all tasks of a gang to let them run. */
void sk_job_release(const struct sk_act *act, uint32_t job);

#endif
