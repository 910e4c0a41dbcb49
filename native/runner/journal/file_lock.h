/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Whether a shim lives, without races: the lock on its slot's byte of one lock file.
 *
 * The lock belongs to an open file description (F_OFD_SETLK): taken by the spawner before the fork,
 * held by the shim alone after it, released by the kernel when the shim ends, however it ends.
 */
#ifndef SK_RUNNER_JOURNAL_FILE_LOCK_H
#define SK_RUNNER_JOURNAL_FILE_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/** Make the lock file; 0 or negative errno. */
int sk_runner_file_lock_make(const char *path);

/** A descriptor that holds the slot's lock; -EAGAIN if somebody else does. */
int sk_runner_file_lock_take(const char *path, uint32_t slot);

/** Whether some other process holds it. */
bool sk_runner_file_lock_is_held(const char *path, uint32_t slot);

/** Some slot whose lock is held, -1 if none is. */
int sk_runner_file_lock_any(const char *path);

#endif
