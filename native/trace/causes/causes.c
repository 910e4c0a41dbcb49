/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep that gives every nanosecond of a device its cause, by the rules of causes.h. */
#include "trace/causes/causes_parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CALLERS = 64 };

static void become_idle(const struct sk_trace_causes *causes, struct sk_trace_causes_device *device,
			uint64_t from)
{
	device->idle = device->fresh = 1;
	device->gap_ns = from;
}

/* Clear the open gap; most gaps are over before what all threads did in them is read. */
static void clear_gap(const struct sk_trace_causes *causes, struct sk_trace_causes_device *device)
{
	/* Rows beyond the known threads have never been written. */
	if (device->fresh)
		memset(device->gap, 0, sizeof(device->gap[0]) * causes->threads);
	device->fresh = 0;
}

void sk_trace_causes_init(struct sk_trace_causes *causes, uint64_t origin_ns)
{
	memset(causes, 0, sizeof(*causes));
	causes->origin_ns = causes->frontier_ns = origin_ns;
	causes->device_known[SK_CAUSES_DEVICES] = 1;
	causes->device[SK_CAUSES_DEVICES].last = SK_NO_THREAD;
	become_idle(causes, &causes->device[SK_CAUSES_DEVICES], origin_ns);
}

void sk_trace_causes_know(struct sk_trace_causes *causes, unsigned device)
{
	if (causes->device_known[device])
		return;
	/* The row that is never used has kept what every thread did since the origin. */
	causes->device[device] = causes->device[SK_CAUSES_DEVICES];
	causes->device_known[device] = 1;
}

/* Move time asleep that kept no device waiting to held idle. */
static void hold_sleep(uint64_t parts[SK_PARTS])
{
	parts[SK_PART_HELD] += parts[SK_CAUSE_BLOCKED - SK_CAUSE_ON_CPU];
	parts[SK_CAUSE_BLOCKED - SK_CAUSE_ON_CPU] = 0;
}

/* Move the sleep of every thread in the gap of a device that was never used to held idle. */
static void set_sleep_apart(struct sk_trace_causes *causes)
{
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		struct sk_trace_causes_device *device = &causes->device[d];

		if (!causes->device_known[d] || !device->idle || device->used)
			continue;
		for (unsigned t = 0; t < causes->threads; t++)
			hold_sleep(device->gap[t]);
	}
}

void sk_trace_causes_called(struct sk_trace_causes *causes, uint64_t at_ns)
{
	bool passed = causes->called_ns && causes->called_ns <= causes->frontier_ns;

	if (passed || (causes->called_ns && at_ns >= causes->called_ns))
		return;
	causes->called_ns = later(at_ns, causes->origin_ns);
	if (causes->called_ns <= causes->frontier_ns)
		set_sleep_apart(causes);
}

struct sweep {
	struct sk_trace_causes *causes;
	uint64_t from;
	uint64_t to;
	bool present[SK_CAUSES_ROWS]; /* devices that have intervals */
	struct sk_trace_lane lanes[SK_CAUSES_THREADS];
	unsigned runner; /* the driver's thread that was found last */
};

static void index_spans(struct sweep *sweep, const struct sk_trace_causes_input *input)
{
	const struct sk_trace_thread_span *before = NULL;
	struct sk_trace_lane *lane = NULL;

	for (size_t i = 0; i < input->span_count; i++) {
		const struct sk_trace_thread_span *span = &input->spans[i];

		if (!before || before->tid != span->tid) {
			unsigned t = sk_trace_causes_find(sweep->causes, span->tid);

			lane = t == SK_NO_THREAD ? NULL : &sweep->lanes[t];
		}
		before = span;
		if (!lane) /* its row belongs to another thread by now */
			continue;
		if (span->state == SK_THREAD_HELD)
			lane->held.first = lane->held.count++ ? lane->held.first : span;
		else if (span->state == SK_THREAD_PEER)
			lane->peer.first = lane->peer.count++ ? lane->peer.first : span;
		else
			lane->spans = lane->count++ ? lane->spans : span;
	}
}

