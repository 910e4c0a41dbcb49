/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * How much of a process's time was seen, and what the windows say of the error of an estimate.
 *
 * Under `governed` each period has one timed window at a random place: a stratified sample of one
 * cluster per stratum. What all launches took is then a ratio estimate (device time of the timed
 * windows by launches in them, times all launches; Cochran, Sampling Techniques, 3rd edition,
 * chapter 6), and since a stratum of one tells no variance, that is taken from differences of
 * neighbours (the same, 5A.12, and Wolter, Introduction to Variance Estimation, 2nd edition,
 * chapter 8: successive differences), which is exact for periods alike and errs on the wide side
 * for a trend. Launches that nobody counted are the rate of launches in all time that was seen,
 * times the time that was not: another ratio, of stretches between blind ones. Invariant: every
 * moment from a segment's start to `covered_ns` has exactly one sk_trace_cover. Memory: plain data
 * inside of the fold. Threads: one.
 */
#ifndef SK_TRACE_STATISTICS_WINDOWS_H
#define SK_TRACE_STATISTICS_WINDOWS_H

#include <stdint.h>

/** What was seen of a moment. */
enum sk_trace_cover {
	SK_COVER_TIMED,	  /* every launch timed, or sampled as its shift says */
	SK_COVER_COUNTED, /* every launch counted */
	SK_COVER_BLIND,	  /* nothing, by chance: may be estimated from the rest */
	SK_COVER_DORMANT, /* nothing, and not by chance: not observed */
	SK_COVERS,
};

enum {
	SK_WINDOWS_KEPT = 8,
	SK_SLOWED_MOST = 4, /* looking never slows a job by more, whatever a segment says */
};

/** What began in one drawn window; `to_ns` 0: no window, UINT64_MAX: still open. */
struct sk_trace_window_sums {
	uint64_t from_ns;
	uint64_t to_ns;
	uint64_t busy_ns;  /* device time, weighted */
	uint64_t launches; /* and copies, weighted */
};

/** A ratio of sums over items that follow each other, and sums over differences of each item to the
 * one before, which tell its variance. */
struct sk_trace_ratio {
	uint64_t items;
	uint64_t pairs;
	double y, x;
	double yy, yx, xx; /* of differences */
};

/** Time without a gap in which launches of a process were counted. */
struct sk_trace_stretch {
	uint64_t ns; /* 0: none */
	uint64_t launches;
};

/** What the windows of a job say. */
struct sk_trace_clusters {
	struct sk_trace_ratio mean; /* device time by launches, of drawn windows */
	struct sk_trace_ratio rate; /* launches by ns, of stretches in which they were counted */
	double tails; /* squares of the times in which nothing more was seen of a process, ns^2 */
};

/** What looking adds to a launch, as its tracer measured it; 0: not known. */
struct sk_trace_launch_costs {
	uint32_t timed_ns;
	uint32_t counted_ns;
};

/** Launches in blind windows, as a part of the `launches` that were counted in all others, where
 * folded records stand for `weighted` of them: so many as in as much time that is seen, which is
 * taken to be as long as it would have been had nobody looked. */
double sk_trace_cover_unseen(const uint64_t cover_ns[SK_COVERS], uint64_t launches,
			     uint64_t weighted, const struct sk_trace_launch_costs *costs);

/** Take in the next window; `before` is the one before of the same process, or NULL. */
void sk_trace_clusters_add(struct sk_trace_clusters *clusters,
			   const struct sk_trace_window_sums *before,
			   const struct sk_trace_window_sums *window);

/** The same of the time between two that were blind. */
void sk_trace_clusters_add_stretch(struct sk_trace_clusters *clusters,
				   const struct sk_trace_stretch *before,
				   const struct sk_trace_stretch *stretch);

/** Nothing was seen of a process in its last `blind_ns`: it may have stopped at any moment of it.
 */
void sk_trace_clusters_add_tail(struct sk_trace_clusters *clusters, uint64_t blind_ns);

/** Half width of the 95 % interval of the estimated device time, as a part of it, where `counted`
 * of all launches are known by number and the rest by time alone. 1 where too few windows are
 * known to say, 0 where there is none. */
double sk_trace_clusters_error(const struct sk_trace_clusters *clusters, double timed,
			       double counted, double all);

#endif
