/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The fold of one job, and the file that keeps it: two copies and a word that says which is
 * current.
 *
 * The positions read in the segments and the sums made of them are one state, so they are committed
 * together. The changed parts go into the copy that is not current, then one aligned 8-byte write
 * makes it current. If the agent is killed before that write, the next agent finds the old state
 * and reads the same records again; after the write it finds the new one. Nothing is synced to
 * disk, because a job does not survive a reboot either. The file is written with pwrite and never
 * mapped, so a full disk is -ENOSPC and not a signal.
 *
 * Memory: the state is about 5 MB of address space, of which only used parts become resident.
 * Threads: one.
 */
#ifndef SK_TRACE_FOLD_FOLD_H
#define SK_TRACE_FOLD_FOLD_H

#include "trace/causes/causes.h"
#include "trace/fold/loss.h"
#include "records/segment.h"
#include "trace/statistics/stat.h"
#include "trace/statistics/windows.h"

enum {
	SK_FOLD_VERSION = 15,
	SK_FOLD_SEGMENTS = 256,	     /* processes with a segment at once */
	SK_FOLD_NAMES = 256,	     /* kernel names of a job; 0 is "(other)" */
	SK_FOLD_INTERVALS = 1 << 16, /* device work that waits to be settled */
	SK_FOLD_SPANS = 1 << 14,
	SK_FOLD_PROCESSES = 256, /* named in the timeline */
	SK_FOLD_HOST = 256,	 /* threads with aggregates */
	SK_FOLD_HOST_KINDS = SK_KINDS - SK_KIND_BARRIER,
};

enum sk_trace_segment_state {
	SK_SEGMENT_FREE,
	SK_SEGMENT_LIVE,
	SK_SEGMENT_RETIRED, /* its counts are in the fold; the file is to be removed */
};

/** One segment file: how far it is consumed and what its indices mean in the job. */
struct sk_trace_fold_segment {
	uint32_t state;
	uint32_t pid;
	uint64_t starttime; /* of the process, clock ticks since boot */
	uint32_t number;    /* a process has one segment per program it executes */
	uint32_t names_read;
	uint32_t process;      /* its row */
	uint32_t window_mode;  /* mode in which it was made, enum sk_mode */
	uint64_t windows_read; /* of its window ring */
	uint64_t covered_ns;   /* known up to here how much was seen; 0: nothing known yet */
	uint64_t weighted;     /* launches and copies that its folded records stand for */
	uint64_t host_records; /* folded records of host events */
	uint64_t cover_ns[SK_COVERS];
	uint64_t counted;	 /* launches and copies of all windows that were read */
	uint64_t counted_before; /* the part of `counted` before the open stretch */
	uint64_t stretch_ns;	 /* seen since it was blind */
	uint64_t tail_ns;	 /* blind since anything was seen */
	struct sk_trace_stretch stretch_before;
	uint64_t drawn;					     /* windows ever in `window` */
	uint64_t filled;				     /* the one that was found last */
	struct sk_trace_window_sums window[SK_WINDOWS_KEPT]; /* the newest that were drawn */
	struct sk_trace_window_sums before;		     /* the one before those in `window` */
	uint64_t tails[SK_SEGMENT_SLOTS];
	uint8_t devices[SK_SEGMENT_DEVICES]; /* row in the job + 1; 0 not seen yet */
	uint16_t names[SK_SEGMENT_NAMES];
};

struct sk_trace_fold_device {
	char id[64];
	char name[128];
	char clock[24];
	int64_t offset_ns;
	int64_t drift_ppb;
	uint64_t error_ns;
	uint64_t busy_ns[2];	 /* device time of timed kernels and copies */
	uint64_t weighted_ns[2]; /* device time of all launches that the timed ones stand for */
	uint32_t granted;
	uint32_t hosted; /* its work is done by threads of the host */
};

/** One process of the job, over all programs it executed; the last row collects all further ones.
 */
struct sk_trace_fold_process {
	uint32_t pid;
	uint32_t tracer; /* enum sk_tracer_kind of its newest segment */
	uint64_t starttime;
	char comm[16];
	uint64_t weighted;	 /* launches and copies that folded records stand for */
	uint64_t weighted_ns[2]; /* device time of the kernels and copies in `weighted` */
	uint64_t drawn;		 /* the parts of these that were called in drawn windows */
	uint64_t drawn_ns[2];
	uint64_t launches; /* launches in its segments that are gone */
	uint64_t copies;   /* copies in its segments that are gone */
	uint64_t unseen;   /* estimated launches and copies in blind windows of these */
	uint64_t tracer_ns;
	uint64_t cover_ns[SK_COVERS];
};