/* Return how much of [from, to) an overlay covers. */
static uint64_t covered_by(struct sk_trace_overlay *overlay, uint64_t from, uint64_t to)
{
	const struct sk_trace_thread_span *span = overlay->first;
	uint64_t ns = 0;

	while (overlay->next < overlay->count && span[overlay->next].to_ns <= from)
		overlay->next++;
	for (size_t i = overlay->next; i < overlay->count && span[i].from_ns < to; i++) {
		ns += overlap(from, to, span[i].from_ns, span[i].to_ns);
		from = later(from, span[i].to_ns);
	}
	return ns;
}

static void add_state(struct sk_trace_lane *lane, const struct sk_trace_thread_span *span,
		      uint64_t from, uint64_t to, uint64_t parts[SK_PARTS])
{
	uint64_t peer = covered_by(&lane->peer, from, to), rest = to - from - peer;
	uint64_t paging = faulted(span, rest), held = 0;

	if (span->state - 1 == SK_CAUSE_BLOCKED - SK_CAUSE_ON_CPU)
		held = earlier(covered_by(&lane->held, from, to), rest);
	parts[span->state - 1] += rest - paging - held;
	parts[SK_CAUSE_PAGING - SK_CAUSE_ON_CPU] += paging;
	parts[SK_PART_THROTTLED] += held;
	parts[SK_PART_PEER] += peer;
}

/* Add time for which the thread's span has not come. That it waited for peers is known before. */
static void add_open(struct sk_trace_lane *lane, uint64_t from, uint64_t to,
		     uint64_t parts[SK_PARTS])
{
	uint64_t peer = covered_by(&lane->peer, from, to);

	parts[SK_PART_OPEN] += to - from - peer;
	parts[SK_PART_PEER] += peer;
}

/* Add what thread `t` did in [from, to), which lies within the sweep. */
static void add_parts(struct sweep *sweep, unsigned t, uint64_t from, uint64_t to,
		      uint64_t parts[SK_PARTS])
{
	const struct sk_trace_causes_thread *thread = &sweep->causes->thread[t];
	struct sk_trace_lane *lane = &sweep->lanes[t];

	if (!thread->heard || thread->first_ns >= to)
		return;
	from = later(from, thread->first_ns);
	while (lane->next < lane->count && lane->spans[lane->next].to_ns <= from)
		lane->next++;
	for (size_t i = lane->next; from < to && i < lane->count; i++) {
		const struct sk_trace_thread_span *span = &lane->spans[i];
		uint64_t start = earlier(later(span->from_ns, from), to);
		uint64_t end = earlier(span->to_ns, to);

		parts[SK_PART_LOST] += start - from;
		if (end > start)
			add_state(lane, span, start, end, parts);
		from = later(start, end);
	}
	if (from < to)
		add_open(lane, from, to, parts);
}

/* Add what thread `t` did in [from, to), and what its makers did before it existed and after it
 * ended. A thread is on a CPU while it makes another, so an open state of a maker counts as that.
 */
static void add_path(struct sweep *sweep, unsigned t, uint64_t from, uint64_t to,
		     uint64_t parts[SK_PARTS], unsigned deep)
{
	const struct sk_trace_causes_thread *thread = &sweep->causes->thread[t];
	unsigned maker = deep ? sk_trace_causes_maker(sweep->causes, t) : SK_NO_THREAD;
	uint64_t born = later(from, earlier(thread->first_ns, to));
	uint64_t gone = thread->gone_ns ? later(born, earlier(thread->gone_ns, to)) : to;

	if (maker != SK_NO_THREAD && from < born) {
		uint64_t open = parts[SK_PART_OPEN];

		add_path(sweep, maker, from, born, parts, deep - 1);
		parts[0] += parts[SK_PART_OPEN] - open;
		parts[SK_PART_OPEN] = open;
	}
	add_parts(sweep, t, born, gone, parts);
	if (maker != SK_NO_THREAD && gone < to)
		add_path(sweep, maker, gone, to, parts, deep - 1);
	else
		parts[SK_PART_HELD] += to - gone;
}

static void rewind_lane(struct sk_trace_lane *lane)
{
	lane->next = lane->held.next = lane->peer.next = 0;
}

