/* SPDX-License-Identifier: Apache-2.0 */
/* The subscription to CUPTI: its library, callbacks and kinds of records, switched on and off.
 *
 * When all is off there is no callback, no record and no subscription, so CUPTI costs what it costs
 * a program without a tracer, and its place is free for another profiler. Threads: the tick thread,
 * or the thread that loads the driver before there are ticks.
 */
#include "cupti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	DEVICE_BUFFERS = 16, /* at most in each context, of 3.2 MB each */
	HOLDER_BYTES = 64,
	NESTED_ENOUGH = 256,
};

/* Kernels come first, since there is no trace without them. */
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

/* Ask CUPTI who has its place. The question is a subscription, so it is undone if it succeeds. */
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

/* The handler is registered after CUPTI was loaded, so it runs before CUPTI tears itself down. */
static void before_cupti_ends(void)
{
	if (!sk_cupti || !sk_cupti->home || sk_cupti->ended || !sk_tracer_lock_at_exit())
		return;
	sk_cupti_finish();
	pthread_mutex_unlock(&sk_tracer->tick_lock);
}

bool sk_cupti_load(void)
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
	sk_cupti->api.set_attribute(attribute, &bytes,
				    value); /* an attribute that CUPTI lacks keeps its default */
}

/* Give CUPTI buffers and clock, once, before any kind is enabled. */
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
	const struct sk_cupti_call *calls = sk_cupti_calls_driver(&count);
	const uint16_t *runtime;

	/* A refusal is ignored: a driver of this version never makes a call that CUPTI lacks. */
	for (unsigned i = 0; i < count; i++)
		api->enable_callback(on, sk_cupti->subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
				     calls[i].cbid);
	runtime = sk_cupti_calls_runtime(&count);
	for (unsigned i = 0; i < count && (!on || sk_cupti->runtime); i++)
		api->enable_callback(on, sk_cupti->subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
				     runtime[i]);
}

/* Switch off the runtime's callbacks when records join by the driver's ids. */
void sk_cupti_drop_runtime(void)
{
	unsigned count;
	const uint16_t *runtime = sk_cupti_calls_runtime(&count);

	if (!sk_cupti->runtime || !sk_cupti->watching || sk_cupti->nested < NESTED_ENOUGH ||
	    sk_cupti->by_runtime)
		return;
	sk_cupti->runtime = false;
	for (unsigned i = 0; i < count; i++)
		sk_cupti->api.enable_callback(0, sk_cupti->subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
					      runtime[i]);
}

bool sk_cupti_watch(void)
{
	if (sk_cupti->watching)
		return true;
	if (!sk_cupti_load() || !subscribe())
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

void sk_cupti_unwatch(void)
{
	if (!sk_cupti->watching)
		return;
	enable_calls(0);
	sk_cupti->api.unsubscribe(sk_cupti->subscriber);
	sk_cupti->subscriber = NULL;
	sk_cupti->watching = false;
	atomic_store(&sk_cupti->captures, 1); /* a capture may begin while nobody looks */
}

void sk_cupti_disable_kinds(void)
{
	if (!sk_cupti->collecting)
		return;
	for (unsigned i = 0; i < KINDS; i++)
		sk_cupti->api.activity_disable(kinds[i]);
	/* While calls are still counted, a graph launch counts as one. */
	if (sk_cupti->graphs)
		sk_cupti->api.activity_disable(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
	sk_cupti->collecting = false;
	sk_cupti->off_ns = sk_tracer_now();
}

/* Record a graph as one, or its nodes; the other kinds go on meanwhile. */
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
	sk_cupti_unwatch();
	step_aside(why);
	return false;
}

bool sk_cupti_enable_kinds(bool graphs)
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
