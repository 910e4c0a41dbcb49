/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The spawner's loop: one agent (or a few) on a Unix socket, the fleet of keepers behind it.
 */
#ifndef SK_SPAWNER_H
#define SK_SPAWNER_H

#include "runner/site/site.h"

struct sk_spawner_options {
	const char *socket;
	const char *journal; /* directory */
	uint32_t jobs_max;
	struct sk_site_wish wish;
};

/** Serve until SIGTERM or SIGINT; returns the exit status. Jobs and keepers go on. */
int sk_spawner_run(struct sk_site *site, const struct sk_spawner_options *options);

#endif
