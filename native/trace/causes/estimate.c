/* SPDX-License-Identifier: Apache-2.0 */
/* The causes where not everything was timed, or where threads are known by their totals alone. */
#include "trace/causes/causes.h"

#include <assert.h>

enum { GAPS = SK_CAUSES - SK_CAUSE_ON_CPU };

static uint64_t share(uint64_t whole, uint64_t part, uint64_t parts)
{
	return (uint64_t)((unsigned __int128)whole * part / parts);
}

static uint64_t lessened(uint64_t value, uint64_t by)
{
	return value > by ? value - by : 0;
}

/* Divide the gaps by what is known of the host. A thread that feeds a busy device waits for it, so
 * blocked time is first taken to be that wait and does not explain gaps. */
static void weigh_gaps(const struct sk_trace_causes_estimate *estimate, uint64_t window,
		       uint64_t busy, const uint64_t causes[SK_CAUSES], uint64_t weights[GAPS])
{
	uint64_t seen_busy = causes[SK_CAUSE_KERNEL] + causes[SK_CAUSE_COPY];
	uint64_t *blocked = &weights[SK_CAUSE_BLOCKED - SK_CAUSE_ON_CPU], held;

	for (int gap = 0; gap < GAPS; gap++)
		weights[gap] = causes[SK_CAUSE_ON_CPU + gap];
	if (!estimate->has_host) {
		/* Gaps of windows in which everything was timed are exact and stay. */
		*blocked = lessened(*blocked, estimate->by_window ? estimate->missed_ns
								  : lessened(busy, seen_busy));
		return;
	}
	for (int gap = 0; gap < GAPS; gap++)
		weights[gap] = gap < 4 ? estimate->host[gap] : 0;
	held = estimate->held_ns < *blocked ? estimate->held_ns : *blocked;
	weights[SK_CAUSE_THROTTLED - SK_CAUSE_ON_CPU] = held;
	*blocked = lessened(*blocked - held, busy);
	weights[SK_CAUSE_HELD_IDLE - SK_CAUSE_ON_CPU] = lessened(window, estimate->host_longest_ns);
}

static void split_gaps(uint64_t gap_ns, const uint64_t weights[GAPS], uint64_t causes[SK_CAUSES])
{
	uint64_t sum = 0, given = 0;
	int largest = SK_CAUSE_NOT_OBSERVED - SK_CAUSE_ON_CPU;

	for (int gap = 0; gap < GAPS; gap++) {
		sum += weights[gap];
		largest = weights[gap] > weights[largest] ? gap : largest;
	}
	for (int gap = 0; gap < GAPS; gap++) {
		causes[SK_CAUSE_ON_CPU + gap] = sum ? share(gap_ns, weights[gap], sum) : 0;
		given += causes[SK_CAUSE_ON_CPU + gap];
	}
	causes[SK_CAUSE_ON_CPU + largest] += gap_ns - given;
}

void sk_trace_causes_estimate(const struct sk_trace_causes_estimate *estimate,
			      uint64_t causes[SK_CAUSES])
{
	uint64_t window = 0, weights[GAPS], sum = 0;
	uint64_t kernel = estimate->kernel_ns, copy = estimate->copy_ns, busy;

	for (int cause = 0; cause < SK_CAUSES; cause++)
		window += causes[cause];
	/* Time that no tracer could see is kept apart from time that can be estimated. */
	causes[SK_CAUSE_NOT_OBSERVED] -= estimate->hidden_ns;
	window += estimate->unseen_ns - estimate->hidden_ns;
	/* Overlapping work can add up to more than the window. */
	if (kernel > window || copy > window - kernel) {
		unsigned __int128 all = (unsigned __int128)kernel + copy;

		kernel = (uint64_t)((unsigned __int128)window * kernel / all);
		copy = window - kernel;
	}
	busy = kernel + copy;
	weigh_gaps(estimate, window, busy, causes, weights);
	split_gaps(window - busy, weights, causes);
	causes[SK_CAUSE_KERNEL] = kernel;
	causes[SK_CAUSE_COPY] = copy;
	for (int cause = 0; cause < SK_CAUSES; cause++)
		sum += causes[cause];
	assert(sum == window);
	causes[SK_CAUSE_NOT_OBSERVED] += estimate->hidden_ns;
}
