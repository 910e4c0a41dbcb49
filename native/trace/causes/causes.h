/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The causes of device time: every nanosecond of the window of each device gets exactly one cause.
 *
 * One sweep goes over one timeline of intervals in which a device worked and of spans of the job's
 * threads. A moment is the first of these that holds:
 *   kernel        A kernel ran.
 *   copy          A copy ran and no kernel.
 *   not observed  A launch was in flight whose end was never seen (the job was killed).
 *   a gap         Anything else.
 *
 * A whole gap is charged to the thread whose call ended it, because the device waited for that
 * thread, and is divided by that thread's states: on a CPU, runnable, blocked, in I/O or paging.
 * Before the thread existed and after it ended, the thread that made it stands for it; if none is
 * known, that time is held idle. Time that its spans do not cover is not observed. The part of its
 * time on a CPU that a thread spent in page faults is in its spans, and is paging.
 *
 * A gap that no call has ended goes to the thread that called last; a device that was never called
 * is held idle. A sleeping thread keeps nothing waiting if no call is under way: time blocked in a
 * gap that no call has ended, or before the job first called any device (sk_trace_causes_called),
 * is held idle. A thread that is blocked because its launch is throttled is throttled, whether a
 * call has ended the gap or not, because the call is under way. A thread that waits for its peers
 * in a collective call (sk_trace_causes_add_peer) waits for them in whatever state it is: most
 * libraries wait on a CPU.
 *
 * A driver whose device is the CPU has threads that do the work. The device waits for such a thread
 * after the end of a command, while the caller is blocked until that thread wakes it, and from when
 * a call wakes it to the start of the command.
 *
 * Time in which a tracer did not look on purpose also ends a gap: the part before it goes to the
 * thread that called last. That time is in no cause until it is estimated (unseen_ns).
 *
 * Spans may be late: the open state of a thread counts as not observed until its span comes, and is
 * then moved to its place, exactly, if it joins the thread's previous span.
 *
 * Invariant: the causes and the unseen time of a device add up to frontier - origin, always
 * (sk_trace_causes_check). Memory: the caller's fixed block; plain data, so that a copy is a
 * snapshot. Threads: one.
 */
#ifndef SK_TRACE_CAUSES_CAUSES_H
#define SK_TRACE_CAUSES_CAUSES_H

#include <stdbool.h>
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum sk_trace_cause {
	SK_CAUSE_KERNEL,
	SK_CAUSE_COPY,
	SK_CAUSE_ON_CPU,
	SK_CAUSE_RUNNABLE,
	SK_CAUSE_BLOCKED,
	SK_CAUSE_PAGING,
	SK_CAUSE_PEER,
	SK_CAUSE_THROTTLED,
	SK_CAUSE_HELD_IDLE,
	SK_CAUSE_NOT_OBSERVED,
	SK_CAUSES,
};

enum {
	SK_CAUSES_DEVICES = 16,
	SK_CAUSES_ROWS =
		17, /* the devices, and one that is never used: see sk_trace_causes_device */
	SK_CAUSES_THREADS = 512,
	SK_CAUSES_HINTS = 1024, /* a power of two */
	SK_NO_THREAD = 0xffff,
};

/** Kinds of device time; each takes over time from those behind it. A caller estimates unseen time.
 */
enum sk_trace_busy { SK_BUSY_KERNEL, SK_BUSY_COPY, SK_BUSY_UNKNOWN, SK_BUSY_UNSEEN, SK_BUSY_KINDS };

enum {
	SK_INTERVAL_CONTINUED = 1, /* the rest of one whose start is settled */
	SK_INTERVAL_COVER = 2,	   /* no caller: time in which the device was not seen */
	SK_INTERVAL_UNENDED = 4,   /* its end was not seen: its process's end is the latest */
	SK_INTERVAL_FLAGS = 15,
	SK_INTERVAL_CALLER_SHIFT = 4, /* during a sweep: the caller's row, or SK_INTERVAL_NOBODY */
	SK_INTERVAL_NOBODY = 0xfff,
};

/** An interval in which a device worked. */
struct sk_trace_interval {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t tid; /* who called */
	uint8_t device;
	uint8_t busy; /* enum sk_trace_busy */
	uint16_t flags;
	union {
		uint64_t called_ns; /* entry of the call, where threads of the host do the work */
		uint64_t process;   /* unended: its id, which is that of its first thread */
	};
};
static_assert(sizeof(struct sk_trace_interval) == 32, "intervals have no padding");

