/* SPDX-License-Identifier: Apache-2.0 */
/* A Perfetto trace, field by field; perfetto.h names the sources of the field numbers. */
#include "trace/timeline/perfetto.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	TRACE_PACKET = 1,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_CLOCK = 58,
	PACKET_TRACK = 60,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,
	EVENT_NOTE = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_VALUE = 44,
	TRACK_COUNTER = 8,
	COUNTER_UNIT_NAME = 6,
	NOTE_VALUE = 3,
	NOTE_NAME = 10,
	CLOCK_IS_MONOTONIC = 3,
	LENGTH_BYTES = 4,
};

void sk_trace_perfetto_init(struct sk_trace_perfetto *out, int fd)
{
	out->fd = fd;
	out->error = 0;
	out->bytes = 0;
	out->used = 0;
}

static void flush(struct sk_trace_perfetto *out)
{
	size_t done = 0;

	while (!out->error && done < out->used) {
		ssize_t put = write(out->fd, out->buffer + done, out->used - done);

		if (put < 0 && errno != EINTR)
			out->error = -errno;
		done += put > 0 ? (size_t)put : 0;
	}
	out->bytes += out->used;
	out->used = 0;
}

static void varint(struct sk_trace_perfetto *out, uint64_t value)
{
	for (; value > 127; value >>= 7)
		out->buffer[out->used++] = (unsigned char)(value | 128);
	out->buffer[out->used++] = (unsigned char)value;
}

void sk_trace_perfetto_number(struct sk_trace_perfetto *out, unsigned field, uint64_t value)
{
	varint(out, field << 3);
	varint(out, value);
}

void sk_trace_perfetto_fixed(struct sk_trace_perfetto *out, unsigned field, uint64_t value)
{
	varint(out, field << 3 | 1);
	for (int i = 0; i < 8; i++)
		out->buffer[out->used++] = (unsigned char)(value >> 8 * i);
}

void sk_trace_perfetto_text(struct sk_trace_perfetto *out, unsigned field, const char *text)
{
	size_t length = strnlen(text, 1024);

	varint(out, field << 3 | 2);
	varint(out, length);
	memcpy(out->buffer + out->used, text, length);
	out->used += length;
}

size_t sk_trace_perfetto_begin(struct sk_trace_perfetto *out, unsigned field)
{
	varint(out, field << 3 | 2);
	out->used += LENGTH_BYTES;
	return out->used;
}

void sk_trace_perfetto_end(struct sk_trace_perfetto *out, size_t begun)
{
	size_t length = out->used - begun;

	for (int i = 0; i < LENGTH_BYTES; i++)
		out->buffer[begun - LENGTH_BYTES + (size_t)i] =
			(unsigned char)((length >> 7 * i & 127) | (i < LENGTH_BYTES - 1 ? 128 : 0));
}

void sk_trace_perfetto_packet(struct sk_trace_perfetto *out, unsigned sequence_flags)
{
	if (out->used > SK_PERFETTO_BUFFER - SK_PERFETTO_PACKET_MAX)
		flush(out);
	out->packet = sk_trace_perfetto_begin(out, TRACE_PACKET);
	sk_trace_perfetto_number(out, PACKET_SEQUENCE, 1);
	sk_trace_perfetto_number(out, PACKET_SEQUENCE_FLAGS, sequence_flags);
}

void sk_trace_perfetto_packet_end(struct sk_trace_perfetto *out)
{
	sk_trace_perfetto_end(out, out->packet);
}

static size_t begin_track(struct sk_trace_perfetto *out, uint64_t uuid, uint64_t parent)
{
	sk_trace_perfetto_packet(out, 2);
	size_t track = sk_trace_perfetto_begin(out, PACKET_TRACK);

	sk_trace_perfetto_number(out, TRACK_UUID, uuid);
	if (parent)
		sk_trace_perfetto_number(out, TRACK_PARENT, parent);
	return track;
}

