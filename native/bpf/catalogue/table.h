/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The table of host probes: one row per probe, with its programs and where they are attached.
 *
 * Ids and order are those of probes/catalogue.py.
 */
#ifndef SK_BPF_CATALOGUE_TABLE_H
#define SK_BPF_CATALOGUE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/catalogue/probe.h"
#include "records/opt_in.h"

enum sk_bpf_object {
	SK_OBJECT_HOST,	  /* loaded when the host is attached */
	SK_OBJECT_OPT_IN, /* loaded for the first job that opts in */
};

/* The scope of a probe's cost. */
enum sk_bpf_cost {
	SK_COST_JOB,  /* only jobs: other tasks never come here, or leave after a few plain loads */
	SK_COST_RARE, /* the machine, but seldom */
	SK_COST_CALL, /* every system call of the machine: only while a job opts in */
	SK_COST_FAULT, /* every page fault of the machine: only while a job opts in */
	SK_COST_STACK, /* every wait of the jobs that opt in */
};

/* A tracepoint and its program, and an alternative for kernels that lack it. Without another
 * tracepoint the other program is the untyped form for the same one; without any tracepoint the
 * program belongs to cgroups, or to the kernel's events of handled page faults. */
struct sk_bpf_hook {
	const char *tracepoint;
	const char *program;
	const char *other_tracepoint;
	const char *other_program;
};

struct sk_bpf_row {
	const char *id;
	enum sk_bpf_object object;
	enum sk_bpf_cost cost;
	bool untyped;	    /* of a module: only attaching shows whether it exists */
	bool needs_threads; /* writes into entries that host.sched.switch makes */
	uint32_t opt_in;    /* SK_OPT_IN_* that attaches it */
	struct sk_bpf_hook hooks[SK_HOOKS];
};

/* Return the row of a probe; a row without hooks is part of another probe's program. */
const struct sk_bpf_row *sk_bpf_row_of(enum sk_bpf_probe probe);
/* Return the probe whose row names this program, or SK_PROBES. */
enum sk_bpf_probe sk_bpf_row_with(const char *program);

#endif
