/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The named counters of everything a trace can lose; the names are part of the trace summary.
 *
 * One list makes the enum and the names.
 */
#ifndef SK_TRACE_FOLD_LOSS_H
#define SK_TRACE_FOLD_LOSS_H

/* Counted in the job, in launches and copies: */
#define SK_LOSSES_IN_SEGMENT(X)                                                                    \
	X(ring_full)	    /* timed, and the ring had no room */                                  \
	X(pending_full)	    /* not timed: too many launches were in flight */                      \
	X(failed)	    /* ended in an error, so without a time */                             \
	X(unstamped)	    /* the driver gave no sensible time */                                 \
	X(unfinished)	    /* in flight when their process ended */                               \
	X(threads_refused)  /* not timed: more than 64 threads called at once */                   \
	X(names_refused)    /* counted as "(other)": more than 255 names in one process */         \
	X(devices_refused)  /* queues not timed: more than 16 devices */                           \
	X(queues_refused)   /* queues not timed: more than 4,096 queues */                         \
	X(clock_mismatches) /* stamps outside of their call */                                     \
	X(vendor_dropped)   /* records that the vendor's own profiler lost */                      \
	X(unjoined)	    /* records of the vendor's profiler whose call was not seen */         \
	X(untimed)	    /* counted under `full` and not timed */                               \
	X(host_lost)	    /* waits, barriers and user events of the host without a record */

/* Counted by the agent: */
#define SK_LOSSES_IN_FOLD(X)                                                                       \
	X(records_damaged)   /* published records that were invalid */                             \
	X(segments_refused)  /* more than 256 processes with a segment at once, or no memory */    \
	X(segments_damaged)  /* files that are not segments, or that changed while they were read  \
			      */                                                                   \
	X(job_names_refused) /* names whose row went to one with more device time */               \
	X(leases_lapsed)   /* times a tracer went dormant because the agent renewed its lease too  \
			      late */                                                              \
	X(control_changed) /* times the job wrote to the agent's part of a segment */              \
	X(windows_lost)	   /* closed unread: it is not known how much was seen meanwhile */        \
	X(windows_damaged) /* invalid windows */                                                   \
	X(late_intervals)  /* device work that came after its time was settled */                  \
	X(late_waits)	   /* waits for peers that came after their time was settled */            \
	X(broken_spans)	   /* thread time missing between two spans */                             \
	X(spans_dropped)   /* more spans waiting than there is room for */                         \
	X(threads_untracked) /* spans and calls of threads beyond 256 */                           \
	X(timeline_dropped)  /* records that left the timeline; they were folded all the same */   \
	X(timeline_spans_dropped)                                                                  \
	X(timeline_counters_dropped)

#define SK_LOSSES(X) SK_LOSSES_IN_SEGMENT(X) SK_LOSSES_IN_FOLD(X)

enum sk_trace_loss {
#define SK_LOSS_ENUM(name) SK_LOSS_##name,
	SK_LOSSES(SK_LOSS_ENUM)
#undef SK_LOSS_ENUM
		SK_LOSS_COUNT,
};

/** Return the name of a counter as the summary spells it. */
static inline const char *sk_trace_loss_name(enum sk_trace_loss loss)
{
	static const char *const NAMES[] = {
#define SK_LOSS_NAME(name) #name,
		SK_LOSSES(SK_LOSS_NAME)
#undef SK_LOSS_NAME
	};
	return NAMES[loss];
}

#endif
