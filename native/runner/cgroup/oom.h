/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The order in which the kernel ends processes when memory runs out: jobs before the node's own.
 *
 * A score that is raised with CAP_SYS_RESOURCE is its own floor (fs/proc/base.c, __set_oom_adj);
 * without, a process goes back to the floor that it inherited. A raised score that greedy jobs
 * alone put down again would have the kernel end everybody else first, so where nobody can go below
 * zero all jobs stay there.
 */
#ifndef SK_RUNNER_CGROUP_OOM_H
#define SK_RUNNER_CGROUP_OOM_H

#include "runner/site/site.h"

/** Find what can be held here; fills `oom_score`, `oom_held` and `oom_why` of the site. Puts the
 *  caller's own score down for a moment to learn its floor. */
void sk_runner_oom_find(struct sk_runner_site *site);

/** In the child: take the site's score. Only an order among victims: a job without it is a job. */
void sk_runner_oom_enter(const struct sk_runner_site *site);

#endif
