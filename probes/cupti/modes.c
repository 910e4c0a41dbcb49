/* SPDX-License-Identifier: Apache-2.0 */
/* What is on and what is off: CUPTI's callbacks and records, by mode and by window.
 *
 * Dormant is off altogether: no callback, no record, no subscription, so that CUPTI costs what it
 * costs a program without a tracer and its place is free for another profiler. A window that ends
 * keeps its records on for a moment, for the calls that were made in it: those made after are not
 * remembered, so their records are ignored.
 * Threads: the tick thread, or the thread that loads the driver before there are ticks.
 */
#include "cupti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	DEVICE_BUFFERS = 16, /* of 3.2 MB each, at most, in each context */
	HOLDER_BYTES = 64,
	FLUSH_SOON = 16384, /* calls that wait */
	SURPRISE = 3,
	COUNT_NS = 50000000,
	COUNT_CALLS = 1024,
	COUNT_TRIES = 3,
	NESTED_ENOUGH = 256,
	LAST_STEP_NS = 1000000,
};

/* Periods are long against what it takes to begin and end a window. */
static const struct sk_windows_limits LIMITS = {
	.period_ns = 1000000000, .period_max_ns = 16000000000, .window_ns = 10000000};

static const uint64_t CLOSING_NS = 100000000, CLOSING_STEP_NS = 1000000, FLUSH_NS = 100000000,
		      QUIET_NS = 30000000000, EARLIEST_NS = 50000000, LAST_NS = 1000000000;

/* Kernels come first: without them there is no trace. */
static const CUpti_ActivityKind kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
	CUPTI_ACTIVITY_KIND_MEMCPY2,	       CUPTI_ACTIVITY_KIND_MEMSET,
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_OVERHEAD,
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void step_aside(const char *why)
{
	atomic_store(&sk_cupti->phase, SK_PHASE_BLIND);
	sk_tracer_step_aside(why);
}

/* Ask who has CUPTI's place. The question is a subscription, so it is undone if it succeeds. */
static void ask_for_holder(char ret[HOLDER_BYTES])
{
	CUpti_SubscriberHandle subscriber;
	CUpti_SubscriberParams params = {
		.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
		.subscriberName = "stoker",
		.oldSubscriberName = ret,
		.oldSubscriberSize = HOLDER_BYTES,
	};

	if (sk_cupti->api.subscribe_v2 &&
	    !sk_cupti->api.subscribe_v2(&subscriber, sk_cupti_on_call, NULL, &params))
		sk_cupti->api.unsubscribe(subscriber);
	ret[HOLDER_BYTES - 1] = 0;
	if (!ret[0])
		strcpy(ret, "another profiler");
}

/* Registered after CUPTI was loaded, so it runs before CUPTI tears itself down. */
static void before_cupti_ends(void)
{
	struct timespec limit;

	if (!sk_cupti || !sk_cupti->home || sk_cupti->ended)
		return;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 1;
	if (pthread_mutex_timedlock(&sk_tracer->tick_lock, &limit))
		return;
	sk_cupti_on_exit();
	pthread_mutex_unlock(&sk_tracer->tick_lock);
}

static bool load(void)
{
	const char *why;

	if (sk_cupti->loaded)
		return true;
	why = sk_cupti_api_load(&sk_cupti->api);
	if (why)
		step_aside(why);
	sk_cupti->loaded = !why;
	if (!why)
		atexit(before_cupti_ends);
	return !why;
}

static void set_attribute(CUpti_ActivityAttribute attribute, void *value, size_t bytes)
{
	sk_cupti->api.set_attribute(attribute, &bytes, value); /* one it lacks keeps its default */
}

/* Once, before any kind is enabled. */
static bool prepare(void)
{
	uint8_t zeroed = 1;
	size_t buffers = DEVICE_BUFFERS;

	if (sk_cupti->prepared)
		return true;
	set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &zeroed, sizeof(zeroed));
	set_attribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &buffers, sizeof(buffers));
	if (sk_cupti->api.register_clock(sk_tracer_now) ||
	    sk_cupti->api.register_callbacks(sk_cupti_give_buffer, sk_cupti_take_buffer)) {
		step_aside("(libcupti takes no clock or no buffers)");
		return false;
	}
	sk_cupti->prepared = true;
	return true;
}