/* Restart the walks along the spans of this thread and of its makers. */
static void rewind_path(struct sweep *sweep, unsigned t)
{
	for (unsigned deep = 0; t != SK_NO_THREAD && deep <= SK_MAKERS_DEEP; deep++) {
		rewind_lane(&sweep->lanes[t]);
		t = sk_trace_causes_maker(sweep->causes, t);
	}
}

/* Charge a whole gap to thread `t`, which saw it as `parts`. */
static void charge(const struct sk_trace_causes *causes, uint64_t gap, unsigned t,
		   const uint64_t parts[SK_PARTS], bool ended, uint64_t ns[SK_CAUSES])
{
	uint64_t seen = 0;
	if (t >= SK_CAUSES_THREADS || !causes->thread[t].heard) {
		ns[SK_CAUSE_NOT_OBSERVED] += gap;
		return;
	}
	for (int part = 0; part < SK_PARTS; part++)
		seen += parts[part];
	assert(seen <= gap);
	for (int state = 0; state < 4; state++)
		ns[SK_CAUSE_ON_CPU + state] += parts[state];
	ns[SK_CAUSE_NOT_OBSERVED] += parts[SK_PART_LOST];
	ns[SK_CAUSE_HELD_IDLE] += parts[SK_PART_HELD];
	ns[SK_CAUSE_THROTTLED] += parts[SK_PART_THROTTLED];
	ns[SK_CAUSE_PEER] += parts[SK_PART_PEER];
	ns[ended ? SK_CAUSE_HELD_IDLE : SK_CAUSE_NOT_OBSERVED] += parts[SK_PART_OPEN];
	ns[SK_CAUSE_HELD_IDLE] += gap - seen;
}

/* Add what the device waited for in a gap, or in its part of this sweep: thread `t`, and at the
 * ends of the gap the driver's threads that do the work. */
static void add_gap(struct sweep *sweep, unsigned t, uint64_t from, uint64_t to, uint64_t called_ns,
		    uint64_t parts[SK_PARTS])
{
	struct sk_trace_runners ends = {.from_ns = from, .to_ns = to, .caller = t};
	struct sk_trace_thread_span sleep;
	uint64_t at;

	if (!called_ns || from >= to) {
		add_path(sweep, t, from, to, parts, SK_MAKERS_DEEP);
		return;
	}
	sk_trace_runners_find(sweep->lanes, sweep->causes->threads, called_ns, &sweep->runner,
			      &ends);
	if (ends.before != SK_NO_THREAD)
		add_parts(sweep, ends.before, from, ends.done_ns, parts);
	for (at = ends.done_ns; sk_trace_runners_next(sweep->lanes, &ends, at, &sleep);
	     at = sleep.to_ns) {
		add_path(sweep, t, at, sleep.from_ns, parts, SK_MAKERS_DEEP);
		add_parts(sweep, ends.before, sleep.from_ns, sleep.to_ns, parts);
	}
	add_path(sweep, t, at, ends.woken_ns, parts, SK_MAKERS_DEEP);
	if (ends.after != SK_NO_THREAD)
		add_parts(sweep, ends.after, ends.woken_ns, to, parts);
}

/* Close the gap that thread `t` ended at `to`. */
static void close_gap(struct sweep *sweep, struct sk_trace_causes_device *device, unsigned t,
		      uint64_t to, uint64_t called_ns, bool called)
{
	static const uint64_t none[SK_PARTS];
	const uint64_t *parts = none;

	if (t < SK_CAUSES_THREADS && sweep->causes->thread[t].heard) {
		if (device->fresh)
			memset(device->gap[t], 0, sizeof(device->gap[t]));
		add_gap(sweep, t, later(device->gap_ns, sweep->from), to, called_ns,
			device->gap[t]);
		parts = device->gap[t];
		device->open[t] += parts[SK_PART_OPEN];
		if (!device->used && !called)
			hold_sleep(device->gap[t]);
	}
	charge(sweep->causes, to - device->gap_ns, t, parts, false, device->ns);
	device->idle = device->fresh = 0;
}

