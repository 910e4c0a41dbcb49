/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Waits and queues inside the kernel's own GPU drivers: fences and the DRM scheduler.
 *
 * The DRM scheduler's events have two sets of names, before and after 6.17, with the same
 * arguments. They are untyped here: drivers are modules, which may come without BTF. Without their
 * types a job is timed from its queue to the device, but not on it. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tally.bpf.h"
#include "threads.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("raw_tp/dma_fence_wait_start")
int on_fence_wait(__u64 *ctx)
{
	struct sk_thread_row *thread = running_thread_seldom();

	if (thread)
		thread->fence_since_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/dma_fence_wait_end")
int on_fence_waited(__u64 *ctx)
{
	struct sk_thread_row *thread = running_thread_seldom();
	struct sk_tally_key key = {.what = SK_TALLY_FENCE};

	if (!thread || !thread->fence_since_ns)
		return 0;
	key.job = thread->job;
	tally_add(&key, since(thread->fence_since_ns), 0);
	thread->fence_since_ns = 0;
	return 0;
}

struct gpu_job {
	__u64 job;
	__u64 since_ns;
};

/* The key is the scheduler's job while it is queued, and its fence while it runs. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct gpu_job);
} gpu_jobs SEC(".maps");

static __always_inline void enter_stage(__u64 key, __u64 job)
{
	struct gpu_job entry = {.job = job, .since_ns = bpf_ktime_get_ns()};

	count_made(SK_PRODUCER_GPU_JOB);
	if (bpf_map_update_elem(&gpu_jobs, &key, &entry, BPF_ANY))
		count_lost(SK_PRODUCER_GPU_JOB);
}

/* End a stage; return the job that was in it, or 0. */
static __always_inline __u64 leave_stage(__u64 key, __u32 what)
{
	struct gpu_job *entry = bpf_map_lookup_elem(&gpu_jobs, &key);
	struct sk_tally_key tally = {.what = what};

	if (!entry)
		return 0;
	tally.job = entry->job;
	tally_add(&tally, since(entry->since_ns), 0);
	bpf_map_delete_elem(&gpu_jobs, &key);
	return tally.job;
}

/* (struct drm_sched_job *, struct drm_sched_entity *), by the thread that submits */
static __always_inline int queued(__u64 scheduled)
{
	__u64 job = job_of_task((struct task_struct *)bpf_get_current_task());

	if (job)
		enter_stage(scheduled, job);
	return 0;
}

/* (struct drm_sched_job *, struct drm_sched_entity *), by a worker of the driver */
static __always_inline int ran(__u64 scheduled)
{
	struct drm_sched_job *of = (struct drm_sched_job *)scheduled;
	__u64 job = leave_stage(scheduled, SK_TALLY_GPU_QUEUED);

	if (job && bpf_core_field_exists(of->s_fence))
		enter_stage((__u64)BPF_CORE_READ(of, s_fence), job);
	return 0;
}

/* (struct drm_sched_fence *) */
static __always_inline int done(__u64 fence)
{
	leave_stage(fence, SK_TALLY_GPU_RUN);
	return 0;
}

SEC("raw_tp/drm_sched_job_queue")
int on_gpu_queue(__u64 *ctx)
{
	return queued(ctx[0]);
}

SEC("raw_tp/drm_sched_job_run")
int on_gpu_run(__u64 *ctx)
{
	return ran(ctx[0]);
}

SEC("raw_tp/drm_sched_job_done")
int on_gpu_done(__u64 *ctx)
{
	return done(ctx[0]);
}

SEC("raw_tp/drm_sched_job")
int on_gpu_queue_before_6_17(__u64 *ctx)
{
	return queued(ctx[0]);
}

SEC("raw_tp/drm_run_job")
int on_gpu_run_before_6_17(__u64 *ctx)
{
	return ran(ctx[0]);
}

SEC("raw_tp/drm_sched_process_job")
int on_gpu_done_before_6_17(__u64 *ctx)
{
	return done(ctx[0]);
}
