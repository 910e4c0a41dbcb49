/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the two parts of an attempt, its start and its life, ask of one another.
 *
 * Private to job.c and job_start.c.
 */
#ifndef SK_RUNNER_SHIM_JOB_PARTS_H
#define SK_RUNNER_SHIM_JOB_PARTS_H

#include <poll.h>

#include "runner/shim/job.h"

/** Add a clause to what is said of the job. */
__attribute__((format(printf, 2, 3))) void sk_runner_job_say(struct sk_runner_job *job,
							     const char *format, ...);

/** ppoll(2) under the mask of `sk_runner_job_signals`; UINT64_MAX: without end. */
int sk_runner_job_wait(struct pollfd *fds, nfds_t count, uint64_t ns);

/** True once somebody wants it stopped, who is then said to be the reason. */
bool sk_runner_job_stopped_before_start(struct sk_runner_job *job);

/** All that its first process needs; 0, or a negative errno after a clause was said. */
int sk_runner_job_prepare(struct sk_runner_job *job);

/** Start its first process; true if it runs, else the reason was said. */
bool sk_runner_job_launch(struct sk_runner_job *job);

/** The child has its ends of the pipes, or never will. */
void sk_runner_job_close_child_ends(struct sk_runner_job *job);

#endif
