/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter of the rocprofiler tracer: two contexts of the profiler that can be started and
 * stopped at any time. With both stopped the runtime makes no callback; only the profiler's own
 * look at its list of contexts remains. A launch that was enqueued under a context is delivered
 * even if the context has been stopped since; the profiler promises that. */
#include "tool.h"

static bool set(bool *is_on, bool on, struct sk_rocp_id context)
{
	if (*is_on == on)
		return true;
	if (on ? sk_rocp.call.start(context) : sk_rocp.call.stop(context))
		return false;
	*is_on = on;
	return true;
}

/* Timing is switched on last and off first, so that what is timed is always counted. */
static bool set_contexts(uint32_t phase)
{
	if (phase == SK_PHASE_TIMED)
		return set(&sk_rocp.counting, true, sk_rocp.counts) &&
		       set(&sk_rocp.timing, true, sk_rocp.times);
	return set(&sk_rocp.timing, false, sk_rocp.times) &&
	       set(&sk_rocp.counting, sk_tracer_sees(phase), sk_rocp.counts);
}

static bool apply(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns)
{
	if (set_contexts(phase))
		return true;
	sk_tracer_step_aside("rocprofiler would not start or stop a context");
	return false;
}

static struct sk_tracer_call_costs costs(uint64_t now_ns)
{
	return sk_tracer_metered_costs(SK_ROCP_ASSUMED_NS, SK_ROCP_ASSUMED_COUNT_NS);
}

static uint64_t oldest(void)
{
	pthread_mutex_lock(&sk_rocp.lock);
	uint64_t oldest_ns = sk_rocp_tickets_oldest(&sk_rocp.tickets);

	pthread_mutex_unlock(&sk_rocp.lock);
	return oldest_ns;
}

/* Have the profiler hand over finished records, then tell the reader what is not finished. */
static bool harvest(uint64_t now_ns)
{
	uint64_t oldest_ns;

	if (sk_rocp.timing || sk_tracer->mode != SK_MODE_DORMANT)
		sk_rocp_fit(now_ns);
	oldest_ns = oldest();
	if (oldest_ns) {
		sk_rocp.call.flush(sk_rocp.buffer);
		oldest_ns = oldest();
	}
	sk_tracer_watermark(oldest_ns, now_ns);
	return oldest_ns;
}

static void finish(void)
{
	sk_rocp_fit(sk_tracer_now());
	sk_rocp.call.flush(sk_rocp.buffer);
}

const struct sk_tracer_adapter sk_rocp_adapter = {
	/* Windows begin and end at ticks, which come when they are wanted. */
	.limits = {.period_ns = 1000000000, .period_max_ns = 20000000000, .window_ns = 20000000},
	.planned_percent = SK_TRACER_BUDGET_PLANNED,
	.whole_percent = 100,
	.in_batches = true,
	.is_ready = sk_rocp_is_here,
	.apply = apply,
	.costs = costs,
	.harvest = harvest,
	.finish = finish,
};
