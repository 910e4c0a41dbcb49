/* SPDX-License-Identifier: Apache-2.0 */
/* Under `governed`: how much of the time launches are timed, counted, or not seen at all.
 *
 * What is left of the budget decides, by the launches per second of the busiest thread and the
 * measured cost of each kind of launch:
 * - all of the time is one timed window, while untimed launches in queues with profiling take less
 *   than half of the budget; the governor of launches (governor.h) spends the rest;
 * - else each period has one timed window, drawn at random within it (so that periods are strata),
 *   and outside of it launches are only counted;
 * - where counting alone goes on to take most of the budget, they are not even that: blind windows.
 * The length of windows depends on the past alone, so what they show has no bias.
 */
#include "turn.h"

enum { PERIODS_MAX = 16, DEAR_PERIODS = 2, PPM = 1000000 };

static const double LEAST_SHARE = 0.005;
static const uint64_t PERIOD_NS = 125000000, WINDOW_LEAST_NS = 1000000, LOOK_NS = 15000000;

/* Of the tick thread alone, and of this process: `generation` says which. */
static struct {
	uint64_t generation;
	uint64_t random;
	uint32_t budget_ppm;
	bool windows;	       /* else one timed window without an end */
	unsigned dear_periods; /* one after the other, in which counting alone was too dear */
	uint64_t period_ns;
	uint64_t shown_ns; /* the period that the open window is said to be of */
	uint64_t period_ends_ns;
	uint64_t opens_ns;
	uint64_t closes_ns;
	uint64_t looked_ns; /* when launches were last counted */
	double rate;	    /* launches per ns of the busiest thread */
	double counted_ns;  /* of a launch that is only counted */
} duty;

static void restart(uint32_t budget_ppm)
{
	uint64_t now = sk_tracer_now();

	duty.generation = sk_tracer->generation;
	duty.random = now * UINT64_C(0x9e3779b97f4a7c15) | 1;
	duty.budget_ppm = budget_ppm;
	duty.windows = false;
	duty.dear_periods = 0;
	duty.shown_ns = 0;
	duty.looked_ns = 0;
	duty.rate = 0;
	duty.counted_ns = 10;
}

/* The part that one may use up is a little less than all, for what is not measured. */
static double allowed(void)
{
	return 0.8 * duty.budget_ppm / PPM;
}

bool sk_duty_mode(uint32_t mode, uint32_t budget_ppm)
{
	sk_turn_begin();
	if (mode == SK_MODE_GOVERNED) {
		restart(budget_ppm);
		atomic_store(&layer->share, (uint32_t)(1 / allowed()));
	}
	/* Another budget alone: what is planned begins anew. */
	bool same = mode == sk_tracer_mode() &&
		    (mode != SK_MODE_GOVERNED || sk_turn_phase(layer->turn) == SK_PHASE_TIMED);

	if (same)
		return true;
	if (!layer->has_fence)
		return false;
	sk_turn_change(mode, sk_tracer_phase(mode), 0);
	return true;
}

/* Launches since the last look, of the busiest thread; its cost of counting one is taken over. */
static uint64_t count_launches(void)
{
	uint64_t most = 0;

	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS; index++) {
		struct sk_thread *thread = (struct sk_thread *)atomic_load_explicit(
			&sk_tracer->slots[index], memory_order_acquire);

		if (!thread)
			continue;
		uint64_t seen = thread->base.shared->counters.launches +
				thread->base.shared->counters.copies;

		if (seen - thread->seen_launches > most) {
			most = seen - thread->seen_launches;
			duty.counted_ns = thread->untimed_cost_ns;
		}
		thread->seen_launches = seen;
	}
	return most;
}

/* A rate that rises is believed at once, one that falls by and by. */
static void look(uint64_t now_ns, uint64_t seen_ns)
{
	double rate = (double)count_launches() / (double)(seen_ns ? seen_ns : 1);

	if (duty.looked_ns)
		duty.rate = rate > duty.rate ? rate : duty.rate + (rate - duty.rate) / 4;
	duty.looked_ns = now_ns;
}

/* Of each ns, what launches take if none is timed, in queues with profiling and without. */
static double untimed_part(void)
{
	return duty.rate * (duty.counted_ns + SK_DRIVER_COST_NS);
}

