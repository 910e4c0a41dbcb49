/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The start of a job's first process: from the keeper to execve, as the owner.
 *
 * Relied on by the keeper. The child shares the keeper's memory until execve (CLONE_VM), so no page
 * is copied and a failed step is told by a store; the keeper sleeps meanwhile (CLONE_VFORK), so
 * that the child's oom_score_adj does not become the keeper's. It is born inside its cgroup.
 * Its session keyring is a new one. Empty capability bounding set and no_new_privs are the
 * spawner's own and inherited.
 */
#ifndef SK_START_H
#define SK_START_H

#include <stdint.h>
#include <sys/types.h>

#include "runner/cgroup/limit.h"
#include "runner/cgroup/tree.h"
#include "runner/wire/wire.h"

enum sk_stage {
	SK_STAGE_NONE,
	SK_STAGE_CLONE,
	SK_STAGE_SESSION,
	SK_STAGE_KEYRING,
	SK_STAGE_STREAMS,
	SK_STAGE_LIMITS,
	SK_STAGE_OWNER,
	SK_STAGE_CWD,
	SK_STAGE_EXEC,
};

struct sk_start {
	const struct sk_launch_view *launch;
	const struct sk_limits *limits;
	const struct sk_tree *tree;
	char **argv;
	char **envp;
	int input;
	int output;
	int error;
	bool root;    /* may become the owner; else it already is */
	pid_t keeper; /* whose death is the job's */
	/* Told by the child. */
	volatile enum sk_stage stage;
	volatile int failure; /* positive errno */
};

/** Start it; the process id, or negative errno with `stage` set. Returns after execve. */
pid_t sk_start_run(struct sk_start *start);

/** Whether the failure was of the moment: nothing was begun, and the same start may work later. */
bool sk_start_may_pass(const struct sk_start *start);

/** What went wrong as a sentence. */
void sk_start_text(const struct sk_start *start, char *ret, int size);

#endif
