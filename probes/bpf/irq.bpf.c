/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* CPU time that interrupts take from a job's running thread.
 *
 * An interrupt belongs to the thread that runs when it comes; softirqs that ksoftirqd handles
 * belong to no thread. Handlers do not nest here (the kernel runs them with interrupts off) and
 * softirqs do not nest in each other, but a handler may interrupt a softirq: that time is the
 * handler's alone. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "threads.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct stolen {
	__u64 handler_since_ns;
	__u64 softirq_since_ns;
	__u64 handlers_ns; /* within the softirq */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stolen);
} interrupts SEC(".maps");

static __always_inline struct stolen *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&interrupts, &zero);
}

/* Checked before anything is looked up: most interrupts meet a task of no job. */
static __always_inline bool meets_job(void)
{
	return job_of_typed_task(bpf_get_current_task_btf()) != 0;
}

SEC("tp_btf/irq_handler_entry")
int on_handler_entry(__u64 *ctx)
{
	struct stolen *stolen = meets_job() ? this_cpu() : NULL;

	if (stolen)
		stolen->handler_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int on_handler_exit(__u64 *ctx)
{
	struct sk_thread_row *thread = running_thread();
	struct stolen *stolen = thread ? this_cpu() : NULL;
	__u64 ns;

	if (!stolen || !stolen->handler_since_ns)
		return 0;
	ns = bpf_ktime_get_ns() - stolen->handler_since_ns;
	stolen->handler_since_ns = 0;
	stolen->handlers_ns += ns;
	thread->times.irq_ns += ns;
	return 0;
}

SEC("tp_btf/softirq_entry")
int on_softirq_entry(__u64 *ctx)
{
	struct stolen *stolen = meets_job() ? this_cpu() : NULL;

	if (!stolen)
		return 0;
	stolen->handlers_ns = 0;
	stolen->softirq_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/softirq_exit")
int on_softirq_exit(__u64 *ctx)
{
	struct sk_thread_row *thread = running_thread();
	struct stolen *stolen = thread ? this_cpu() : NULL;
	__u64 ns;

	if (!stolen || !stolen->softirq_since_ns)
		return 0;
	ns = bpf_ktime_get_ns() - stolen->softirq_since_ns;
	stolen->softirq_since_ns = 0;
	if (ns > stolen->handlers_ns)
		thread->times.softirq_ns += ns - stolen->handlers_ns;
	return 0;
}
