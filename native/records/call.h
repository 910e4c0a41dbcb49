/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * Calls into a library, per process and call: number and length.
 *
 * A call is entered once and returns once; a call that was entered and has not returned is in
 * progress, or its thread ended inside it.
 */
#ifndef SK_RECORDS_CALL_H
#define SK_RECORDS_CALL_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

#define SK_CALL_BUCKETS 40     /* bucket i: [2^i, 2^(i+1)) ns; the last: all above 9 minutes */
#define SK_CALL_DEPTH 8	       /* calls inside of calls of one thread that are timed */
#define SK_CALL_KEYS_MAX 16384 /* {process, call} pairs at once */

#define SK_CALL_RING_BYTES (4 << 20) /* of records of collectives */

#define SK_CALL_ENTRY_ONLY 1 /* in the upper half of an attach cookie: no return is probed */

struct sk_call_key {
	__u32 pid; /* thread group, in the initial pid namespace */
	__u32 call;
};

struct sk_call_times {
	__u64 entered;
	__u64 returned;
	__u64 total_ns; /* total length of the calls that returned */
	__u64 longest_ns;
	__u64 log2[SK_CALL_BUCKETS];
};

enum sk_call_loss {
	SK_CALL_LOST_KEY,   /* the table of pairs was full: neither counted nor timed */
	SK_CALL_LOST_FRAME, /* nested too deeply, or no memory: counted, not timed */
	SK_CALL_STRAY,	    /* a return without an entry: the probe was attached in between */
	SK_CALL_LOST_RING,  /* a collective was not told: the ring was full */
	SK_CALL_LOSSES,
};

_Static_assert(sizeof(struct sk_call_key) == 8, "no padding in a call's key");
_Static_assert(sizeof(struct sk_call_times) == 32 + 8 * SK_CALL_BUCKETS, "no padding in times");

#endif
