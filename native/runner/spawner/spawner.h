/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The spawner's loop: one agent (or a few) on a Unix socket, the shim pool behind it.
 */
#ifndef SK_RUNNER_SPAWNER_SPAWNER_H
#define SK_RUNNER_SPAWNER_SPAWNER_H

#include "runner/site/site.h"

struct sk_runner_spawner_options {
	const char *socket;
	const char *journal; /* directory */
	uint32_t jobs_max;
	struct sk_runner_site_wish wish;
};

/** Serve until SIGTERM or SIGINT; returns the exit status. Jobs and shims continue. */
int sk_runner_spawner_run(struct sk_runner_site *site,
			  const struct sk_runner_spawner_options *options);

#endif
