// SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
/*
 * Page faults of jobs as they come, by the mode they come from.
 *
 * Relied on by whoever wants more than the kernel's own counts, which sched.bpf.c adds up for
 * nothing. Every fault of the machine passes here while this is attached, so it is attached only
 * while some job asks.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "asked.bpf.h"
#include "threads.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline struct sk_thread *asking_thread(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 key = (__u64)task;

	return asking_job(task, SK_ASK_FAULTS) ? bpf_map_lookup_elem(&threads, &key) : NULL;
}

SEC("tp_btf/page_fault_user")
int on_user_fault(__u64 *ctx)
{
	struct sk_thread *thread = asking_thread();

	if (thread)
		thread->times.user_faults++;
	return 0;
}

SEC("tp_btf/page_fault_kernel")
int on_kernel_fault(__u64 *ctx)
{
	struct sk_thread *thread = asking_thread();

	if (thread)
		thread->times.kernel_faults++;
	return 0;
}
