/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The trace of one job: its segments drained into its fold, and the fold summed up.
 *
 * Time is an argument, CLOCK_MONOTONIC ns. A drain commits what it consumed before it releases ring
 * space, so at every moment each record is either still in its ring or in the fold. Threads: one at
 * a time per job. Errors: negative errno.
 */
#ifndef SK_TRACE_JOB_JOB_H
#define SK_TRACE_JOB_JOB_H

#include "trace/job/events.h"
#include "trace/fold/fold.h"
#include "trace/statistics/history.h"
#include "trace/fold/reader.h"

enum {
	SK_JOB_WAITING_SPANS = 1 << 18, /* 6 MB; the first SK_FOLD_SPANS survive a crash */
	SK_JOB_WAITING_INTERVALS = 1 << 18,
	SK_JOB_FOLDER_ENTRIES = 4096, /* looked at in one scan */
	SK_JOB_BATCH = 2048,
	SK_JOB_BAD = 1024,	/* files known to be no segments; more are not looked at */
	SK_JOB_SCAN_SHARE = 20, /* a long scan is followed by a pause of so many times its length */
};

static const uint64_t SK_JOB_SLOWEST_NS = UINT64_C(10000000000);

/** A segment of this process that a drain found; its tracer states `made_ns`. */
struct sk_trace_job_found {
	uint32_t pid;
	uint64_t starttime; /* clock ticks since boot */
	uint64_t made_ns;
};

/** The slowest launch of a name row of late: no launch that ended within SK_JOB_SLOWEST_NS after it
 * took longer. All zeros: there was none. It is no part of the fold, so a new agent has none. */
struct sk_trace_job_slowest {
	uint64_t ns;
	uint64_t end_ns;
	uint8_t turn; /* of the row then: another name may have it by now */
};

/** One traced job. Only files of native/trace use its fields. */
struct sk_trace_job {
	int folder_fd;
	int store_fd;
	uid_t owner;
	struct sk_trace_fold fold;
	struct sk_trace_events events;
	struct sk_trace_events spans;
	struct sk_segment *view;   /* scratch */
	struct sk_record *records; /* scratch, SK_JOB_BATCH of them */
	struct sk_trace_reader *readers[SK_FOLD_SEGMENTS];
	struct sk_trace_causes_input input; /* waits to be settled */
	uint64_t now_ns;
	uint64_t spans_to_ns;	  /* newest moment that a span describes */
	uint64_t fed_ns;	  /* spans that ended before it have been added; 0: not known */
	uint64_t waits_to_ns;	  /* waits for peers before it have been added; 0: nobody looks */
	uint64_t folder_stamp_ns; /* CLOCK_REALTIME */
	bool folder_quiet;	  /* nothing can hide behind that stamp */
	uint64_t scan_at_ns;	  /* not before */
	uint64_t refused;	  /* by the latest scan */
	bool dirty;		  /* the state differs from the file */
	uint64_t wanted; /* requested of tracers: struct sk_segment_control; 0: as they were started
			  */
	uint64_t lease_ns; /* length */
	uint32_t control_serial;
	uint32_t throttle; /* share of launches let in, of SK_THROTTLE_WHOLE; 0: no throttle */
	bool ended;	   /* no process of the job remains */
	double fill;	   /* fullest ring seen by this drain */
	struct sk_trace_history *history; /* NULL: none yet */
	bool no_timeline;		  /* for measurements: records are folded and not kept */
	bool nameless_any;
	uint64_t nameless[SK_SEGMENT_NAMES]; /* device time of a segment's names without a row */
	struct sk_trace_job_slowest slowest[SK_FOLD_NAMES];
	ino_t bad[SK_JOB_BAD];
	unsigned bad_used;
	struct sk_trace_job_found found[SK_FOLD_SEGMENTS]; /* not yet taken */
	unsigned found_used;
};

struct sk_trace_job_drained {
	uint64_t records; /* folded by this drain */
	uint64_t lost;	  /* records lost so far, all reasons */
	unsigned segments;
	double fill;
	unsigned tids_used;
	uint32_t tids[SK_CAUSES_THREADS]; /* threads that own rings now */
};

/** Open or continue the trace. -ENOENT: no such folder; -EBADMSG: the fold contradicts itself. */
int sk_trace_job_open(struct sk_trace_job **ret, const char *folder, const char *store,
		      uint32_t mode, uid_t owner, uint64_t now_ns);

/** Start the window here. -EBUSY once anything is settled, unless it is the same start. */
int sk_trace_job_set_window_from(struct sk_trace_job *job, uint64_t from_ns);

/** End the window here, or where it is settled already, whichever is later. */
void sk_trace_job_set_window_to(struct sk_trace_job *job, uint64_t to_ns);

/** List `id` among the devices even if it is never used. -ENOSPC beyond the table. */
int sk_trace_job_grant(struct sk_trace_job *job, const char *id);

/** Take in `count` spans. */
void sk_trace_job_add_spans(struct sk_trace_job *job, const struct sk_trace_thread_span *spans,
			    size_t count);

/** Take in `count` open states, each as a span up to a moment at which it was open. A state that
 * does not join what is known of its thread is left out. */
