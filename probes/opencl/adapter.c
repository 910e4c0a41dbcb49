/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter of the OpenCL layer: phases become epochs, and launches of the busiest thread are
 * counted for the windows.
 *
 * While a queue is profiled, each of its launches costs what profiling adds, timed or not. A period
 * is timed whole as long as that fits into a part of the budget; the governor of launches
 * (governor.h) spends the rest on the launches that it times. Beyond that windows are drawn, and
 * the plan pays for all launches in them. Threads: the tick thread.
 */
#include "epoch.h"
#include "governor.h"

enum {
	PPM = 1000000,
	USED_PERCENT = 80,    /* percent of the budget; the rest is for what is not measured */
	PLANNED_PERCENT = 60, /* percent of that for the plan */
	BURST = 2,	      /* how far a window may cost more than it was planned to */
	FIRST_COUNTED_NS = 10,
};

static const uint64_t LOOK_NS = 15000000;

static double allowed(void)
{
	return (double)sk_tracer_budget() * USED_PERCENT / 100 / PPM;
}

/* Return true; the first call makes the first epoch, which gives the driver its phase. */
static bool is_ready(void)
{
	sk_cl_epoch_begin();
	if (!sk_tracer->driver.phase)
		sk_tracer->driver.phase = sk_cl_epoch_phase(sk_cl->epoch);
	return true;
}

/* Return the launches of the busiest thread since the latest count, and take over what counting one
 * costs it. The time is read here and not at the tick's beginning, because launches go on while
 * this thread waits. */
static uint64_t count_launches(void)
{
	uint64_t most = 0;

	sk_cl->looked_ns = sk_tracer_now();
	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS; index++) {
		struct sk_cl_thread *thread = (struct sk_cl_thread *)atomic_load_explicit(
			&sk_tracer->slots[index], memory_order_acquire);

		if (!thread)
			continue;
		uint64_t seen = thread->base.shared->counters.launches +
				thread->base.shared->counters.copies;

		if (seen - thread->seen_launches > most) {
			most = seen - thread->seen_launches;
			sk_cl->counted_ns = thread->untimed_cost_ns;
			sk_cl->timed_ns = thread->hook_cost_ns + thread->harvest_cost_ns;
		}
		thread->seen_launches = seen;
	}
	return most;
}

static void look(void)
{
	uint64_t from_ns = sk_cl->looked_ns, launches = count_launches();

	if (sk_cl->looked_ns > from_ns)
		sk_cl->rate = (double)launches / (double)(sk_cl->looked_ns - from_ns);
}

/* Return the part of the busiest thread's time that launches in profiled queues take when none is
 * timed. */
static double untimed_part(void)
{
	return sk_cl->rate * (sk_cl->counted_ns + sk_cl->driver_ns);
}

/* In a period that is timed whole, what profiling leaves of the budget pays for single launches. */
static void share_whole(void)
{
	double used = allowed() * PLANNED_PERCENT / 100;

	if (untimed_part() < used)
		used = untimed_part();
	atomic_store(&sk_cl->share, (uint32_t)(1 / (allowed() - used)));
	atomic_store(&sk_cl->credit_most_ns, SK_CL_GOVERNOR_CREDIT_NS);
}

/* The plan pays for every launch of a drawn window: leaving some out would save less than it loses,
 * because those that stand for many make the estimate worse than as many that stand for one. The
 * governor of launches only bounds what a window takes where launches come in a burst. */
static void share_window(void)
{
	double most = allowed() * BURST;
	double saved = most * (double)sk_tracer->driver.plan.period_ns;

	if (saved < SK_CL_GOVERNOR_CREDIT_NS)
		saved = SK_CL_GOVERNOR_CREDIT_NS;
	atomic_store(&sk_cl->share, (uint32_t)(1 / most));
	atomic_store(&sk_cl->credit_most_ns, (int64_t)saved);
}

static void set_share(void)
{
	if (sk_tracer_plan_is_whole(&sk_tracer->driver.plan))
		share_whole();
	else
		share_window();
}

/* Launches are counted over whole windows where some are blind, otherwise over time. */
static void follow(uint32_t mode, uint32_t phase)
{
	uint32_t before = sk_cl_epoch_phase(sk_cl->epoch);

	if (mode != sk_tracer_mode()) {
		count_launches();
		sk_cl->rate = 0;
		sk_cl->counted_ns = FIRST_COUNTED_NS;
	} else if (before == SK_PHASE_BLIND && phase != SK_PHASE_BLIND) {
		count_launches();
	} else if (before == SK_PHASE_TIMED && phase != SK_PHASE_TIMED) {
		look();
	}
}

static bool apply(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns)
{
	if (!sk_cl->has_fence)
		return false;
	follow(mode, phase);
	sk_cl_epoch_change(mode, phase);
	*ret_at_ns = sk_tracer_now();
	return true;
}

static struct sk_tracer_call_costs costs(uint64_t now_ns)
{
	if (sk_tracer_plan_is_whole(&sk_tracer->driver.plan) &&
	    now_ns >= sk_cl->looked_ns + LOOK_NS)
		look();
	return (struct sk_tracer_call_costs){.calls_per_ns = sk_cl->rate,
					     .timed_ns = sk_cl->timed_ns,
					     .whole_ns = sk_cl->counted_ns + sk_cl->driver_ns,
					     .counted_ns = sk_cl->counted_ns};
}

static bool harvest(uint64_t now_ns)
{
	bool waits = sk_cl_harvest_threads();

	sk_cl_epoch_simplify();
	if (sk_tracer_mode() == SK_MODE_GOVERNED && !sk_tracer->lapsed && sk_cl->has_fence)
		set_share();
	return waits;
}

const struct sk_tracer_adapter sk_cl_adapter = {
	/* Opening a window takes next to nothing, so windows are short and many. */
	.limits = {.period_ns = 125000000,
		   .period_max_ns = 2000000000,
		   .window_ns = 1000000,
		   .patience = 7},
	.planned_percent = USED_PERCENT * PLANNED_PERCENT / 100,
	.whole_percent = USED_PERCENT * PLANNED_PERCENT / 100,
	.counts_after_lease = true,
	.is_ready = is_ready,
	.apply = apply,
	.settle = sk_cl_epoch_settle,
	.costs = costs,
	.harvest = harvest,
	.finish = sk_cl_harvest_exit,
};
