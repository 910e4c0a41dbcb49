/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A writer of Perfetto traces with just enough protobuf: packets into a descriptor, nothing
 * allocated.
 *
 * Field numbers are those of perfetto/protos/perfetto/trace: trace_packet.proto,
 * track_event/{track_event,track_descriptor,debug_annotation}.proto,
 * interned_data/interned_data.proto, clock_snapshot.proto. A message inside a packet has its length
 * in four bytes, written when it ends, so its size need not be known before; readers of protobuf
 * accept that encoding.
 */
#ifndef SK_TRACE_TIMELINE_PERFETTO_H
#define SK_TRACE_TIMELINE_PERFETTO_H

#include <stddef.h>
#include <stdint.h>

enum { SK_PERFETTO_BUFFER = 1 << 16, SK_PERFETTO_PACKET_MAX = 1 << 14 };

enum sk_trace_perfetto_event {
	SK_PERFETTO_BEGIN = 1,
	SK_PERFETTO_END = 2,
	SK_PERFETTO_INSTANT = 3,
	SK_PERFETTO_COUNTER = 4,
};

struct sk_trace_perfetto {
	int fd;
	int error; /* the first negative errno; nothing is written after it */
	uint64_t bytes;
	size_t used;
	size_t packet; /* where the open packet's length goes */
	size_t event;  /* where the open track event's length goes */
	unsigned char buffer[SK_PERFETTO_BUFFER];
};

void sk_trace_perfetto_init(struct sk_trace_perfetto *out, int fd);

/** Open a packet; `sequence_flags` 1 forgets interned names, 2 uses them. */
void sk_trace_perfetto_packet(struct sk_trace_perfetto *out, unsigned sequence_flags);
void sk_trace_perfetto_packet_end(struct sk_trace_perfetto *out);

/** Write a field of the innermost open message. Strings are cut where a packet would grow too long.
 */
void sk_trace_perfetto_number(struct sk_trace_perfetto *out, unsigned field, uint64_t value);
void sk_trace_perfetto_fixed(struct sk_trace_perfetto *out, unsigned field, uint64_t value);
void sk_trace_perfetto_text(struct sk_trace_perfetto *out, unsigned field, const char *text);
size_t sk_trace_perfetto_begin(struct sk_trace_perfetto *out, unsigned field);
void sk_trace_perfetto_end(struct sk_trace_perfetto *out, size_t begun);

/** Declare a track below `parent`, or at the top for 0. */
void sk_trace_perfetto_track(struct sk_trace_perfetto *out, uint64_t uuid, uint64_t parent,
			     const char *name);
void sk_trace_perfetto_process(struct sk_trace_perfetto *out, uint64_t uuid, uint32_t pid,
			       const char *name);
void sk_trace_perfetto_thread(struct sk_trace_perfetto *out, uint64_t uuid, uint32_t pid,
			      uint32_t tid, const char *name);

/** Declare a track of readings in `unit`. */
void sk_trace_perfetto_counter(struct sk_trace_perfetto *out, uint64_t uuid, const char *name,
			       const char *unit);

/** Write the value of the open counter event. */
void sk_trace_perfetto_value(struct sk_trace_perfetto *out, double value);

/** Open an event on a track; `name` is an interned id, 0 for an end. Close with _event_end. */
void sk_trace_perfetto_event(struct sk_trace_perfetto *out, enum sk_trace_perfetto_event type,
			     uint64_t ns, uint64_t track, uint64_t name);
void sk_trace_perfetto_note(struct sk_trace_perfetto *out, const char *name, uint64_t value);
void sk_trace_perfetto_event_end(struct sk_trace_perfetto *out);

/** Write the buffer; return the first error, or 0. */
int sk_trace_perfetto_finish(struct sk_trace_perfetto *out);

#endif