/* Return how far [from, to) reaches beyond `*end`, which becomes the later of both ends. */
static uint64_t extend(uint64_t *end, uint64_t from, uint64_t to)
{
	uint64_t start = later(from, *end);

	if (to <= start)
		return 0;
	*end = to;
	return to - start;
}

/* Return the caller's row; for unobserved time, that of the thread that called last. */
static unsigned caller_of(const struct sweep *sweep, const struct sk_trace_causes_device *device,
			  const struct sk_trace_interval *interval)
{
	if (!(interval->flags & SK_INTERVAL_COVER))
		return interval->flags >> SK_INTERVAL_CALLER_SHIFT;
	if (device->last != SK_NO_THREAD)
		return device->last;
	return sk_trace_causes_find(sweep->causes, interval->tid);
}

/* Add work that begins after all earlier work, as most does: the fast path of `overlay`. */
static bool append(struct sk_trace_causes_device *device, const struct sk_trace_interval *interval,
		   uint64_t from, uint64_t to)
{
	static const uint8_t CAUSE[] = {SK_CAUSE_KERNEL, SK_CAUSE_COPY};

	if (interval->busy > SK_BUSY_COPY || from < device->end_ns[SK_BUSY_UNSEEN])
		return false;
	device->ns[CAUSE[interval->busy]] += to - from;
	for (int kind = interval->busy; kind < SK_BUSY_KINDS; kind++)
		device->end_ns[kind] = to;
	return true;
}

/* Add work that overlaps earlier work: a kernel takes over time counted as copy or unknown. */
static void overlay(struct sk_trace_causes_device *device, const struct sk_trace_interval *interval,
		    uint64_t from, uint64_t to)
{
	uint64_t *end = device->end_ns, kernel = 0, copy = 0, known = 0, all;

	if (interval->busy <= SK_BUSY_KERNEL)
		kernel = extend(&end[SK_BUSY_KERNEL], from, to);
	if (interval->busy <= SK_BUSY_COPY)
		copy = extend(&end[SK_BUSY_COPY], from, to);
	if (interval->busy <= SK_BUSY_UNKNOWN)
		known = extend(&end[SK_BUSY_UNKNOWN], from, to);
	all = extend(&end[SK_BUSY_UNSEEN], from, to);
	device->ns[SK_CAUSE_KERNEL] += kernel;
	device->ns[SK_CAUSE_COPY] += copy - kernel;
	device->ns[SK_CAUSE_NOT_OBSERVED] += known - copy;
	device->unseen_ns += all - known;
	if (interval->flags & SK_INTERVAL_COVER)
		device->hidden_ns += known;
	else
		device->unended_ns += known - copy;
}

/* Settle one interval, in order of starts, cut to the sweep. */
static void settle(struct sweep *sweep, struct sk_trace_causes_device *device,
		   const struct sk_trace_interval *interval, uint64_t from, uint64_t to)
{
	bool cover = interval->flags & SK_INTERVAL_COVER;
	unsigned t = caller_of(sweep, device, interval);
	uint64_t end = device->end_ns[SK_BUSY_UNSEEN];
	uint64_t called_ns = interval->flags & SK_INTERVAL_UNENDED ? 0 : interval->called_ns;

	if (!device->idle && from > end)
		become_idle(sweep->causes, device, end);
	if (device->idle)
		close_gap(sweep, device, t, from, called_ns, !cover);
	if (!append(device, interval, from, to))
		overlay(device, interval, from, to);
	if (cover)
		return;
	if (t < SK_CAUSES_THREADS && !(interval->flags & SK_INTERVAL_CONTINUED))
		device->last = (uint16_t)t;
	device->used = 1;
}

/* Leave the time after the last interval, up to the frontier, as an open gap. */
static void leave_open(struct sweep *sweep, struct sk_trace_causes_device *device)
{
	if (!device->idle && device->end_ns[SK_BUSY_UNSEEN] < sweep->to)
		become_idle(sweep->causes, device, device->end_ns[SK_BUSY_UNSEEN]);
	if (!device->idle)
		return;
	clear_gap(sweep->causes, device);
	for (unsigned t = 0; t < sweep->causes->threads; t++) {
		rewind_path(sweep, t);
		add_path(sweep, t, later(device->gap_ns, sweep->from), sweep->to, device->gap[t],
			 SK_MAKERS_DEEP);
	}
}

