/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Caps of all jobs together, so that the node survives what its jobs do.
 *
 */
#ifndef SK_RUNNER_CGROUP_CAP_H
#define SK_RUNNER_CGROUP_CAP_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/site/site.h"

/** Set the caps of `wish`; fills `node_cap`, `node_cap_why` and the enforced values of `site`. */
void sk_runner_cap_set(struct sk_runner_site *site, const struct sk_runner_site_wish *wish);

/** How often each cap was met so far. */
struct sk_runner_cap_seen {
	uint64_t memory;
	uint64_t pids;
};

void sk_runner_cap_look(const struct sk_runner_site *site, struct sk_runner_cap_seen *ret);

/** What the caps did since `before`, as a sentence, "" if nothing; `killed` says that the job's
 *  first process died of SIGKILL that nobody here sent. */
void sk_runner_cap_verdict(const struct sk_runner_site *site,
			   const struct sk_runner_cap_seen *before, bool killed, char *ret,
			   int size);

#endif
