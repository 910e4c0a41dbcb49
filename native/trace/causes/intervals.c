/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting of intervals and spans, which come as a few runs that are nearly in order. */
#include "trace/causes/causes.h"

#include <stdlib.h>
#include <string.h>

enum { RUN = 16 };

static bool in_order(const struct sk_trace_interval *intervals, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (intervals[i - 1].from_ns > intervals[i].from_ns)
			return false;
	return true;
}

static void insert_run(struct sk_trace_interval *run, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct sk_trace_interval interval = run[i];
		size_t at = i;

		for (; at && run[at - 1].from_ns > interval.from_ns; at--)
			run[at] = run[at - 1];
		run[at] = interval;
	}
}

static void merge(const struct sk_trace_interval *left, size_t lefts,
		  const struct sk_trace_interval *right, size_t rights,
		  struct sk_trace_interval *ret)
{
	if (!rights || left[lefts - 1].from_ns <= right[0].from_ns) { /* already in order */
		memcpy(ret, left, lefts * sizeof(*left));
		memcpy(ret + lefts, right, rights * sizeof(*right));
		return;
	}
	while (lefts && rights) {
		bool first = left->from_ns <= right->from_ns;

		*ret++ = first ? *left : *right;
		left += first;
		lefts -= first;
		right += !first;
		rights -= !first;
	}
	memcpy(ret, left, lefts * sizeof(*left));
	memcpy(ret + lefts, right, rights * sizeof(*right));
}

static void merge_runs(const struct sk_trace_interval *from, size_t count, size_t run,
		       struct sk_trace_interval *to)
{
	for (size_t at = 0; at < count; at += 2 * run) {
		size_t lefts = count - at < run ? count - at : run;
		size_t rights = count - at - lefts < run ? count - at - lefts : run;

		merge(from + at, lefts, from + at + lefts, rights, to + at);
	}
}

static int by_start(const void *left, const void *right)
{
	const struct sk_trace_interval *a = left, *b = right;

	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

void sk_trace_causes_sort(struct sk_trace_interval *intervals, size_t count,
			  struct sk_trace_interval *scratch)
{
	struct sk_trace_interval *from = intervals, *to = scratch;

	if (in_order(intervals, count))
		return;
	if (!scratch) {
		qsort(intervals, count, sizeof(*intervals), by_start);
		return;
	}
	for (size_t at = 0; at < count; at += RUN)
		insert_run(intervals + at, count - at < RUN ? count - at : RUN);
	for (size_t run = RUN; run < count && !in_order(from, count); run *= 2) {
		merge_runs(from, count, run, to);
		struct sk_trace_interval *done = to;

		to = from;
		from = done;
	}
	if (from != intervals)
		memcpy(intervals, from, count * sizeof(*intervals));
}

/* Return the place of a span among the others: states first, then what lies over them. */
static int layer(const struct sk_trace_thread_span *span)
{
	return span->state < SK_THREAD_HELD ? 0 : span->state;
}

static int by_thread(const void *left, const void *right)
{
	const struct sk_trace_thread_span *a = left, *b = right;

	if (layer(a) != layer(b))
		return layer(a) - layer(b);
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

void sk_trace_causes_sort_spans(struct sk_trace_thread_span *spans, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (by_thread(&spans[i - 1], &spans[i]) > 0) {
			qsort(spans, count, sizeof(*spans), by_thread);
			return;
		}
}