static void sweep_device(struct sweep *sweep, unsigned d, const struct sk_trace_causes_input *input)
{
	struct sk_trace_causes_device *device = &sweep->causes->device[d];

	for (unsigned t = 0; t < SK_CAUSES_THREADS; t++)
		rewind_lane(&sweep->lanes[t]);
	for (int kind = 0; kind < SK_BUSY_KINDS; kind++)
		device->end_ns[kind] = later(device->end_ns[kind], sweep->from);
	for (size_t i = 0; sweep->present[d] && i < input->interval_count; i++) {
		const struct sk_trace_interval *interval = &input->intervals[i];
		uint64_t from = later(interval->from_ns, sweep->from);
		uint64_t to = earlier(interval->to_ns, sweep->to);

		if (interval->device == d && from < to)
			settle(sweep, device, interval, from, to);
	}
	leave_open(sweep, device);
}

/* Mark the states of every thread as known up to its newest span, or to the frontier. */
static void advance_threads(struct sweep *sweep)
{
	for (unsigned t = 0; t < sweep->causes->threads; t++) {
		struct sk_trace_causes_thread *thread = &sweep->causes->thread[t];

		if (thread->heard && thread->added_ns > sweep->from)
			thread->known_ns = earlier(thread->added_ns, sweep->to);
	}
}

/* Drop settled intervals from the input. */
static void keep_intervals(struct sk_trace_causes_input *input, uint64_t frontier)
{
	size_t kept = 0;

	for (size_t i = 0; i < input->interval_count; i++) {
		struct sk_trace_interval interval = input->intervals[i];

		if (interval.to_ns <= frontier)
			continue;
		if (interval.from_ns < frontier) {
			interval.from_ns = frontier;
			interval.flags |= SK_INTERVAL_CONTINUED;
		}
		input->intervals[kept++] = interval;
	}
	input->interval_count = kept;
}

static void keep_spans(struct sk_trace_causes_input *input, uint64_t frontier)
{
	size_t kept = 0;

	for (size_t i = 0; i < input->span_count; i++) {
		struct sk_trace_thread_span span = input->spans[i];

		if (span.to_ns <= frontier)
			continue;
		span.from_ns = later(span.from_ns, frontier);
		input->spans[kept++] = span;
	}
	input->span_count = kept;
}

/* Return the row of a caller, made if it is new; mostly a few threads alternate. */
static unsigned know_caller(struct sk_trace_causes *causes, uint32_t tid, uint16_t cache[CALLERS])
{
	unsigned at = tid % CALLERS, t = cache[at];

	if (t < SK_CAUSES_THREADS && causes->thread[t].tid == tid)
		return t;
	t = sk_trace_causes_meet(causes, tid);
	cache[at] = (uint16_t)t;
	if (t == SK_NO_THREAD)
		return SK_INTERVAL_NOBODY;
	causes->thread[t].launched = 1;
	return t;
}

static uint64_t gone_ns(const struct sk_trace_causes *causes, uint32_t tid)
{
	unsigned t = sk_trace_causes_find(causes, tid);

	return t == SK_NO_THREAD ? 0 : causes->thread[t].gone_ns;
}

/* End the work of a process that is gone when the last of its known threads ended: its first thread
 * or the caller. The process was found to be gone later, and that delay is not work. */
static void end_with_process(const struct sk_trace_causes *causes,
			     struct sk_trace_interval *interval)
{
	uint64_t first = gone_ns(causes, (uint32_t)interval->process);
	uint64_t caller = gone_ns(causes, interval->tid);

	/* A thread that ended before had the same id earlier. */
	if (first > interval->from_ns && caller > interval->from_ns)
		interval->to_ns = earlier(interval->to_ns, later(first, caller));
}

