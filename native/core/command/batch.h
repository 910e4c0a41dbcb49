/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that a buffer is a batch of records. Invariants: propose and apply read no record before
 * the whole buffer has passed; stored bytes have no alignment promise, so records are copied out
 * before they are read.
 */
#ifndef SK_CORE_COMMAND_BATCH_H
#define SK_CORE_COMMAND_BATCH_H

#include "core/state/state.h"

/* The largest unit of a batch: the PLACEs of a gang, which are one. */
union sk_command_record {
	struct sk_header header;
	struct sk_place places[SK_TASKS_MAX];
	struct sk_submit submit;
	struct sk_submit_array array;
	uint64_t align;
};

/* Returns 0 and the count of records, or -EBADMSG if a size, kind, flag, enum, zero field or the
 * order of a gang is wrong. With `requests` PREFER is allowed and PLACE is not; otherwise PLACE is
 * and PREFER is not. */
int sk_batch_check(const uint8_t *bytes, size_t size, bool requests, uint32_t *ret);

/* True if the lists of a request end at their first zero. */
bool sk_request_shape(const struct sk_request *request);

/* Copy the unit at the start of a checked buffer; returns its bytes. */
size_t sk_batch_read(const uint8_t *bytes, union sk_command_record *ret);

#endif
