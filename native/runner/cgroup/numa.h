/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The CPUs and memory nodes to which one job is bound, those beside its devices.
 *
 * CPUs are bound by the job's own cgroup where it has the cpuset controller of v2, which the job
 * cannot undo, and by affinity elsewhere. Memory is preferred by a policy that the job inherits;
 * where the launch requires it the cgroup or the policy allows no other. A binding that is not
 * required and fails leaves the job as it is and is told by its errno.
 */
#ifndef SK_RUNNER_CGROUP_NUMA_H
#define SK_RUNNER_CGROUP_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runner/cgroup/tree.h"
#include "runner/site/site.h"
#include "runner/wire/wire.h"

enum {
	SK_NUMA_CPUS = 8192, /* CPUs that a list may name, from 0 */
	SK_NUMA_NODES = 1024,
};

struct sk_runner_numa {
	bool required;
	bool cpus;   /* by affinity: the cgroup does not bind them */
	bool memory; /* by policy */
	uint64_t cpu_mask[SK_NUMA_CPUS / 64];
	uint64_t node_mask[SK_NUMA_NODES / 64];
};

/** Read a list such as `0-3,8` into `mask` of `bits` bits; 0 or -EINVAL. */
int sk_runner_list_read(const char *list, uint64_t *mask, size_t bits);

/** Bind what the cgroup can and keep what is left for the child; 0, or negative errno with a
 * sentence in `ret_why` (SK_TEXT_MAX). */
int sk_runner_numa_set(struct sk_runner_numa *numa, const struct sk_runner_site *site,
		       const struct sk_runner_tree *tree,
		       const struct sk_runner_launch_view *launch, char *ret_why);

/** Bind the calling process, the job's child before its execve. 0 or a positive errno. */
int sk_runner_numa_enter(const struct sk_runner_numa *numa);

#endif
