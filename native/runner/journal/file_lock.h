/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Whether a keeper lives, without races: the lock on its slot's byte of one lock file.
 *
 * The lock belongs to an open file description (F_OFD_SETLK): taken by the spawner before the fork,
 * held by the keeper alone after it, released by the kernel when the keeper ends, however it ends.
 */
#ifndef SK_HOLD_H
#define SK_HOLD_H

#include <stdbool.h>
#include <stdint.h>

/** Make the lock file; 0 or negative errno. */
int sk_hold_make(const char *path);

/** A descriptor that holds the slot's lock; -EAGAIN if somebody else does. */
int sk_hold_take(const char *path, uint32_t slot);

/** Whether some other process holds it. */
bool sk_hold_is_held(const char *path, uint32_t slot);

/** Some slot whose lock is held, -1 if none is. */
int sk_hold_any(const char *path);

#endif
