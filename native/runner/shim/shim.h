/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The job shim: one small process per running job, which owns its pipes, limits and exit status.
 *
 * The spawner forks it, hands it one launch after another through a pipe, and otherwise speaks to
 * it through the slot in shared memory and SIGUSR1. A shim outlives the spawner: it finishes its
 * job, records the end in its slot, and exits when the pipe has no writer any more. Invariant: an
 * end is recorded only when no process of the job is left.
 */
#ifndef SK_RUNNER_SHIM_SHIM_H
#define SK_RUNNER_SHIM_SHIM_H

#include <stddef.h>

#include "runner/site/site.h"
#include "runner/journal/table.h"

/** Give the memory of this program's arguments. A shim writes its own name there, so that it cannot
 * be mistaken for a spawner. */
void sk_runner_shim_title(char *arguments, size_t size);

/** Run as the shim of slot `index`; SK_FD_LAUNCH and SK_FD_LOCK are in place. */
_Noreturn void sk_runner_shim_main(const struct sk_runner_site *site, struct sk_runner_table *table,
				   uint32_t index);

#endif
