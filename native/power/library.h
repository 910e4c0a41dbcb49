/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A vendor's library as stoker-restore uses it: opened and searched with the reason for a failure.
 *
 * Relied on by vendors.c and intel.c. Nothing here closes a library.
 */
#ifndef SK_POWER_LIBRARY_H
#define SK_POWER_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

/** A library, or NULL with the reason. */
void *sk_power_open(const char *name, char *why, size_t size);

/** A function of a library, or NULL with the reason; NULL without another one where there is no
 * library. */
void *sk_power_find(void *library, const char *name, char *why, size_t size);

/** -EIO, with what did not work and the library's code as the reason. */
int sk_power_refuse(char *why, size_t size, const char *what, int code);

/** 0 where a limit that was read back is the one that was written: drivers round. */
int sk_power_same(uint64_t now_mw, uint64_t mw, char *why, size_t size);

#endif
