/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A small table from job to position, in the caller's memory, and grouping by it.
 *
 * Pure: no clock, no system call. A full table is an answer (SK_SLOT_NONE); it never grows.
 */
#ifndef SK_BPF_THREADS_SLOTS_H
#define SK_BPF_THREADS_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "records/span.h"

#define SK_SLOT_NONE UINT32_MAX

struct sk_bpf_slot {
	uint64_t job; /* 0: free */
	uint32_t position;
	uint32_t padding;
};

struct sk_bpf_slots {
	struct sk_bpf_slot *table; /* a power of two of slots, twice the most jobs expected */
	uint32_t mask;
	uint32_t count;
};

void sk_bpf_slots_clear(struct sk_bpf_slots *slots);
/* Return the position of a job, in order of first appearance; SK_SLOT_NONE if it is not there. */
uint32_t sk_bpf_slots_find(const struct sk_bpf_slots *slots, uint64_t job);
/* Return the position of a job, adding it; SK_SLOT_NONE when the table is half full. */
uint32_t sk_bpf_slots_add(struct sk_bpf_slots *slots, uint64_t job);

/* The spans of one job among the drained ones. */
struct sk_bpf_span_group {
	uint64_t job;
	size_t count;
	struct sk_span *spans; /* where to write them; set by the caller between the two calls */
};

/* Count spans by job into `groups` (of slots' size); return the spans that found no group. */
size_t sk_bpf_spans_count(const struct sk_job_span *spans, size_t count, struct sk_bpf_slots *slots,
			  struct sk_bpf_span_group *groups);
/* Write each span to its group in the order given; `count` of each group starts at 0 again. */
void sk_bpf_spans_scatter(const struct sk_job_span *spans, size_t count,
			  const struct sk_bpf_slots *slots, struct sk_bpf_span_group *groups);

#endif
