/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * CPU, memory and process limits of one job, on cgroup v2 or v1 controllers.
 *
 * A limit that cannot be enforced is refused by name, never ignored. v2 limits are files of the
 * job's own cgroup. v1 limits are separate groups that the child enters before it becomes its
 * owner; entering one waits some milliseconds for RCU, so jobs without limits skip it.
 */
#ifndef SK_RUNNER_CGROUP_LIMIT_H
#define SK_RUNNER_CGROUP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/site/site.h"
#include "runner/cgroup/tree.h"
#include "runner/wire/wire.h"

struct sk_runner_limits {
	const struct sk_runner_site *site;
	const struct sk_runner_tree *tree;
	uint64_t memory_bytes;
	uint32_t pids;
	uint32_t cpu_milli;
	bool on[SK_CONTROLLERS];
	int dir[SK_CONTROLLERS];   /* v1 group or the job's own cgroup */
	int entry[SK_CONTROLLERS]; /* v1: its cgroup.procs, else -1 */
	/* Filled by `sample`. */
	uint64_t memory_kills;
	uint64_t memory_peak;
	uint64_t pids_refusals;
};

/** Set the limits of a launch; 0 or negative errno with a sentence in `ret_why` (SK_TEXT_MAX). */
int sk_runner_limits_set(struct sk_runner_limits *limits, const struct sk_runner_site *site,
			 const struct sk_runner_tree *tree, const struct sk_runner_launch *launch,
			 char *ret_why);

/** Enter the v1 groups; called in the child while it is still privileged. 0 or negative errno. */
int sk_runner_limits_enter(const struct sk_runner_limits *limits);

/** Read the counters. Called before the job's cgroup is removed, because v2 removes them with it.
 */
void sk_runner_limits_sample(struct sk_runner_limits *limits);

/** Write into `ret` what the limits did to the job by the last sample, as a sentence of at most
 * `size` bytes, or "" if nothing. `killed`: its first process died of a SIGKILL that the runner did
 * not send. */
void sk_runner_limits_verdict(const struct sk_runner_limits *limits, bool killed, char *ret,
			      int size);

/** Remove the v1 groups and close all descriptors. No process of the job may be left. */
void sk_runner_limits_remove(struct sk_runner_limits *limits);

/** Write a size for people: "64 MiB", "1.5 GiB", "1000 bytes". */
void sk_runner_bytes_text(uint64_t bytes, char *ret, int size);

#endif
