/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The job of a task: the grandchild of the jobs cgroup that the task is in or below. The children
 * are the groups of jobs that are frozen at the end of a lease, and of those that are not.
 *
 * There are two ways to the same answer: plain loads from a typed pointer, for the hot path, and
 * probed reads, which serve untyped hooks too.
 */
#ifndef SK_BPF_JOB_BPF_H
#define SK_BPF_JOB_BPF_H

#include "kernel_compat.bpf.h"
#include "maps.bpf.h"

/* The level of jobs in the tree of cgroups. */
#define JOB_LEVEL (jobs_level + 2)

/* Return the id of the job that `cgroup`, which is at JOB_LEVEL or below, is or is in; 0: none. */
static __always_inline __u64 job_of_cgroup(struct cgroup *cgroup)
{
	if (compat_ancestor_id(cgroup, jobs_level) != jobs_cgroup)
		return 0;
	return compat_ancestor_id(cgroup, JOB_LEVEL);
}

/* Return the job of a task of any hook. */
static __always_inline __u64 job_of_task(struct task_struct *task)
{
	struct cgroup *cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp);

	if (BPF_CORE_READ(cgroup, level) < (int)JOB_LEVEL)
		return 0;
	return job_of_cgroup(cgroup);
}

/* Deeper groups inside a job are looked up by probed reads. Each typed load costs the kernel that
 * loads the program a search through all its types, about a millisecond. */
#define JOB_DEPTH_MAX 3

/* Return the job of a task of a typed hook. Most tasks end at the level, most others at two
 * parents.
 */
static __always_inline __u64 job_of_typed_task(struct task_struct *task)
{
	struct cgroup *cgroup = task->cgroups->dfl_cgrp;
	struct cgroup_subsys_state *group;
	int depth = cgroup->level - (int)JOB_LEVEL + 1;

	if (depth <= 0)
		return 0;
	if (depth > JOB_DEPTH_MAX)
		return job_of_cgroup(cgroup);
	group = &cgroup->self;
	for (int i = 1; i < JOB_DEPTH_MAX && i < depth; i++)
		group = group->parent;
	if (group->parent->parent->cgroup->kn->id != jobs_cgroup)
		return 0;
	return group->cgroup->kn->id;
}

#endif
