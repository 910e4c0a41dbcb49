/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * When a governed tracer times launches: one window in each period, at a place drawn by chance.
 *
 * Relied on by the rocprofiler and Level Zero tracers, whose windows begin and end at ticks.
 * Stratified: every period has its window, so that no part of a job goes unseen for long; drawn, so
 * that a job with a rhythm of its own is not always seen at the same beat. The length of a window
 * does not depend on what was seen in it, which keeps estimates without bias.
 * Pure: reads no clock. Memory: the caller's. Threads: one.
 */
#ifndef SK_GOVERNED_WINDOWS_H
#define SK_GOVERNED_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SK_WINDOW_MIN_MS = 60, /* three ticks; a shorter share makes the period longer instead */
	SK_PERIOD_MS = 1000,
	SK_PERIOD_MAX_MS = 20000,
	SK_SHARE_WHOLE = 1000000, /* ppm */
	SK_BUDGET_PPM = 10000,	  /* where none is told: 1 % of the job's time */
};

struct sk_windows {
	uint64_t random;
	uint64_t period_from_ns;
	uint64_t period_ns;
	uint64_t from_ns;
	uint64_t to_ns;
};

static inline uint64_t sk_windows_draw(struct sk_windows *windows)
{
	/* xorshift64*, Vigna 2014. */
	windows->random ^= windows->random >> 12;
	windows->random ^= windows->random << 25;
	windows->random ^= windows->random >> 27;
	return windows->random * UINT64_C(0x2545f4914f6cdd1d);
}

static inline void sk_windows_next(struct sk_windows *windows, uint64_t now_ns, uint32_t share_ppm)
{
	uint64_t end = windows->period_from_ns + windows->period_ns;
	uint64_t least = SK_WINDOW_MIN_MS * UINT64_C(1000000);
	uint64_t period = SK_PERIOD_MS * UINT64_C(1000000);
	uint64_t most = SK_PERIOD_MAX_MS * UINT64_C(1000000), share = share_ppm ? share_ppm : 1;

	if (period * share / SK_SHARE_WHOLE < least)
		period = least * SK_SHARE_WHOLE / share;
	period = period > most ? most : period;
	uint64_t length = period * share / SK_SHARE_WHOLE;

	length = length < least ? least : length;
	/* Periods follow each other, unless nobody looked for longer than one. */
	windows->period_from_ns = windows->period_ns && now_ns - end < period ? end : now_ns;
	windows->period_ns = period;
	windows->from_ns =
		windows->period_from_ns + sk_windows_draw(windows) % (period - length + 1);
	windows->to_ns = windows->from_ns + length;
}

/** Whether launches are to be timed at `now_ns`; `share_ppm` of the time is to be. */
static inline bool sk_windows_timed(struct sk_windows *windows, uint64_t now_ns, uint32_t share_ppm)
{
	if (share_ppm >= SK_SHARE_WHOLE)
		return true;
	if (!windows->random)
		windows->random = now_ns * UINT64_C(0x9e3779b97f4a7c15) | 1;
	if (!windows->period_ns || now_ns - windows->period_from_ns >= windows->period_ns)
		sk_windows_next(windows, now_ns, share_ppm);
	return now_ns >= windows->from_ns && now_ns < windows->to_ns;
}

/** The share of time that a budget pays for. `busy_ppm`: what timing takes of a thread's time
 * while it is on. */
static inline uint32_t sk_windows_share(uint64_t busy_ppm, uint32_t budget_ppm)
{
	uint64_t budget = budget_ppm ? budget_ppm : SK_BUDGET_PPM;

	if (busy_ppm <= budget)
		return SK_SHARE_WHOLE;
	uint64_t share = budget * SK_SHARE_WHOLE / busy_ppm;

	return share > 1000 ? (uint32_t)share : 1000;
}

#endif
