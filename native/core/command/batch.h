/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a buffer is a batch of records at all. Relied on by propose.c and apply.c, which look
 * at no record before the whole buffer has passed. Stored bytes have no alignment promise, so
 * records are copied out before they are read.
 */
#ifndef SK_CORE_COMMAND_BATCH_H
#define SK_CORE_COMMAND_BATCH_H

#include "core/state/state.h"

/* The largest unit of a batch: a gang's PLACEs, which are one. */
union sk_command_record {
	struct sk_header header;
	struct sk_place places[SK_TASKS_MAX];
	uint64_t align;
};

/* 0 and the count of records; -EBADMSG where a size, kind, flag, enum, zero field or the order of
 * a gang is wrong. `requests`: PREFER is allowed and PLACE is not; else the
 * other way round. */
int sk_batch_check(const uint8_t *bytes, size_t size, bool requests, uint32_t *ret);

/* Whether the lists of an ask end where they say so. */
bool sk_ask_shape(const struct sk_ask *ask);

/* Copy the unit at the start of a checked buffer; returns its bytes. */
size_t sk_batch_read(const uint8_t *bytes, union sk_command_record *ret);

#endif
