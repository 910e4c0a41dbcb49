/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The functions and records that the files of the sweep share; other code uses causes.h.
 */
#ifndef SK_TRACE_CAUSES_CAUSES_PARTS_H
#define SK_TRACE_CAUSES_CAUSES_PARTS_H

#include "trace/causes/causes.h"

static inline uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t overlap(uint64_t from, uint64_t to, uint64_t a, uint64_t b)
{
	from = later(from, a);
	to = earlier(to, b);
	return to > from ? to - from : 0;
}

/** Times of one thread that lie over its states, and how far a walk along them has come. */
struct sk_trace_overlay {
	const struct sk_trace_thread_span *first;
	size_t count;
	size_t next;
};

/** The spans of one thread, and how far a walk along them has come. */
struct sk_trace_lane {
	const struct sk_trace_thread_span *spans;
	size_t count;
	size_t next;
	struct sk_trace_overlay held; /* its launches were throttled */
	struct sk_trace_overlay peer; /* it waited for its peers */
};

/** A gap, and the threads that stand in for its caller at its ends; SK_NO_THREAD for none. */
struct sk_trace_runners {
	uint64_t from_ns;
	uint64_t to_ns;
	unsigned caller;
	unsigned before; /* ran the command before it, and goes on up to `done_ns` */
	unsigned after;	 /* runs the command after it, and was woken at `woken_ns` */
	uint64_t done_ns;
	uint64_t awake_ns; /* up to when `before` runs, or could, and never sleeps */
	uint64_t woken_ns;
};

/** Fill in the other fields. `called_ns`: entry of the call that ended the gap; `hint`: the thread
 * that was found last. */
void sk_trace_runners_find(const struct sk_trace_lane *lanes, unsigned threads, uint64_t called_ns,
			   unsigned *hint, struct sk_trace_runners *ret);

/** Return whether the caller sleeps again, at `at` or later, until the thread that ran the command
 * before the gap wakes it; `ret` is that sleep. */
bool sk_trace_runners_next(const struct sk_trace_lane *lanes, const struct sk_trace_runners *ends,
			   uint64_t at, struct sk_trace_thread_span *ret);

/** Return the row of the driver's thread that was found last, or SK_NO_THREAD. */
unsigned sk_trace_runners_last(const struct sk_trace_causes *causes);

/** Remember this row as that of the driver's thread that was found last. */
void sk_trace_runners_keep(struct sk_trace_causes *causes, unsigned runner);

enum { SK_MAKERS_DEEP = 8 /* how many makers, one behind the other, are followed */ };

/** Return how much of `ns` of this span on a CPU was inside page faults. */
static inline uint64_t faulted(const struct sk_trace_thread_span *span, uint64_t ns)
{
	if (span->state != 1 || span->detail > SK_FAULTED_ALL)
		return 0;
	return (uint64_t)((unsigned __int128)ns * span->detail / SK_FAULTED_ALL);
}

/** Return the row of a thread, or SK_NO_THREAD. */
unsigned sk_trace_causes_find(const struct sk_trace_causes *causes, uint32_t tid);

/** Return the row of a thread, made if it is new; SK_NO_THREAD, counted, if there is no room. */
unsigned sk_trace_causes_meet(struct sk_trace_causes *causes, uint32_t tid);

/** Return the row of the thread that made thread `t`, or SK_NO_THREAD. */
unsigned sk_trace_causes_maker(const struct sk_trace_causes *causes, unsigned t);

#endif
