/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The order of the kernel's OOM killer: jobs before the node's own processes.
 *
 * A score raised with CAP_SYS_RESOURCE is its own floor (fs/proc/base.c, __set_oom_adj); without
 * that capability a process may go back to the floor that it inherited. If greedy jobs could lower
 * a raised score again, the kernel would kill all other processes first, so where the runner cannot
 * go below zero all jobs stay at zero.
 */
#ifndef SK_RUNNER_CGROUP_OOM_H
#define SK_RUNNER_CGROUP_OOM_H

#include "runner/site/site.h"

/** Find which order can be enforced here and fill `oom_score`, `oom_held` and `oom_why` of the
 * site. It lowers the caller's own score for a moment to learn its floor. */
void sk_runner_oom_find(struct sk_runner_site *site);

/** Take the site's score; called in the child. Failure is ignored: the score only orders victims.
 */
void sk_runner_oom_enter(const struct sk_runner_site *site);

#endif
