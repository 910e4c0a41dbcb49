/* SPDX-License-Identifier: Apache-2.0 */
/* The adapter of the CUPTI tracer: phases become callbacks and kinds of records.
 *
 * A window that ends keeps its records on for a moment, for the calls that were made in it. Calls
 * made after it are not remembered, so their records are ignored.
 * Threads: the tick thread, or the thread that loads the driver before there are ticks.
 */
#include "cupti.h"

#include <time.h>

enum {
	FLUSH_SOON = 16384, /* calls that wait */
	SURPRISE = 3,
	COUNT_NS = 50000000,
	COUNT_CALLS = 1024,
	COUNT_TRIES = 3,
	LAST_STEP_NS = 1000000,
};

static const uint64_t CLOSING_NS = 100000000, CLOSING_STEP_NS = 1000000, FLUSH_NS = 100000000,
		      QUIET_NS = 30000000000, EARLIEST_NS = 50000000, LAST_NS = 1000000000;

static bool is_ready(void)
{
	return !sk_cupti->ended && sk_cupti->home;
}

/* --- apply ------------------------------------------------------------------------------------ */

/* Note the first call of a timed window: from there on a missing record is a loss. */
static void open_window(void)
{
	if (sk_cupti->phase != SK_PHASE_TIMED) {
		atomic_store(&sk_cupti->looked_from, atomic_load(&sk_cupti->joins.tail));
		atomic_store(&sk_cupti->looked_to, SK_CUPTI_JOINS_OPEN);
	}
	sk_cupti->closing_ns = 0;
}

/* From here on calls are in the new phase. The old phase's records go on until they have come. */
static bool apply(uint32_t mode, uint32_t phase, uint64_t *ret_at_ns)
{
	uint64_t from_ns = sk_tracer_now(), now_ns;
	bool times = phase == SK_PHASE_TIMED;

	if (phase != SK_PHASE_BLIND && !sk_cupti_watch())
		return false;
	if (times && !sk_cupti_enable_kinds(mode == SK_MODE_GOVERNED))
		return false;
	if (times)
		open_window();
	*ret_at_ns = now_ns = sk_tracer_now();
	sk_cupti->begin_ns += now_ns - from_ns;
	if (!times && sk_cupti->phase == SK_PHASE_TIMED)
		sk_cupti->closing_ns = now_ns;
	atomic_store(&sk_cupti->phase, phase);
	if (!times && atomic_load(&sk_cupti->looked_to) == SK_CUPTI_JOINS_OPEN)
		atomic_store(&sk_cupti->looked_to, atomic_load(&sk_cupti->joins.tail));
	if (phase == SK_PHASE_BLIND && !sk_cupti->closing_ns)
		sk_cupti_unwatch();
	return true;
}

/* --- costs ------------------------------------------------------------------------------------ */

/* Return whether calls came so much faster than planned that the period's budget is spent several
 * times. A period that is timed whole has no window drawn by chance, so ending it early adds no
 * bias: it is judged by the budget of the time so far. */
static bool is_surprised(uint64_t now_ns)
{
	const struct sk_tracer_plan *plan = &sk_tracer->driver.plan;
	double calls = (double)atomic_load(&sk_cupti->costs[SK_PHASE_TIMED].calls);
	double spent_ns = calls * sk_cupti_timed_ns(), paid_for_ns = (double)plan->period_ns;
	uint64_t so_far = now_ns - plan->from_ns;

	if (sk_tracer_plan_is_whole(plan) && so_far < plan->period_ns)
		paid_for_ns = (double)(so_far > EARLIEST_NS ? so_far : EARLIEST_NS);
	return spent_ns > SURPRISE * sk_tracer_budget() / 1e6 * paid_for_ns;
}

/* Return whether to count for a moment: the cost of counting a call was never seen, it matters, and
 * a moment would show it. */
static bool should_count(const struct sk_tracer_call_costs *costs)
{
	const struct sk_cupti_learned *learned = &sk_cupti->learned;

	return learned->timed_length_ns > 0 && !(learned->counted_length_ns > 0) &&
	       costs->calls_per_ns * costs->timed_ns > sk_tracer_budget() / 1e6 &&
	       learned->rate * COUNT_NS > COUNT_CALLS && sk_cupti->count_tries++ < COUNT_TRIES;
}

static struct sk_tracer_call_costs costs(uint64_t now_ns)
{
	struct sk_tracer_call_costs costs;

	sk_cupti_learn(now_ns);
	costs = sk_cupti_costs_now();
	if (should_count(&costs))
		costs.learn_ns = COUNT_NS;
	return costs;
}

