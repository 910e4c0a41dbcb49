/* SPDX-License-Identifier: Apache-2.0 */
/* Under `governed`: how much of the time launches are timed, counted, or not seen at all.
 *
 * Which windows there are is decided by governed/windows.h, by the launches per second of the
 * busiest thread and the measured cost of each kind of launch. What is OpenCL's own is here: a
 * window costs by what profiling adds to every launch in a profiled queue, timed or not, so the
 * windows get only a part of the budget, and the governor of launches (governor.h) spends the rest
 * on the launches in them that it times.
 */
#include "turn.h"

#include "governed/windows.h"

enum { PPM = 1000000 };

static const double WINDOWS_PART = 0.6;
static const uint64_t LOOK_NS = 15000000;

/* Opening a window takes next to nothing, so they are short and many. */
static const struct sk_windows_limits LIMITS = {
	.period_ns = 125000000, .period_max_ns = 2000000000, .window_ns = 1000000, .patience = 7};

/* Of the tick thread alone, and of this process: `generation` says which. */
static struct {
	uint64_t generation;
	uint32_t budget_ppm;
	struct sk_windows windows;
	uint64_t shown_ns;  /* the period that the open window is said to be of */
	uint64_t looked_ns; /* when launches were last counted */
	double rate;	    /* launches per ns of the busiest thread */
	double counted_ns;  /* of a launch that is only counted */
} duty;

static uint64_t count_launches(void);

static void restart(uint32_t budget_ppm)
{
	duty.generation = sk_tracer->generation;
	duty.budget_ppm = budget_ppm;
	sk_windows_init(&duty.windows, &LIMITS, sk_tracer_now());
	count_launches();
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
	bool same = mode == sk_tracer_mode() && sk_turn_phase(layer->turn) == sk_tracer_phase(mode);

	if (same)
		return true;
	if (!layer->has_fence)
		return false;
	duty.shown_ns = 0;
	sk_turn_change(mode, sk_tracer_phase(mode), 0);
	return true;
}

/* Counting costs next to nothing, so a late agent costs times of launches and no launch. */
bool sk_duty_lapse(void)
{
	sk_turn_begin();
	if (!layer->has_fence)
		return false;
	if (sk_turn_phase(layer->turn) != SK_PHASE_COUNTED || duty.shown_ns)
		sk_turn_change(sk_tracer_mode(), SK_PHASE_COUNTED, 0);
	duty.shown_ns = 0;
	return true;
}

/* Launches since the last look, of the busiest thread; its cost of counting one is taken over. The
 * time is read here, not at the tick's beginning: launches go on while this thread has to wait. */
static uint64_t count_launches(void)
{
	uint64_t most = 0;

	duty.looked_ns = sk_tracer_now();
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

static void look(void)
{
	uint64_t from_ns = duty.looked_ns, launches = count_launches();

	if (duty.looked_ns > from_ns)
		duty.rate = (double)launches / (double)(duty.looked_ns - from_ns);
}

/* Of each ns, what launches take if none is timed, in queues with profiling. */
static double untimed_part(void)
{
	return duty.rate * (duty.counted_ns + SK_DRIVER_COST_NS);
}

/* Every window says of which length of period it is a part. */
static void show(uint32_t phase, uint64_t period_ns)
{
	if (sk_turn_phase(layer->turn) == phase && duty.shown_ns == period_ns)
		return;
	duty.shown_ns = period_ns;
	sk_turn_change(SK_MODE_GOVERNED, phase, period_ns);
}

/* What is left for the timing of single launches. */
static void set_share(void)
{
	double used = WINDOWS_PART * allowed();

	if (sk_windows_is_whole(&duty.windows) && untimed_part() < used)
		used = untimed_part();
	atomic_store(&layer->share, (uint32_t)(1 / (allowed() - used)));
}

static void plan(uint64_t now_ns)
{
	struct sk_windows_costs costs = {.timed = untimed_part(),
					 .counted = duty.rate * duty.counted_ns};

	sk_windows_plan(&duty.windows, &costs, (uint32_t)(WINDOWS_PART * allowed() * PPM), now_ns);
	sk_tracer_tell_costs(duty.counted_ns + SK_DRIVER_COST_NS, duty.counted_ns);
}

/* Launches are counted over whole windows where some are blind, else over time. */
static uint64_t follow(uint64_t now_ns)
{
	uint64_t next_ns;
	uint32_t phase = sk_windows_phase(&duty.windows, now_ns, &next_ns);
	uint32_t before = sk_turn_phase(layer->turn);

	if (before == SK_PHASE_BLIND && phase != SK_PHASE_BLIND) {
		count_launches();
	} else if (before == SK_PHASE_TIMED && phase != SK_PHASE_TIMED) {
		look();
	}
	show(phase, sk_windows_chosen(&duty.windows));
	return next_ns;
}

uint64_t sk_duty_tick(uint64_t now_ns)
{
	if (sk_tracer_mode() != SK_MODE_GOVERNED || sk_tracer->lapsed || !layer->has_fence)
		return 0;
	if (duty.generation != sk_tracer->generation) {
		restart(sk_tracer->budget_ppm);
		duty.shown_ns = 0;
	}
	bool whole = sk_windows_is_whole(&duty.windows), dear = false;

	if (whole && now_ns >= duty.looked_ns + LOOK_NS) {
		look();
		dear = untimed_part() > WINDOWS_PART * allowed();
	}
	if (dear || sk_windows_is_over(&duty.windows, now_ns))
		plan(now_ns);
	set_share();
	uint64_t next_ns = follow(now_ns);

	return sk_windows_is_whole(&duty.windows) ? 0 : next_ns;
}
