/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The values of the scheduling tables: one living thread, and one job with its ended threads.
 *
 * A thread's times are written under its run queue's lock, so by one CPU at a time; a job's by
 * atomics.
 */
#ifndef SK_RECORDS_THREAD_H
#define SK_RECORDS_THREAD_H

#include "records/span.h"

#define SK_DELAY_BUCKETS 32

struct sk_times {
	__u64 ns[SK_SPAN_STATES]; /* by state - 1 */
	__u64 switches;		  /* times switched in */
	__u64 wakeups;
	__u64 longest_delay_ns;
	__u64 fault_ns;	    /* part of the blocked times: inside a page fault of user code */
	__u64 memory_ns;    /* part of the blocked times: for lack of memory, as PSI counts it */
	__u64 minor_faults; /* page faults up to its last switch, by the kernel's own count */
	__u64 major_faults; /* those that had to wait for a disk */
	__u64 stolen_ns; /* part of the time on CPU: the CPU ran something that is no thread of this
			    kernel */
	__u64 delays[SK_DELAY_BUCKETS]; /* log2 of the wait for a CPU in ns */
	/* Each of these grows by itself, on the CPU that runs the thread. */
	__u64 irq_ns; /* part of the time on CPU: taken by interrupts */
	__u64 softirq_ns;
	__u64 user_faults; /* page faults by mode; only while its job opts in */
	__u64 kernel_faults;
	__u64 handling_ns; /* part of the time on CPU: in page faults; only while its job opts in */
};

/* Reasons of a blocked thread, besides its state. */
#define SK_WAIT_FAULT 1u
#define SK_WAIT_MEMORY 2u

/* The key is the task's address: a thread that execs takes its leader's tid, the task stays. */
struct sk_thread_row {
	__u64 job;
	__u64 seen_ns;
	__u64 since_ns;
	__u32 tid;
	__u16 state; /* 0: the entry is being made */
	__u16 detail;
	__u32 waits;	/* SK_WAIT_* of the open interval */
	__u32 sequence; /* odd while an interval is being closed: the entry is between two moments
			 */
	__u64 reclaim_since_ns; /* 0: it reclaims no memory */
	__u64 fence_since_ns;	/* 0: it waits for no fence */
	__u64 minor_seen;	/* the kernel's counts at the last look */
	__u64 major_seen;
	struct sk_times times; /* without the interval since `since_ns` */
	__u64 fault_since_ns;  /* its time on CPU when the open page fault began; 0: none */
	__u64 handled_ns;      /* spent in page faults, and in no closed interval yet */
	__u64 handled_to_ns;   /* end of the newest page fault */
	__u64 taken_ns;	       /* when it took the CPU; 0: not known */
	__u64 ran_ns;	       /* time it had run until then, by the kernel */
};

/* Ways of following a job; a job without a mode is accounted and expires after its last thread. */
enum sk_job_mode {
	SK_JOB_KEPT = 1,
	SK_JOB_FULL = 2, /* kept, and every interval becomes a span */
};

/* The key is the id of the job's cgroup. The modes have a table of their own: the loader can only
 * replace whole values, and must not undo what the kernel adds meanwhile. */
struct sk_job_row {
	__u64 alive; /* threads in the thread table */
	__u64 begun; /* threads whose addition to `times` has begun */
	__u64 ended; /* threads that are in `times` and no longer in the thread table */
	__u64 last_ns;
	struct sk_times times;
};

_Static_assert(sizeof(struct sk_times) == 136 + 8 * SK_DELAY_BUCKETS, "no padding in times");
_Static_assert(sizeof(struct sk_thread_row) == 112 + sizeof(struct sk_times),
	       "no padding in thread");
_Static_assert(sizeof(struct sk_job_row) == 32 + sizeof(struct sk_times), "no padding in job");

#endif