/* --- harvest ---------------------------------------------------------------------------------- */

static void flush_when_due(uint64_t now_ns)
{
	bool due = now_ns >= sk_cupti->flushed_ns + FLUSH_NS;
	uint64_t waiting = sk_cupti_joins_waiting(&sk_cupti->joins);

	if (!sk_cupti->prepared || sk_cupti->quiet)
		return;
	if (!(due && (sk_cupti->collecting || waiting)) && waiting < FLUSH_SOON &&
	    !sk_cupti->closing_ns)
		return;
	sk_cupti->quiet = !sk_cupti->collecting && now_ns > sk_cupti->off_ns + QUIET_NS;
	sk_cupti_flush(false);
	sk_cupti->flushed_ns = now_ns;
}

/* Close a window that is over once its records have come, or have been waited for long enough. */
static void close_window(uint64_t now_ns)
{
	if (!sk_cupti->closing_ns)
		return;
	if (sk_cupti_joins_waiting(&sk_cupti->joins) && now_ns < sk_cupti->closing_ns + CLOSING_NS)
		return;
	sk_cupti_disable_kinds();
	if (sk_cupti->phase == SK_PHASE_BLIND)
		sk_cupti_unwatch();
	sk_cupti->tail_ns = now_ns - sk_cupti->closing_ns;
	sk_cupti->closing_ns = 0;
	sk_cupti->switch_ns = sk_cupti->begin_ns + sk_tracer_now() - now_ns;
	sk_cupti->begin_ns = 0;
}

/* While the records of a window are waited for it goes on costing, so look again soon, then less
 * soon. */
static void hurry(uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - sk_cupti->closing_ns, soon_ns;

	if (!sk_cupti->closing_ns || now_ns < sk_cupti->closing_ns)
		return;
	soon_ns = now_ns + (waited_ns / 2 > CLOSING_STEP_NS ? waited_ns / 2 : CLOSING_STEP_NS);
	if (!sk_tracer->tick_at_ns || soon_ns < sk_tracer->tick_at_ns)
		sk_tracer->tick_at_ns = soon_ns;
}

static bool harvest(uint64_t now_ns)
{
	flush_when_due(now_ns);
	sk_cupti_drop_runtime();
	close_window(sk_tracer_now());
	hurry(sk_tracer_now());
	return sk_cupti->phase == SK_PHASE_TIMED || sk_cupti->closing_ns ||
	       sk_cupti_joins_waiting(&sk_cupti->joins);
}

/* A flush hands over the records that CUPTI has, but not those that a thread of CUPTI has taken
 * already and is about to hand over. That thread ends with the process and its records are lost, so
 * it is waited for while the record of a call is missing. */
static void flush_last(void)
{
	uint64_t until_ns = sk_tracer_now() + LAST_NS, calls = atomic_load(&sk_cupti->joins.tail);

	sk_cupti_flush(true);
	while (sk_cupti_buffers_out(&sk_cupti->buffers) && sk_cupti_is_missing(calls) &&
	       sk_tracer_now() < until_ns) {
		nanosleep(&(struct timespec){0, LAST_STEP_NS}, NULL);
		sk_cupti_flush(true);
	}
}

void sk_cupti_finish(void)
{
	sk_cupti->ended = true;
	if (sk_cupti->prepared)
		flush_last();
}

/* Latency stamps cannot be turned on once CUDA runs, and they cost every launch, so `full` alone
 * has them. */
void sk_cupti_begin(void)
{
	uint32_t mode = sk_tracer_mode();

	sk_cupti->runtime = true;
	sk_cupti_learn_from(sk_tracer_now());
	if (mode != SK_MODE_GOVERNED && mode != SK_MODE_FULL)
		return;
	if (mode == SK_MODE_FULL && sk_cupti_load() && sk_cupti->api.latency_stamps)
		sk_cupti->api.latency_stamps(1);
	if (!sk_tracer->segment->header.stepped_aside)
		sk_tracer_enter(mode);
	/* CUDA has only begun to initialise: there is no call from before this. */
	atomic_store(&sk_cupti->looked_from, SK_CUPTI_JOINS_OPEN);
}

const struct sk_tracer_adapter sk_cupti_adapter = {
	/* Periods are long compared with the time to begin and end a window. */
	.limits = {.period_ns = 1000000000, .period_max_ns = 16000000000, .window_ns = 10000000},
	.planned_percent = SK_TRACER_BUDGET_PLANNED,
	.is_ready = is_ready,
	.apply = apply,
	.costs = costs,
	.is_over_budget = is_surprised,
	.harvest = harvest,
	.finish = sk_cupti_finish,
};