/** Values of a span's `state` beside the four states of a thread. */
enum {
	SK_THREAD_MADE = 5, /* at `from_ns`, by the thread whose id is in `to_ns` */
	SK_THREAD_GONE = 6, /* at `from_ns` */
	SK_THREAD_HELD =
		7, /* its launch was held back; of input spans, from sk_trace_causes_add_held */
	SK_THREAD_PEER = 8, /* it waited for peers; of input spans, from sk_trace_causes_add_peer */
};

enum { SK_FAULTED_ALL = 0xfffe }; /* SK_SPAN_FAULTED_ALL */

/** A thread in one state; the layout of native/records/span.h. */
struct sk_trace_thread_span {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t tid;
	uint16_t state; /* 1 on CPU, 2 runnable, 3 blocked, 4 blocked in I/O or paging; see above */
	uint16_t detail; /* on a CPU: in page faults, in parts of SK_FAULTED_ALL; above: unknown */
};
static_assert(sizeof(struct sk_trace_thread_span) == 24, "contract page: a span is 24 bytes");

/** Parts of one gap as one thread saw it; the first four are span states 1 to 4. */
enum sk_trace_part {
	SK_PART_OPEN = 4,
	SK_PART_LOST = 5,
	SK_PART_HELD = 6,
	SK_PART_THROTTLED = 7,
	SK_PART_PEER = 8,
	SK_PARTS = 9,
};

struct sk_trace_causes_thread {
	uint32_t tid;
	uint16_t launched; /* has called a device */
	uint16_t heard;	   /* has had a span */
	uint64_t first_ns; /* start of its first span */
	uint64_t known_ns; /* states are known up to here, at most the frontier */
	uint64_t added_ns; /* end of its newest span */
	uint64_t open_ns;  /* start of the newest state taken in while it went on */
	uint64_t gone_ns;  /* when it ended; 0: unknown */
	uint64_t held_ns;  /* end of the newest time in which its launch was held */
	uint64_t peer_ns;  /* end of the newest time in which it waited for peers */
	uint32_t maker;	   /* the thread that made it and stands for it while it does not exist; 0:
			      none */
	uint16_t maker_row;
	uint8_t made;	  /* its beginning is known */
	uint8_t runner;	  /* of a driver's threads it is the one that was found last */
	uint64_t seen[4]; /* what its spans add up to, by state */
};

struct sk_trace_causes_device {
	uint64_t ns[SK_CAUSES]; /* settled */
	uint64_t hidden_ns;	/* part of not observed: no tracer saw it */
	uint64_t unended_ns;	/* part of not observed: launches whose end was never seen */
	uint64_t unseen_ns;	/* settled, and in no cause */
	uint64_t end_ns[SK_BUSY_KINDS]; /* end of kernels; of kernels and copies; ... of all */
	uint64_t gap_ns;		/* start of the gap that is open at the frontier */
	uint8_t idle;			/* a gap is open */
	uint8_t fresh;			/* `gap` is not cleared for the open gap yet */
	uint16_t last;			/* thread that called last, or SK_NO_THREAD */
	uint32_t used;
	uint64_t gap[SK_CAUSES_THREADS][SK_PARTS]; /* the open gap, as each thread saw it */
	uint64_t open[SK_CAUSES_THREADS]; /* settled as not observed, until the span comes */
};

struct sk_trace_causes {
	uint64_t origin_ns;
	uint64_t frontier_ns; /* settled up to here */
	uint64_t called_ns;   /* a process first called a device; 0: none has */
	uint32_t threads;
	uint32_t spans_seen;
	uint64_t late_intervals; /* came after their time was settled */
	uint64_t late_ns;
	uint64_t broken_spans;	    /* did not join the thread's previous one: time was lost */
	uint64_t threads_untracked; /* spans or calls of threads beyond the table */
	uint64_t late_waits;	    /* for peers: came after their time was settled */
	uint32_t device_known[SK_CAUSES_ROWS];
	uint16_t hint[SK_CAUSES_HINTS]; /* by a thread's id: where it may have its row */
	struct sk_trace_causes_thread thread[SK_CAUSES_THREADS];
	struct sk_trace_causes_device device[SK_CAUSES_ROWS];
};

/** The input of a sweep; both arrays belong to the caller and are reordered. */
struct sk_trace_causes_input {
	struct sk_trace_interval *intervals;
	size_t interval_count;
	struct sk_trace_thread_span
		*spans; /* only what sk_trace_causes_add_span left to be settled */
	size_t span_count;
	struct sk_trace_interval *scratch; /* room for as many intervals, or NULL */
};

/** Start with nothing known and all time from `origin_ns` on unsettled. */
void sk_trace_causes_init(struct sk_trace_causes *causes, uint64_t origin_ns);

