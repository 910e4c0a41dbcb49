/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The counters of what was made and what was lost, one pair per producer.
 */
#ifndef SK_RECORDS_COUNTER_H
#define SK_RECORDS_COUNTER_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

enum sk_producer {
	SK_PRODUCER_SPAN = 0,
	SK_PRODUCER_PROCESS_EVENT = 1,
	SK_PRODUCER_THREAD_EVENT = 2,
	SK_PRODUCER_THREAD = 3,	 /* entries of the thread table */
	SK_PRODUCER_JOB = 4,	 /* entries of the job table */
	SK_PRODUCER_ENDED = 5,	 /* ended threads added to their job */
	SK_PRODUCER_TALLY = 6,	 /* entries of the table of tallies */
	SK_PRODUCER_REQUEST = 7, /* block requests in flight */
	SK_PRODUCER_GPU_JOB = 8, /* jobs inside a driver's scheduler */
	SK_PRODUCER_DEVICE_OPEN = 9,
	SK_PRODUCER_REFUSED_OPEN = 10, /* this and the next four: the ring of critical notices */
	SK_PRODUCER_OOM_KILL = 11,
	SK_PRODUCER_SIGNAL = 12,
	SK_PRODUCER_KILLED_EXIT = 13,
	SK_PRODUCER_XID = 14,
	SK_PRODUCER_STACK = 15,	     /* stacks taken; lost: no room or another one in its place */
	SK_PRODUCER_STACK_WAIT = 16, /* waits added to the table of stacks */
	SK_PRODUCER_SLEEPER = 17,    /* threads watched for their stacks */
};

#define SK_PRODUCERS 18

struct sk_counter {
	__u64 made;
	__u64 lost;
};

_Static_assert(sizeof(struct sk_counter) == 16, "no padding in a counter");

#endif
