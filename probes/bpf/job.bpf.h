/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0)
 *
 * Which job a task belongs to: the child of the jobs cgroup that it is in or below.
 *
 * Relied on by every *.bpf.c that looks at tasks. Reads by probe, so it serves typed and untyped
 * hooks alike; the hot path asks for the level first by a plain load.
 */
#ifndef STOKER_JOB_BPF_H
#define STOKER_JOB_BPF_H

#include "kernel_compat.bpf.h"
#include "maps.bpf.h"

/* Id of the job that `cgroup` is or is in; 0: none. */
static __always_inline __u64 job_of_cgroup(struct cgroup *cgroup)
{
	if (compat_ancestor_id(cgroup, jobs_level) != jobs_cgroup)
		return 0;
	return compat_ancestor_id(cgroup, jobs_level + 1);
}

static __always_inline __u64 job_of_task(struct task_struct *task)
{
	struct cgroup *cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp);

	if (BPF_CORE_READ(cgroup, level) <= (int)jobs_level)
		return 0;
	return job_of_cgroup(cgroup);
}

#endif
