/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Programs and processes of jobs: exec, fork, thread, exit.
 *
 * The ring is small, never sampled and never filled by threads alone: those stop at half of it.
 * Each hook exists in a typed and an untyped form over the same function; the loader takes the
 * typed one if BTF knows it. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "records/process.h"
#include "exit.bpf.h"
#include "job.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} process_events SEC(".maps");

static __always_inline bool crowded(void)
{
	return bpf_ringbuf_query(&process_events, BPF_RB_AVAIL_DATA) >
	       bpf_ringbuf_query(&process_events, BPF_RB_RING_SIZE) / 2;
}

static __always_inline struct sk_process_event *reserve(__u16 kind)
{
	bool of_thread = kind == SK_PROCESS_THREAD || kind == SK_PROCESS_THREAD_EXIT;
	__u32 producer = of_thread ? SK_PRODUCER_THREAD_EVENT : SK_PRODUCER_PROCESS_EVENT;
	struct sk_process_event *event = NULL;

	count_made(producer);
	if (!of_thread || !crowded())
		event = bpf_ringbuf_reserve(&process_events, sizeof(*event), 0);
	if (!event)
		count_lost(producer);
	return event;
}

static __always_inline void report(struct task_struct *task, __u64 job, __u16 kind, int status)
{
	bool of_thread = kind == SK_PROCESS_THREAD || kind == SK_PROCESS_THREAD_EXIT;
	struct task_struct *named = of_thread ? task : BPF_CORE_READ(task, group_leader);
	struct sk_process_event *event = reserve(kind);

	if (!event)
		return;
	event->head.time_ns = bpf_ktime_get_ns();
	event->head.pid = BPF_CORE_READ(task, tgid);
	event->head.cpu = bpf_get_smp_processor_id();
	event->head.kind = kind;
	event->head.size = sizeof(*event);
	event->head.padding = 0;
	event->job = job;
	event->start_boot_ns = BPF_CORE_READ(named, start_boottime);
	event->tid = BPF_CORE_READ(task, pid);
	event->parent_pid = BPF_CORE_READ(task, real_parent, tgid);
	event->wait_status = status;
	event->flags = BPF_CORE_READ(task, signal, oom_mm) ? SK_PROCESS_OOM_KILLED : 0;
	bpf_probe_read_kernel(event->comm, sizeof(event->comm), named->comm);
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

static __always_inline int seen_exec(struct task_struct *task)
{
	__u64 job = job_of_task(task);

	if (job)
		report(task, job, SK_PROCESS_EXEC, 0);
	return 0;
}

static __always_inline int seen_fork(struct task_struct *child)
{
	__u64 job = job_of_task(child);
	bool process = BPF_CORE_READ(child, pid) == BPF_CORE_READ(child, tgid);

	if (job)
		report(child, job, process ? SK_PROCESS_FORK : SK_PROCESS_THREAD, 0);
	return 0;
}

static __always_inline int seen_exit(struct task_struct *task, bool last)
{
	__u64 job = job_of_task(task);

	if (!job)
		return 0;
	if (last)
		report(task, job, SK_PROCESS_EXIT, process_status(task));
	else
		report(task, job, SK_PROCESS_THREAD_EXIT, BPF_CORE_READ(task, exit_code));
	return 0;
}

SEC("tp_btf/sched_process_exec")
int on_exec(__u64 *ctx)
{
	return seen_exec((struct task_struct *)ctx[0]);
}

SEC("raw_tp/sched_process_exec")
int on_exec_raw(__u64 *ctx)
{
	return seen_exec((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_process_fork")
int on_fork(__u64 *ctx)
{
	return seen_fork((struct task_struct *)ctx[1]);
}

SEC("raw_tp/sched_process_fork")
int on_fork_raw(__u64 *ctx)
{
	return seen_fork((struct task_struct *)ctx[1]);
}

SEC("tp_btf/sched_process_exit")
int on_exit(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	return seen_exit(task, exit_says_last ? ctx[1] : counts_last(task));
}

SEC("raw_tp/sched_process_exit")
int on_exit_raw(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];

	return seen_exit(task, counts_last(task));
}
