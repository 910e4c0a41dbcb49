/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/cgroup/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { POLICY_PREFERRED_MANY = 5 }; /* Linux 5.15; older headers lack it */

/** Read one number; -1 if there is none below `bits`. */
static long read_number(const char **at, size_t bits)
{
	char *end;
	unsigned long number;

	if (**at < '0' || **at > '9')
		return -1;
	number = strtoul(*at, &end, 10);
	*at = end;
	return number < bits ? (long)number : -1;
}

int sk_runner_list_read(const char *list, uint64_t *mask, size_t bits)
{
	memset(mask, 0, bits / 8);
	while (*list) {
		long first = read_number(&list, bits), last = first;

		if (*list == '-') {
			list++;
			last = read_number(&list, bits);
		}
		if (first < 0 || last < first || (*list && *list != ','))
			return -EINVAL;
		for (long each = first; each <= last; each++)
			mask[each / 64] |= UINT64_C(1) << each % 64;
		if (*list == ',' && !*++list)
			return -EINVAL;
	}
	return 0;
}

/** Bind the job's cgroup; 0 or negative errno. */
static int set_cgroup(const struct sk_runner_site *site, const struct sk_runner_tree *tree,
		      const struct sk_runner_launch_view *launch, bool required)
{
	static bool enabled; /* once per shim is enough */
	int error;

	if (site->controller[SK_CPUSET].where != SK_V2 || tree->dir < 0)
		return -EOPNOTSUPP;
	enabled = enabled || sk_runner_site_enable(site, SK_CPUSET) == 0;
	error = sk_runner_file_write(tree->dir, "cpuset.cpus", launch->cpus);
	if (!error && required && launch->memory_nodes[0])
		error = sk_runner_file_write(tree->dir, "cpuset.mems", launch->memory_nodes);
	return error;
}

int sk_runner_numa_set(struct sk_runner_numa *numa, const struct sk_runner_site *site,
		       const struct sk_runner_tree *tree,
		       const struct sk_runner_launch_view *launch, char *ret_why)
{
	bool required = launch->fixed->flags & SK_LAUNCH_NUMA, in_cgroup;

	numa->required = required;
	numa->cpus = numa->memory = false;
	if (sk_runner_list_read(launch->cpus, numa->cpu_mask, SK_NUMA_CPUS) ||
	    sk_runner_list_read(launch->memory_nodes, numa->node_mask, SK_NUMA_NODES)) {
		snprintf(ret_why, SK_TEXT_MAX, "no list of CPUs or memory nodes: %.80s, %.80s",
			 launch->cpus, launch->memory_nodes);
		return -EINVAL;
	}
	in_cgroup = launch->cpus[0] && !set_cgroup(site, tree, launch, required);
	numa->cpus = launch->cpus[0] && !in_cgroup;
	numa->memory = launch->memory_nodes[0] && !(in_cgroup && required);
	return 0;
}

static uint32_t nodes_count(const struct sk_runner_numa *numa)
{
	uint32_t count = 0;

	for (size_t i = 0; i < SK_NUMA_NODES / 64; i++)
		count += (uint32_t)__builtin_popcountll(numa->node_mask[i]);
	return count;
}

/* Raw system calls: the child shares the shim's memory, and errno is read at once. */
int sk_runner_numa_enter(const struct sk_runner_numa *numa)
{
	long policy = numa->required	       ? MPOL_BIND
		      : nodes_count(numa) == 1 ? MPOL_PREFERRED
					       : (long)POLICY_PREFERRED_MANY;
	int error = 0;

	if (numa->cpus &&
	    syscall(SYS_sched_setaffinity, 0, sizeof(numa->cpu_mask), numa->cpu_mask) < 0)
		error = errno;
	if (numa->memory &&
	    syscall(SYS_set_mempolicy, policy, numa->node_mask, SK_NUMA_NODES + 1) < 0)
		error = errno;
	return error;
}
