/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Histogram of durations on the base-2^(1/32) scale: OTLP exponential histograms of scale 5.
 *
 * Bucket i holds values in (2^(i/32), 2^((i+1)/32)], upper bound inclusive as OTLP says. Values up
 * to 16 ns are in the zero bucket. Values above 2^48 ns (78 h) fall into the last bucket and are
 * counted in `high`. A bucket's middle is within 1.1 % of every value in it. All arithmetic is in
 * integers. The scale is that of the OpenTelemetry metrics data model, "ExponentialHistogram".
 * Memory: the caller's, all zeros is an empty histogram. Cost: no allocation, about 10 ns to add.
 */
#ifndef SK_TRACE_STATISTICS_HISTOGRAM_H
#define SK_TRACE_STATISTICS_HISTOGRAM_H

#include <stdint.h>

enum {
	SK_HISTOGRAM_SCALE = 5,
	SK_HISTOGRAM_ZERO = 16,		   /* ns; values up to it share the zero bucket */
	SK_HISTOGRAM_INDEX_FIRST = 4 * 32, /* (2^4, ...] */
	SK_HISTOGRAM_INDEX_END = 48 * 32,  /* (..., 2^48] */
	SK_HISTOGRAM_BUCKETS = SK_HISTOGRAM_INDEX_END - SK_HISTOGRAM_INDEX_FIRST,
};

struct sk_trace_histogram {
	uint64_t count; /* sum of the weights */
	uint64_t sum;	/* of value times weight; wraps after 584 years */
	uint64_t min;	/* exact; meaningless while count is 0 */
	uint64_t max;
	uint64_t zero;
	uint64_t high;
	uint64_t buckets[SK_HISTOGRAM_BUCKETS];
};

/** Index of the bucket that holds `value`, which is at least 1. */
int sk_trace_histogram_index(uint64_t value);

/** The largest integer not above 2^(index/32): every value in the bucket is larger. */
uint64_t sk_trace_histogram_lower(int index);

/** Count `value` as `weight` occurrences. */
void sk_trace_histogram_add(struct sk_trace_histogram *histogram, uint64_t value, uint64_t weight);

/** Add all of `other`; the result is the histogram of both inputs' values. */
void sk_trace_histogram_merge(struct sk_trace_histogram *histogram,
			      const struct sk_trace_histogram *other);

/** The value at `permille` of the weights, within the bucket error; -ENODATA when empty. */
int sk_trace_histogram_quantile(const struct sk_trace_histogram *histogram, unsigned permille,
				uint64_t *ret);

#endif
