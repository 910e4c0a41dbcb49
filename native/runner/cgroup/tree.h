/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * All processes of one job: its cgroup or, without cgroups, its shim's descendants.
 *
 * No process can leave a cgroup. Without one the walk over /proc is repeated until no process is
 * left, and the job of a dead shim is found by its session alone: a process that made its own
 * session escapes.
 */
#ifndef SK_RUNNER_CGROUP_TREE_H
#define SK_RUNNER_CGROUP_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/site/site.h"
#include "runner/wire/wire.h"

enum { SK_SEEN_MAX = 512 };

struct sk_runner_tree {
	const struct sk_runner_site *site;
	char name[SK_TASK_NAME];
	char path[SK_TASK_NAME + sizeof(SK_FENCED) + 1]; /* below the jobs cgroup */
	int dir;       /* the cgroup's directory, -1 without cgroups */
	uint64_t id;   /* its inode, 0 without cgroups */
	pid_t root;    /* without cgroups: descendants of this shim, or 0 */
	pid_t session; /* without cgroups: members of this session, or 0 */
};

/** Make the job's empty cgroup, in SK_FENCED or SK_FREE; 0 or negative errno. */
int sk_runner_tree_make(struct sk_runner_tree *tree, const struct sk_runner_site *site,
			const struct sk_runner_key *key, bool fenced);

/** Find the tree of an earlier shim's job in either group. Its cgroup may already be gone (`dir` is
 * then -1). */
void sk_runner_tree_find(struct sk_runner_tree *tree, const struct sk_runner_site *site,
			 const struct sk_runner_key *key, pid_t session);

/** Processes that were already signalled. When it is full, further ones are not signalled again. */
struct sk_runner_seen {
	pid_t pid[SK_SEEN_MAX];
	int count;
};

/** Send `signal` to every process that is not in `seen` and add it there; NULL: to all. Return how
 * many were signalled. */
int sk_runner_tree_signal(const struct sk_runner_tree *tree, int signal,
			  struct sk_runner_seen *seen);

/** Send `signal` to every process that handles it. */
void sk_runner_tree_tell(const struct sk_runner_tree *tree, int signal);

/** Send SIGKILL to every process, including those being forked. */
void sk_runner_tree_kill(const struct sk_runner_tree *tree);

/** Remove the cgroup: 0 when no process is left, else -EBUSY. */
int sk_runner_tree_remove(struct sk_runner_tree *tree);

/** Return the CPU time, in ns, of everything that ever ran in the cgroup; `fallback` without
 * cgroups. */
uint64_t sk_runner_tree_cpu_ns(const struct sk_runner_tree *tree, uint64_t fallback);

/** Return whether a frozen ancestor stops this job. */
bool sk_runner_tree_frozen(const struct sk_runner_tree *tree);

#endif