/** Make `device` known; its gap reaches back to the origin. A second call changes nothing. */
void sk_trace_causes_know(struct sk_trace_causes *causes, unsigned device);

/** Note that a process of the job called a device for the first time at `at_ns`; only the first
 * call counts. A thread that was blocked before it kept no device waiting. */
void sk_trace_causes_called(struct sk_trace_causes *causes, uint64_t at_ns);

/** Take in a span, or a thread's beginning or end. The span is cut to time that was not known yet;
 * false when nothing remains. `ret` is the part beyond the frontier, which belongs into the input;
 * it is empty when its ends meet. */
bool sk_trace_causes_add_span(struct sk_trace_causes *causes, struct sk_trace_thread_span *span,
			      struct sk_trace_thread_span *ret);

/** Take in that a launch of thread `held->tid` was throttled from `from_ns` to `to_ns`: the time in
 * which the thread was blocked becomes throttled. It is cut to what is neither settled nor known
 * and becomes a span of the input; false when nothing remains. Late time stays blocked. */
bool sk_trace_causes_add_held(struct sk_trace_causes *causes, struct sk_trace_thread_span *held);

/** Take in that thread `wait->tid` waited for its peers from `from_ns` to `to_ns`, whatever its
 * state. It is cut as above; what is cut off because it is settled is counted. */
bool sk_trace_causes_add_peer(struct sk_trace_causes *causes, struct sk_trace_thread_span *wait);

/** Return whether an open state joins what is known of its thread, or is the state that was open
 * before. Any other is stale, or spans before it are still under way and it would bar them. */
bool sk_trace_causes_joins(const struct sk_trace_causes *causes,
			   const struct sk_trace_thread_span *open);

/** Remember that the state of an open span goes on, after it was taken in. */
void sk_trace_causes_goes_on(struct sk_trace_causes *causes,
			     const struct sk_trace_thread_span *open);

/** Sort intervals by start, stably. It is cheap if they are nearly in order. `scratch` has room for
 * as many, or is NULL. */
void sk_trace_causes_sort(struct sk_trace_interval *intervals, size_t count,
			  struct sk_trace_interval *scratch);

/** Sort spans by thread and start; those of states SK_THREAD_HELD and SK_THREAD_PEER come behind
 * all others. */
void sk_trace_causes_sort_spans(struct sk_trace_thread_span *spans, size_t count);

/** Return up to when a sweep to `frontier_ns` divides no gap that began less than `young_ns` before
 * it: the end of the newest work. A gap that is divided loses its first part, in which the device
 * waits for a driver's thread. Where no such thread is known, all of it may be settled. */
uint64_t sk_trace_causes_whole(const struct sk_trace_causes *causes, uint64_t frontier_ns,
			       uint64_t young_ns, const struct sk_trace_causes_input *input);

/** Settle everything up to `frontier_ns`; the input keeps what reaches beyond it. An interval that
 * starts earlier and comes later is cut and counted. */
void sk_trace_causes_sweep(struct sk_trace_causes *causes, uint64_t frontier_ns,
			   struct sk_trace_causes_input *input);

/** Read the causes of a device up to the frontier, its open gap included. `ended`: no process of
 * the job remains, so a thread without a further span is gone. */
void sk_trace_causes_read(const struct sk_trace_causes *causes, unsigned device, bool ended,
			  uint64_t ret[SK_CAUSES]);

/** Return whether the settled causes and the open gap of every device add up. */
bool sk_trace_causes_check(const struct sk_trace_causes *causes);

/** The input of an estimate; times in ns. */
struct sk_trace_causes_estimate {
	uint64_t kernel_ns; /* estimated device time, before it is cut to the window */
	uint64_t copy_ns;
	bool has_host; /* host[] has aggregates of the feeding threads, summed */
	uint64_t host[4];
	uint64_t host_longest_ns; /* observed life of the longest-lived of them */
	uint64_t held_ns;	  /* part of their blocked time: launches were throttled */
	uint64_t unseen_ns;	  /* in no cause yet: divided as the rest is */
	uint64_t hidden_ns;	  /* part of not observed: stays so */
	bool by_window;		  /* what was not seen is all in `unseen_ns` and `missed_ns` */
	uint64_t missed_ns;	  /* of busy time, in the time that is in a cause */
};

/** Replace exact causes by estimated ones where not every launch was timed, or divide the gaps by
 * aggregates where there are no spans. The sum grows by the unseen time. */
void sk_trace_causes_estimate(const struct sk_trace_causes_estimate *estimate,
			      uint64_t causes[SK_CAUSES]);

#endif
