/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What a governed tracer is to see now: the rate of launches, what each costs, and the budget.
 *
 * Relied on by the rocprofiler and Level Zero tracers, once a tick. A launch's own cost is measured
 * (`tracer_ns` of the slots); what the vendor's runtime adds is not ours to measure, so the tracer
 * states an assumption. The rate is known while launches are counted; while blind, the last one
 * holds. Threads: the tick thread alone.
 */
#ifndef SK_GOVERNED_PHASE_H
#define SK_GOVERNED_PHASE_H

#include "governed/windows.h"
#include "tracer/tracer.h"

#include <time.h>

/** What the calling thread has used of a processor: the cost of a thread of ours is this, not the
 * time that it waited for one. */
static inline uint64_t sk_governed_cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/** Since `from_ns` of that, this thread worked for the tracer. */
static inline void sk_governed_spent(uint64_t from_ns)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();

	if (slot)
		sk_tracer_add(&slot->shared->counters.tracer_ns, sk_governed_cpu_ns() - from_ns);
}

struct sk_governed {
	uint32_t timed_ns;   /* assumed: what the runtime adds to a timed launch */
	uint32_t counted_ns; /* assumed: to one that is only counted */
	struct sk_windows windows;
	uint64_t launches;
	uint64_t at_ns;
	uint64_t own_ns;  /* measured, per launch */
	uint64_t told_ns; /* start of the period whose window was told last */
	double per_s;
};

static inline uint64_t sk_governed_launches(uint64_t *tracer_ns)
{
	struct sk_segment *segment = sk_tracer->segment;
	uint64_t launches = 0;

	*tracer_ns = 0;
	for (uint32_t i = 0; i < segment->header.slots_used; i++) {
		launches += segment->slots[i].counters.launches;
		launches += segment->slots[i].counters.copies;
		*tracer_ns += segment->slots[i].counters.tracer_ns;
	}
	return launches;
}

/** Once a tick; `sees`: launches are being counted. True when there were any. */
static inline bool sk_governed_note(struct sk_governed *governed, uint64_t now_ns, bool sees)
{
	uint64_t tracer_ns, launches = sk_governed_launches(&tracer_ns);
	uint64_t more = launches - governed->launches;

	governed->own_ns = launches ? tracer_ns / launches : 0;
	if (governed->at_ns && now_ns > governed->at_ns && sees)
		governed->per_s = 0.8 * governed->per_s +
				  0.2e9 * (double)more / (double)(now_ns - governed->at_ns);
	governed->launches = launches;
	governed->at_ns = now_ns;
	return more;
}

/** What to see from now on; `chosen_ns` as sk_tracer_changed takes it. */
static inline uint32_t sk_governed_phase(struct sk_governed *governed, uint64_t now_ns,
					 uint64_t *chosen_ns)
{
	uint32_t budget = sk_tracer->budget_ppm ? sk_tracer->budget_ppm : SK_BUDGET_PPM;
	double per_us = governed->per_s / 1e3; /* launches per s and ns each: ppm */
	uint64_t timed = (uint64_t)(per_us * (double)(governed->timed_ns + governed->own_ns));
	uint64_t counted = (uint64_t)(per_us * (double)governed->counted_ns);
	uint32_t share = sk_windows_share(timed, budget);

	*chosen_ns = 0;
	if (!sk_windows_timed(&governed->windows, now_ns, share))
		return counted > budget ? SK_PHASE_BLIND : SK_PHASE_COUNTED;
	if (share < SK_SHARE_WHOLE)
		*chosen_ns = governed->windows.period_ns;
	return SK_PHASE_TIMED;
}

/** Is there something to tell: another phase, or the window of another period, which may follow the
 * one before without a gap? */
static inline bool sk_governed_begins(struct sk_governed *governed, uint32_t phase, uint32_t before,
				      uint64_t chosen_ns)
{
	bool other = phase == SK_PHASE_TIMED && chosen_ns &&
		     governed->told_ns != governed->windows.period_from_ns;

	if (other)
		governed->told_ns = governed->windows.period_from_ns;
	return other || phase != before;
}

#endif