static bool subscribe(void)
{
	char holder[HOLDER_BYTES] = "";
	CUptiResult error;

	if (sk_cupti->subscriber)
		return true;
	error = sk_cupti->api.subscribe(&sk_cupti->subscriber, sk_cupti_on_call, NULL);
	if (!error)
		return true;
	sk_cupti->subscriber = NULL;
	if (error == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		ask_for_holder(holder);
	else
		snprintf(holder, sizeof(holder), "(CUPTI refused: error %d)", (int)error);
	step_aside(holder);
	return false;
}

static void enable_calls(uint32_t on)
{
	const struct sk_cupti_api *api = &sk_cupti->api;
	unsigned count;
	const struct sk_call *calls = sk_calls_driver(&count);
	const uint16_t *runtime;

	/* One that this version does not know is never called either. */
	for (unsigned i = 0; i < count; i++)
		api->enable_callback(on, sk_cupti->subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
				     calls[i].cbid);
	runtime = sk_calls_runtime(&count);
	for (unsigned i = 0; i < count && (!on || sk_cupti->runtime); i++)
		api->enable_callback(on, sk_cupti->subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
				     runtime[i]);
}

/* Records of calls of the runtime join by the driver's ids: its own callbacks tell nothing. */
static void drop_runtime(void)
{
	unsigned count;
	const uint16_t *runtime = sk_calls_runtime(&count);

	if (!sk_cupti->runtime || !sk_cupti->watching || sk_cupti->nested < NESTED_ENOUGH ||
	    sk_cupti->by_runtime)
		return;
	sk_cupti->runtime = false;
	for (unsigned i = 0; i < count; i++)
		sk_cupti->api.enable_callback(0, sk_cupti->subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
					      runtime[i]);
}

static bool watch(void)
{
	if (sk_cupti->watching)
		return true;
	if (!load() || !subscribe())
		return false;
	if (!prepare()) {
		sk_cupti->api.unsubscribe(sk_cupti->subscriber);
		sk_cupti->subscriber = NULL;
		return false;
	}
	enable_calls(1);
	sk_cupti->watching = true;
	return true;
}

/* Callbacks off and CUPTI's place free. */
static void unwatch(void)
{
	if (!sk_cupti->watching)
		return;
	enable_calls(0);
	sk_cupti->api.unsubscribe(sk_cupti->subscriber);
	sk_cupti->subscriber = NULL;
	sk_cupti->watching = false;
	atomic_store(&sk_cupti->captures, 1); /* who knows what begins while nobody looks */
}

static void disable_kinds(void)
{
	if (!sk_cupti->collecting)
		return;
	for (unsigned i = 0; i < KINDS; i++)
		sk_cupti->api.activity_disable(kinds[i]);
	/* While calls are still counted, a graph launch goes on being one. */
	if (sk_cupti->graphs)
		sk_cupti->api.activity_disable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	sk_cupti->collecting = false;
	sk_cupti->off_ns = sk_tracer_now();
}

/* A graph as one record, or its nodes; the other kinds go on meanwhile. */
static void set_graphs(bool whole)
{
	const struct sk_cupti_api *api = &sk_cupti->api;

	if (whole == sk_cupti->graphs)
		return;
	if (whole)
		whole = !api->activity_enable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	else
		api->activity_disable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	atomic_store(&sk_cupti->graphs, whole);
}

static bool refuse_kernels(CUptiResult error)
{
	char why[HOLDER_BYTES];

	snprintf(why, sizeof(why), "(CUPTI records no kernels: error %d)", (int)error);
	unwatch();
	step_aside(why);
	return false;
}

static bool enable_kinds(bool graphs)
{
	sk_cupti->quiet = false;
	if (!sk_cupti->collecting) {
		CUptiResult error = sk_cupti->api.activity_enable(kinds[0]);

		if (error)
			return refuse_kernels(error);
		for (unsigned i = 1; i < KINDS; i++)
			sk_cupti->api.activity_enable(kinds[i]);
		sk_cupti->collecting = true;
		atomic_store(&sk_cupti->graphs, false);
	}
	set_graphs(graphs);
	return true;
}

/* From here on calls are in the new phase; what the old one still needs goes on. False when
 * CUPTI is not to be had. */
static bool set_phase(uint32_t mode, uint32_t phase, uint64_t chosen_ns)
{
	uint64_t from_ns = sk_tracer_now(), now_ns;

	if (phase != SK_PHASE_BLIND && !watch())
		return false;
	if (phase == SK_PHASE_TIMED && !enable_kinds(mode == SK_MODE_GOVERNED))
		return false;
	if (phase == SK_PHASE_TIMED && sk_cupti->phase != SK_PHASE_TIMED) {
		atomic_store(&sk_cupti->looked_from, atomic_load(&sk_cupti->joins.tail));
		atomic_store(&sk_cupti->looked_to, SK_JOINS_OPEN);
	}
	now_ns = sk_tracer_now();
	sk_cupti->begin_ns += now_ns - from_ns;
	if (phase != SK_PHASE_TIMED && sk_cupti->phase == SK_PHASE_TIMED)
		sk_cupti->closing_ns = now_ns;
	if (phase == SK_PHASE_TIMED)
		sk_cupti->closing_ns = 0;
	atomic_store(&sk_cupti->phase, phase);
	if (phase != SK_PHASE_TIMED && atomic_load(&sk_cupti->looked_to) == SK_JOINS_OPEN)
		atomic_store(&sk_cupti->looked_to, atomic_load(&sk_cupti->joins.tail));
	if (phase == SK_PHASE_BLIND && !sk_cupti->closing_ns)
		unwatch();
	sk_tracer_changed(mode, phase, now_ns, chosen_ns);
	return true;
}

/* The records of a window that is over have come, or have been waited for long enough. */
static void close_window(uint64_t now_ns)
{
	if (!sk_cupti->closing_ns)
		return;
	if (sk_joins_waiting(&sk_cupti->joins) && now_ns < sk_cupti->closing_ns + CLOSING_NS)
		return;
	disable_kinds();
	if (sk_cupti->phase == SK_PHASE_BLIND)
		unwatch();
	sk_cupti->tail_ns = now_ns - sk_cupti->closing_ns;
	sk_cupti->closing_ns = 0;
	sk_cupti->switch_ns = sk_cupti->begin_ns + sk_tracer_now() - now_ns;
	sk_cupti->begin_ns = 0;
}

/* Calls came so much faster than planned that the period's budget is spent several times. Where
 * all is timed nothing was drawn, so it can end as soon as it is seen to be too dear. */
static bool is_surprised(uint64_t now_ns)
{
	const struct sk_windows *windows = &sk_cupti->windows;
	double calls = (double)atomic_load(&sk_cupti->costs[SK_PHASE_TIMED].calls);
	double spent_ns = calls * sk_cupti_timed_ns(), paid_for_ns = (double)windows->period_ns;
	uint64_t so_far = now_ns - windows->from_ns;

	if (sk_windows_is_whole(windows) && so_far < windows->period_ns)
		paid_for_ns = (double)(so_far > EARLIEST_NS ? so_far : EARLIEST_NS);
	return spent_ns > SURPRISE * sk_cupti->budget_ppm / 1e6 * paid_for_ns;
}

/* What a call takes by itself has never been seen, it matters, and a moment would show it. */
static bool should_count(const struct sk_windows_costs *costs)
{
	const struct sk_cupti_learned *learned = &sk_cupti->learned;

	return learned->timed_length_ns > 0 && !(learned->counted_length_ns > 0) &&
	       costs->timed > sk_cupti->budget_ppm / 1e6 &&
	       learned->rate * COUNT_NS > COUNT_CALLS && sk_cupti->count_tries++ < COUNT_TRIES;
}

static void plan(uint64_t now_ns)
{
	struct sk_windows_costs costs;

	sk_cupti_learn(now_ns);
	costs = sk_cupti_costs_now();
	if (should_count(&costs))
		sk_windows_count_only(&sk_cupti->windows, now_ns, COUNT_NS);
	else
		sk_windows_plan(&sk_cupti->windows, &costs,
				sk_cupti->budget_ppm * SK_BUDGET_PLANNED / 100, now_ns);
}

static void govern(uint64_t now_ns)
{
	struct sk_windows *windows = &sk_cupti->windows;
	bool whole_before = !windows->from_ns || sk_windows_is_whole(windows);
	bool begins = sk_windows_is_over(windows, now_ns) || is_surprised(now_ns);
	uint64_t next_ns, chosen_ns;
	uint32_t phase;

	if (begins)
		plan(now_ns);
	phase = sk_windows_phase(windows, now_ns, &next_ns);
	chosen_ns = sk_windows_chosen(windows);
	/* What is seen is told by period, but where it is everything, for as long as that lasts. */
	if (phase != sk_cupti->phase)
		set_phase(SK_MODE_GOVERNED, phase, chosen_ns);
	else if (begins && !(whole_before && !chosen_ns))
		sk_tracer_changed(SK_MODE_GOVERNED, phase, now_ns, chosen_ns);
	sk_tracer->tick_at_ns = next_ns;
}

/* While a window's records are waited for, its costs go on: look again soon, then less soon. */
static void hurry(uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - sk_cupti->closing_ns, soon_ns;

	if (!sk_cupti->closing_ns || now_ns < sk_cupti->closing_ns)
		return;
	soon_ns = now_ns + (waited_ns / 2 > CLOSING_STEP_NS ? waited_ns / 2 : CLOSING_STEP_NS);
	if (!sk_tracer->tick_at_ns || soon_ns < sk_tracer->tick_at_ns)
		sk_tracer->tick_at_ns = soon_ns;
}

bool sk_cupti_on_mode(uint32_t mode, uint32_t budget_ppm)
{
	if (sk_cupti->ended)
		return false;
	sk_cupti->budget_ppm = budget_ppm;
	if (mode == sk_tracer_mode())
		return true;
	sk_cupti->windows.from_ns = 0; /* a new plan, by what the first period shows */
	set_phase(mode, sk_tracer_phase(mode), 0);
	return true;
}

/* Time spent in each phase, for the rates. */
static void add_time(uint64_t now_ns)
{
	uint64_t passed = sk_cupti->ticked_ns ? now_ns - sk_cupti->ticked_ns : 0;

	if (sk_cupti->phase == SK_PHASE_TIMED)
		sk_cupti->timed_ns += passed;
	else if (sk_cupti->phase == SK_PHASE_COUNTED)
		sk_cupti->counted_ns += passed;
	sk_cupti->ticked_ns = now_ns;
}

static void flush_when_due(uint64_t now_ns)
{
	bool due = now_ns >= sk_cupti->flushed_ns + FLUSH_NS;
	uint64_t waiting = sk_joins_waiting(&sk_cupti->joins);

	if (!sk_cupti->prepared || sk_cupti->quiet)
		return;
	if (!(due && (sk_cupti->collecting || waiting)) && waiting < FLUSH_SOON &&
	    !sk_cupti->closing_ns)
		return;
	sk_cupti->quiet = !sk_cupti->collecting && now_ns > sk_cupti->off_ns + QUIET_NS;
	sk_cupti_flush(false);
	sk_cupti->flushed_ns = now_ns;
}

bool sk_cupti_on_tick(uint64_t now_ns)
{
	if (sk_cupti->ended || !sk_cupti->home)
		return false;
	add_time(now_ns);
	if (sk_tracer_mode() == SK_MODE_GOVERNED && !sk_tracer->segment->header.stepped_aside)
		govern(now_ns);
	flush_when_due(now_ns);
	drop_runtime();
	close_window(sk_tracer_now());
	hurry(sk_tracer_now());
	return sk_cupti->phase == SK_PHASE_TIMED || sk_cupti->closing_ns ||
	       sk_joins_waiting(&sk_cupti->joins);
}

/* A flush hands over what is in CUPTI's hands, and not what a thread of CUPTI's has taken out of
 * them and is about to hand over, or is handing over by now: that thread ends with the process, and
 * what it has goes with it. So it is waited for while a call lacks its record. */
static void flush_last(void)
{
	uint64_t until_ns = sk_tracer_now() + LAST_NS, calls = atomic_load(&sk_cupti->joins.tail);

	sk_cupti_flush(true);
	while (sk_buffers_out(&sk_cupti->buffers) && sk_cupti_lacks(calls) &&
	       sk_tracer_now() < until_ns) {
		nanosleep(&(struct timespec){0, LAST_STEP_NS}, NULL);
		sk_cupti_flush(true);
	}
}

void sk_cupti_on_exit(void)
{
	if (sk_cupti->ended || !sk_cupti->home)
		return;
	sk_cupti->ended = true;
	if (sk_cupti->prepared)
		flush_last();
}

/* Latency stamps cannot be turned on once CUDA runs, and cost every launch: for `full` alone. */
void sk_cupti_begin(void)
{
	uint32_t mode = sk_tracer_mode();

	sk_cupti->budget_ppm = sk_tracer->budget_ppm;
	sk_cupti->runtime = true;
	sk_windows_init(&sk_cupti->windows, &LIMITS, sk_tracer_now());
	sk_cupti_learn_from(sk_tracer_now());
	if (mode != SK_MODE_GOVERNED && mode != SK_MODE_FULL)
		return;
	if (mode == SK_MODE_FULL && load() && sk_cupti->api.latency_stamps)
		sk_cupti->api.latency_stamps(1);
	if (!sk_tracer->segment->header.stepped_aside)
		set_phase(mode, SK_PHASE_TIMED, 0);
	/* CUDA has only begun to initialise: there is no call from before this. */
	atomic_store(&sk_cupti->looked_from, SK_JOINS_OPEN);
}
