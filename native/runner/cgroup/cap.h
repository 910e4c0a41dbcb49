/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Limits for all jobs together, so that the node survives its jobs.
 *
 * On v2 they are limits of the jobs cgroup. On v1 they are a group that the spawner enters, and
 * with it every shim and job that it forks. A cap costs a job two short reads of counters.
 */
#ifndef SK_RUNNER_CGROUP_CAP_H
#define SK_RUNNER_CGROUP_CAP_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/site/site.h"

/** Set the caps of `wish` and fill `node_cap`, `node_cap_why` and the enforced values of `site`. */
void sk_runner_cap_set(struct sk_runner_site *site, const struct sk_runner_site_wish *wish);

/** The number of times that each cap was reached so far. */
struct sk_runner_cap_seen {
	uint64_t memory;
	uint64_t pids;
};

void sk_runner_cap_look(const struct sk_runner_site *site, struct sk_runner_cap_seen *ret);

/** Write into `ret` what the caps did to the job since `before`, as a sentence, or "" if nothing.
 * `killed`: its first process died of a SIGKILL that the runner did not send. */
void sk_runner_cap_verdict(const struct sk_runner_site *site,
			   const struct sk_runner_cap_seen *before, bool killed, char *ret,
			   int size);

#endif
