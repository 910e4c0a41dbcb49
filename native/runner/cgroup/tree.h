/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * All processes of one job: its cgroup, or, without cgroups, its shim's descendants.
 *
 * With a cgroup nothing can leave it; without one the walk over /proc is repeated until nobody is
 * left, and a dead shim's job is found by its session alone: a process that made a session of its
 * own then escapes.
 */
#ifndef SK_RUNNER_CGROUP_TREE_H
#define SK_RUNNER_CGROUP_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/site/site.h"

enum { SK_SEEN_MAX = 512 };

struct sk_runner_tree {
	const struct sk_runner_site *site;
	char name[SK_JOB_NAME];
	int dir;       /* the cgroup's directory, -1 without cgroups */
	uint64_t id;   /* its inode, 0 without cgroups */
	pid_t root;    /* without cgroups: descendants of this shim, or 0 */
	pid_t session; /* without cgroups: members of this session, or 0 */
};

/** Make the job's cgroup, empty; 0 or negative errno. */
int sk_runner_tree_make(struct sk_runner_tree *tree, const struct sk_runner_site *site,
			uint64_t job, uint32_t attempt);

/** The tree of an earlier shim's job; its cgroup may already be gone (`dir` is -1 then). */
void sk_runner_tree_find(struct sk_runner_tree *tree, const struct sk_runner_site *site,
			 uint64_t job, uint32_t attempt, pid_t session);

/** Processes that were signalled before; more than it holds are not signalled again. */
struct sk_runner_seen {
	pid_t pid[SK_SEEN_MAX];
	int count;
};

/** Send `signal` to every process that is not in `seen`, and add it there; NULL: to all.
 *  Returns how many were signalled. */
int sk_runner_tree_signal(const struct sk_runner_tree *tree, int signal,
			  struct sk_runner_seen *seen);

/** SIGKILL to every process, including ones being forked. */
void sk_runner_tree_kill(const struct sk_runner_tree *tree);

/** 0 when no process is left, and then the cgroup is gone; -EBUSY else. */
int sk_runner_tree_remove(struct sk_runner_tree *tree);

/** CPU time of everything that ever ran in the cgroup, in ns; `fallback` without cgroups. */
uint64_t sk_runner_tree_cpu_ns(const struct sk_runner_tree *tree, uint64_t fallback);

/** Whether a frozen ancestor holds the jobs. */
bool sk_runner_site_frozen(const struct sk_runner_site *site);

#endif
