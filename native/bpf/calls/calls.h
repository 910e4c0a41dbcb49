/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Calls of processes into GPU libraries, counted and timed by uprobes.
 *
 * Whatever the kernel denies is an answer with a reason. A group is the sites of one file in one
 * process; it is attached and detached as a whole.
 *
 * Threads: one thread attaches and detaches, any one at a time reads.
 */
#ifndef SK_BPF_CALLS_CALLS_H
#define SK_BPF_CALLS_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/catalogue/probe.h"
#include "records/call.h"
#include "records/collective.h"

#define SK_CALL_SITES_MAX 256 /* of one group */

struct sk_bpf_call_site {
	uint64_t offset;    /* in the file */
	uint64_t semaphore; /* in the file, of a USDT probe; 0: none */
	uint32_t call;	    /* the call as which its hits are counted */
	bool entry_only;    /* counted, not timed */
	uint32_t told;	    /* parts of a cookie: records/collective.h; 0: no collective */
};

struct sk_bpf_call_reading {
	struct sk_call_key key;
	struct sk_call_times times;
};

struct sk_bpf_calls;
struct sk_bpf_call_group;

/* Make the calls. `one_by_one`: do not use links over many sites even if the kernel has them. 0 or
 * -ENOMEM. */
int sk_bpf_calls_new(bool one_by_one, struct sk_bpf_calls **ret);
/* Free the calls; groups must have been detached before. */
void sk_bpf_calls_free(struct sk_bpf_calls *calls);

/* Load the programs; `ret` says why they did not load. */
void sk_bpf_calls_load(struct sk_bpf_calls *calls, struct sk_bpf_probe_state *ret);

/* Return whether a group is one link; else detaching takes time for each site. */
bool sk_bpf_calls_grouped(const struct sk_bpf_calls *calls);

/* Attach a group. `path` may be a link in /proc: it is followed at once. 0, or a negative errno
 * with nothing attached: -ESRCH: no such process; -ENODEV: programs are not loaded. */
int sk_bpf_calls_attach(struct sk_bpf_calls *calls, const char *path, uint32_t pid,
			const struct sk_bpf_call_site *sites, uint32_t count,
			struct sk_bpf_call_group **ret);
void sk_bpf_calls_detach(struct sk_bpf_call_group *group);

/* Read the sums over all CPUs, in no order, valid until the next call. 0 or a negative errno.
 * During a call a row may be one call ahead in some of its numbers. */
int sk_bpf_calls_read(struct sk_bpf_calls *calls, const struct sk_bpf_call_reading **ret,
		      uint32_t *ret_count);

/* Take the records of collectives that are in the ring, in the order in which calls were made,
 * valid until the next call. Others may attach, detach and read meanwhile. */
size_t sk_bpf_calls_collectives(struct sk_bpf_calls *calls, const struct sk_collective **ret);

/* Drop the rows of a process that has ended. */
int sk_bpf_calls_forget(struct sk_bpf_calls *calls, uint32_t pid);

void sk_bpf_calls_losses(struct sk_bpf_calls *calls, uint64_t ret[SK_CALL_LOSSES]);

/* The kinds of first instructions, by which the cost of a hit differs. */
enum sk_bpf_trap {
	SK_TRAP_NOP5,
	SK_TRAP_PUSH,
	SK_TRAP_NOP1,
	SK_TRAP_NOP,
	SK_TRAP_BRANCH,
	SK_TRAP_ENDBR64,
	SK_TRAP_OTHER,
	SK_TRAPS,
};

struct sk_bpf_trap_cost {
	uint32_t both_ns;  /* entry and return, with our programs */
	uint32_t entry_ns; /* entry alone */
};

/* Measure the costs of hits with `calls`, which are loaded and used for nothing else. It takes
 * about 40 ms of CPU and as long again of waiting. 0, -EOPNOTSUPP on machines other than x86-64, or
 * the negative errno of attaching. */
int sk_bpf_trap_costs(struct sk_bpf_calls *calls, struct sk_bpf_trap_cost ret[SK_TRAPS]);

#endif
