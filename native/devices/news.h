/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * News: the differences between two rounds of a card for which a listener is woken. Pure.
 */
#ifndef SK_DEVICES_NEWS_H
#define SK_DEVICES_NEWS_H

#include "devices/record.h"

/** Return whether a field has another code than before. */
bool sk_device_codes_changed(const struct sk_device_record *now,
			     const struct sk_device_record *last);

/** Return whether there is news: a counter of errors, a throttle reason that means a fault or the
 * state of a link changed, the energy counter fell, or a field is not below its level (NAN: it has
 * none). */
bool sk_device_is_news(const struct sk_device_record *now, const struct sk_device_record *last,
		       const double level[SK_DEVICE_FIELDS]);

#endif
