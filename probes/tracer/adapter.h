/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 Interface between a tracer's driver (driver.c), which decides on a phase, and its adapters.
 *
 * The driver owns the phase, the plan of windows, the budget, the time spent in each phase and,
 * for a tracer whose records come in batches, the watermark and the meter of launches. An adapter
 * per vendor says how a phase is applied, what calls cost, and how records are harvested.
 * Invariant: every change of mode or phase goes through one function, which applies it first and
 * then closes the segment's open window, so the segment never claims a phase that was refused.
 *
 * Memory: the state lies in `sk_tracer`, so it is new in a forked child. Threads: the thread that
 * has `tick_lock`.
 */
#ifndef SK_TRACER_ADAPTER_H
#define SK_TRACER_ADAPTER_H

#include "tracer/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct sk_tracer_slot;

/** The cost of calls to the job. */
struct sk_tracer_call_costs {
	double calls_per_ns; /* of the busiest thread, or of a thread at work */
	double timed_ns;     /* added to a call that is timed */
	double whole_ns;     /* the same in a period that is timed whole, where single calls may be
				left out; 0: as in a window */
	double counted_ns;   /* added to a call that is only counted */
	uint64_t switch_ns;  /* to begin and end one window */
	uint64_t tail_ns;    /* how long after a window calls still cost what timed ones do */
	uint64_t learn_ns;   /* not 0: a period of this length only counts, to learn `counted_ns` */
};

/** A vendor's part of a tracer. The driver calls all of it in the tick thread. */
struct sk_tracer_adapter {
	struct sk_tracer_limits limits;
	/** Percent of the budget that the plan spends; the rest is for what is not measured. */
	uint32_t planned_percent;
	/** A period that is timed whole ends at once when it costs more than this many percent of
	 * the budget. */
	uint32_t whole_percent;
	/** Records come in batches, at ticks: the driver keeps the watermark of the process, meters
	 * launches and adds the thread's processor time to the tracer's cost. */
	bool in_batches;
	/** After the end of the lease calls go on being counted, for SK_LEASE_COUNTED_S. Otherwise
	 * the tracer is dormant at the end of the lease. */
	bool counts_after_lease;
	/** True when the vendor's runtime can be called; false in a forked child. */
	bool (*is_ready)(void);
	/** Bring a phase in force for calls that begin from now on. `ret_at_ns` may be set to the
	 * time from which it is in force; when it is left alone, the driver takes the worse end of
	 * this call. False: the phase is not in force. */
	bool (*apply)(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns);
	/** The segment tells of the new phase, so calls may rely on it; may be NULL. */
	void (*settle)(void);
	/** Measured or assumed costs, at the beginning of a period, and at each tick of a period
	 * that is timed whole unless there is `is_over_budget`. */
	struct sk_tracer_call_costs (*costs)(uint64_t now_ns);
	/** True when the period has to end at once; NULL: `whole_percent` decides. */
	bool (*is_over_budget)(uint64_t now_ns);
	/** Turn what has finished into records. True while there is work. */
	bool (*harvest)(uint64_t now_ns);
	/** The process ends: harvest the last records. */
	void (*finish)(void);
};

/** Launches and what the tracer itself takes of them, metered at ticks. */
struct sk_tracer_meter {
	uint64_t launches; /* as of the latest tick */
	uint64_t tracer_ns;
	uint64_t timed_launches; /* recent ones, and the tracer's time for them */
	uint64_t timed_tracer_ns;
	double per_s; /* moving average of counted launches */
};

enum { SK_TRACER_PHASES = 4 /* places for enum sk_phase, which begins with 1 */ };

/** The driver's state. */
struct sk_tracer_driver {
	uint32_t phase;		 /* enum sk_phase in force; 0: none was applied yet */
	uint64_t told_period_ns; /* start of the period that the open window is part of; 0: none */
	uint64_t ticked_ns;
	uint64_t phase_ns[SK_TRACER_PHASES]; /* time in each phase; an adapter may take it out */
	struct sk_tracer_plan plan;
	struct sk_tracer_meter meter;
	uint64_t oldest_ns;		/* the watermark that the reader was told; 0: none */
	struct sk_tracer_slot *waiting; /* the slot whose first lane carries the watermark */
};

/** Bring `mode` in force with the phase that it begins with; false when the adapter refused. The
 * adapter's set-up calls this once, with `tick_lock` held. */
bool sk_tracer_enter(uint32_t mode);

/** The budget in force, in millionths of the job's time. */
uint32_t sk_tracer_budget(void);

/** Costs of a tracer in batches: the runtime's part is assumed, the tracer's own is metered. */
struct sk_tracer_call_costs sk_tracer_metered_costs(double timed_ns, double counted_ns);

/** This thread has worked for the tracer since `from_cpu_ns` of CLOCK_THREAD_CPUTIME_ID. A thread
 * of the tracer costs the job what it uses of a processor, not the time it waits for one. */
void sk_tracer_spent(uint64_t from_cpu_ns);

/** Tell the reader, for a tracer in batches, when the oldest call was made that still waits for
 * its record; 0: none waits, and while launches are timed the reader waits for this tick. */
void sk_tracer_watermark(uint64_t oldest_ns, uint64_t now_ns);

#endif
