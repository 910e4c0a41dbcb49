/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One setting of one card, written through the vendor's table (native/devices/vendor.h) or a file
 * and read back.
 *
 * Libraries are opened when the first entry needs them and never closed; a function that a library
 * lacks costs only the entries that need it.
 */
#ifndef SK_POWER_VENDORS_H
#define SK_POWER_VENDORS_H

#include "record.h"

/** 0 when the card has the value now; else `why` says what happened. */
int sk_power_write(const struct sk_power_entry *entry, char *why, size_t size);

#endif
