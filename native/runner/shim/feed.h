/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A job's input: from the spool file `in` of its folder into its pipe.
 *
 * The spawner writes the file and then publishes its length; the shim copies up to that length. A
 * job that closes its input early loses only the rest.
 */
#ifndef SK_RUNNER_SHIM_FEED_H
#define SK_RUNNER_SHIM_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/table.h"

struct sk_runner_feed {
	int pipe; /* write end, non-blocking; -1 when closed */
	int file;
	const char *folder;
	const struct sk_runner_control *control;
	uint64_t sent;
};

/** Copy the published bytes that fit, and close the pipe at the end of the input. */
void sk_runner_feed_pump(struct sk_runner_feed *feed);

/** Return whether published bytes are left for which the pipe had no room. */
bool sk_runner_feed_waits(const struct sk_runner_feed *feed);

void sk_runner_feed_close(struct sk_runner_feed *feed);

#endif
