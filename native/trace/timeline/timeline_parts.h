/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The open timeline, ids of its tracks and of interned names, for timeline.c and tracks.c.
 */
#ifndef SK_TRACE_TIMELINE_TIMELINE_PARTS_H
#define SK_TRACE_TIMELINE_TIMELINE_PARTS_H

#include "trace/timeline/perfetto.h"
#include "trace/timeline/timeline.h"

enum {
	/* Interned ids: kernels from 1, then copies and host events, thread states, levels of what
	 * was seen, blocking system calls. */
	ID_KERNEL = 1,
	ID_COPY = 1000,
	ID_STATE = 1100,
	ID_COVER = 1150,
	ID_LOSS = 1200,
	ID_SYSCALL = 2000,
	SYSCALLS = 1024,
	SUBTRACKS = 8, /* tracks for overlapping slices */
};

enum {
	TRACK_LOSS = 1,
	TRACK_PROCESS,
	TRACK_THREAD,
	TRACK_STATE,
	TRACK_DEVICE,
	TRACK_QUEUE,
	TRACK_HOST,
	TRACK_COVER,
	TRACK_COUNTER,
};

struct timeline {
	struct sk_trace_job *job;
	struct sk_trace_timeline_part part;
	struct sk_trace_perfetto out;
	struct sk_trace_event *events; /* work of devices */
	size_t event_count;
	struct sk_trace_event *host; /* events of the host, behind the former */
	size_t host_count;
	struct sk_trace_thread_span *spans;
	size_t span_count;
};

/** Return a track id: a kind in the high bits, then numbers that tell tracks of the kind apart. */
static inline uint64_t track_id(uint64_t kind, uint64_t a, uint64_t b)
{
	return kind << 56 | a << 24 | b;
}

/** Return the first sub-track that is free: slices of one track must not overlap. */
static inline unsigned free_subtrack(const uint64_t ends[SUBTRACKS], uint64_t start)
{
	unsigned sub = 0;

	while (sub < SUBTRACKS - 1 && ends[sub] > start)
		sub++;
	return sub;
}

void sk_trace_timeline_intern(struct timeline *line, uint64_t id, const char *text);
void sk_trace_timeline_slice_end(struct timeline *line, uint64_t ns, uint64_t track);

/** Write waits, barriers and user events, by thread. */
void sk_trace_timeline_host(struct timeline *line);

/** Write how much was seen of each process, and the moments at which that changed. */
void sk_trace_timeline_covers(struct timeline *line);

/** Write the readings of devices. */
void sk_trace_timeline_counters(struct timeline *line);

#endif
