/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter of the Level Zero tracer: the tracer of launches is switched on and off in the
 * loader's tracing layer. While it is off its callbacks are not called; only the layer's look at
 * its list remains. */
#include "levelzero/levelzero.h"

_Thread_local bool sk_levelzero_inside;

/* Return whether the tracer is set up, and not in a forked child. This also marks the thread: the
 * calls it makes from here on are not the application's. */
static bool is_ready(void)
{
	sk_levelzero_inside = true;
	return sk_levelzero.configured && sk_levelzero.generation == sk_tracer->generation;
}

/* From here on no launch is timed unless `phase` says so. Before launches go unseen, lists with
 * launches in flight are settled: they may be executed again, and their events would then tell of
 * the newest execution alone. */
static void set_phase(uint32_t phase)
{
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero.phase = phase;
	if (!sk_tracer_sees(phase))
		sk_levelzero_settle_lists();
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static bool switch_launches(bool on)
{
	if (sk_levelzero.launching != on &&
	    sk_levelzero.call.tracer_enable(sk_levelzero.launches, on))
		return false;
	sk_levelzero.launching = on;
	return true;
}

static bool apply(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns)
{
	bool sees_more = phase < sk_levelzero.phase || !sk_levelzero.phase;

	if (!sees_more)
		set_phase(phase);
	if (!switch_launches(sk_tracer_sees(phase))) {
		sk_tracer_step_aside("the tracing layer would not switch");
		return false;
	}
	if (sees_more)
		set_phase(phase);
	return true;
}

static struct sk_tracer_call_costs costs(uint64_t now_ns)
{
	return sk_tracer_metered_costs(SK_LEVELZERO_ASSUMED_NS, SK_LEVELZERO_ASSUMED_COUNT_NS);
}

/* Devices are fitted while dormant as well, so that no wrap of a counter is missed. */
static void fit_all(uint64_t now_ns)
{
	pthread_mutex_lock(&sk_levelzero.lock);
	for (uint32_t i = 0; i < sk_levelzero.device_count; i++)
		sk_levelzero_device_fit(&sk_levelzero.devices[i], now_ns);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static bool harvest(uint64_t now_ns)
{
	fit_all(now_ns);
	uint64_t oldest_ns = sk_levelzero_harvest_all();

	sk_tracer_watermark(oldest_ns, now_ns);
	return oldest_ns;
}

static void finish(void)
{
	sk_levelzero_harvest_all();
}

const struct sk_tracer_adapter sk_levelzero_adapter = {
	/* Windows begin and end at ticks, which come when they are wanted. */
	.limits = {.period_ns = 1000000000, .period_max_ns = 20000000000, .window_ns = 20000000},
	.planned_percent = SK_TRACER_BUDGET_PLANNED,
	.whole_percent = 100,
	.in_batches = true,
	.is_ready = is_ready,
	.apply = apply,
	.costs = costs,
	.harvest = harvest,
	.finish = finish,
};