void sk_trace_job_add_open(struct sk_trace_job *job, const struct sk_trace_thread_span *open,
			   size_t count);

/** Take in `count` waits of threads for their peers. All before `to_ns` are added by now; time is
 * not settled before they are, unless that takes too long. */
void sk_trace_job_add_waits(struct sk_trace_job *job, const struct sk_trace_thread_span *waits,
			    size_t count, uint64_t to_ns);

/** Note that every known span that ended before `ns` has been added. Spans are late from that
 * moment on, and not from the drain, which may have been delayed. */
void sk_trace_job_fed(struct sk_trace_job *job, uint64_t ns);

/** Set the aggregates of one thread, in the order of span states. -ENOSPC beyond the table. */
int sk_trace_job_set_host_times(struct sk_trace_job *job, uint32_t tid, const uint64_t ns[4]);

/** Fold the published records. On an error nothing is lost: the rings keep them. */
int sk_trace_job_drain(struct sk_trace_job *job, uint64_t now_ns, struct sk_trace_job_drained *ret);

/** Take the segments that drains have found since the last call, those included that are folded and
 * removed by now; `ret` has room for SK_FOLD_SEGMENTS. A caller that takes them after every drain
 * misses none, since rows become free at the end of a drain; for any other the latest are left out.
 */
unsigned sk_trace_job_take_found(struct sk_trace_job *job, struct sk_trace_job_found *ret);

/** Drain for the last time: every process is gone, the window ends at `to_ns`, segments are
 * removed.
 */
int sk_trace_job_finish(struct sk_trace_job *job, uint64_t to_ns, struct sk_trace_job_drained *ret);

/** Set the request to present and later tracers, valid while a drain comes at least every
 * `lease_ns`. */
void sk_trace_job_control(struct sk_trace_job *job, uint32_t mode, uint32_t budget_ppm,
			  uint64_t lease_ns, uint64_t now_ns);

/** Let launches of all processes begin only in `share` of SK_THROTTLE_WHOLE of the time, while
 * drains come; 0 or the whole removes the throttle. */
void sk_trace_job_throttle(struct sk_trace_job *job, uint32_t share, uint64_t now_ns);

/** Return exact sums over present and past processes. */
void sk_trace_job_counters(const struct sk_trace_job *job, struct sk_trace_fold_counters *ret);

/** Launches by the job's name rows and copies by kind: counted, and estimated in blind windows. */
struct sk_trace_job_counts {
	uint64_t kernels[SK_FOLD_NAMES];
	uint64_t copies[SK_COPY_KINDS];
	uint64_t bytes[SK_COPY_KINDS];
	double kernels_unseen[SK_FOLD_NAMES];
	double copies_unseen[SK_COPY_KINDS];
};

/** The inputs of a job's estimates; arrays of two are for kernels and copies. */
struct sk_trace_job_sums {
	struct sk_trace_job_counts counts;
	double window_error; /* relative, 95 %, from what windows do not show; 0 without windows */
	double untimed_ns;   /* device time in which launches were not timed, of all devices */
	uint64_t ns[2];	     /* estimated device time */
	double error_ns[2];
};

/** One kernel name or copy kind. `count` is exact. */
struct sk_trace_job_row {
	uint64_t count;
	uint64_t unseen; /* estimated further launches, in blind windows */
	uint64_t timed;
	uint64_t total_ns; /* of kernels and copies */
	uint64_t error_ns;
	bool estimate;
};

struct sk_trace_job_process {
	uint64_t launches;
	uint64_t copies;
	uint64_t unseen; /* of kernels and copies, estimated in blind windows */
	uint64_t ns[2];
	uint64_t tracer_ns;
	bool estimate;
};

struct sk_trace_job_causes {
	uint64_t ns[SK_CAUSES];
	uint64_t error_ns;    /* of the busy time */
	uint64_t observed_ns; /* time in which the device was watched */
	bool estimate;
};

void sk_trace_job_counts(const struct sk_trace_job *job, struct sk_trace_job_counts *ret);

void sk_trace_job_sums(const struct sk_trace_job *job, struct sk_trace_job_sums *ret);

/** Return the half width of the 95 % interval that windows leave to a part of the device time. No
 * error is larger than the time that was not timed: devices were busy for all of it at most. */
double sk_trace_job_window_error_ns(const struct sk_trace_job_sums *sums, double total_ns);

/** Read the totals of one name or kind. */
void sk_trace_job_row(const struct sk_trace_job_sums *sums, const struct sk_trace_stat *stat,
		      uint64_t count, double unseen, struct sk_trace_job_row *ret);

/** Read the totals of the process in a row. */
void sk_trace_job_process(const struct sk_trace_job *job, unsigned index,
			  struct sk_trace_job_process *ret);

/** Add up the drawn windows of all processes. */
void sk_trace_job_clusters(const struct sk_trace_job *job, struct sk_trace_clusters *ret);

/** Read the causes of a device; they add up to the window. */
void sk_trace_job_causes(const struct sk_trace_job *job, unsigned device,
			 struct sk_trace_job_causes *ret);

void sk_trace_job_close(struct sk_trace_job *job);

#endif
