/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One setting of one card, written through the vendor's table (native/devices/vendor.h) or to a
 * file, and read back.
 *
 * The first entry that needs a library opens it, and it stays open. A function that a library lacks
 * fails only the entries that need it.
 * Memory: the libraries' own. Threads: one.
 */
#ifndef SK_POWER_SETTING_H
#define SK_POWER_SETTING_H

#include "power/record.h"

/** Write one entry and read it back. 0, or -errno with the reason. */
int sk_power_write(const struct sk_power_entry *entry, char *why, size_t size);

#endif
