/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of one decision, measured where it is made. It is not a part of the core, since it reads
 * a clock. Invariant: what is timed is sk_core_propose and sk_core_apply as a scheduler calls them,
 * on a cluster whose load stays at the level to which it was filled.
 */
#ifndef SK_CORE_BENCH_BENCH_DECIDE_H
#define SK_CORE_BENCH_BENCH_DECIDE_H

#include "core/core.h"

#define SK_BENCH_BATCH 64u
#define SK_BENCH_TIMES_MAX (1u << 20) /* entries of each array of times */

struct sk_bench_plan {
	const uint8_t *submits; /* records of one size that are drawn with equal chance */
	size_t submits_size;	/* bytes of all of them */
	uint32_t decisions;	/* decisions that are timed one by one */
	uint32_t warm;		/* decisions before these, at the same level, which are not timed */
	uint32_t batches;	/* timed batches of SK_BENCH_BATCH decisions */
	uint32_t unique;	/* timed requests of a shape that was never seen */
	uint32_t naive;		/* timed searches that rate every node from scratch, for one task */
	uint64_t fill_milli;	/* the level: filled up to here, or until nothing more fits */
	uint64_t seed;
};

/* Times are in ns, as many as the plan says; the arrays belong to the caller. */
struct sk_bench_times {
	uint32_t *propose;
	uint32_t *apply;
	uint32_t *batch_propose; /* propose of a whole batch */
	uint32_t *batch_both;	 /* propose and apply of a whole batch */
	uint32_t *unique;
	uint32_t *naive;
	uint64_t used_milli; /* devices in use when timing began */
	uint64_t clock_ns;   /* cost of reading the clock twice, contained in all times */
	uint32_t jobs;	     /* jobs running when timing began */
	uint32_t placed;     /* the part of `decisions` that placed a job; the others did not fit */
	uint32_t batches_placed;
	uint32_t unique_placed;
	uint32_t naive_agrees; /* searches from scratch that agree with the decision after them */
	uint32_t zero;
};

/* Run the plan. The core has its nodes and a term, and no jobs; its queue 0 has an order in which
 * no job blocks. Returns -ENOMEM, -EINVAL, or an error of the core. */
int sk_bench_decide(struct sk_core *core, const struct sk_bench_plan *plan,
		    struct sk_bench_times *times);

/* The timed call by itself, so that its instructions can be counted by its name. */
int sk_bench_decision(struct sk_core *core, const void *requests, size_t size, uint64_t now_ns,
		      uint64_t seed, struct sk_proposal *proposal);

#endif
