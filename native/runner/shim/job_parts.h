/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The functions that the two parts of an attempt, its start and its life, share.
 *
 * Only job.c and job_start.c include this header.
 */
#ifndef SK_RUNNER_SHIM_JOB_PARTS_H
#define SK_RUNNER_SHIM_JOB_PARTS_H

#include <poll.h>

#include "runner/shim/job.h"

/** Add a clause to the text of the job's end. */
__attribute__((format(printf, 2, 3))) void sk_runner_job_say(struct sk_runner_job *job,
							     const char *format, ...);

/** Call ppoll(2) under the mask of `sk_runner_job_signals`; UINT64_MAX: no time limit. */
int sk_runner_job_wait(struct pollfd *fds, nfds_t count, uint64_t ns);

/** Return whether a stop was requested; the requester's reason then becomes the job's. */
bool sk_runner_job_stopped_before_start(struct sk_runner_job *job);

/** Prepare all that its first process needs; 0, or a negative errno after adding a clause. */
int sk_runner_job_prepare(struct sk_runner_job *job);

/** Wait until a job of a gang is released; false if it was stopped instead. */
bool sk_runner_job_gather(struct sk_runner_job *job);

/** Start its first process; true if it runs, else a clause says why. */
bool sk_runner_job_launch(struct sk_runner_job *job);

/** Close the child's ends of the pipes, which the child has by now or will never take. */
void sk_runner_job_close_child_ends(struct sk_runner_job *job);

#endif
