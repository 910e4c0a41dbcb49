/* SPDX-License-Identifier: Apache-2.0
 *
 * The command that makes jobs of an array, and keeps numbers for those that follow, and the one
 * that tells a job of the end of an array. Invariant: as in wire.h, whose records it joins.
 */
#ifndef SK_CORE_WIRE_ARRAY_H
#define SK_CORE_WIRE_ARRAY_H

#include <stddef.h>

#include "core/wire.h"

#define SK_ARRAY_AT_ONCE 256u	  /* Jobs of an array that one command makes. */
#define SK_ARRAY_JOBS_MAX 100000u /* Jobs of one array. */

/* The next jobs of an array: `jobs` jobs that ask alike, with numbers that follow one another.
 * Those of an array that begins get the next numbers, and `behind` further numbers are kept for the
 * jobs that follow; a later command makes jobs of kept numbers, from `first` on. Its beginning has
 * the layout of a SK_SUBMIT.
 *
 * Python: SubmitArray(client, key=b"", spec_hash=0, uid=0, tenant=0, priority=0, gpu_milli=0,
 * cpu_milli=0, memory_bytes=0, tasks=1, device_memory_bytes=0, estimate_ns=0, group=0, array=0,
 * series=0, models=(), require=(), avoid=(), tolerate=(), after=(), after_any=0, after_fail=0,
 * queue=0, min_run_s=0, backoff_s=0, placement=Placement.QUEUE, options=0, retries=0,
 * kinds=Kind.GPU, per_node=0, conditions=(), first=0, jobs=1, behind=0) */
struct sk_submit_array {
	struct sk_header header;
	uint64_t client;
	uint64_t key[2]; /* The key of the whole array, so a later command has none. */
	uint64_t spec_hash;
	uint32_t uid;
	uint32_t tenant;
	struct sk_request request;
	uint64_t first;	 /* The number of the first of these jobs; 0: the next numbers. */
	uint32_t jobs;	 /* The number of these jobs. */
	uint32_t behind; /* Numbers that are kept for later jobs. */
};
static_assert(sizeof(struct sk_submit_array) == 568, "stored layout");
static_assert(offsetof(struct sk_submit_array, first) == sizeof(struct sk_submit),
	      "it begins like a submit");

#define SK_AFTER_RANGE (1ull << 63) /* An `after` with it is a range of jobs, counted outside. */

#define SK_RANGE_UNMET 1u /* It ended otherwise than the job wants, which never starts. */
/* A range of jobs that a pending job follows has ended. The core does not know what is in a range:
 * whoever counts its ends tells each job that follows it, once.
 *
 * Python: RangeEnd(job, after, unmet=False) */
struct sk_range_end {
	struct sk_header header;
	uint64_t job;	/* The job that follows. */
	uint64_t after; /* The one of its `after` that has ended. */
};
static_assert(sizeof(struct sk_range_end) == 32, "stored layout");

#endif
