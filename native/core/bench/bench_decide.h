/* SPDX-License-Identifier: Apache-2.0
 *
 * How long one decision takes, measured where it is made. Relied on by the binding, for `stoker
 * bench decide`, and by bench_decide_main.c, whose instructions are counted. Not a part of the
 * core: it reads a clock. Invariant: what is timed is sk_core_propose and sk_core_apply as a
 * scheduler calls them, on a cluster whose load stays at the level to which it was filled.
 */
#ifndef SK_CORE_BENCH_BENCH_DECIDE_H
#define SK_CORE_BENCH_BENCH_DECIDE_H

#include "core/core.h"

#define SK_BENCH_BATCH 64u
#define SK_BENCH_TIMES_MAX (1u << 20) /* of each sort */

struct sk_bench_plan {
	const struct sk_submit *submits; /* drawn from, each as likely; one task each */
	uint32_t submits_n;
	uint32_t decisions;  /* timed one by one */
	uint32_t warm;	     /* made before, at the same level */
	uint32_t batches;    /* of SK_BENCH_BATCH, timed together */
	uint32_t unique;     /* timed ones whose shape was never seen */
	uint32_t naive;	     /* timed searches that rate every node from scratch */
	uint64_t fill_milli; /* the level: filled up to here, or until nothing more fits */
	uint64_t seed;
};

/* Times are ns, as many as the plan says; the arrays are the caller's. */
struct sk_bench_times {
	uint32_t *propose;
	uint32_t *apply;
	uint32_t *batch_propose; /* of a whole batch */
	uint32_t *batch_both;	 /* the same with its apply */
	uint32_t *unique;
	uint32_t *naive;
	uint64_t used_milli; /* when timing began */
	uint64_t clock_ns;   /* of reading the clock twice, in all times above */
	uint32_t jobs;	     /* running when timing began */
	uint32_t placed;     /* of `decisions`; the others did not fit */
	uint32_t batches_placed;
	uint32_t unique_placed;
	uint32_t naive_agrees; /* the decision that followed was the same */
	uint32_t zero;
};

/* The core has its nodes and a term, and no jobs; its queue 0 lets nobody block. -ENOMEM, -EINVAL,
 * or what the core said. */
int sk_bench_decide(struct sk_core *core, const struct sk_bench_plan *plan,
		    struct sk_bench_times *times);

/* The timed part by itself, so that its instructions can be counted by its name. */
int sk_bench_decision(struct sk_core *core, const void *requests, size_t size, uint64_t now_ns,
		      uint64_t seed, struct sk_proposal *proposal);

#endif
