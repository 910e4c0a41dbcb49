/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/* Requests to block devices: how long each took, charged to the job that caused it.
 *
 * A request belongs to the job of the thread that made it; pages that a kernel thread writes out
 * belong to the cgroup that dirtied them, if the io controller of cgroup v2 tells. From 6.5 on a
 * request is timed from its making to its accounting, before that from its way to the driver to its
 * completion. Nothing is looked up while no job has a request in flight. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tally.bpf.h"
#include "job.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define OPERATION_MASK 0xff /* REQ_OP_MASK of include/linux/blk_types.h */

struct flight {
	__u64 job;
	__u64 since_ns;
	__u32 operation;
	__u32 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct flight);
} requests SEC(".maps");

__u64 requests_in_flight = 0;

/* Return the job whose pages a kernel thread writes. Ids are unique within one hierarchy only. */
static __always_inline __u64 job_of_pages(struct request *request, struct task_struct *task)
{
	struct cgroup *cgroup = BPF_CORE_READ(request, bio, bi_blkg, blkcg, css.cgroup);

	if (!cgroup ||
	    BPF_CORE_READ(cgroup, root) != BPF_CORE_READ(task, cgroups, dfl_cgrp, root) ||
	    BPF_CORE_READ(cgroup, level) < (int)JOB_LEVEL)
		return 0;
	return job_of_cgroup(cgroup);
}

static __always_inline __u64 job_of_request(struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->flags & PF_KTHREAD)
		return job_of_pages(request, task);
	return job_of_typed_task(task);
}

static __always_inline bool forget(__u64 key)
{
	if (!requests_in_flight || bpf_map_delete_elem(&requests, &key))
		return false;
	__sync_fetch_and_add(&requests_in_flight, -1);
	return true;
}

static __always_inline int request_began(struct request *request)
{
	__u64 key = (__u64)request;
	struct flight flight = {.job = job_of_request(request)};

	if (!flight.job || bpf_map_lookup_elem(&requests, &key))
		return 0; /* of no job, or sent to the driver once more */
	flight.since_ns = bpf_ktime_get_ns();
	flight.operation = BPF_CORE_READ(request, cmd_flags) & OPERATION_MASK;
	flight.bytes = BPF_CORE_READ(request, __data_len);
	count_made(SK_PRODUCER_REQUEST);
	if (bpf_map_update_elem(&requests, &key, &flight, BPF_ANY))
		count_lost(SK_PRODUCER_REQUEST);
	else
		__sync_fetch_and_add(&requests_in_flight, 1);
	return 0;
}

static __always_inline int request_ended(struct request *request)
{
	__u64 key = (__u64)request;
	struct sk_tally_key tally = {.what = SK_TALLY_BLOCK};
	struct flight *flight;

	if (!requests_in_flight)
		return 0;
	flight = bpf_map_lookup_elem(&requests, &key);
	if (!flight)
		return 0;
	tally.job = flight->job;
	tally.detail = flight->operation;
	tally_add(&tally, since(flight->since_ns), flight->bytes);
	forget(key);
	return 0;
}

/* A request is made once: if one is in flight in the same memory, its end was missed. */
SEC("raw_tp/block_io_start")
int on_request_start(__u64 *ctx)
{
	if (forget(ctx[0]))
		count_lost(SK_PRODUCER_REQUEST);
	return request_began((struct request *)ctx[0]);
}

SEC("raw_tp/block_io_done")
int on_request_done(__u64 *ctx)
{
	return request_ended((struct request *)ctx[0]);
}

SEC("raw_tp/block_rq_issue")
int on_request_issue(__u64 *ctx)
{
	return request_began((struct request *)ctx[0]);
}

/* The arguments are (struct request *, blk_status_t, unsigned int bytes). A request may complete in
 * parts; the last one has all the bytes that are left. */
SEC("raw_tp/block_rq_complete")
int on_request_complete(__u64 *ctx)
{
	struct request *request = (struct request *)ctx[0];

	if (!requests_in_flight || BPF_CORE_READ(request, __data_len) > (__u32)ctx[2])
		return 0;
	return request_ended(request);
}

/* A request that was merged into another one ends nowhere else. It is a part of that one now, and
 * not lost. */
SEC("raw_tp/block_rq_merge")
int on_request_merge(__u64 *ctx)
{
	forget(ctx[0]);
	return 0;
}
