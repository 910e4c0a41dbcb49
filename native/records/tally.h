/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The tally: how often one thing happened to one job, and how long it took.
 *
 * Every figure except `last` only grows.
 */
#ifndef SK_RECORDS_TALLY_H
#define SK_RECORDS_TALLY_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

#define SK_TALLY_BUCKETS 32

enum sk_tally_what {
	SK_TALLY_RECLAIM = 1,	    /* memory reclaimed by the job itself, for the node */
	SK_TALLY_GROUP_RECLAIM = 2, /* memory reclaimed by the job, for its cgroup's limit */
	SK_TALLY_RECLAIM_SLEEP = 3, /* put to sleep because reclaim makes no progress */
	SK_TALLY_BLOCK = 4,	    /* detail: operation of the request; amount: bytes */
	SK_TALLY_RETRANSMIT = 5,    /* amount: bytes */
	SK_TALLY_FENCE = 6,	    /* waits inside the kernel for a GPU's fence */
	SK_TALLY_GPU_QUEUED = 7,    /* GPU jobs in a driver's scheduler, before the device */
	SK_TALLY_GPU_RUN = 8,	    /* GPU jobs given to the device, until they are done */
	SK_TALLY_IOCTL = 9,	    /* pid; detail: device, major << 20 | minor */
	SK_TALLY_FREQUENCY = 10,    /* no job; detail: CPU; last: kHz */
	SK_TALLY_TEMPERATURE = 11,  /* no job; detail: zone; last: thousandths of a degree */
	SK_TALLY_TRIP = 12,	    /* no job; detail: zone; last: kind of the trip point */
	SK_TALLY_COOLING = 13,	    /* no job; detail: device; last: its state, 0 is none */
};

struct sk_tally_key {
	__u64 job; /* 0: the node */
	__u32 what;
	__u32 pid; /* process, or 0 */
	__u32 detail;
	__u32 padding;
};

struct sk_tally {
	__u64 count;
	__u64 ns;
	__u64 longest_ns;
	__u64 amount;
	__u64 last;
	__u64 lengths[SK_TALLY_BUCKETS]; /* log2 of each one's ns; none where nothing is timed */
};

_Static_assert(sizeof(struct sk_tally_key) == 24, "no padding in a key");
_Static_assert(sizeof(struct sk_tally) == 40 + 8 * SK_TALLY_BUCKETS, "no padding in a tally");

#endif
