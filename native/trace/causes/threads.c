/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a job and their spans, early or late, by the rules of causes.h. */
#include "trace/causes/causes_parts.h"

#include <string.h>

static void clear_row(struct sk_trace_causes *causes, unsigned t)
{
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		memset(causes->device[d].gap[t], 0, sizeof(causes->device[d].gap[t]));
		causes->device[d].open[t] = 0;
	}
}

/* Return whether the gap of a device goes to this thread while no call is under way. */
static bool called_last(const struct sk_trace_causes *causes, unsigned t)
{
	for (unsigned d = 0; d < SK_CAUSES_DEVICES; d++)
		if (causes->device_known[d] && causes->device[d].last == t)
			return true;
	return false;
}

/* Return the thread that ended first, behind the frontier: its calls are settled. */
static unsigned first_gone(const struct sk_trace_causes *causes)
{
	unsigned victim = SK_NO_THREAD;

	for (unsigned t = 0; t < SK_CAUSES_THREADS; t++) {
		uint64_t gone_ns = causes->thread[t].gone_ns;

		if (gone_ns && gone_ns < causes->frontier_ns &&
		    (victim == SK_NO_THREAD || gone_ns < causes->thread[victim].gone_ns) &&
		    !called_last(causes, t))
			victim = t;
	}
	return victim;
}

static unsigned longest_silent(const struct sk_trace_causes *causes)
{
	unsigned victim = SK_NO_THREAD;

	for (unsigned t = 0; t < SK_CAUSES_THREADS; t++)
		if (!causes->thread[t].launched &&
		    (victim == SK_NO_THREAD ||
		     causes->thread[t].added_ns < causes->thread[victim].added_ns))
			victim = t;
	return victim;
}

/* Return a row for one more thread: a new one, that of the thread longest gone, or of the one
 * longest silent that is no caller. */
static unsigned vacate(struct sk_trace_causes *causes)
{
	unsigned victim;

	if (causes->threads < SK_CAUSES_THREADS)
		return causes->threads++;
	victim = first_gone(causes);
	if (victim == SK_NO_THREAD) {
		victim = longest_silent(causes);
		causes->threads_untracked++; /* the old thread of the row, or the new one */
	}
	if (victim != SK_NO_THREAD)
		clear_row(causes, victim);
	return victim;
}

unsigned sk_trace_causes_find(const struct sk_trace_causes *causes, uint32_t tid)
{
	for (unsigned t = 0; t < causes->threads; t++)
		if (causes->thread[t].tid == tid)
			return t;
	return SK_NO_THREAD;
}

unsigned sk_trace_causes_meet(struct sk_trace_causes *causes, uint32_t tid)
{
	uint16_t *hint = &causes->hint[tid % SK_CAUSES_HINTS];
	unsigned t = *hint;

	if (t < causes->threads && causes->thread[t].tid == tid)
		return t;
	t = sk_trace_causes_find(causes, tid);
	if (t == SK_NO_THREAD) {
		t = vacate(causes);
		if (t == SK_NO_THREAD)
			return t;
		causes->thread[t] = (struct sk_trace_causes_thread){.tid = tid};
	}
	*hint = (uint16_t)t;
	return t;
}

unsigned sk_trace_causes_maker(const struct sk_trace_causes *causes, unsigned t)
{
	uint32_t maker = causes->thread[t].maker;
	unsigned row = causes->thread[t].maker_row;

	/* The row may belong to another thread by now. */
	if (!maker || row >= causes->threads || causes->thread[row].tid != maker)
		return SK_NO_THREAD;
	return causes->thread[row].heard ? row : SK_NO_THREAD;
}

/* Return the thread that stands for thread `t` now: itself, or its nearest maker that exists. */
static unsigned stand_in(const struct sk_trace_causes *causes, unsigned t)
{
	for (int deep = 0; deep < SK_MAKERS_DEEP && causes->thread[t].gone_ns; deep++) {
		unsigned maker = sk_trace_causes_maker(causes, t);

		if (maker == SK_NO_THREAD)
			break;
		t = maker;
	}
	return t;
}

/* Place what was open in the gap of thread `last`, which called last and is gone, now that thread
 * `t` stands for it. */
static void place_for(struct sk_trace_causes *causes, struct sk_trace_causes_device *device,
		      unsigned t, uint64_t from, uint64_t to,
		      const struct sk_trace_thread_span *span)
{
	unsigned last = device->last;

	if (last >= SK_CAUSES_THREADS || last == t || stand_in(causes, last) != t)
		return;
	uint64_t *gap = device->gap[last], gone = causes->thread[last].gone_ns;
	uint64_t ns = overlap(later(from, gone), to, device->gap_ns, causes->frontier_ns);

	ns = earlier(ns, gap[SK_PART_OPEN]);
	gap[SK_PART_OPEN] -= ns;
	gap[span->state - 1] += ns - faulted(span, ns);
	gap[SK_CAUSE_PAGING - SK_CAUSE_ON_CPU] += faulted(span, ns);
}

