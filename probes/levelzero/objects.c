/* SPDX-License-Identifier: Apache-2.0 */
/* What the application makes and destroys: lists, pools of events, events, kernels, contexts.
 *
 * These are rare, so they are followed also while nothing else is: a list or event that was made
 * while the tracer was dormant can be traced later. Pools get the flag for stamps (not those shared
 * between processes, which cannot have it), because an event that has none cannot tell a time.
 */
#include "levelzero/levelzero.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MAP_LARGE = 1 << 16, MAP_SMALL = 1 << 13, NAME_MAX_BYTES = 1024 };

static struct sk_ze_entry event_entries[MAP_LARGE], list_entries[MAP_SMALL];
static struct sk_ze_entry pool_entries[MAP_SMALL], kernel_entries[MAP_SMALL];

static bool is_ours(int result)
{
	return sk_ze_stays_out() || result;
}

static void on_list(void *call, int result, bool immediate)
{
	const struct sk_ze_list_create_call *made = call;

	if (is_ours(result) || !made->list || !*made->list)
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	struct sk_ze_list *list = sk_ze_find_list(**made->list);
	uint32_t number = list ? (uint32_t)(list - sk_ze_it.list_rows) : 0;

	/* A place whose list is gone has no handle. */
	while (!list && number < SK_ZE_LISTS && sk_ze_it.list_rows[number].handle)
		number++;
	if (number < SK_ZE_LISTS && sk_ze_map_set(&sk_ze_it.lists, **made->list, number + 1))
		sk_ze_it.list_rows[number] = (struct sk_ze_list){
			.handle = **made->list,
			.context = sk_ze_context_number(*made->context),
			.device = sk_ze_device_number(*made->device),
			.immediate = immediate,
		};
	else
		atomic_fetch_add_explicit(&sk_tracer->segment->header.queues_refused, 1,
					  memory_order_relaxed);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void on_list_create(void *call, int result, void *data, void **own)
{
	on_list(call, result, false);
}

static void on_list_immediate(void *call, int result, void *data, void **own)
{
	on_list(call, result, true);
}

struct sk_ze_list *sk_ze_find_list(sk_ze handle)
{
	struct sk_ze_entry *entry = sk_ze_map_find(&sk_ze_it.lists, handle);

	return entry ? &sk_ze_it.list_rows[entry->value - 1] : NULL;
}

static void before_list_reset(void *call, int result, void *data, void **own)
{
	struct sk_ze_one_call *reset = call;

	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	struct sk_ze_list *list = sk_ze_find_list(*reset->handle);

	if (list)
		sk_ze_list_clear(list);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void before_list_destroy(void *call, int result, void *data, void **own)
{
	struct sk_ze_one_call *destroyed = call;

	before_list_reset(call, result, data, own);
	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	struct sk_ze_list *list = sk_ze_find_list(*destroyed->handle);

	if (list)
		list->handle = NULL;
	sk_ze_map_remove(&sk_ze_it.lists, *destroyed->handle);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void before_pool_create(void *call, int result, void *data, void **own)
{
	static _Thread_local struct sk_ze_pool_desc changed;
	struct sk_ze_pool_create_call *made = call;

	if (sk_ze_stays_out() || !made->desc || !*made->desc ||
	    (*made->desc)->flags & SK_ZE_POOL_IPC)
		return;
	changed = **made->desc;
	changed.flags |= SK_ZE_POOL_TIMESTAMP | SK_ZE_POOL_HOST_VISIBLE;
	*made->desc = &changed;
	*own = &changed;
}

static void on_pool_create(void *call, int result, void *data, void **own)
{
	const struct sk_ze_pool_create_call *made = call;

	if (is_ours(result) || !own || !*own)
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_map_set(&sk_ze_it.pools, **made->pool, 1);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void before_pool_destroy(void *call, int result, void *data, void **own)
{
	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_map_remove(&sk_ze_it.pools, *((struct sk_ze_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void on_event_create(void *call, int result, void *data, void **own)
{
	const struct sk_ze_event_create_call *made = call;

	if (is_ours(result))
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	bool stamps = sk_ze_map_find(&sk_ze_it.pools, *made->pool) != NULL;

	sk_ze_map_set(&sk_ze_it.events, **made->event, sk_ze_event_value(stamps, 0));
	pthread_mutex_unlock(&sk_ze_it.lock);
}

/* The application is done with what the event said: so must we be. */
static void settle(sk_ze event)
{
	struct sk_ze_entry *entry = sk_ze_map_find(&sk_ze_it.events, event);
	uint64_t number = entry ? entry->value >> 1 : 0;

	if (number && !sk_ze_command_harvest(&sk_ze_it.commands[number - 1]))
		sk_ze_command_lose(&sk_ze_it.commands[number - 1]);
}

static void before_event_destroy(void *call, int result, void *data, void **own)
{
	sk_ze event = *((struct sk_ze_one_call *)call)->handle;

	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	settle(event);
	sk_ze_map_remove(&sk_ze_it.events, event);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void before_event_reset(void *call, int result, void *data, void **own)
{
	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	settle(*((struct sk_ze_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

/* The device will reset it, at a time that is not known. What is not done by now is not seen. */
static void before_append_reset(void *call, int result, void *data, void **own)
{
	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	settle(*((struct sk_ze_event_reset_call *)call)->event);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void before_kernel_destroy(void *call, int result, void *data, void **own)
{
	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_map_remove(&sk_ze_it.kernels, *((struct sk_ze_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

static void before_context_destroy(void *call, int result, void *data, void **own)
{
	if (sk_ze_stays_out())
		return;
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_context_forget(*((struct sk_ze_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_ze_it.lock);
}

unsigned sk_ze_kernel_row(sk_ze kernel)
{
	char name[NAME_MAX_BYTES];
	size_t size = sizeof(name);

	pthread_mutex_lock(&sk_ze_it.lock);
	struct sk_ze_entry *entry = sk_ze_map_find(&sk_ze_it.kernels, kernel);
	unsigned row = entry ? (unsigned)entry->value : 0;

	pthread_mutex_unlock(&sk_ze_it.lock);
	if (entry)
		return row;
	/* A name longer than this is asked for and not got: it is then "(other)". */
	if (!sk_ze_it.call.kernel_name(kernel, &size, name)) {
		name[sizeof(name) - 1] = 0;
		row = sk_tracer_name(name);
	}
	pthread_mutex_lock(&sk_ze_it.lock);
	sk_ze_map_set(&sk_ze_it.kernels, kernel, row);
	pthread_mutex_unlock(&sk_ze_it.lock);
	return row;
}

static bool watch(void *library, const char *what, uint32_t kind, sk_ze_callback callback)
{
	char name[96];

	snprintf(name, sizeof(name), "zelTracer%sRegisterCallback", what);
	sk_ze_register call = (sk_ze_register)dlsym(library, name);

	return call && !call(sk_ze_it.objects, kind, callback);
}

bool sk_ze_watch_objects(void *library)
{
	const uint32_t before = SK_ZE_PROLOGUE, after = SK_ZE_EPILOGUE;

	sk_ze_it.events = (struct sk_ze_map){event_entries, MAP_LARGE, 0};
	sk_ze_it.lists = (struct sk_ze_map){list_entries, MAP_SMALL, 0};
	sk_ze_it.pools = (struct sk_ze_map){pool_entries, MAP_SMALL, 0};
	sk_ze_it.kernels = (struct sk_ze_map){kernel_entries, MAP_SMALL, 0};
	return watch(library, "CommandListCreate", after, on_list_create) &&
	       watch(library, "CommandListCreateImmediate", after, on_list_immediate) &&
	       watch(library, "CommandListReset", before, before_list_reset) &&
	       watch(library, "CommandListDestroy", before, before_list_destroy) &&
	       watch(library, "EventPoolCreate", before, before_pool_create) &&
	       watch(library, "EventPoolCreate", after, on_pool_create) &&
	       watch(library, "EventPoolDestroy", before, before_pool_destroy) &&
	       watch(library, "EventCreate", after, on_event_create) &&
	       watch(library, "EventDestroy", before, before_event_destroy) &&
	       watch(library, "EventHostReset", before, before_event_reset) &&
	       watch(library, "CommandListAppendEventReset", before, before_append_reset) &&
	       watch(library, "KernelDestroy", before, before_kernel_destroy) &&
	       watch(library, "ContextDestroy", before, before_context_destroy);
}
