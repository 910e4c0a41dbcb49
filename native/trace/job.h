/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The trace of one job: its segments drained into its fold, and the fold summed up.
 *
 * Relied on by the binding in trace/bind.cpp. Time comes in as an argument, CLOCK_MONOTONIC ns.
 * A drain commits what it consumed before it tells the producers, so that at every moment each
 * record is either still in its ring or in the fold.
 * Threads: one at a time per job. Errors: negative errno.
 */
#ifndef SK_TRACE_JOB_H
#define SK_TRACE_JOB_H

#include "trace/events.h"
#include "trace/fold.h"
#include "trace/reader.h"

enum {
	SK_JOB_WAITING_SPANS = 1 << 18, /* 6 MB; the first SK_FOLD_SPANS survive a crash */
	SK_JOB_WAITING_INTERVALS = 1 << 18,
	SK_JOB_FOLDER_ENTRIES = 4096, /* looked at in one scan */
	SK_JOB_BATCH = 2048,
	SK_JOB_BAD = 256, /* files known to be no segments */
};

/** One traced job. Fields are for the files of trace/ only. */
struct sk_job {
	int folder_fd;
	int store_fd;
	uid_t owner;
	struct sk_fold fold;
	struct sk_events events;
	struct sk_events spans;
	struct sk_segment *view;   /* scratch */
	struct sk_record *records; /* scratch, SK_JOB_BATCH of them */
	struct sk_reader *readers[SK_FOLD_SEGMENTS];
	struct sk_causes_input input; /* waits to be settled */
	uint64_t now_ns;
	uint64_t spans_to_ns;	  /* newest moment a span has told of */
	uint64_t folder_stamp_ns; /* CLOCK_REALTIME */
	bool folder_quiet;	  /* nothing can hide behind that stamp */
	uint64_t refused;	  /* by the latest scan */
	bool dirty;		  /* the state differs from the file */
	bool ended;		  /* no process of the job remains */
	double fill;		  /* fullest ring seen by this drain */
	ino_t bad[SK_JOB_BAD];
	unsigned bad_used;
};

struct sk_job_drained {
	uint64_t records; /* folded by this drain */
	uint64_t lost;	  /* records lost so far, all reasons */
	unsigned segments;
	double fill;
	unsigned tids_used;
	uint32_t tids[SK_CAUSES_THREADS]; /* threads that own rings now */
};

/** Open or continue. -ENOENT: no such folder; -EBADMSG: the fold contradicts itself. */
int sk_job_open(struct sk_job **ret, const char *folder, const char *store, uint32_t mode,
		uid_t owner, uint64_t now_ns);

/** The window starts here; only before anything is settled, else -EBUSY unless it is the same. */
int sk_job_set_window_from(struct sk_job *job, uint64_t from_ns);

/** The window ends here, or where it is settled already, whichever is later. */
void sk_job_set_window_to(struct sk_job *job, uint64_t to_ns);

/** List `id` among the devices also when it is never used. -ENOSPC beyond the table. */
int sk_job_grant(struct sk_job *job, const char *id);

/** Take in `count` spans. */
void sk_job_add_spans(struct sk_job *job, const struct sk_thread_span *spans, size_t count);

/** Take in states that still go on, each as a span up to a moment at which it did; those that do
 * not join what is known of their thread are left out. */
void sk_job_add_open(struct sk_job *job, const struct sk_thread_span *open, size_t count);

/** Aggregates of one thread, in the order of span states. -ENOSPC beyond the table. */
int sk_job_set_host_times(struct sk_job *job, uint32_t tid, const uint64_t ns[4]);

/** Fold what is published. On an error nothing is lost: the rings keep it. */
int sk_job_drain(struct sk_job *job, uint64_t now_ns, struct sk_job_drained *ret);

/** The last drain: every process is gone, the window ends at `to_ns`, segments are removed. */
int sk_job_finish(struct sk_job *job, uint64_t to_ns, struct sk_job_drained *ret);

/** Exact sums over the processes that are gone and those that are not. */
void sk_job_counters(const struct sk_job *job, struct sk_fold_counters *ret);

/** Exact launches by the job's name rows, and count and bytes by copy kind. */
void sk_job_counts(const struct sk_job *job, uint64_t kernels[SK_FOLD_NAMES],
		   uint64_t copies[SK_COPY_KINDS][2]);

/** Causes of a device; `*estimate` is set when they are not exact. */
void sk_job_causes(const struct sk_job *job, unsigned device, uint64_t ret[SK_CAUSES],
		   bool *estimate);

void sk_job_close(struct sk_job *job);

#endif