/* Place the state of `span` in [from, to), which the sweep has passed as open. In the gap that is
 * still open this is exact. */
static void place_late(struct sk_trace_causes *causes, unsigned t, uint64_t from, uint64_t to,
		       const struct sk_trace_thread_span *span)
{
	int part = span->state - 1;

	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		struct sk_trace_causes_device *device = &causes->device[d];

		if (!causes->device_known[d] || !device->idle)
			continue;
		uint64_t ns = overlap(from, to, device->gap_ns, causes->frontier_ns), held = 0;

		/* Time in which it waited for peers is not open: that was known before. */
		ns = earlier(ns, device->gap[t][SK_PART_OPEN]);
		uint64_t paging = faulted(span, ns);

		if (part == SK_CAUSE_BLOCKED - SK_CAUSE_ON_CPU && !device->used)
			held = earlier(ns, overlap(from, earlier(to, causes->called_ns),
						   device->gap_ns, causes->frontier_ns));
		device->gap[t][SK_PART_OPEN] -= ns;
		device->gap[t][SK_PART_HELD] += held;
		device->gap[t][part] += ns - held - paging;
		device->gap[t][SK_CAUSE_PAGING - SK_CAUSE_ON_CPU] += paging;
		place_for(causes, device, t, from, to, span);
	}
}

/* Place open time of closed gaps: all of it was this span or, if there were several states, it
 * stays lost. */
static void place_closed(struct sk_trace_causes *causes, unsigned t, bool whole,
			 const struct sk_trace_thread_span *span)
{
	for (unsigned d = 0; d < SK_CAUSES_DEVICES; d++) {
		struct sk_trace_causes_device *device = &causes->device[d];
		uint64_t ns = device->open[t], paging = faulted(span, ns);

		device->open[t] = 0;
		if (!ns || !whole)
			continue;
		device->ns[SK_CAUSE_NOT_OBSERVED] -= ns;
		device->ns[SK_CAUSE_ON_CPU + span->state - 1] += ns - paging;
		device->ns[SK_CAUSE_PAGING] += paging;
	}
}

/* Start the open time of a thread at its first span, and not before. */
static void become_known(struct sk_trace_causes *causes, unsigned t, uint64_t from)
{
	struct sk_trace_causes_thread *thread = &causes->thread[t];

	thread->heard = 1;
	thread->first_ns = thread->known_ns = from;
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		struct sk_trace_causes_device *device = &causes->device[d];

		if (causes->device_known[d] && device->idle)
			device->gap[t][SK_PART_OPEN] += overlap(
				from, causes->frontier_ns, device->gap_ns, causes->frontier_ns);
	}
}

/* Let the maker's time in open gaps stand for a new thread. The maker is on a CPU now, so its open
 * time is that. */
static void inherit(struct sk_trace_causes *causes, unsigned t, unsigned maker)
{
	causes->thread[t].maker = causes->thread[maker].tid;
	causes->thread[t].maker_row = (uint16_t)maker;
	for (unsigned d = 0; d < SK_CAUSES_ROWS; d++) {
		struct sk_trace_causes_device *device = &causes->device[d];

		if (!causes->device_known[d] || !device->idle || device->fresh)
			continue;
		memcpy(device->gap[t], device->gap[maker], sizeof(device->gap[t]));
		device->gap[t][0] += device->gap[t][SK_PART_OPEN];
		device->gap[t][SK_PART_OPEN] = 0;
	}
}

static void make(struct sk_trace_causes *causes, const struct sk_trace_thread_span *span)
{
	uint64_t at = later(span->from_ns, causes->origin_ns);
	unsigned t = sk_trace_causes_meet(causes, span->tid), maker;

	if (t == SK_NO_THREAD)
		return;
	if (causes->thread[t].gone_ns) { /* its id is used again */
		clear_row(causes, t);
		causes->thread[t] = (struct sk_trace_causes_thread){.tid = span->tid};
	}
	if (causes->thread[t].heard)
		return;
	become_known(causes, t, at);
	causes->thread[t].made = 1;
	maker = sk_trace_causes_find(causes, (uint32_t)span->to_ns);
	/* If the maker's time is settled, its states at that time are no longer known. */
	if (at >= causes->frontier_ns && maker != SK_NO_THREAD && maker != t &&
	    causes->thread[maker].heard)
		inherit(causes, t, maker);
}

