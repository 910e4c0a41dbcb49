/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Events that end jobs and take GPUs away: out of memory, deadly signals, ends by a signal, Xids.
 *
 * They are rare, never sampled, and never share a ring with frequent ones. Untyped hooks, here and
 * in other files of rare events, load several times faster, because the kernel need not look up
 * each type by its name. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "exit.bpf.h"
#include "job.bpf.h"
#include "notice.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* True if mark_victim passes the task (6.9), not only its id. */
const volatile bool victim_is_task = false;

#define SIGKILL 9
#define SENT_BY_KERNEL ((void *)1) /* SEND_SIG_PRIV */
/* CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG and WINCH end no process; the numbers are the same on all
 * supported machines. */
#define HARMLESS_SIGNALS                                                                           \
	(1ULL << 17 | 1ULL << 18 | 1ULL << 19 | 1ULL << 20 | 1ULL << 21 | 1ULL << 22 |             \
	 1ULL << 23 | 1ULL << 28)

/* The kernel's (struct task_struct *, uid), or before 6.9 (int pid). */
SEC("raw_tp/mark_victim")
int on_victim(__u64 *ctx)
{
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_struct *victim = victim_is_task ? (struct task_struct *)ctx[0] : current;
	__u64 job = job_of_task(victim);
	struct sk_notice *notice;

	if (!job)
		return 0;
	notice = notice_begin(&critical_notices, SK_PRODUCER_OOM_KILL, SK_NOTICE_OOM_KILL);
	if (!notice)
		return 0;
	notice_of_task(notice, victim, job);
	if (!victim_is_task)
		notice->head.pid = notice->tid = ctx[0];
	notice->from_pid = BPF_CORE_READ(current, tgid);
	bpf_ringbuf_submit(notice, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Return whether this task treats the signal by default. */
static __always_inline bool by_default(struct task_struct *task, __u32 signal)
{
	struct sighand_struct *hands = BPF_CORE_READ(task, sighand);
	void *action = (void *)hands + bpf_core_field_offset(hands->action);
	void *handler = NULL;

	if (signal == SIGKILL)
		return true;
	action += (signal - 1) * bpf_core_type_size(struct k_sigaction);
	bpf_probe_read_kernel(&handler, sizeof(handler), action);
	return !handler;
}

/* (int signal, struct kernel_siginfo *, struct task_struct *, int group, int result) */
SEC("raw_tp/signal_generate")
int on_signal(__u64 *ctx)
{
	__u32 signal = (__u32)ctx[0];
	struct task_struct *task = (struct task_struct *)ctx[2];
	struct sk_notice *notice;
	__u64 job;

	if (signal < 1 || signal > 64 || (HARMLESS_SIGNALS >> signal & 1))
		return 0;
	job = job_of_task(task);
	if (!job || (int)ctx[4] || !by_default(task, signal)) /* result 0: delivered */
		return 0;
	notice = notice_begin(&critical_notices, SK_PRODUCER_SIGNAL, SK_NOTICE_SIGNAL);
	if (!notice)
		return 0;
	notice_of_task(notice, task, job);
	notice->code = signal;
	notice->from_pid = bpf_get_current_pid_tgid() >> 32;
	notice->flags = (void *)ctx[1] == SENT_BY_KERNEL ? SK_NOTICE_BY_KERNEL : 0;
	bpf_get_current_comm(notice->text, SK_NOTICE_NAME);
	bpf_ringbuf_submit(notice, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int on_killed_exit(__u64 *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx[0];
	bool last = exit_says_last ? ctx[1] : counts_last(task);
	struct sk_notice *notice;
	__u64 job = last ? job_of_task(task) : 0;
	int status = job ? process_status(task) : 0;

	if (!(status & 0x7f))
		return 0;
	notice = notice_begin(&critical_notices, SK_PRODUCER_KILLED_EXIT, SK_NOTICE_KILLED_EXIT);
	if (!notice)
		return 0;
	notice_of_task(notice, task, job);
	notice->code = status & 0x7f;
	notice->flags = status & 0x80 ? SK_NOTICE_CORE_DUMPED : 0;
	bpf_ringbuf_submit(notice, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * (const struct pci_dev *, uint32_t error_code, const char *msg),
 * kernel-open/nvidia/nv-tracepoint.h of the open NVIDIA modules. Untyped: those modules may come
 * without BTF.
 */
SEC("raw_tp/nvidia_dev_xid")
int on_xid(__u64 *ctx)
{
	struct pci_dev *device = (struct pci_dev *)ctx[0];
	struct sk_notice *notice;

	notice = notice_begin(&critical_notices, SK_PRODUCER_XID, SK_NOTICE_XID);
	if (!notice)
		return 0;
	notice->job = job_of_task((struct task_struct *)bpf_get_current_task());
	notice->head.pid = notice->tid = 0; /* the running thread did not cause it */
	notice->code = (__u32)ctx[1];
	if (bpf_core_type_exists(struct pci_dev))
		bpf_probe_read_kernel_str(notice->name, sizeof(notice->name),
					  BPF_CORE_READ(device, dev.kobj.name));
	bpf_probe_read_kernel_str(notice->text, sizeof(notice->text), (const void *)ctx[2]);
	bpf_ringbuf_submit(notice, BPF_RB_NO_WAKEUP);
	return 0;
}
