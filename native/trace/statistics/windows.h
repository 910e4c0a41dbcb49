/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The account of how much of a process's time was seen, and the error of an estimate that windows
 * allow.
 *
 * Under `governed` each period has one timed window at a random place: a stratified sample of one
 * cluster per stratum. The time of all launches is then a ratio estimate: device time of the timed
 * windows by launches in them, times all launches (Cochran, Sampling Techniques, 3rd edition,
 * chapter 6). A stratum of one shows no variance, so it is taken from successive differences
 * (Cochran, 5A.12; Wolter, Introduction to Variance Estimation, 2nd edition, chapter 8), which is
 * exact for like periods and errs on the wide side for a trend. The number of uncounted launches is
 * the rate of launches in all seen time, times the unseen time: another ratio, over stretches
 * between blind windows.
 *
 * Invariant: every moment from a segment's start to `covered_ns` has exactly one sk_trace_cover.
 * Memory: plain data inside the fold. Threads: one.
 */
#ifndef SK_TRACE_STATISTICS_WINDOWS_H
#define SK_TRACE_STATISTICS_WINDOWS_H

#include <stdint.h>

/** Levels of how much was seen at a moment. */
enum sk_trace_cover {
	SK_COVER_TIMED,	  /* every launch timed, or sampled as its shift says */
	SK_COVER_COUNTED, /* every launch counted */
	SK_COVER_BLIND,	  /* nothing was seen, by chance: an estimate may cover it */
	SK_COVER_DORMANT, /* nothing was seen, on purpose: not observed */
	SK_COVERS,
};

enum {
	SK_WINDOWS_KEPT =
		64, /* some seconds of them: as late as an agent comes on a busy machine */
	SK_WINDOWS_UNKNOWN = 1000000, /* relative error of an estimate that nothing bounds */
	SK_SLOWED_MOST =
		4, /* looking slows a job at most by this factor, whatever a segment claims */
};

/** Sums of the work that began in one drawn window; `to_ns` 0: no window, UINT64_MAX: still open.
 */
struct sk_trace_window_sums {
	uint64_t from_ns;
	uint64_t to_ns;
	uint64_t busy_ns;  /* device time, weighted */
	uint64_t launches; /* including copies, weighted */
};

/** A ratio of sums over successive items, and sums over differences of each item to the one before,
 * which show its variance. */
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

/** Sums over the windows of a job. */
struct sk_trace_clusters {
	struct sk_trace_ratio mean; /* device time by launches, of drawn windows */
	struct sk_trace_ratio rate; /* launches by ns, of stretches in which they were counted */
	double tails; /* sum of squares of the final unseen times of processes, ns^2 */
};

/** The costs that a tracer adds to a launch, as it measured them; 0: not known. */
struct sk_trace_launch_costs {
	uint32_t timed_ns;
	uint32_t counted_ns;
};

/** Estimate the launches in blind windows, as a part of the `launches` counted in all others, of
 * which folded records stand for `weighted`. Blind time is taken to have the rate of seen time,
 * corrected for the slowing that looking causes. */
double sk_trace_cover_unseen(const uint64_t cover_ns[SK_COVERS], uint64_t launches,
			     uint64_t weighted, const struct sk_trace_launch_costs *costs);

/** Take in the next window; `before` is the window before of the same process, or NULL. */
void sk_trace_clusters_add(struct sk_trace_clusters *clusters,
			   const struct sk_trace_window_sums *before,
			   const struct sk_trace_window_sums *window);

/** Take in the stretch between two blind windows; `before` is the stretch before, or NULL. */
void sk_trace_clusters_add_stretch(struct sk_trace_clusters *clusters,
				   const struct sk_trace_stretch *before,
				   const struct sk_trace_stretch *stretch);

/** Take in that nothing was seen of a process in its last `blind_ns`: it may have stopped at any
 * moment of it. */
void sk_trace_clusters_add_tail(struct sk_trace_clusters *clusters, uint64_t blind_ns);

/** Return the half width of the 95 % interval of the estimated device time, relative to it, where
 * the number of `counted` launches is known and the others by time alone. It is above 1 where the
 * truth may be several times the estimate, SK_WINDOWS_UNKNOWN if too few windows are known, and 0
 * if there is no window. */
double sk_trace_clusters_error(const struct sk_trace_clusters *clusters, double timed,
			       double counted, double all);

#endif
