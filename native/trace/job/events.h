/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The newest records and spans of a job, kept for the timeline: two files used as rings.
 *
 * The position of an entry is its number modulo the capacity, and the number comes from the fold,
 * so writing a batch again after a crash changes nothing. A full disk loses entries, which are
 * counted. Threads: one. Cost: one pwrite per 1,024 entries.
 */
#ifndef SK_TRACE_JOB_EVENTS_H
#define SK_TRACE_JOB_EVENTS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_EVENTS_CAPACITY = 1 << 16, SK_EVENTS_BATCH = 1 << 10 };

/** A record with the job's indices instead of its process's. */
struct sk_trace_event {
	uint64_t queued_ns;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t bytes;
	uint32_t call_before; /* ns from the call's entry to queued_ns */
	uint32_t call_ns;
	uint32_t pid;
	uint32_t tid;
	uint16_t name;
	uint8_t kind;
	uint8_t device;
	uint16_t queue;
	uint8_t shift;
	uint8_t flags;
	uint32_t correlation;
	uint8_t turn; /* generation of the row `name`: another name may have the row by now */
	uint8_t reserved[3];
};
static_assert(sizeof(struct sk_trace_event) == 64, "events keep their stride");

struct sk_trace_events {
	int fd; /* -1: not made yet */
	const char *name;
	size_t entry_bytes;
	unsigned pending; /* in `batch`, not written */
	uint64_t next;	  /* number of the first pending entry */
	unsigned char batch[SK_EVENTS_BATCH * 64];
};

/** Make an empty ring over the file `name`, a string that stays the caller's. */
void sk_trace_events_init(struct sk_trace_events *events, const char *name, size_t entry_bytes);

/** Append the entry with this number; numbers grow by one. Return the entries lost, mostly 0. */
unsigned sk_trace_events_add(struct sk_trace_events *events, int folder_fd, uint64_t number,
			     const void *entry);

/** Write the pending entries. Return the entries lost. */
unsigned sk_trace_events_flush(struct sk_trace_events *events, int folder_fd);

/** Copy the newest entries of `total`, oldest first, at most SK_EVENTS_CAPACITY, into `ret`. Return
 * their number, or negative errno. */
int sk_trace_events_read(struct sk_trace_events *events, int folder_fd, uint64_t total, void *ret);

/** Copy `count` entries from number `first` on, all among the newest SK_EVENTS_CAPACITY. Return
 * their number, 0 if nothing was ever written, or negative errno. */
int sk_trace_events_copy(struct sk_trace_events *events, int folder_fd, uint64_t first,
			 uint64_t count, void *ret);

void sk_trace_events_close(struct sk_trace_events *events);

#endif
