/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
 *
 * The counters of what was made and what was lost, one pair per producer.
 *
 * Relied on by every BPF program that can lose something and by the loader that names the sums.
 * made = delivered + lost + still queued.
 */
#ifndef STOKER_COUNTER_H
#define STOKER_COUNTER_H

#ifndef STOKER_VMLINUX_H
#include <linux/types.h>
#endif

enum sk_producer {
	SK_PRODUCER_SPAN = 0,
	SK_PRODUCER_PROCESS_EVENT = 1,
	SK_PRODUCER_THREAD_EVENT = 2,
	SK_PRODUCER_THREAD = 3, /* entries of the thread table */
	SK_PRODUCER_JOB = 4,	/* entries of the job table */
	SK_PRODUCER_ENDED = 5,	/* ended threads added to their job */
};

#define SK_PRODUCERS 6

struct sk_counter {
	__u64 made;
	__u64 lost;
};

_Static_assert(sizeof(struct sk_counter) == 16, "no padding in a counter");

#endif
