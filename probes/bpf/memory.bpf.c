/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* The time that memory costs a job's threads: reclaim, and sleeps because reclaim is stuck.
 *
 * Both are tallied with their lengths. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tally.bpf.h"
#include "threads.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline int reclaim_began(void)
{
	struct sk_thread_row *thread = running_thread_seldom();

	if (thread)
		thread->reclaim_since_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int reclaim_ended(__u32 what)
{
	struct sk_thread_row *thread = running_thread_seldom();
	struct sk_tally_key key = {.what = what};

	if (!thread || !thread->reclaim_since_ns)
		return 0;
	key.job = thread->job;
	tally_add(&key, since(thread->reclaim_since_ns), 0);
	thread->reclaim_since_ns = 0;
	return 0;
}

SEC("raw_tp/mm_vmscan_direct_reclaim_begin")
int on_reclaim_begin(__u64 *ctx)
{
	return reclaim_began();
}

SEC("raw_tp/mm_vmscan_direct_reclaim_end")
int on_reclaim_end(__u64 *ctx)
{
	return reclaim_ended(SK_TALLY_RECLAIM);
}

SEC("raw_tp/mm_vmscan_memcg_reclaim_begin")
int on_group_reclaim_begin(__u64 *ctx)
{
	return reclaim_began();
}

SEC("raw_tp/mm_vmscan_memcg_reclaim_end")
int on_group_reclaim_end(__u64 *ctx)
{
	return reclaim_ended(SK_TALLY_GROUP_RECLAIM);
}

/* (int node, int usec_timeout, int usec_delayed, int reason), after the sleep */
SEC("raw_tp/mm_vmscan_throttled")
int on_reclaim_sleep(__u64 *ctx)
{
	struct sk_tally_key key = {.what = SK_TALLY_RECLAIM_SLEEP};

	key.job = job_of_task((struct task_struct *)bpf_get_current_task());
	if (key.job)
		tally_add(&key, (__u32)ctx[2] * 1000ULL, 0);
	return 0;
}
