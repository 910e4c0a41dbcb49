/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One connection of an agent: bytes in, bytes out, and which slots it must still be told of.
 *
 * Events are not queued: a bit per slot says that there is something to tell, and the frame is made
 * when the socket has room. So a reader that does not read costs nothing, and memory is bounded
 * whatever happens.
 */
#ifndef SK_RUNNER_SPAWNER_CONN_H
#define SK_RUNNER_SPAWNER_CONN_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/table.h"

enum {
	SK_CONNS_MAX = 4,
	SK_CONN_OUT = 512 * 1024,
	SK_REPLY_ROOM = 256 * 1024, /* free in `out` before a request is taken up */
	SK_WORDS = SK_SLOTS_MAX / 64,
};

struct sk_runner_conn {
	int fd; /* -1: unused */
	bool greeted;
	uint32_t interest; /* epoll events that are waited for */
	bool telling_known;
	uint64_t known_request;
	uint64_t started[SK_WORDS]; /* slots whose start is to be told */
	uint64_t ended[SK_WORDS];
	uint64_t known[SK_WORDS];
	uint32_t in_filled;
	uint32_t in_used;
	uint32_t out_filled;
	uint32_t out_sent;
	_Alignas(8) char in[SK_FRAME_MAX];
	_Alignas(8) char out[SK_CONN_OUT];
};

void sk_runner_conn_open(struct sk_runner_conn *conn, int fd);

/** Read what is there; false when the peer is gone. */
bool sk_runner_conn_receive(struct sk_runner_conn *conn);

/** The next whole frame, aligned to 8, or NULL; *ret_bad if the bytes are no frame. */
const struct sk_runner_frame *sk_runner_conn_next(struct sk_runner_conn *conn, bool *ret_bad);

/** Room for requests: they wait in the socket while answers cannot leave. */
bool sk_runner_conn_ready(const struct sk_runner_conn *conn);

/** Append a frame of header, head and body. */
void sk_runner_conn_reply(struct sk_runner_conn *conn, enum sk_runner_frame_kind kind,
			  uint64_t request, uint16_t count, const void *head, uint32_t head_size,
			  const void *body, uint32_t body_size);

/** Make frames of the bits that are set, as far as there is room. */
void sk_runner_conn_fill(struct sk_runner_conn *conn, const struct sk_runner_table *table);

/** Send; false when the peer is gone. */
bool sk_runner_conn_flush(struct sk_runner_conn *conn);

static inline void sk_runner_bit_set(uint64_t *bits, uint32_t slot)
{
	bits[slot / 64] |= (uint64_t)1 << (slot % 64);
}

#endif
