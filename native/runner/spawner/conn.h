/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One connection of an agent: bytes in, bytes out, and the slots whose events it still lacks.
 *
 * Events are not queued: a bit per slot says that there is one, and the frame is made when the
 * socket has room. A reader that does not read costs nothing, and memory is bounded.
 */
#ifndef SK_RUNNER_SPAWNER_CONN_H
#define SK_RUNNER_SPAWNER_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/table.h"

enum {
	SK_CONNS_MAX = 4,
	SK_CONN_OUT = 512 * 1024,
	SK_REPLY_ROOM = 256 * 1024, /* free in `out` before a request is read */
	SK_WORDS = SK_SLOTS_MAX / 64,
};

struct sk_runner_conn {
	int fd; /* -1: unused */
	bool greeted;
	uint32_t interest; /* epoll events that are awaited */
	bool telling_known;
	uint64_t known_request;
	uint64_t started[SK_WORDS]; /* slots whose start is still to be sent */
	uint64_t ended[SK_WORDS];
	uint64_t ready[SK_WORDS]; /* slots whose readiness is still to be sent */
	uint64_t known[SK_WORDS];
	uint32_t in_filled;
	uint32_t in_used;
	uint32_t out_filled;
	uint32_t out_sent;
	_Alignas(8) char in[SK_FRAME_MAX];
	_Alignas(8) char out[SK_CONN_OUT];
};

void sk_runner_conn_open(struct sk_runner_conn *conn, int fd);

/** Read the available bytes; false when the peer is gone. */
bool sk_runner_conn_receive(struct sk_runner_conn *conn);

/** Return the next whole frame, aligned to 8, or NULL; *ret_bad if the bytes are no frame. */
const struct sk_runner_frame *sk_runner_conn_next(struct sk_runner_conn *conn, bool *ret_bad);

/** Return whether there is room for answers: requests stay in the socket while there is none. */
bool sk_runner_conn_ready(const struct sk_runner_conn *conn);

/** Append a frame of header, head and body. */
void sk_runner_conn_reply(struct sk_runner_conn *conn, enum sk_runner_frame_kind kind,
			  uint64_t request, uint16_t count, const void *head, uint32_t head_size,
			  const void *body, uint32_t body_size);

/** Make frames for the bits that are set, as far as there is room. */
void sk_runner_conn_fill(struct sk_runner_conn *conn, const struct sk_runner_table *table);

/** Send the output; false when the peer is gone. */
bool sk_runner_conn_flush(struct sk_runner_conn *conn);

static inline void sk_runner_bit_set(uint64_t *bits, uint32_t slot)
{
	bits[slot / 64] |= (uint64_t)1 << (slot % 64);
}

#endif
