/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One setting of one card, written through the vendor's library or sysfs and read back.
 *
 * Relied on by stoker-restore. Libraries are opened when the first entry needs them and never
 * closed; what a library lacks costs only the entries that need it. Declarations are those of
 * nvml.h, amdsmi.h and zes_api.h.
 */
#ifndef SK_POWER_VENDORS_H
#define SK_POWER_VENDORS_H

#include "record.h"

/** 0 when the card has the value now; else `why` says what happened. */
int sk_power_write(const struct sk_power_entry *entry, char *why, size_t size);

#endif
