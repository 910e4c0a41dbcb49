/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Calls of processes into GPU libraries, counted and timed by uprobes.
 *
 * Whatever the kernel denies is an answer with a reason. A group is sites of one file in one
 * process; it is attached and detached as a whole. One thread attaches and detaches, any one at a
 * time reads.
 */
#ifndef SK_BPF_CALLS_H
#define SK_BPF_CALLS_H

#include "records/call.h"
#include "host.h"

#define SK_CALL_SITES_MAX 256 /* of one group */

struct sk_bpf_call_site {
	uint64_t offset;    /* in the file */
	uint64_t semaphore; /* in the file, of a USDT probe; 0: none */
	uint32_t call;	    /* what its hits are counted as */
	bool entry_only;    /* counted, not timed */
};

struct sk_bpf_call_reading {
	struct sk_call_key key;
	struct sk_call_times times;
};

struct sk_bpf_calls;
struct sk_bpf_call_group;

/* `one_by_one`: do not use links over many sites even where the kernel has them. 0 or -ENOMEM. */
int sk_bpf_calls_new(bool one_by_one, struct sk_bpf_calls **ret);
/* Groups must have been detached before. */
void sk_bpf_calls_free(struct sk_bpf_calls *calls);

/* Load the programs; says in `ret` why not. */
void sk_bpf_calls_load(struct sk_bpf_calls *calls, struct sk_bpf_probe_state *ret);

/* Whether a group is one link; else detaching takes as long as it has sites. */
bool sk_bpf_calls_grouped(const struct sk_bpf_calls *calls);

/* `path` may be a link in /proc: it is followed at once. 0 or a negative errno: nothing is attached
 * then. -ESRCH: no such process; -ENODEV: programs are not loaded. */
int sk_bpf_calls_attach(struct sk_bpf_calls *calls, const char *path, uint32_t pid,
			const struct sk_bpf_call_site *sites, uint32_t count,
			struct sk_bpf_call_group **ret);
void sk_bpf_calls_detach(struct sk_bpf_call_group *group);

/* All CPUs summed, in no order; valid until the next call. 0 or a negative errno. While a call goes
 * on a row may be one call ahead in some of its numbers. */
int sk_bpf_calls_read(struct sk_bpf_calls *calls, const struct sk_bpf_call_reading **ret,
		      uint32_t *ret_count);

/* Drop the rows of a process that has ended. */
int sk_bpf_calls_forget(struct sk_bpf_calls *calls, uint32_t pid);

void sk_bpf_calls_losses(struct sk_bpf_calls *calls, uint64_t ret[SK_CALL_LOSSES]);

/* What one hit costs at each kind of first instruction, here and now; takes about 40 ms of CPU and
 * as much again of waiting. */
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

/* `calls` are loaded, and for nothing else. 0, -EOPNOTSUPP on machines other than x86-64, or why
 * nothing could be attached (negative). */
int sk_bpf_trap_costs(struct sk_bpf_calls *calls, struct sk_bpf_trap_cost ret[SK_TRAPS]);

#endif
