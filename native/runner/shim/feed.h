/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A job's input: from the spool file `in` of its folder into its pipe.
 *
 * Relied on by the keeper. The spawner writes the file and then publishes its length; the keeper
 * copies up to that length. A job that closes its input early loses nothing but the rest.
 */
#ifndef SK_FEED_H
#define SK_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/table.h"

struct sk_feed {
	int pipe; /* write end, non-blocking; -1 when closed */
	int file;
	const char *folder;
	const struct sk_control *control;
	uint64_t sent;
};

/** Copy what is published and fits; closes the pipe at the end of the input. */
void sk_feed_pump(struct sk_feed *feed);

/** Whether there are published bytes that the pipe had no room for. */
bool sk_feed_waits(const struct sk_feed *feed);

void sk_feed_close(struct sk_feed *feed);

#endif
