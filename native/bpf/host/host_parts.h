/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The state of a host, for the files of this folder alone.
 *
 * Everything that is drained or read goes into memory allocated when the host is made, and spans
 * into that of their ring. A skeleton is NULL if its object could not be loaded.
 */
#ifndef SK_BPF_HOST_HOST_PARTS_H
#define SK_BPF_HOST_HOST_PARTS_H

#include <limits.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "host.h"
#include "bpf/threads/slots.h"

struct sk_host_bpf;
struct sk_opt_in_bpf;

struct sk_bpf_batch {
	void *keys;
	void *values;
	size_t key_bytes, value_bytes;
	uint32_t room;
	uint32_t count;
};

/* Drained records of one ring, in memory of one ring's size. */
struct sk_bpf_drain {
	struct ring_buffer *ring;
	unsigned char *records;
	size_t record_bytes;
	size_t room;
	size_t count;
};

/* The part of a page fault's time that the programs at its begin and end do not see. Both are 0
 * while nothing was measured. */
struct sk_bpf_fault_outside {
	uint64_t ns;	   /* CPU time of one fault before its begin and after its end */
	uint64_t gauge_ns; /* time of the gauge, a constant piece of work (fault.bpf.c) */
};

struct sk_bpf_host {
	struct sk_bpf_host_options options;
	char btf_path[PATH_MAX];
	struct sk_bpf_probe_state states[SK_PROBES];
	bool system_calls; /* the system call in which a thread blocks is recorded */
	struct sk_host_bpf *bpf;
	struct sk_opt_in_bpf *opt_in;
	const struct bpf_program *programs[SK_PROBES][SK_HOOKS]; /* that are attached */
	struct bpf_link *links[SK_PROBES][SK_HOOKS];
	int threads_fd, jobs_fd, modes_fd, spans_fd, tallies_fd,
		counters_fd;			   /* of the host's object, or -1 */
	int opt_ins_fd, stack_waits_fd, stacks_fd; /* of the opt-in object, or -1 */
	int *fault_events; /* descriptors of events of handled page faults */
	uint32_t fault_event_count, fault_event_room;
	struct sk_bpf_fault_outside outside;
	uint64_t outside_at_ns; /* when it was measured */
	uint32_t asking[3];	/* jobs, by bit of SK_OPT_IN_* */
	struct sk_bpf_drain spans, events, critical, opens;

	struct sk_bpf_batch thread_batch, job_batch, tally_batch, wait_batch;
	struct sk_bpf_thread_entry *entries;
	struct sk_bpf_job_reading *readings;
	uint32_t *order;
	struct sk_bpf_slots slots;

	uint64_t full_jobs;
	uint64_t expired;
	uint64_t jobs_at_scan; /* entries of the job table when it was last scanned */
	uint64_t made_at_scan; /* entries ever made in it, at that scan */
	uint64_t looked_ns;

	int stats_fd; /* the open measuring window, or -1 */
	uint64_t window_from_ns;
	struct sk_bpf_program_cost base[SK_PROBES];
};

/* Tell the programs whether any job is followed in full. */
void sk_bpf_host_publish_full(struct sk_bpf_host *host);

/* Detach and unload everything and free the rings. */
void sk_bpf_host_detach(struct sk_bpf_host *host);

/* Load and attach the opt-in object; 0 or the kernel's errno. */
int sk_bpf_opt_in_load(struct sk_bpf_host *host);
void sk_bpf_opt_in_unload(struct sk_bpf_host *host);

struct sk_bpf_btf_tracepoints;

/* Shared by both objects: states before loading, the programs to load, and attaching one probe. */
struct btf *sk_bpf_load_btf(const struct sk_bpf_host *host);
void sk_bpf_load_expect(struct sk_bpf_host *host, const struct sk_bpf_btf_tracepoints *known);
void sk_bpf_load_choose(struct sk_bpf_host *host, struct bpf_object *object, int which,
			const struct sk_bpf_btf_tracepoints *known);
void sk_bpf_load_tracepoints(const struct btf *btf, struct sk_bpf_btf_tracepoints *ret);
void sk_bpf_state_refuse(struct sk_bpf_probe_state *state, const char *what, int negative_errno);
void sk_bpf_state_off(struct sk_bpf_probe_state *state, int cost);
void sk_bpf_probe_attach(struct sk_bpf_host *host, struct bpf_object *object,
			 enum sk_bpf_probe probe);
void sk_bpf_probe_detach(struct sk_bpf_host *host, enum sk_bpf_probe probe);

/* Open one event per CPU and kind of handled fault; 0 or the kernel's errno. */
int sk_bpf_fault_events_open(struct sk_bpf_host *host, const struct bpf_program *program);
void sk_bpf_fault_events_close(struct sk_bpf_host *host);

/* The programs' figures of the faults of one thread. */
struct sk_bpf_fault_meter {
	volatile __u32 *tid;
	const volatile __u64 *inside_ns;
	const volatile __u64 *faults;
	const volatile __u64 *gauge_ns;
};

/* Measure by faults of the calling thread, while begin and end are attached; `again` means fewer.
 */
struct sk_bpf_fault_outside sk_bpf_fault_measure(const struct sk_bpf_fault_meter *meter,
						 bool again);

/* Measure again, at most once a second while a job opts in, because other probes attached to faults
 * meanwhile change their time. */
void sk_bpf_opt_in_look(struct sk_bpf_host *host);

/* Read the entries of a map, at most `room` of them; 0 or a negative errno. */
int sk_bpf_batch_read(int map, struct sk_bpf_batch *batch);

/* Forget the tallies of jobs that are in no table any more. */
void sk_bpf_host_sweep_tallies(struct sk_bpf_host *host);

/* Allocate what a ring of this size can hold, and free it; false without memory. */
bool sk_bpf_drain_make(struct sk_bpf_drain *drain, uint32_t ring_bytes, size_t record_bytes);
void sk_bpf_drain_unmake(struct sk_bpf_drain *drain);
int sk_bpf_drain_open(struct sk_bpf_drain *drain, int ring_fd);

/* Make the ring of spans if there is none; 0 or the kernel's errno. */
int sk_bpf_span_ring_open(struct sk_bpf_host *host);

/* Forget ended jobs that nobody follows once the table is three quarters full. */
void sk_bpf_host_expire(struct sk_bpf_host *host);

#endif
