/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a driver whose device is the CPU, recognised by their spans: a thread that runs a
 * command is on a CPU when the command ends, or when it begins after being woken since the call.
 * While such a thread gets no CPU, the device waits for it, and the caller sleeps for that command.
 * It may sleep for it twice: the thread wakes it, and loses its CPU before it gives up a lock that
 * the caller needs next. Then the thread, which has not slept since the command, ends that sleep.
 */
#include "trace/causes/causes_parts.h"

enum { ON_CPU = 1, RUNNABLE = 2, BLOCKED = 3, FEW_THREADS = 64, LONG_NS = 100000 };

/* Return the first span that ends after `at`, or the lane's count. */
static size_t span_at(const struct sk_trace_lane *lane, uint64_t at)
{
	size_t low = 0, high = lane->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (lane->spans[middle].to_ns <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_in(const struct sk_trace_lane *lane, size_t i, uint64_t at)
{
	return i < lane->count && lane->spans[i].from_ns <= at;
}

/* Return when a thread that is on a CPU at `at` was woken for that, if not before `since`; else 0.
 */
static uint64_t woken(const struct sk_trace_lane *lane, uint64_t since, uint64_t at)
{
	size_t i = span_at(lane, at);

	if (!is_in(lane, i, at) || lane->spans[i].state != ON_CPU)
		return 0;
	while (i && lane->spans[i - 1].state <= RUNNABLE &&
	       lane->spans[i - 1].to_ns == lane->spans[i].from_ns)
		i--;
	return i && lane->spans[i - 1].to_ns == lane->spans[i].from_ns &&
			       lane->spans[i].state == RUNNABLE && lane->spans[i].from_ns >= since
		       ? lane->spans[i].from_ns
		       : 0;
}

/* Return until when a thread that is on a CPU at `at` runs without blocking, at most `until`. */
static uint64_t goes_on(const struct sk_trace_lane *lane, uint64_t at, uint64_t until)
{
	size_t i = span_at(lane, at);
	uint64_t end = at;

	if (!is_in(lane, i, at) || lane->spans[i].state != ON_CPU)
		return at;
	for (; i < lane->count && lane->spans[i].state <= RUNNABLE && end < until; i++)
		end = lane->spans[i].to_ns;
	return earlier(end, until);
}

/* Return until when a thread that is blocked at `at` stays blocked. */
static uint64_t blocked_until(const struct sk_trace_lane *lane, uint64_t at)
{
	size_t i = span_at(lane, at);

	return is_in(lane, i, at) && lane->spans[i].state > RUNNABLE ? lane->spans[i].to_ns : at;
}

static void try_after(const struct sk_trace_lane *lanes, unsigned t, uint64_t called_ns,
		      struct sk_trace_runners *ret)
{
	uint64_t at = t == ret->caller ? 0 : woken(&lanes[t], called_ns, ret->to_ns);

	if (!at || ret->after != SK_NO_THREAD)
		return;
	ret->after = t;
	ret->woken_ns = later(at, ret->done_ns);
}

static void try_before(const struct sk_trace_lane *lanes, unsigned t, uint64_t until,
		       struct sk_trace_runners *ret)
{
	uint64_t end;

	if (t == ret->caller)
		return;
	end = goes_on(&lanes[t], ret->from_ns, ret->to_ns);
	if (end <= ret->from_ns)
		return;
	ret->before = t;
	ret->awake_ns = end;
	ret->done_ns = earlier(end, until);
}

bool sk_trace_runners_next(const struct sk_trace_lane *lanes, const struct sk_trace_runners *ends,
			   uint64_t at, struct sk_trace_thread_span *ret)
{
	const struct sk_trace_lane *caller = &lanes[ends->caller], *runner;
	uint64_t until = earlier(ends->awake_ns, ends->woken_ns);

	if (ends->before == SK_NO_THREAD)
		return false;
	runner = &lanes[ends->before];
	for (size_t i = span_at(caller, at); i < caller->count; i++) {
		const struct sk_trace_thread_span *span = &caller->spans[i];
		size_t then = span_at(runner, span->to_ns);

		if (span->to_ns > until)
			return false;
		if (span->state != BLOCKED || span->from_ns < at ||
		    !is_in(runner, then, span->to_ns) || runner->spans[then].state != ON_CPU)
			continue;
		*ret = *span;
		return true;
	}
	return false;
}

/* Return whether to look at all threads: with very many of them only for long gaps. */
static bool is_worth_it(unsigned threads, const struct sk_trace_runners *ends)
{
	return threads <= FEW_THREADS || ends->to_ns - ends->from_ns >= LONG_NS;
}

void sk_trace_runners_find(const struct sk_trace_lane *lanes, unsigned threads, uint64_t called_ns,
			   unsigned *hint, struct sk_trace_runners *ret)
{
	uint64_t until = earlier(blocked_until(&lanes[ret->caller], ret->from_ns), ret->to_ns);
	unsigned all = is_worth_it(threads, ret) ? threads : 0;

	ret->before = ret->after = SK_NO_THREAD;
	ret->done_ns = ret->awake_ns = ret->from_ns;
	ret->woken_ns = ret->to_ns;
	if (*hint < threads)
		try_before(lanes, *hint, until, ret);
	if (*hint < threads)
		try_after(lanes, *hint, called_ns, ret);
	for (unsigned t = 0; t < all && ret->after == SK_NO_THREAD; t++)
		try_after(lanes, t, called_ns, ret);
	if (ret->after != SK_NO_THREAD)
		*hint = ret->after;
}

unsigned sk_trace_runners_last(const struct sk_trace_causes *causes)
{
	unsigned t = 0;

	while (t < causes->threads && !causes->thread[t].runner)
		t++;
	return t < causes->threads ? t : SK_NO_THREAD;
}

void sk_trace_runners_keep(struct sk_trace_causes *causes, unsigned runner)
{
	for (unsigned t = 0; t < causes->threads; t++)
		causes->thread[t].runner = t == runner;
}

uint64_t sk_trace_causes_whole(const struct sk_trace_causes *causes, uint64_t frontier_ns,
			       uint64_t young_ns, const struct sk_trace_causes_input *input)
{
	uint64_t newest = 0;

	if (sk_trace_runners_last(causes) == SK_NO_THREAD)
		return frontier_ns;
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		const struct sk_trace_causes_device *device = &causes->device[d];

		if (causes->device_known[d] && device->used)
			newest = later(newest, device->idle ? device->gap_ns
							    : device->end_ns[SK_BUSY_UNSEEN]);
	}
	for (size_t i = 0; i < input->interval_count; i++)
		if (input->intervals[i].from_ns < frontier_ns)
			newest = later(newest, input->intervals[i].to_ns);
	if (newest >= frontier_ns || frontier_ns - newest >= young_ns)
		return frontier_ns;
	return later(newest, causes->frontier_ns);
}
