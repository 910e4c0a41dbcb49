/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter of the Level Zero tracer: the tracer of launches is switched on and off in the
 * loader's tracing layer. What is off is not called; only the layer's look at its list remains. */
#include "levelzero/levelzero.h"

_Thread_local bool sk_ze_inside;

/* Set up, and in this process rather than in the one it was forked from. Calls that the driver
 * makes from here on are not the application's. */
static bool is_ready(void)
{
	sk_ze_inside = true;
	return sk_ze_it.configured && sk_ze_it.generation == sk_tracer->generation;
}

/* From here on no launch is timed unless `phase` says so. Before nothing is seen any more, lists
 * that have launches in flight are settled: they may be executed again, and their events would
 * then tell of the newest execution alone. */
static void set_phase(uint32_t phase)
{
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_it.phase = phase;
	if (!sk_tracer_sees(phase))
		sk_ze_settle_lists();
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static bool switch_launches(bool on)
{
	if (sk_ze_it.launching != on && sk_ze_it.call.tracer_enable(sk_ze_it.launches, on))
		return false;
	sk_ze_it.launching = on;
	return true;
}

static bool apply(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns)
{
	bool sees_more = phase < sk_ze_it.phase || !sk_ze_it.phase;

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
	return sk_tracer_metered_costs(SK_ZE_ASSUMED_NS, SK_ZE_ASSUMED_COUNT_NS);
}

/* Devices are fitted while dormant as well, so that no wrap of a counter is missed. */
static void fit_all(uint64_t now_ns)
{
	pthread_mutex_lock(&sk_ze_it.lock);
	for (uint32_t i = 0; i < sk_ze_it.device_count; i++)
		sk_ze_device_fit(&sk_ze_it.devices[i], now_ns);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static bool harvest(uint64_t now_ns)
{
	fit_all(now_ns);
	uint64_t oldest_ns = sk_ze_harvest_all();

	sk_tracer_watermark(oldest_ns, now_ns);
	return oldest_ns;
}

static void finish(void)
{
	sk_ze_harvest_all();
}

const struct sk_tracer_adapter sk_ze_adapter = {
	/* Windows begin and end at ticks, which come when they are wanted. */
	.limits = {.period_ns = 1000000000, .period_max_ns = 20000000000, .window_ns = 20000000},
	.planned_percent = SK_BUDGET_PLANNED,
	.whole_percent = 100,
	.in_batches = true,
	.is_ready = is_ready,
	.apply = apply,
	.costs = costs,
	.harvest = harvest,
	.finish = finish,
};