static bool is_blind_between(void)
{
	return duty.dear_periods > DEAR_PERIODS;
}

/* The part of the time in which launches are timed. */
static double share_of_time(void)
{
	double between = is_blind_between() ? 0 : duty.rate * duty.counted_ns;
	double left = 0.6 * allowed() - between, each = untimed_part() - between;

	if (left < LEAST_SHARE * each)
		return LEAST_SHARE;
	return left < each ? left / each : 1;
}

static uint64_t draw(uint64_t below)
{
	duty.random ^= duty.random << 13; /* xorshift64 (Marsaglia 2003) */
	duty.random ^= duty.random >> 7;
	duty.random ^= duty.random << 17;
	return below ? (duty.random >> 8) % below : 0;
}

/* A window shorter than what opening one takes is made up for by a longer period. */
static void plan_period(uint64_t from_ns)
{
	double share = share_of_time();
	uint64_t length = (uint64_t)((double)PERIOD_NS * share), period = PERIOD_NS;

	if (length < WINDOW_LEAST_NS) {
		length = WINDOW_LEAST_NS;
		period = (uint64_t)((double)length / share);
		period = period < PERIODS_MAX * PERIOD_NS ? period : PERIODS_MAX * PERIOD_NS;
	}
	duty.period_ns = period;
	duty.period_ends_ns = from_ns + period;
	duty.opens_ns = from_ns + draw(period - length);
	duty.closes_ns = duty.opens_ns + length;
}

/* Every window says of which length of period it is a part. */
static void show(uint32_t phase, uint64_t period_ns)
{
	if (sk_turn_phase(layer->turn) == phase && duty.shown_ns == period_ns)
		return;
	duty.shown_ns = period_ns;
	sk_turn_change(SK_MODE_GOVERNED, phase, period_ns);
}

static void show_between(void)
{
	show(is_blind_between() ? SK_PHASE_BLIND : SK_PHASE_COUNTED, duty.period_ns);
}

/* What is left for the timing of single launches. */
static void set_share(double part)
{
	atomic_store(&layer->share, (uint32_t)(1 / part));
}

static void time_all(void)
{
	duty.windows = false;
	duty.dear_periods = 0;
	set_share(allowed() - untimed_part());
	show(SK_PHASE_TIMED, 0);
}

static uint64_t begin_period(uint64_t now_ns)
{
	if (untimed_part() < allowed() / 3) {
		time_all();
		return 0;
	}
	set_share(0.4 * allowed());
	bool dear = duty.rate * duty.counted_ns > 0.5 * allowed();

	duty.dear_periods = dear ? duty.dear_periods + 1 : 0;
	duty.windows = true;
	plan_period(now_ns);
	show_between();
	return duty.opens_ns;
}

/* Launches are counted over whole windows where some are blind, else over time. */
static uint64_t in_period(uint64_t now_ns)
{
	bool timed = sk_turn_phase(layer->turn) == SK_PHASE_TIMED;
	bool was_blind = sk_turn_phase(layer->turn) == SK_PHASE_BLIND;

	if (!timed && now_ns < duty.opens_ns)
		return duty.opens_ns;
	if (!timed && now_ns < duty.closes_ns) {
		if (was_blind) {
			count_launches();
			duty.looked_ns = now_ns;
		}
		show(SK_PHASE_TIMED, duty.period_ns);
		return duty.closes_ns;
	}
	if (timed && now_ns < duty.closes_ns)
		return duty.closes_ns;
	if (timed) {
		look(now_ns, now_ns - duty.looked_ns);
		show_between();
	}
	if (now_ns < duty.period_ends_ns)
		return duty.period_ends_ns;
	return begin_period(now_ns);
}

uint64_t sk_duty_tick(uint64_t now_ns)
{
	if (sk_tracer_mode() != SK_MODE_GOVERNED || !layer->has_fence)
		return 0;
	if (duty.generation != sk_tracer->generation)
		restart(sk_tracer->budget_ppm);
	if (duty.windows)
		return in_period(now_ns);
	if (now_ns - duty.looked_ns < LOOK_NS)
		return 0;
	look(now_ns, now_ns - duty.looked_ns);
	if (untimed_part() > allowed() / 2)
		return begin_period(now_ns);
	set_share(allowed() - untimed_part());
	return 0;
}
