/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The span: one interval that one thread spent in one state; and the header of every other record.
 *
 * docs/developer/reference.md states the layout. Compiles for BPF and for the host. Times are
 * CLOCK_MONOTONIC nanoseconds, little endian.
 */
#ifndef SK_RECORDS_SPAN_H
#define SK_RECORDS_SPAN_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

enum sk_span_state {
	SK_SPAN_ON_CPU = 1,	/* detail: in page faults, in parts of SK_SPAN_FAULTED_ALL */
	SK_SPAN_RUNNABLE = 2,	/* woken or preempted, waits for a CPU */
	SK_SPAN_BLOCKED = 3,	/* detail: the system call it sleeps in */
	SK_SPAN_BLOCKED_IO = 4, /* in_iowait, or uninterruptible as paging is */
};

#define SK_SPAN_STATES 4

/* Records of a thread's beginning and end, which take the place of a span. */
enum sk_span_life {
	SK_SPAN_MADE = 5, /* from_ns: when; to_ns: id of the thread that made it */
	SK_SPAN_GONE = 6, /* both: when */
};

#define SK_SPAN_DETAIL_UNKNOWN 0xffff
#define SK_SPAN_FAULTED_ALL 0xfffe

struct sk_span {
	__u64 from_ns;
	__u64 to_ns;
	__u32 tid;
	__u16 state;
	__u16 detail; /* SK_SPAN_DETAIL_UNKNOWN: not known */
};

/* A span in the ring: the reader removes the job and groups by it. */
struct sk_job_span {
	__u64 job;
	struct sk_span span;
};

/* Every record that is not a span begins with this; size counts the whole record. */
struct sk_record_head {
	__u64 time_ns;
	__u32 pid;
	__u32 cpu;
	__u16 kind;
	__u16 size;
	__u32 padding;
};

_Static_assert(sizeof(struct sk_span) == 24, "contract page: a span is 24 bytes");
_Static_assert(__builtin_offsetof(struct sk_span, to_ns) == 8, "contract page: to_ns at 8");
_Static_assert(__builtin_offsetof(struct sk_span, tid) == 16, "contract page: tid at 16");
_Static_assert(__builtin_offsetof(struct sk_span, state) == 20, "contract page: state at 20");
_Static_assert(__builtin_offsetof(struct sk_span, detail) == 22, "contract page: detail at 22");
_Static_assert(sizeof(struct sk_job_span) == 32, "a span in the ring is 32 bytes");
_Static_assert(sizeof(struct sk_record_head) == 24, "the record header is 24 bytes");

#endif
