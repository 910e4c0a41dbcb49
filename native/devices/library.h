/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A driver's library, and failures of its functions with the reason as text.
 *
 * Memory: libraries are never closed. Threads: any.
 */
#ifndef SK_DEVICES_LIBRARY_H
#define SK_DEVICES_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

/** Open a library; NULL with the reason. */
void *sk_device_library(const char *name, char *why, size_t size);

/** Find a function; NULL with the reason. The reason stays unchanged if `library` is NULL. */
void *sk_device_find(void *library, const char *name, char *why, size_t size);

/** Say that the library has no such function. -ENOSYS. */
int sk_device_missing(char *why, size_t size, const char *what);

/** Say that a function failed, with the driver's code. -EIO. */
int sk_device_refuse(char *why, size_t size, const char *what, int code);

/** Compare the limit that was read back with the one that was written, since drivers round. 0, or
 * -EIO with the reason. */
int sk_device_same(uint64_t now_mw, uint64_t mw, char *why, size_t size);

#endif