void sk_trace_perfetto_track(struct sk_trace_perfetto *out, uint64_t uuid, uint64_t parent,
			     const char *name)
{
	size_t track = begin_track(out, uuid, parent);

	sk_trace_perfetto_text(out, TRACK_NAME, name);
	sk_trace_perfetto_end(out, track);
	sk_trace_perfetto_packet_end(out);
}

void sk_trace_perfetto_process(struct sk_trace_perfetto *out, uint64_t uuid, uint32_t pid,
			       const char *name)
{
	size_t track = begin_track(out, uuid, 0);
	size_t process = sk_trace_perfetto_begin(out, TRACK_PROCESS);

	sk_trace_perfetto_number(out, PROCESS_PID, pid);
	sk_trace_perfetto_text(out, PROCESS_NAME, name);
	sk_trace_perfetto_end(out, process);
	sk_trace_perfetto_end(out, track);
	sk_trace_perfetto_packet_end(out);
}

void sk_trace_perfetto_thread(struct sk_trace_perfetto *out, uint64_t uuid, uint32_t pid,
			      uint32_t tid, const char *name)
{
	size_t track = begin_track(out, uuid, 0);
	size_t thread = sk_trace_perfetto_begin(out, TRACK_THREAD);

	sk_trace_perfetto_number(out, THREAD_PID, pid);
	sk_trace_perfetto_number(out, THREAD_TID, tid);
	sk_trace_perfetto_text(out, THREAD_NAME, name);
	sk_trace_perfetto_end(out, thread);
	sk_trace_perfetto_end(out, track);
	sk_trace_perfetto_packet_end(out);
}

void sk_trace_perfetto_counter(struct sk_trace_perfetto *out, uint64_t uuid, const char *name,
			       const char *unit)
{
	size_t track = begin_track(out, uuid, 0);

	sk_trace_perfetto_text(out, TRACK_NAME, name);
	size_t counter = sk_trace_perfetto_begin(out, TRACK_COUNTER);

	sk_trace_perfetto_text(out, COUNTER_UNIT_NAME, unit);
	sk_trace_perfetto_end(out, counter);
	sk_trace_perfetto_end(out, track);
	sk_trace_perfetto_packet_end(out);
}

void sk_trace_perfetto_value(struct sk_trace_perfetto *out, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	sk_trace_perfetto_fixed(out, EVENT_VALUE, bits);
}

void sk_trace_perfetto_event(struct sk_trace_perfetto *out, enum sk_trace_perfetto_event type,
			     uint64_t ns, uint64_t track, uint64_t name)
{
	sk_trace_perfetto_packet(out, 2);
	sk_trace_perfetto_number(out, PACKET_TIMESTAMP, ns);
	sk_trace_perfetto_number(out, PACKET_CLOCK, CLOCK_IS_MONOTONIC);
	out->event = sk_trace_perfetto_begin(out, PACKET_TRACK_EVENT);
	sk_trace_perfetto_number(out, EVENT_TYPE, type);
	sk_trace_perfetto_number(out, EVENT_TRACK, track);
	if (name)
		sk_trace_perfetto_number(out, EVENT_NAME, name);
}

void sk_trace_perfetto_note(struct sk_trace_perfetto *out, const char *name, uint64_t value)
{
	size_t note = sk_trace_perfetto_begin(out, EVENT_NOTE);

	sk_trace_perfetto_text(out, NOTE_NAME, name);
	sk_trace_perfetto_number(out, NOTE_VALUE, value);
	sk_trace_perfetto_end(out, note);
}

void sk_trace_perfetto_event_end(struct sk_trace_perfetto *out)
{
	sk_trace_perfetto_end(out, out->event);
	sk_trace_perfetto_packet_end(out);
}

int sk_trace_perfetto_finish(struct sk_trace_perfetto *out)
{
	flush(out);
	return out->error;
}
