/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The end of a node: removes every job, shim and cgroup, whether or not a spawner runs.
 */
#ifndef SK_RUNNER_SPAWNER_KILLALL_H
#define SK_RUNNER_SPAWNER_KILLALL_H

#include "runner/spawner/spawner.h"

/** Return the exit status: 0 nothing is left; 1 something is; 2 a spawner still owns the journal.
 */
int sk_runner_killall_run(struct sk_runner_site *site,
			  const struct sk_runner_spawner_options *options);

#endif
