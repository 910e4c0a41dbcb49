/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The rings of notices, and the start of a notice.
 *
 * Readers poll: hooks run where no task may be woken.
 */
#ifndef SK_BPF_NOTICE_BPF_H
#define SK_BPF_NOTICE_BPF_H

#include "maps.bpf.h"
#include "records/notice.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} critical_notices __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} open_notices __weak SEC(".maps");

/* Begin a notice with its head; everything else is 0. NULL, and counted, when there is no room. */
static __always_inline struct sk_notice *notice_begin(void *ring, __u32 producer, __u16 kind)
{
	struct sk_notice *notice;

	count_made(producer);
	notice = bpf_ringbuf_reserve(ring, sizeof(*notice), 0);
	if (!notice) {
		count_lost(producer);
		return NULL;
	}
	__builtin_memset(notice, 0, sizeof(*notice));
	notice->head.time_ns = bpf_ktime_get_ns();
	notice->head.cpu = bpf_get_smp_processor_id();
	notice->head.kind = kind;
	notice->head.size = sizeof(*notice);
	return notice;
}

static __always_inline void notice_of_task(struct sk_notice *notice, struct task_struct *task,
					   __u64 job)
{
	notice->job = job;
	notice->head.pid = BPF_CORE_READ(task, tgid);
	notice->tid = BPF_CORE_READ(task, pid);
	bpf_probe_read_kernel(notice->name, sizeof(notice->name), task->comm);
}

#endif
