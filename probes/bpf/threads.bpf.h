/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The table of living threads, and the entry of the thread that runs now.
 *
 */
#ifndef SK_BPF_THREADS_BPF_H
#define SK_BPF_THREADS_BPF_H

#include "job.bpf.h"
#include "records/thread.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct sk_thread_row);
} threads __weak SEC(".maps");

/* Return the running thread's entry: NULL for a task of no job, after a few plain loads, and for
 * one that was never switched in. */
static __always_inline struct sk_thread_row *running_thread(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)task;

	return job_of_typed_task(task) ? bpf_map_lookup_elem(&threads, &key) : NULL;
}

/* Return the entry by probed reads, for hooks that come seldom: they load faster and run slower. */
static __always_inline struct sk_thread_row *running_thread_seldom(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 key = (__u64)task;

	return job_of_task(task) ? bpf_map_lookup_elem(&threads, &key) : NULL;
}

#endif
