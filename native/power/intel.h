/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Settings of an Intel card, written through Level Zero Sysman and read back.
 *
 * Relied on by vendors.c. A setting without a number is of the card as a whole; `/<n>` behind its
 * name is the domain with that number in Sysman's list, of which a card of tiles has one a tile.
 */
#ifndef SK_POWER_INTEL_H
#define SK_POWER_INTEL_H

#include "record.h"

/** As sk_power_write, for entries of kind `intel`. */
int sk_power_intel(const struct sk_power_entry *entry, char *why, size_t size);

#endif
