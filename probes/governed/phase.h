/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What a governed tracer that only ticks is to see now: what launches cost, put to the windows.
 *
 * Relied on by the rocprofiler and Level Zero tracers, once a tick. What the tracer itself takes of
 * a timed launch is measured (`tracer_ns` of the slots, ticks included, as they are long only while
 * there are records); what the vendor's runtime adds is not ours to measure, so the tracer states
 * an assumption, of counted launches for all of it. The rate is known while launches are counted;
 * while blind, the last one holds. Threads: the tick thread alone.
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

enum { SK_GOVERNED_KEPT = 1 << 14 /* launches by which an average goes */ };

/** Timed launches, and what the tracer itself took of them. */
struct sk_governed_own {
	uint64_t launches;
	uint64_t ns;
};

struct sk_governed {
	uint32_t timed_ns;   /* assumed: what the runtime adds to a timed launch */
	uint32_t counted_ns; /* assumed: to one that is only counted, in all */
	struct sk_windows windows;
	uint64_t launches;
	uint64_t tracer_ns;
	uint64_t at_ns;
	struct sk_governed_own own;
	uint64_t told_ns; /* start of the period whose window was told last */
	double per_s;
};

/* Windows begin and end at ticks, which can be had when they are wanted. */
static const struct sk_windows_limits SK_GOVERNED_LIMITS = {
	.period_ns = 1000000000, .period_max_ns = 20000000000, .window_ns = 20000000};

static inline void sk_governed_own_add(struct sk_governed_own *own, uint64_t launches, uint64_t ns)
{
	own->launches += launches;
	own->ns += ns;
	if (own->launches > SK_GOVERNED_KEPT) {
		own->launches /= 2;
		own->ns /= 2;
	}
}

/** Once a tick; `phase`: what was seen since the tick before. True when there were launches. */
static inline bool sk_governed_note(struct sk_governed *governed, uint64_t now_ns, uint32_t phase)
{
	uint64_t tracer_ns, launches = sk_tracer_launches(&tracer_ns);
	uint64_t more = launches - governed->launches, spent = tracer_ns - governed->tracer_ns;
	bool sees = phase == SK_PHASE_TIMED || phase == SK_PHASE_COUNTED;

	if (phase == SK_PHASE_TIMED)
		sk_governed_own_add(&governed->own, more, spent);
	if (governed->at_ns && now_ns > governed->at_ns && sees)
		governed->per_s = 0.8 * governed->per_s +
				  0.2e9 * (double)more / (double)(now_ns - governed->at_ns);
	governed->launches = launches;
	governed->tracer_ns = tracer_ns;
	governed->at_ns = now_ns;
	return more;
}

static inline double sk_governed_timed_ns(const struct sk_governed *governed)
{
	const struct sk_governed_own *own = &governed->own;

	return governed->timed_ns + (own->launches ? (double)own->ns / (double)own->launches : 0);
}

/** What to see from now on; `chosen_ns` as sk_tracer_changed takes it. */
static inline uint32_t sk_governed_phase(struct sk_governed *governed, uint64_t now_ns,
					 uint64_t *chosen_ns)
{
	struct sk_windows *windows = &governed->windows;
	uint32_t budget = sk_tracer->budget_ppm ? sk_tracer->budget_ppm : SK_BUDGET_PPM;
	double timed_ns = sk_governed_timed_ns(governed), counted_ns = governed->counted_ns;
	struct sk_windows_costs costs = {.timed = governed->per_s * timed_ns / 1e9,
					 .counted = governed->per_s * counted_ns / 1e9};
	uint64_t next_ns;

	/* A period that is timed whole ends when that has become too dear. */
	bool too_dear = sk_windows_is_whole(windows) && costs.timed * 1e6 > budget;

	if (!windows->from_ns)
		sk_windows_init(windows, &SK_GOVERNED_LIMITS, now_ns);
	if (sk_windows_is_over(windows, now_ns) || too_dear)
		sk_windows_plan(windows, &costs, budget * SK_BUDGET_PLANNED / 100, now_ns);
	sk_tracer_tell_costs(timed_ns, counted_ns);
	*chosen_ns = sk_windows_chosen(windows);
	uint32_t phase = sk_windows_phase(windows, now_ns, &next_ns);

	sk_tracer->tick_at_ns = next_ns;
	return phase;
}

/** Is there something to tell: another phase, or the window of another period, which may follow the
 * one before without a gap? */
static inline bool sk_governed_begins(struct sk_governed *governed, uint32_t phase, uint32_t before,
				      uint64_t chosen_ns)
{
	bool other = chosen_ns && governed->told_ns != governed->windows.from_ns;

	if (other)
		governed->told_ns = governed->windows.from_ns;
	return other || phase != before;
}

#endif
