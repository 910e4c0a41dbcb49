/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A driver's library: opened and searched, with the reason for a failure as text.
 *
 * Memory: libraries are never closed. Threads: any.
 */
#ifndef SK_DEVICES_LIBRARY_H
#define SK_DEVICES_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

/** A library, or NULL with the reason. */
void *sk_device_library(const char *name, char *why, size_t size);

/** A function of a library, or NULL with the reason; NULL without another reason where there is no
 * library. */
void *sk_device_find(void *library, const char *name, char *why, size_t size);

/** -EIO, with the function that failed and the driver's code as the reason. */
int sk_device_refuse(char *why, size_t size, const char *what, int code);

/** 0 where a limit that was read back is the one that was written, since drivers round; -EIO. */
int sk_device_same(uint64_t now_mw, uint64_t mw, char *why, size_t size);

#endif
