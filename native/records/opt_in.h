/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * Records that exist only while a job opts in: waits by stack, device calls, faults.
 */
#ifndef SK_RECORDS_OPT_IN_H
#define SK_RECORDS_OPT_IN_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

#define SK_OPT_IN_CALLS 1u
#define SK_OPT_IN_STACKS 2u
#define SK_OPT_IN_FAULTS 4u
#define SK_OPT_IN_JOBS 1024
#define SK_STACK_DEPTH 48
#define SK_STACKS 2048	    /* stacks kept at once, user and kernel together */
#define SK_STACK_WAITS 4096 /* different waits kept at once */

/* Waits at one place: the same stacks of one process in the same system call. */
struct sk_stack_key {
	__u64 job;
	__u32 pid;
	__s32 kernel_stack; /* id in the table of stacks; negative: none */
	__s32 user_stack;
	__u32 call; /* system call number, SK_SPAN_DETAIL_UNKNOWN: a fault, or not known */
};

struct sk_stack_wait {
	__u64 count; /* seen; each stood for `weight` others */
	__u64 weight;
	__u64 ns; /* sum of length times weight */
	__u64 longest_ns;
};

_Static_assert(sizeof(struct sk_stack_key) == 24, "no padding in a key");
_Static_assert(sizeof(struct sk_stack_wait) == 32, "no padding in a wait");

#endif
