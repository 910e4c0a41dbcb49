/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the files that make up a job's trace share among themselves; everybody else uses job.h.
 */
#ifndef SK_TRACE_JOB_PARTS_H
#define SK_TRACE_JOB_PARTS_H

#include "trace/job.h"

static const uint64_t MS = 1000000;

static inline struct sk_fold_state *state_of(struct sk_job *job)
{
	return job->fold.state;
}

static inline uint64_t *loss_of(struct sk_job *job)
{
	return job->fold.state->retired.loss;
}

/** End text from the job's file, and free it of what would disturb a terminal. */
void sk_job_clean_text(char *text, size_t bytes);

/** Give a row and a reader to every new segment in the folder. */
void sk_job_scan(struct sk_job *job);

#endif