static void end(struct sk_trace_causes *causes, const struct sk_trace_thread_span *span)
{
	unsigned t = sk_trace_causes_find(causes, span->tid);

	if (t != SK_NO_THREAD && causes->thread[t].heard)
		causes->thread[t].gone_ns = later(span->from_ns, causes->origin_ns);
}

static const struct sk_trace_thread_span LOST = {.state = SK_PART_LOST + 1};

/* Add the part of a span that lies before the frontier. */
static void add_late(struct sk_trace_causes *causes, unsigned t,
		     const struct sk_trace_thread_span *span)
{
	struct sk_trace_causes_thread *thread = &causes->thread[t];
	uint64_t frontier = causes->frontier_ns, to = earlier(span->to_ns, frontier);
	bool joins = span->from_ns == thread->known_ns;

	if (!joins)
		place_late(causes, t, thread->known_ns, earlier(span->from_ns, frontier), &LOST);
	if (span->from_ns < to)
		place_late(causes, t, span->from_ns, to, span);
	place_closed(causes, t, joins && to == frontier, span);
	causes->broken_spans += !joins;
	thread->known_ns = to;
}

static void count_seen(struct sk_trace_causes_thread *thread,
		       const struct sk_trace_thread_span *span)
{
	uint64_t ns = span->to_ns - span->from_ns, handling = faulted(span, ns);

	thread->seen[span->state - 1] += ns - handling;
	thread->seen[3] += handling;
}

bool sk_trace_causes_add_span(struct sk_trace_causes *causes, struct sk_trace_thread_span *span,
			      struct sk_trace_thread_span *ret)
{
	if (span->state == SK_THREAD_MADE)
		make(causes, span);
	else if (span->state == SK_THREAD_GONE)
		end(causes, span);
	if (span->state < 1 || span->state > 4 || span->to_ns <= span->from_ns)
		return false;
	unsigned t = sk_trace_causes_meet(causes, span->tid);

	if (t == SK_NO_THREAD)
		return false;
	struct sk_trace_causes_thread *thread = &causes->thread[t];

	span->from_ns = later(later(span->from_ns, thread->added_ns), causes->origin_ns);
	if (span->to_ns <= span->from_ns)
		return false;
	causes->spans_seen = 1;
	if (span->to_ns >
	    thread->gone_ns) /* a thread that executes a program takes its leader's id */
		thread->gone_ns = 0;
	if (!thread->heard)
		become_known(causes, t, span->from_ns);
	if (thread->known_ns < causes->frontier_ns)
		add_late(causes, t, span);
	thread->added_ns = span->to_ns;
	count_seen(thread, span);
	*ret = *span;
	ret->from_ns = earlier(later(span->from_ns, causes->frontier_ns), span->to_ns);
	return true;
}

/* Cut a time that lies over the states of thread `t` to what comes behind `from_ns`, where the
 * newest such time ends, and behind the frontier; false when nothing remains. */
static bool cut_overlay(const struct sk_trace_causes *causes, struct sk_trace_thread_span *span,
			uint16_t state, uint64_t from_ns)
{
	span->state = state;
	span->from_ns = later(span->from_ns, later(causes->frontier_ns, from_ns));
	return span->to_ns > span->from_ns;
}

bool sk_trace_causes_add_held(struct sk_trace_causes *causes, struct sk_trace_thread_span *held)
{
	unsigned t = sk_trace_causes_meet(causes, held->tid);

	if (t == SK_NO_THREAD ||
	    !cut_overlay(causes, held, SK_THREAD_HELD, causes->thread[t].held_ns))
		return false;
	causes->thread[t].held_ns = held->to_ns;
	return true;
}

bool sk_trace_causes_add_peer(struct sk_trace_causes *causes, struct sk_trace_thread_span *wait)
{
	unsigned t = sk_trace_causes_meet(causes, wait->tid);

	causes->late_waits += wait->from_ns < causes->frontier_ns;
	if (t == SK_NO_THREAD ||
	    !cut_overlay(causes, wait, SK_THREAD_PEER, causes->thread[t].peer_ns))
		return false;
	causes->thread[t].peer_ns = wait->to_ns;
	return true;
}

bool sk_trace_causes_joins(const struct sk_trace_causes *causes,
			   const struct sk_trace_thread_span *open)
{
	unsigned t = sk_trace_causes_find(causes, open->tid);

	return t == SK_NO_THREAD || !causes->thread[t].heard ||
	       causes->thread[t].added_ns == open->from_ns ||
	       causes->thread[t].open_ns == open->from_ns;
}

void sk_trace_causes_goes_on(struct sk_trace_causes *causes,
			     const struct sk_trace_thread_span *open)
{
	unsigned t = sk_trace_causes_find(causes, open->tid);

	if (t != SK_NO_THREAD)
		causes->thread[t].open_ns = open->from_ns;
}
