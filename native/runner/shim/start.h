/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The start of a job's first process: from the shim to execve, as the owner.
 *
 * The child shares the shim's memory until execve (CLONE_VM), so no page is copied and a failed
 * step is reported by a store. The shim sleeps meanwhile (CLONE_VFORK), so that the child's
 * oom_score_adj does not become the shim's. The child is born inside its cgroup and has a session
 * keyring of its own. The empty capability bounding set and no_new_privs are inherited from the
 * spawner.
 */
#ifndef SK_RUNNER_SHIM_START_H
#define SK_RUNNER_SHIM_START_H

#include <stdint.h>
#include <sys/types.h>

#include "runner/cgroup/limit.h"
#include "runner/cgroup/numa.h"
#include "runner/cgroup/tree.h"
#include "runner/wire/wire.h"

enum sk_runner_stage {
	SK_STAGE_NONE,
	SK_STAGE_CLONE,
	SK_STAGE_SESSION,
	SK_STAGE_KEYRING,
	SK_STAGE_STREAMS,
	SK_STAGE_LIMITS,
	SK_STAGE_NUMA,
	SK_STAGE_OWNER,
	SK_STAGE_CWD,
	SK_STAGE_EXEC,
};

struct sk_runner_start {
	const struct sk_runner_launch_view *launch;
	const struct sk_runner_limits *limits;
	const struct sk_runner_numa *numa;
	const struct sk_runner_tree *tree;
	char **argv;
	char **envp;
	int input;
	int output;
	int error;
	bool root;  /* may become the owner; else it already is */
	pid_t shim; /* the job is killed when this process dies */
	/* Written by the child. */
	volatile enum sk_runner_stage stage;
	volatile int failure; /* positive errno */
	volatile int unbound; /* positive errno of a binding that is not required */
};

/** Start the process and return after its execve: its id, or negative errno with `stage` set. */
pid_t sk_runner_start_run(struct sk_runner_start *start);

/** Return whether the failure may pass: nothing had begun, and the same start may work later. */
bool sk_runner_start_may_pass(const struct sk_runner_start *start);

/** Return whether it failed at a step in which the job has no part: its folder, program, owner and
 * binding are its own, and a file system of its user may answer there with any errno. */
bool sk_runner_start_of_the_node(const struct sk_runner_start *start);

/** Describe the failure as a sentence. */
void sk_runner_start_text(const struct sk_runner_start *start, char *ret, int size);

#endif
