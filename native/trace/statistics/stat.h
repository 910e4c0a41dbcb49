/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The statistics of one kernel name or copy kind: exact counts, timed samples, an estimate.
 *
 * The layer picks one launch at random out of each block of 2^shift, so a sample stands for 2^shift
 * launches and the weighted sums are unbiased. Samples of one shift form a stratum, so that the
 * error can be stated.
 *
 * Samples of drawn windows also stand for what lies between the windows; all others stand for
 * nothing but their own blocks. The two are kept apart (post-stratification: Cochran, Sampling
 * Techniques, 3rd edition, 5A.9): windows are drawn where launches are many, so the others, which
 * are timed whole, must not have a say in how long those are.
 *
 * Memory: the caller's, zeros are an empty stat. Threads: one.
 */
#ifndef SK_TRACE_STATISTICS_STAT_H
#define SK_TRACE_STATISTICS_STAT_H

#include "trace/statistics/histogram.h"

#include <stdbool.h>

enum { SK_STAT_SHIFTS = 16 };

/** The launches that a sample stands for. */
enum sk_trace_stat_draw {
	SK_STAT_WHOLE, /* their own blocks */
	SK_STAT_DRAWN, /* all launches outside of whole periods */
	SK_STAT_DRAWS,
};

struct sk_trace_stratum {
	uint64_t timed;
	uint64_t sum_ns;
	uint64_t square_low; /* 128-bit sum of squares */
	uint64_t square_high;
};

struct sk_trace_stat {
	uint64_t changed;	/* batch that last touched it; owned by trace/fold/fold.c */
	uint64_t retired;	/* exact launches of processes that are gone */
	uint64_t retired_bytes; /* exact bytes of their copies */
	double retired_unseen;	/* their estimated launches in blind windows */
	uint64_t missing_ns;	/* upper bound of the name's device time in "(other)" */
	struct sk_trace_stratum strata[SK_STAT_DRAWS][SK_STAT_SHIFTS];
	struct sk_trace_histogram histogram; /* of device time, weighted */
};

struct sk_trace_stat_total {
	uint64_t timed;	   /* samples */
	uint64_t total_ns; /* of all launches */
	uint64_t error_ns; /* half width of the 95 % interval, 0 when exact */
	bool estimate;
};

/** Take in one sample of `ns` device time; `shift` below SK_STAT_SHIFTS. */
void sk_trace_stat_add(struct sk_trace_stat *stat, uint64_t ns, unsigned shift,
		       enum sk_trace_stat_draw draw);

/** Weighted sums of samples. */
struct sk_trace_stat_sums {
	uint64_t launches;
	uint64_t ns;
};

/** Estimate the device time of `count` launches from the sums of either kind of samples. */
uint64_t sk_trace_stat_scale(const struct sk_trace_stat_sums sums[SK_STAT_DRAWS], uint64_t count);

/** Return the 97.5 % point of Student's t with this many degrees of freedom. */
double sk_trace_stat_student(double freedom);

/** Return the weighted device time of the samples. */
uint64_t sk_trace_stat_weighted_ns(const struct sk_trace_stat *stat);

/** Add all samples and counts of `other`. */
void sk_trace_stat_merge(struct sk_trace_stat *stat, const struct sk_trace_stat *other);

/** Estimate the device time of all `count` launches from the present samples. */
void sk_trace_stat_total(const struct sk_trace_stat *stat, uint64_t count,
			 struct sk_trace_stat_total *ret);

#endif
