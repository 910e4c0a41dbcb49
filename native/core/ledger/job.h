/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the record of one job. Invariant: nothing here writes; job_life.h does.
 */
#ifndef SK_CORE_LEDGER_JOB_H
#define SK_CORE_LEDGER_JOB_H

#include "core/state/state.h"

/* The slot of this id, or 0. */
uint32_t sk_job_find(const struct sk_core *core, uint64_t id);
/* True if, by its verdict so far, the job will wait again once its last task has ended. */
bool sk_job_returns(const struct sk_job *job);

/* The entry time at which a placed job should have ended: UINT64_MAX without an estimate, one ns
 * after now if it is overdue or being stopped. */
uint64_t sk_job_end_ns(const struct sk_core *core, uint32_t job);

/* True if all tasks of a gang were ready in this attempt, so that each of them may run. */
static inline bool sk_job_released(const struct sk_job *job)
{
	return job->ready == job->request.tasks;
}

static inline bool sk_state_final(uint32_t state)
{
	return state >= SK_SUCCEEDED;
}

#endif
