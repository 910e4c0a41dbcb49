/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The map of jobs that opted in to costly probes, which user space writes and programs look up.
 */
#ifndef SK_BPF_OPT_IN_BPF_H
#define SK_BPF_OPT_IN_BPF_H

#include "records/opt_in.h"
#include "job.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SK_OPT_IN_JOBS);
	__type(key, __u64);
	__type(value, __u32);
} opt_ins __weak SEC(".maps");

/* Return the task's job if it opted in to this, else 0. */
static __always_inline __u64 opted_in_job(struct task_struct *task, __u32 what)
{
	__u64 job = job_of_typed_task(task);
	__u32 *wanted = job ? bpf_map_lookup_elem(&opt_ins, &job) : NULL;

	return wanted && (*wanted & what) ? job : 0;
}

#endif
