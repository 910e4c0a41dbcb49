/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The host probes of one node: BPF programs over the threads and processes of jobs.
 *
 * Readings and drained records stay valid until the next call. Nothing here blocks, and whatever
 * the kernel denies is an answer with a reason, not an error. Threads: one at a time per host.
 */
#ifndef SK_BPF_HOST_HOST_H
#define SK_BPF_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/catalogue/probe.h"
#include "records/opt_in.h"
#include "records/counter.h"
#include "records/notice.h"
#include "records/process.h"
#include "records/tally.h"
#include "records/thread.h"

#define SK_FULL_JOBS_MAX 4096 /* jobs followed in full at once */

struct sk_bpf_host_options {
	uint64_t jobs_cgroup; /* id of the cgroup whose grandchildren are jobs */
	uint32_t jobs_level;
	int jobs_directory; /* a descriptor of it while attaching, or -1: nothing is attached to it
			     */
	uint32_t threads;
	uint32_t jobs;
	uint32_t tallies;
	uint32_t span_ring_bytes;
	uint32_t event_ring_bytes;
	uint32_t notice_ring_bytes; /* of each ring of notices: critical ones, opens of devices */
	uint64_t stack_ns;	    /* shorter waits are not counted by stack */
	const char *btf_path;	    /* "": the running kernel's; a missing file: no BTF */
};

struct sk_bpf_thread_entry {
	uint64_t key;
	struct sk_thread_row thread;
};

/* One job; `value.times` has the living threads and their open intervals added. */
struct sk_bpf_job_reading {
	uint64_t job;
	struct sk_job_row value;
	uint64_t unsettled; /* threads that changed too often while they were read */
	uint32_t first;	    /* its threads: `threads[order[first]]` and following */
	uint32_t count;
};

struct sk_bpf_reading {
	uint64_t asked_ns; /* time of the first look: intervals that are open since then were open
			      at it */
	uint64_t now_ns;
	const struct sk_bpf_job_reading *jobs;
	uint32_t job_count;
	const struct sk_bpf_thread_entry *threads;
	const uint32_t *order;
};

struct sk_bpf_program_cost {
	enum sk_bpf_probe probe;
	uint64_t run_ns;
	uint64_t runs;
};

/* All tallies, in no order. */
struct sk_bpf_tallies {
	const struct sk_tally_key *keys;
	const struct sk_tally *values;
	uint32_t count;
};

struct sk_bpf_stack_waits {
	const struct sk_stack_key *keys;
	const struct sk_stack_wait *values;
	uint32_t count;
};

struct sk_bpf_host;

/* Return the stable id of a probe, as in the catalogue of probes. */
const char *sk_bpf_probe_id(enum sk_bpf_probe probe);

/* Make a host; it attaches nothing yet. 0, -EINVAL for sizes out of range, -ENOMEM. */
int sk_bpf_host_new(const struct sk_bpf_host_options *options, struct sk_bpf_host **ret);
void sk_bpf_host_free(struct sk_bpf_host *host);

/* Attach what the kernel allows. */
void sk_bpf_host_attach(struct sk_bpf_host *host);
/* Return SK_PROBES states in the order of the enum; opt-ins change them. */
const struct sk_bpf_probe_state *sk_bpf_host_states(const struct sk_bpf_host *host);

/* Set the SK_OPT_IN_* of a job; 0 forgets them. The first opt-in attaches, the last one detaches.
 * 0, -ENOSPC when too many jobs opt in, or the kernel's errno (states say more). */
int sk_bpf_host_opt_in(struct sk_bpf_host *host, uint64_t job, uint32_t what);

/* Follow a job; the first one in full makes the ring of spans. 0, also when nothing is attached;
 * -ENOSPC when too many jobs are followed, or the kernel's errno. */
int sk_bpf_host_follow(struct sk_bpf_host *host, uint64_t job, bool full);
int sk_bpf_host_unfollow(struct sk_bpf_host *host, uint64_t job);
/* Free the ring of spans if no job is followed in full and the latest drain found it empty, and
 * give free memory of the process back. Returns true if there is no ring. */
bool sk_bpf_host_rest(struct sk_bpf_host *host);

/* Read the times of one job, or of all for job 0. 0 or a negative errno of bpf(2). */
int sk_bpf_host_read(struct sk_bpf_host *host, uint64_t job, struct sk_bpf_reading *ret);

/* Drain the records since the last call, at most one ring full of them. Return their number. */
size_t sk_bpf_host_spans(struct sk_bpf_host *host, const struct sk_job_span **ret);
size_t sk_bpf_host_events(struct sk_bpf_host *host, const struct sk_process_event **ret);
size_t sk_bpf_host_critical(struct sk_bpf_host *host, const struct sk_notice **ret);
size_t sk_bpf_host_opens(struct sk_bpf_host *host, const struct sk_notice **ret);

/* Read all tallies; 0 or a negative errno of bpf(2). */
int sk_bpf_host_tallies(struct sk_bpf_host *host, struct sk_bpf_tallies *ret);
/* Read all waits by stack; there are none while no job opts in. */
int sk_bpf_host_stack_waits(struct sk_bpf_host *host, struct sk_bpf_stack_waits *ret);
/* Read the addresses of one stack, innermost first; return how many, 0 when it is not there. */
size_t sk_bpf_host_stack(struct sk_bpf_host *host, int32_t id, uint64_t ret[SK_STACK_DEPTH]);

/* Read sums over the CPUs of both objects, and the jobs that expired. */
void sk_bpf_host_counters(struct sk_bpf_host *host, struct sk_counter ret[SK_PRODUCERS],
			  uint64_t *ret_expired);

/* Open a window in which the kernel measures its BPF programs; 0 or a negative errno of bpf(2). */
int sk_bpf_host_cost_begin(struct sk_bpf_host *host);
/* Close it; `ret` has room for SK_PROBES programs. -ENODATA when none was open. */
int sk_bpf_host_cost_end(struct sk_bpf_host *host, uint64_t *ret_window_ns,
			 struct sk_bpf_program_cost *ret, size_t *ret_count);

#endif
