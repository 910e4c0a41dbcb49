/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * A thread enters or leaves a call in which it may wait for other processes, as it travels in a
 * ring.
 *
 * A thread's calls do not nest: inside of one, further ones are not told. What a call concerns is
 * told as the process spells it: a handle has a meaning in its process alone.
 */
#ifndef SK_RECORDS_COLLECTIVE_H
#define SK_RECORDS_COLLECTIVE_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

enum sk_collective_what {
	SK_COLLECTIVE_ENTER = 1,
	SK_COLLECTIVE_LEAVE = 2,
};

/* A probe finds what a call concerns by these parts of the upper half of an attach cookie. */
#define SK_CALL_COLLECTIVE 2   /* entries and returns are told one by one */
#define SK_CALL_UNIQUE_ID 4    /* it takes NCCL's unique id by value, number and rank beside it */
#define SK_CALL_HANDLE_SHIFT 4 /* number of the argument with the handle, and 1; 0: none */
#define SK_CALL_NUMBER_SHIFT 8 /* that of a colour */
#define SK_CALL_MADE_SHIFT 12  /* that of the address where a new handle is left */
#define SK_CALL_ARGUMENT 15

struct sk_collective {
	__u64 at_ns;
	__u64 handle; /* of the communicator; on leaving: of the new one; 0: none */
	__u64 id;     /* a digest of NCCL's unique id; else 0 */
	__u32 pid;
	__u32 tid;
	__u16 call;
	__u16 what;
	__u32 number;	 /* the colour, or the rank */
	__u32 size;	 /* ranks of the communicator that is made; 0: not told */
	__u32 queued_us; /* how long the thread has waited for a CPU in its life, modulo 2^32; 0:
			    not told */
};

_Static_assert(sizeof(struct sk_collective) == 48, "no padding in a collective's record");

#endif
