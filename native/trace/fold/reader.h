/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The reader of one segment file of a job, which a hostile user may make or change at any time.
 *
 * The file is opened without following links, and must be a regular file of the job's owner with
 * one name. It is copied with pread, so truncating it gives an error and not a signal. Every index
 * in it is checked against the tables before it is used.
 *
 * Memory: the view is the caller's scratch, one for all segments. Threads: one.
 */
#ifndef SK_TRACE_FOLD_READER_H
#define SK_TRACE_FOLD_READER_H

#include "trace/fold/fold.h"
#include "records/segment.h"

#include <sys/types.h>

/** The open window of a segment, and when it was read. */
struct sk_trace_reader_open {
	uint64_t windows;
	uint64_t from_ns;
	uint32_t mode;
	uint32_t phase;
	uint32_t drawn;
	uint64_t seen_ns;
};

/** The answer of a tracer. */
struct sk_trace_reader_answer {
	uint64_t applied;
	uint64_t since_ns;
	uint64_t switches;
	uint64_t switches_late;
	uint64_t pinned;
	uint32_t mode;
	uint32_t phase;
	uint32_t tracer;
	uint32_t stepped_aside;
	bool holds;	  /* it obeys the throttle word of records/throttle.h */
	uint64_t hold;	  /* that word in the file */
	uint64_t held;	  /* launches that waited for it */
	uint64_t held_ns; /* total wait, over all threads */
	char holder[60];
};

/** An open segment and its latest counts. */
struct sk_trace_reader {
	int fd;
	ino_t inode;
	uint64_t bytes;
	uint64_t checked_ns; /* when its process was last seen alive */
	bool dead;
	bool holds_back; /* a launch in flight delays settling */
	struct sk_trace_fold_counters counters;
	struct sk_trace_reader_open open;
	struct sk_trace_reader_answer answer;
	struct sk_trace_launch_costs costs;
	uint64_t wanted;		     /* as last written */
	uint64_t lease_ns;		     /* as last written */
	uint64_t throttle;		     /* as last written */
	uint64_t told[SK_SEGMENT_SLOTS];     /* tails as last written for the producers */
	uint64_t rows_seen[SK_SEGMENT_ROWS]; /* state of `counts` and `copies` at the last read */
	uint64_t counts[SK_SEGMENT_ROWS][SK_SEGMENT_NAMES];
	uint64_t copies[SK_SEGMENT_ROWS][SK_COPY_KINDS][2]; /* count, bytes */
};

/** Parse a segment's file name into pid, start time and number; false if it is none. */
bool sk_trace_reader_parse(const char *name, uint32_t *pid, uint64_t *starttime, uint32_t *number);

/** Write that file name into `ret`, at least 64 bytes. */
void sk_trace_reader_name(uint32_t pid, uint64_t starttime, uint32_t number, char *ret);

/** Open `name` in `folder_fd`. -EBADMSG: not a segment, or not of `owner`; -EAGAIN: still being
 * made; another negative errno of open(2). */
int sk_trace_reader_open(struct sk_trace_reader *reader, int folder_fd, const char *name,
			 uid_t owner, struct sk_segment *view);

/** Load the header, the used slots and the devices. -EBADMSG when they have changed their layout.
 */
int sk_trace_reader_load(struct sk_trace_reader *reader, struct sk_segment *view);

/** Load the slots again: the heads are at least as new as anything loaded before. */
int sk_trace_reader_load_slots(struct sk_trace_reader *reader, struct sk_segment *view);

/** Load names [from, to). */
int sk_trace_reader_load_names(struct sk_trace_reader *reader, struct sk_segment *view,
			       uint32_t from, uint32_t to);

/** Load the ring of windows. */
int sk_trace_reader_load_windows(struct sk_trace_reader *reader, struct sk_segment *view);

/** Write the control block, which tracers obey until `lease_ns`. */
int sk_trace_reader_control(struct sk_trace_reader *reader, uint64_t wanted, uint64_t lease_ns);

/** Write the throttle word of launches. */
int sk_trace_reader_throttle(struct sk_trace_reader *reader, uint64_t word);

/** Bring `counters`, `counts` and `copies` up to the loaded slots. */
int sk_trace_reader_load_counts(struct sk_trace_reader *reader, struct sk_segment *view);

/** Copy up to `max` records from index `tail` on, `head` being the loaded head, up to the end of
 * the ring. The number copied, or -EBADMSG for an impossible ring. */
int sk_trace_reader_records(struct sk_trace_reader *reader, const struct sk_segment *view,
			    unsigned slot, uint64_t tail, struct sk_record *ret, unsigned max);

/** Tell the producer of `slot` that everything before `tail` is consumed. */
int sk_trace_reader_consume(struct sk_trace_reader *reader, unsigned slot, uint64_t tail);

/** True while the process with this pid and start time runs. */
bool sk_trace_reader_process_runs(uint32_t pid, uint64_t starttime);

void sk_trace_reader_close(struct sk_trace_reader *reader);

#endif
