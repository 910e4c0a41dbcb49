/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host holds; for the files of this folder alone.
 *
 * Relied on by attach.c, tables.c, rings.c and cost.c. Everything is allocated when the host is
 * made and grows no more; a skeleton is NULL where its object could not be loaded.
 */
#ifndef STOKER_BPF_HOST_STATE_H
#define STOKER_BPF_HOST_STATE_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "host.h"
#include "slots.h"

struct sk_sched_bpf;
struct sk_process_bpf;

struct sk_batch {
	uint64_t *keys;
	void *values;
	uint32_t room;
	uint32_t count;
};

/* Drained records of one ring, in memory of one ring's size. */
struct sk_drain {
	struct ring_buffer *ring;
	unsigned char *records;
	size_t record_bytes;
	size_t room;
	size_t count;
};

struct sk_host {
	struct sk_host_options options;
	struct sk_sched_bpf *sched;
	struct sk_process_bpf *process;
	int threads_fd, jobs_fd, modes_fd;    /* of sched, or -1 */
	int sched_counters, process_counters; /* map descriptors, or -1 */
	struct sk_drain spans, events;

	struct sk_batch thread_batch, job_batch;
	struct sk_thread_entry *entries;
	struct sk_job_reading *readings;
	uint32_t *order;
	struct sk_slots slots;

	uint64_t full_jobs;
	uint64_t expired;
	uint64_t jobs_at_scan; /* entries of the job table when it was last scanned */
	uint64_t made_at_scan; /* and the made counter of that moment */
	uint64_t looked_ns;

	int stats_fd; /* the open measuring window, or -1 */
	uint64_t window_from_ns;
	struct sk_program_cost base[SK_PROBES];
};

uint64_t sk_now_ns(void);

/* The program of a probe, or NULL where none is attached. */
const struct bpf_program *sk_host_program(const struct sk_host *host, enum sk_probe probe);
/* Tells the programs whether any job is followed in full. */
void sk_host_publish_full(struct sk_host *host);

/* Detaches and unloads everything; rings are freed. */
void sk_host_detach(struct sk_host *host);

int sk_drain_open(struct sk_drain *drain, int ring_fd);

/* Forgets ended jobs that nobody follows once the table is three quarters full. */
void sk_host_expire(struct sk_host *host);

#endif
