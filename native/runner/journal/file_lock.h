/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The lock that tells whether the shim of a slot lives: its slot's byte of one lock file.
 *
 * The lock belongs to an open file description (F_OFD_SETLK). The spawner takes it before the fork,
 * the shim alone holds it afterwards, and the kernel releases it when the shim ends, so there is no
 * race.
 */
#ifndef SK_RUNNER_JOURNAL_FILE_LOCK_H
#define SK_RUNNER_JOURNAL_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/** Make the lock file; 0 or negative errno. */
int sk_runner_file_lock_make(const char *path);

/** Return a descriptor that holds the slot's lock; -EAGAIN if another process holds it. */
int sk_runner_file_lock_take(const char *path, uint32_t slot);

/** Return whether another process holds the slot's lock. */
bool sk_runner_file_lock_is_held(const char *path, uint32_t slot);

/** Return a slot whose lock is held; -1 if none is. */
int sk_runner_file_lock_any(const char *path);

#endif
