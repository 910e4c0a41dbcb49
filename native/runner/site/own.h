/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The lock by which one spawner, or one `--kill-all`, owns a journal at a time.
 */
#ifndef SK_RUNNER_SITE_OWN_H
#define SK_RUNNER_SITE_OWN_H

/** Take the journal folder for this process; -EBUSY if another process has it. It is a process
 * lock, which children do not inherit. */
int sk_runner_own(const char *journal);

#endif
