/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The functions that the files of a job's trace share; other code uses job.h.
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

/** Terminate text from the job's file, and replace bytes that would disturb a terminal. */
void sk_trace_job_clean_text(char *text, size_t bytes);

/** Add device work, or unseen time of a device, to be settled. */
void sk_trace_job_add_interval(struct sk_trace_job *job, const struct sk_trace_interval *interval);

/** Take in the windows of a segment whose header is in the view. Return up to when it is known what
 * was seen; records come after that. */
uint64_t sk_trace_job_cover(struct sk_trace_job *job, struct sk_trace_reader *reader,
			    struct sk_trace_fold_segment *segment);

/** Add the drawn windows that a segment still keeps, and the stretch since the last blind one. */
void sk_trace_job_finish_windows(const struct sk_trace_fold_segment *segment,
				 const struct sk_trace_reader *reader,
				 struct sk_trace_clusters *ret);

/** Divide time that is not observed for lack of spans by the totals of the calling threads. False
 * where that is next to nothing, or nothing is known. */
bool sk_trace_job_fill_missing(const struct sk_trace_job *job, unsigned device,
			       uint64_t causes[SK_CAUSES]);

/** Return the launches of a segment in blind windows, as a part of those counted. */
double sk_trace_job_unseen(const struct sk_trace_reader *reader,
			   const struct sk_trace_fold_segment *segment);

/** Fold the records of one ring. */
void sk_trace_job_drain_ring(struct sk_trace_job *job, struct sk_trace_reader *reader,
			     struct sk_trace_fold_segment *segment, unsigned slot);

/** Let names of a segment without a row that had device time since the last call contend for one.
 */
void sk_trace_job_contend(struct sk_trace_job *job, struct sk_trace_reader *reader,
			  struct sk_trace_fold_segment *segment);

/** Give a row and a reader to every new segment in the folder. */
void sk_trace_job_scan(struct sk_trace_job *job);

#endif
