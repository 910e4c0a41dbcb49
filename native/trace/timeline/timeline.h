/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The timeline of one job as a Perfetto trace.
 *
 * It has these tracks:
 *   each thread with its calls; below it the thread's states, if spans are known, and its waits for
 *     devices, if tracers report them
 *   each device with its queues, and on these the kernels and copies; a flow joins each of them to
 *     the call that launched it
 *   the readings of each device
 *   for each process how much was seen, with an instant at every switch
 *   the losses
 */
#ifndef SK_TRACE_TIMELINE_TIMELINE_H
#define SK_TRACE_TIMELINE_TIMELINE_H

#include "trace/job/job.h"

struct sk_trace_timeline_stats {
	uint64_t records;
	uint64_t spans;
	uint64_t bytes;
};

enum { SK_TIMELINE_RECORDS = 1 << 18 }; /* of one file: 16 MiB while it is written */

/** The part of the job to write: all that touches [from_ns, to_ns); everything for 0 and
 * UINT64_MAX. Records come from a file of struct sk_trace_event, at most SK_TIMELINE_RECORDS, or
 * for -1 from those that the fold keeps. */
struct sk_trace_timeline_part {
	uint64_t from_ns;
	uint64_t to_ns;
	int events_fd;
};

/** Write the kept records and spans of `part` into `fd`. `realtime_ns` is CLOCK_REALTIME at
 * `now_ns`. */
int sk_trace_timeline_write(struct sk_trace_job *job, int fd, const char *title,
			    struct sk_trace_timeline_part part, uint64_t now_ns,
			    uint64_t realtime_ns, struct sk_trace_timeline_stats *ret);

/** Return the name of a copy kind, as the summary spells it. */
const char *sk_trace_timeline_kind_name(unsigned kind);

#endif
