/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A vendor: one table of functions for the reader, the setters and the restorer.
 *
 * Functions of a table may block in the driver.
 * Memory: a card's state is the vendor's, allocated once by `begin` and freed by `end`.
 * Threads: one thread for each card; `open` may be called by several at once.
 */
#ifndef SK_DEVICES_VENDOR_H
#define SK_DEVICES_VENDOR_H

#include <stddef.h>

#include "devices/record.h"

struct sk_device_card;

struct sk_device_vendor {
	const char *name;
	const char *const *call; /* names of calls, by `call` of a field */
	uint32_t calls;
	/** Load and initialise the driver's library; idempotent. 0, or -errno with the reason. */
	int (*open)(char *why, size_t size);
	/** The handle of the card with this UUID or PCI address. 0, or -errno with the reason. */
	int (*find)(const char *id, void **ret, char *why, size_t size);
	/** Find the parts of the card, which do not change between rounds; called again after
	 * trouble of the card. */
	int (*begin)(struct sk_device_card *card);
	/** Fill the fields that are read in each round. */
	void (*fast)(struct sk_device_card *card, struct sk_device_record *record);
	/** Fill the fields and lists that are read once a second. */
	void (*slow)(struct sk_device_card *card, struct sk_device_record *record);
	/** Write one setting, by its name in the record (native/power/record.h), and read it back.
	 * The agent and the restorer both write by this function. 0, or -errno with the reason. */
	int (*write)(void *handle, const char *what, uint64_t value, char *why, size_t size);
	void (*end)(struct sk_device_card *card);
};

extern const struct sk_device_vendor sk_device_nvidia, sk_device_amd, sk_device_intel,
	sk_device_idle;

/** The table of this name; NULL for none. */
const struct sk_device_vendor *sk_device_vendor_named(const char *name);

#endif
