/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/spawner/conn.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_PER_FRAME = 1024, EVENT_BYTES_MAX = sizeof(struct sk_runner_event) + SK_TEXT_MAX };

void sk_runner_conn_open(struct sk_runner_conn *conn, int fd)
{
	memset(conn, 0, offsetof(struct sk_runner_conn, in));
	conn->fd = fd;
}

static uint32_t room(const struct sk_runner_conn *conn)
{
	return SK_CONN_OUT - conn->out_filled;
}

bool sk_runner_conn_ready(const struct sk_runner_conn *conn)
{
	return room(conn) >= SK_REPLY_ROOM && !conn->telling_known;
}

bool sk_runner_conn_receive(struct sk_runner_conn *conn)
{
	ssize_t got;

	if (conn->in_used) {
		memmove(conn->in, conn->in + conn->in_used, conn->in_filled - conn->in_used);
		conn->in_filled -= conn->in_used;
		conn->in_used = 0;
	}
	if (conn->in_filled == sizeof(conn->in))
		return true;
	got = recv(conn->fd, conn->in + conn->in_filled, sizeof(conn->in) - conn->in_filled,
		   MSG_DONTWAIT);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	conn->in_filled += (uint32_t)got;
	return got > 0;
}

const struct sk_runner_frame *sk_runner_conn_next(struct sk_runner_conn *conn, bool *ret_bad)
{
	struct sk_runner_frame *frame;
	uint32_t have;

	/* Every frame but stdin's is a multiple of 8 bytes: align the next one. */
	if (conn->in_used % 8) {
		memmove(conn->in, conn->in + conn->in_used, conn->in_filled - conn->in_used);
		conn->in_filled -= conn->in_used;
		conn->in_used = 0;
	}
	have = conn->in_filled - conn->in_used;
	frame = (struct sk_runner_frame *)(void *)(conn->in + conn->in_used);
	*ret_bad = have >= sizeof(*frame) &&
		   (frame->size < sizeof(*frame) || frame->size > SK_FRAME_MAX);
	if (*ret_bad || have < sizeof(*frame) || have < frame->size)
		return NULL;
	conn->in_used += frame->size;
	return frame;
}

static void append(struct sk_runner_conn *conn, const void *bytes, uint32_t size)
{
	if (size)
		memcpy(conn->out + conn->out_filled, bytes, size);
	conn->out_filled += size;
}

void sk_runner_conn_reply(struct sk_runner_conn *conn, enum sk_runner_frame_kind kind,
			  uint64_t request, uint16_t count, const void *head, uint32_t head_size,
			  const void *body, uint32_t body_size)
{
	struct sk_runner_frame frame = {
		.size = (uint32_t)sizeof(frame) + head_size + body_size,
		.kind = (uint16_t)kind,
		.count = count,
		.request = request,
	};

	append(conn, &frame, sizeof(frame));
	append(conn, head, head_size);
	append(conn, body, body_size);
}

static void append_event(struct sk_runner_conn *conn, const struct sk_runner_slot *slot,
			 const struct sk_runner_event *event)
{
	append(conn, event, sizeof(*event));
	append(conn, slot->ended.text, event->text_bytes);
}

/** Append the start of a slot that may already have ended. */
static void append_start(struct sk_runner_conn *conn, const struct sk_runner_slot *slot)
{
	struct sk_runner_event event;

	sk_runner_slot_event(slot, &event);
	event.bits &= SK_EVENT_STARTED;
	event.text_bytes = 0;
	append_event(conn, slot, &event);
}

/** Append the readiness of a slot, unless it has gone on meanwhile; returns how many events. */
static uint32_t append_ready(struct sk_runner_conn *conn, const struct sk_runner_slot *slot)
{
	struct sk_runner_event event;

	sk_runner_slot_event(slot, &event);
	if (!(event.bits & SK_EVENT_READY))
		return 0;
	append_event(conn, slot, &event);
	return 1;
}

