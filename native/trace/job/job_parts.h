/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the files that make up a job's trace share among themselves; everybody else uses job.h.
 */
#ifndef SK_TRACE_JOB_JOB_PARTS_H
#define SK_TRACE_JOB_JOB_PARTS_H

#include "trace/job/job.h"

static const uint64_t MS = 1000000;

static inline struct sk_trace_fold_state *state_of(struct sk_trace_job *job)
{
	return job->fold.state;
}

static inline uint64_t *loss_of(struct sk_trace_job *job)
{
	return job->fold.state->retired.loss;
}

/** End text from the job's file, and free it of what would disturb a terminal. */
void sk_trace_job_clean_text(char *text, size_t bytes);

/** Device work, or time in which it was not seen, that is to be settled. */
void sk_trace_job_add_interval(struct sk_trace_job *job, const struct sk_trace_interval *interval);

/** Take in the windows of a segment whose header is in the view. Up to the result it is known what
 * was seen; records come after it. */
uint64_t sk_trace_job_cover(struct sk_trace_job *job, struct sk_trace_reader *reader,
			    struct sk_trace_fold_segment *segment);

/** Add the drawn windows that a segment still keeps, and what was seen since the last blind one. */
void sk_trace_job_finish_windows(const struct sk_trace_fold_segment *segment,
				 const struct sk_trace_reader *reader,
				 struct sk_trace_clusters *ret);

/** Divide what is not observed for want of spans by the totals of the threads that call. False
 * where that is next to nothing, or nothing is known. */
bool sk_trace_job_fill_missing(const struct sk_trace_job *job, unsigned device,
			       uint64_t causes[SK_CAUSES]);

/** Launches of a segment in blind windows, as a part of those that were counted. */
double sk_trace_job_unseen(const struct sk_trace_reader *reader,
			   const struct sk_trace_fold_segment *segment);

/** Fold what one ring holds. */
void sk_trace_job_drain_ring(struct sk_trace_job *job, struct sk_trace_reader *reader,
			     struct sk_trace_fold_segment *segment, unsigned slot);

/** Names of a segment that have no row, and had device time since the last call, ask for one. */
void sk_trace_job_contend(struct sk_trace_job *job, struct sk_trace_reader *reader,
			  struct sk_trace_fold_segment *segment);

/** Give a row and a reader to every new segment in the folder. */
void sk_trace_job_scan(struct sk_trace_job *job);

#endif
