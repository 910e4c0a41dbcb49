/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The shim: one small process per running job, which owns its pipes, limits and exit status.
 *
 * A shim outlives the spawner: it finishes its job, records the end in its slot, and leaves when
 * the pipe has no writer any more. An end is recorded only when no process of the job is left.
 */
#ifndef SK_RUNNER_SHIM_SHIM_H
#define SK_RUNNER_SHIM_SHIM_H

#include <stddef.h>

#include "runner/site/site.h"
#include "runner/journal/table.h"

/** Where this program's arguments lie: shims write their own name over them, so that nobody takes
 *  one for a spawner. */
void sk_runner_shim_title(char *arguments, size_t size);

/** Life of a shim for slot `index`; SK_FD_LAUNCH and SK_FD_LOCK are in place. */
_Noreturn void sk_runner_shim_main(const struct sk_runner_site *site, struct sk_runner_table *table,
				   uint32_t index);

#endif