/** Append the events of one slot, start before end; returns how many. */
static uint32_t tell(struct sk_runner_conn *conn, const struct sk_runner_table *table,
		     uint32_t index)
{
	const struct sk_runner_slot *slot = &table->slot[index];
	uint64_t bit = (uint64_t)1 << (index % 64);
	struct sk_runner_event event;
	uint32_t count = 0;

	if (conn->ready[index / 64] & bit)
		count += append_ready(conn, slot);
	if (conn->started[index / 64] & bit) {
		append_start(conn, slot);
		count++;
	}
	if (conn->ended[index / 64] & bit) {
		sk_runner_slot_event(slot, &event);
		append_event(conn, slot, &event);
		count++;
	}
	conn->ready[index / 64] &= ~bit;
	conn->started[index / 64] &= ~bit;
	conn->ended[index / 64] &= ~bit;
	return count;
}

static void fill_events(struct sk_runner_conn *conn, const struct sk_runner_table *table)
{
	uint32_t at = conn->out_filled, count = 0;
	struct sk_runner_frame frame = {.kind = SK_EVENT};

	if (room(conn) < sizeof(frame) + 2 * EVENT_BYTES_MAX)
		return;
	conn->out_filled += sizeof(frame);
	for (uint32_t word = 0; word < SK_WORDS; word++) {
		uint64_t set = conn->started[word] | conn->ended[word] | conn->ready[word];

		for (; set; set &= set - 1) {
			if (room(conn) < 2 * EVENT_BYTES_MAX || count + 3 > EVENTS_PER_FRAME)
				goto out;
			count += tell(conn, table, word * 64 + (uint32_t)__builtin_ctzll(set));
		}
	}
out:
	if (!count) {
		conn->out_filled = at;
		return;
	}
	frame.size = conn->out_filled - at;
	frame.count = (uint16_t)count;
	memcpy(conn->out + at, &frame, sizeof(frame));
}

static void fill_known(struct sk_runner_conn *conn, const struct sk_runner_table *table)
{
	for (uint32_t word = 0; word < SK_WORDS; word++) {
		for (uint64_t set = conn->known[word]; set; set &= set - 1) {
			uint32_t index = word * 64 + (uint32_t)__builtin_ctzll(set);
			const struct sk_runner_slot *slot = &table->slot[index];
			struct sk_runner_event event;

			if (room(conn) < 2 * EVENT_BYTES_MAX)
				return;
			conn->known[word] &= ~((uint64_t)1 << (index % 64));
			if (sk_runner_slot_state(slot) == SK_SLOT_FREE)
				continue;
			sk_runner_slot_event(slot, &event);
			sk_runner_conn_reply(conn, SK_SLOT, conn->known_request, 1, &event,
					     sizeof(event), slot->ended.text, event.text_bytes);
		}
	}
	sk_runner_conn_reply(conn, SK_SLOTS_END, conn->known_request, 0, NULL, 0, NULL, 0);
	conn->telling_known = false;
}

void sk_runner_conn_fill(struct sk_runner_conn *conn, const struct sk_runner_table *table)
{
	if (!conn->greeted)
		return;
	fill_events(conn, table);
	if (conn->telling_known)
		fill_known(conn, table);
}

bool sk_runner_conn_flush(struct sk_runner_conn *conn)
{
	while (conn->out_sent < conn->out_filled) {
		ssize_t sent = send(conn->fd, conn->out + conn->out_sent,
				    conn->out_filled - conn->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno != EAGAIN)
			return false;
		if (sent < 0) {
			memmove(conn->out, conn->out + conn->out_sent,
				conn->out_filled - conn->out_sent);
			conn->out_filled -= conn->out_sent;
			conn->out_sent = 0;
			return true;
		}
		conn->out_sent += (uint32_t)sent;
	}
	conn->out_filled = conn->out_sent = 0;
	return true;
}
