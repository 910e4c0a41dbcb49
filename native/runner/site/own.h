/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One spawner, or one `--kill-all`, owns a journal at a time.
 */
#ifndef SK_RUNNER_SITE_OWN_H
#define SK_RUNNER_SITE_OWN_H

/** Take the journal folder for this process (a process lock: children do not have it);
 *  -EBUSY if another process has it. */
int sk_runner_own(const char *journal);

#endif