static void cut_late(struct sk_trace_causes *causes, struct sk_trace_causes_input *input,
		     bool *present)
{
	uint16_t cache[CALLERS];

	memset(cache, 0xff, sizeof(cache));
	for (size_t i = 0; i < input->interval_count; i++) {
		struct sk_trace_interval *interval = &input->intervals[i];

		present[interval->device] = true;
		if (interval->flags & SK_INTERVAL_COVER) {
			interval->from_ns = later(interval->from_ns, causes->frontier_ns);
			continue;
		}
		if (interval->flags & SK_INTERVAL_UNENDED)
			end_with_process(causes, interval);
		/* Callers get their rows before the sweep, during which rows must not move. */
		unsigned t = know_caller(causes, interval->tid, cache);

		interval->flags = (uint16_t)((interval->flags & SK_INTERVAL_FLAGS) |
					     t << SK_INTERVAL_CALLER_SHIFT);
		uint64_t from = later(interval->from_ns, causes->origin_ns);
		uint64_t late = overlap(from, interval->to_ns, 0, causes->frontier_ns);

		causes->late_intervals += late > 0;
		causes->late_ns += late;
		interval->from_ns = later(from, causes->frontier_ns);
		if (interval->device < SK_CAUSES_DEVICES)
			sk_trace_causes_know(causes, interval->device);
	}
}

static void sweep_to(struct sk_trace_causes *causes, uint64_t frontier_ns,
		     struct sk_trace_causes_input *input)
{
	struct sweep sweep = {.causes = causes,
			      .from = causes->frontier_ns,
			      .to = frontier_ns,
			      .runner = SK_NO_THREAD};

	if (frontier_ns <= causes->frontier_ns)
		return;
	cut_late(causes, input, sweep.present);
	sweep.runner = sk_trace_runners_last(causes);
	sk_trace_causes_sort(input->intervals, input->interval_count, input->scratch);
	sk_trace_causes_sort_spans(input->spans, input->span_count);
	index_spans(&sweep, input);
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++)
		if (causes->device_known[d])
			sweep_device(&sweep, d, input);
	advance_threads(&sweep);
	sk_trace_runners_keep(causes, sweep.runner);
	causes->frontier_ns = frontier_ns;
	keep_intervals(input, frontier_ns);
	keep_spans(input, frontier_ns);
}

void sk_trace_causes_sweep(struct sk_trace_causes *causes, uint64_t frontier_ns,
			   struct sk_trace_causes_input *input)
{
	if (causes->called_ns > causes->frontier_ns && causes->called_ns <= frontier_ns) {
		sweep_to(causes, causes->called_ns, input);
		set_sleep_apart(causes);
	}
	sweep_to(causes, frontier_ns, input);
}

void sk_trace_causes_read(const struct sk_trace_causes *causes, unsigned d, bool ended,
			  uint64_t ret[SK_CAUSES])
{
	const struct sk_trace_causes_device *device = &causes->device[d];
	uint64_t gap = causes->frontier_ns - device->gap_ns, parts[SK_PARTS];

	memcpy(ret, device->ns, sizeof(device->ns));
	if (!device->used) { /* the device was never used, so no thread kept it waiting */
		memset(ret, 0, sizeof(device->ns));
		ret[SK_CAUSE_NOT_OBSERVED] = device->hidden_ns;
		ret[SK_CAUSE_HELD_IDLE] = causes->frontier_ns - causes->origin_ns -
					  device->hidden_ns - device->unseen_ns;
		return;
	}
	if (!device->idle)
		return;
	if (device->last == SK_NO_THREAD) {
		ret[SK_CAUSE_NOT_OBSERVED] += gap;
		return;
	}
	memcpy(parts, device->gap[device->last], sizeof(parts));
	hold_sleep(parts);
	charge(causes, gap, device->last, parts, ended, ret);
}

bool sk_trace_causes_check(const struct sk_trace_causes *causes)
{
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		uint64_t ns[SK_CAUSES], sum = causes->device[d].unseen_ns;

		if (!causes->device_known[d])
			continue;
		sk_trace_causes_read(causes, d, false, ns);
		for (int cause = 0; cause < SK_CAUSES; cause++)
			sum += ns[cause];
		if (sum != causes->frontier_ns - causes->origin_ns)
			return false;
	}
	return true;
}