/** Events of the host, which keep no device busy. */
struct sk_trace_fold_event_sum {
	uint64_t count;
	uint64_t ns;
};

/** Total times of a thread, in the order of span states. */
struct sk_trace_fold_host {
	uint32_t tid;
	uint32_t based;
	uint64_t ns[4];
	uint64_t base[4];    /* part of `ns` before the thread's spans were requested */
	uint64_t missing[4]; /* part of `ns` in no span, though spans were requested */
};

/** Sums over the counters of all segments. */
struct sk_trace_fold_counters {
	uint64_t launches;
	uint64_t copies;
	uint64_t timed;
	uint64_t made;
	uint64_t lost_ns; /* device time of records that found the ring full */
	uint64_t tracer_ns;
	uint64_t thread_ns;
	uint64_t profiler_ns;
	uint64_t command_buffers;
	uint64_t windows;
	uint64_t host_records;
	uint64_t loss[SK_LOSS_COUNT];
};

struct sk_trace_fold_state {
	uint64_t serial; /* batches committed */
	uint32_t mode;
	uint32_t finished;
	uint64_t window_to_ns; /* 0: still open */
	uint64_t records;      /* folded; also the next position in the timeline */
	uint64_t spans;	       /* taken in; also the next position among timeline spans */
	uint64_t segments_seen;
	uint32_t segments_used; /* rows ever used */
	uint32_t devices_used;
	uint32_t names_used;
	uint32_t processes_used;
	uint32_t intervals_used;
	uint32_t spans_used;
	uint32_t host_used;
	uint32_t reserved;
	struct sk_trace_fold_counters
		retired; /* of processes that are gone; loss: also the agent's */
	struct sk_trace_fold_event_sum events[SK_FOLD_HOST_KINDS]; /* from SK_KIND_BARRIER on */
	struct sk_trace_clusters clusters;
	uint8_t turns[SK_FOLD_NAMES]; /* how many names a row has had before; kept records are told
					 apart by it */
	struct sk_trace_fold_host host[SK_FOLD_HOST];
	struct sk_trace_fold_process processes[SK_FOLD_PROCESSES];
	struct sk_trace_fold_device devices[SK_CAUSES_DEVICES];
	struct sk_trace_fold_segment segments[SK_FOLD_SEGMENTS];
	char names[SK_FOLD_NAMES][SK_SEGMENT_NAME_BYTES];
	struct sk_trace_stat kernels[SK_FOLD_NAMES];
	struct sk_trace_stat copies[SK_COPY_KINDS];
	struct sk_trace_causes causes;
	struct sk_trace_interval intervals[SK_FOLD_INTERVALS];
	struct sk_trace_thread_span waiting[SK_FOLD_SPANS];
};

struct sk_trace_fold {
	struct sk_trace_fold_state *state;
	int fd;
	uint64_t written[2][SK_FOLD_NAMES + SK_COPY_KINDS]; /* stat serial in either copy + 1 */
};

/** Read the fold in the folder `store_fd`, or start an empty one whose window opens at `now_ns`.
 * The first commit makes the file. -EBADMSG: it contradicts itself. */
int sk_trace_fold_open(struct sk_trace_fold *fold, int store_fd, uint32_t mode, uint64_t now_ns);

/** Make the present state the current one. On an error the old one stays current. */
int sk_trace_fold_commit(struct sk_trace_fold *fold, int store_fd);

/** Add all counters of `more`. */
void sk_trace_fold_counters_add(struct sk_trace_fold_counters *sum,
				const struct sk_trace_fold_counters *more);

/** Return the stat of a kernel name or copy kind, marked as changed by this batch. */
struct sk_trace_stat *sk_trace_fold_touch(struct sk_trace_fold *fold, bool kernel, unsigned row);

/** Return the row of a kernel name, 0 when the table is full. `text` ends with a zero. */
unsigned sk_trace_fold_name(struct sk_trace_fold *fold, const char *text);

/** Give a row to a name without one that has had `ns` of device time: it replaces the name that had
 * the least, whose sums go to "(other)". Return the row, or 0 if it is to have none. */
unsigned sk_trace_fold_contend(struct sk_trace_fold *fold, const char *text, uint64_t ns);

/** Return the row of a process; the last row stands for all that have none. */
unsigned sk_trace_fold_process(struct sk_trace_fold *fold, uint32_t pid, uint64_t starttime,
			       const char *comm);

/** Return the row of a device by id, or SK_NO_DEVICE when the table is full. */
unsigned sk_trace_fold_device(struct sk_trace_fold *fold, const char *id);

void sk_trace_fold_close(struct sk_trace_fold *fold);

#endif
