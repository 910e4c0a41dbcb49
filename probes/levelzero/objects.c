/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that the application makes and destroys: lists, pools of events, events, kernels,
 * contexts.
 *
 * Such calls are rare, so they are followed in every phase: a list or event that was made while the
 * tracer was dormant can be traced later. Pools get the flag for stamps, because an event without
 * stamps cannot tell a time. Pools that processes share cannot have it.
 */
#include "levelzero/levelzero.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { MAP_LARGE = 1 << 16, MAP_SMALL = 1 << 13, NAME_MAX_BYTES = 1024 };

static struct sk_levelzero_entry event_entries[MAP_LARGE], list_entries[MAP_SMALL];
static struct sk_levelzero_entry pool_entries[MAP_SMALL], kernel_entries[MAP_SMALL];

static bool is_ours(int result)
{
	return sk_levelzero_stays_out() || result;
}

static void on_list(void *call, int result, bool immediate)
{
	const struct sk_levelzero_list_create_call *made = call;

	if (is_ours(result) || !made->list || !*made->list)
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	struct sk_levelzero_list *list = sk_levelzero_find_list(**made->list);
	uint32_t number = list ? (uint32_t)(list - sk_levelzero.list_rows) : 0;

	/* A place without a handle is free. */
	while (!list && number < SK_LEVELZERO_LISTS && sk_levelzero.list_rows[number].handle)
		number++;
	if (number < SK_LEVELZERO_LISTS &&
	    sk_levelzero_map_set(&sk_levelzero.lists, **made->list, number + 1))
		sk_levelzero.list_rows[number] = (struct sk_levelzero_list){
			.handle = **made->list,
			.context = sk_levelzero_context_number(*made->context),
			.device = sk_levelzero_device_number(*made->device),
			.immediate = immediate,
		};
	else
		atomic_fetch_add_explicit(&sk_tracer->segment->header.queues_refused, 1,
					  memory_order_relaxed);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void on_list_create(void *call, int result, void *data, void **own)
{
	on_list(call, result, false);
}

static void on_list_immediate(void *call, int result, void *data, void **own)
{
	on_list(call, result, true);
}

struct sk_levelzero_list *sk_levelzero_find_list(sk_levelzero_handle handle)
{
	struct sk_levelzero_entry *entry = sk_levelzero_map_find(&sk_levelzero.lists, handle);

	return entry ? &sk_levelzero.list_rows[entry->value - 1] : NULL;
}

static void before_list_reset(void *call, int result, void *data, void **own)
{
	struct sk_levelzero_one_call *reset = call;

	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	struct sk_levelzero_list *list = sk_levelzero_find_list(*reset->handle);

	if (list)
		sk_levelzero_list_clear(list);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void before_list_destroy(void *call, int result, void *data, void **own)
{
	struct sk_levelzero_one_call *destroyed = call;

	before_list_reset(call, result, data, own);
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	struct sk_levelzero_list *list = sk_levelzero_find_list(*destroyed->handle);

	if (list)
		list->handle = NULL;
	sk_levelzero_map_remove(&sk_levelzero.lists, *destroyed->handle);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void before_pool_create(void *call, int result, void *data, void **own)
{
	static _Thread_local struct sk_levelzero_pool_desc changed;
	struct sk_levelzero_pool_create_call *made = call;

	if (sk_levelzero_stays_out() || !made->desc || !*made->desc ||
	    (*made->desc)->flags & SK_LEVELZERO_POOL_IPC)
		return;
	changed = **made->desc;
	changed.flags |= SK_LEVELZERO_POOL_TIMESTAMP | SK_LEVELZERO_POOL_HOST_VISIBLE;
	*made->desc = &changed;
	*own = &changed;
}

static void on_pool_create(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_pool_create_call *made = call;

	if (is_ours(result) || !own || !*own)
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero_map_set(&sk_levelzero.pools, **made->pool, 1);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void before_pool_destroy(void *call, int result, void *data, void **own)
{
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero_map_remove(&sk_levelzero.pools,
				*((struct sk_levelzero_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void on_event_create(void *call, int result, void *data, void **own)
{
	const struct sk_levelzero_event_create_call *made = call;

	if (is_ours(result))
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	bool stamps = sk_levelzero_map_find(&sk_levelzero.pools, *made->pool) != NULL;

	sk_levelzero_map_set(&sk_levelzero.events, **made->event,
			     sk_levelzero_event_value(stamps, 0));
	pthread_mutex_unlock(&sk_levelzero.lock);
}

/* The application has read what the event says, so the tracer takes its stamps now. */
static void settle(sk_levelzero_handle event)
{
	struct sk_levelzero_entry *entry = sk_levelzero_map_find(&sk_levelzero.events, event);
	uint64_t number = entry ? entry->value >> 1 : 0;

	if (number && !sk_levelzero_command_harvest(&sk_levelzero.commands[number - 1]))
		sk_levelzero_command_lose(&sk_levelzero.commands[number - 1]);
}

static void before_event_destroy(void *call, int result, void *data, void **own)
{
	sk_levelzero_handle event = *((struct sk_levelzero_one_call *)call)->handle;

	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	settle(event);
	sk_levelzero_map_remove(&sk_levelzero.events, event);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void before_event_reset(void *call, int result, void *data, void **own)
{
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	settle(*((struct sk_levelzero_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

/* The device will reset the event at a time that is not known, so a launch that is not done by now
 * is not seen. */
static void before_append_reset(void *call, int result, void *data, void **own)
{
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	settle(*((struct sk_levelzero_event_reset_call *)call)->event);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void before_kernel_destroy(void *call, int result, void *data, void **own)
{
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero_map_remove(&sk_levelzero.kernels,
				*((struct sk_levelzero_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

static void before_context_destroy(void *call, int result, void *data, void **own)
{
	if (sk_levelzero_stays_out())
		return;
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero_context_forget(*((struct sk_levelzero_one_call *)call)->handle);
	pthread_mutex_unlock(&sk_levelzero.lock);
}

unsigned sk_levelzero_kernel_row(sk_levelzero_handle kernel)
{
	char name[NAME_MAX_BYTES];
	size_t size = sizeof(name);

	pthread_mutex_lock(&sk_levelzero.lock);
	struct sk_levelzero_entry *entry = sk_levelzero_map_find(&sk_levelzero.kernels, kernel);
	unsigned row = entry ? (unsigned)entry->value : 0;

	pthread_mutex_unlock(&sk_levelzero.lock);
	if (entry)
		return row;
	/* A name that is longer than this becomes "(other)". */
	if (!sk_levelzero.call.kernel_name(kernel, &size, name)) {
		name[sizeof(name) - 1] = 0;
		row = sk_tracer_name(name);
	}
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero_map_set(&sk_levelzero.kernels, kernel, row);
	pthread_mutex_unlock(&sk_levelzero.lock);
	return row;
}

static bool watch(void *library, const char *what, uint32_t kind, sk_levelzero_callback callback)
{
	char name[96];

	snprintf(name, sizeof(name), "zelTracer%sRegisterCallback", what);
	sk_levelzero_register call = (sk_levelzero_register)dlsym(library, name);

	return call && !call(sk_levelzero.objects, kind, callback);
}

bool sk_levelzero_watch_objects(void *library)
{
	const uint32_t before = SK_LEVELZERO_PROLOGUE, after = SK_LEVELZERO_EPILOGUE;

	sk_levelzero.events = (struct sk_levelzero_map){event_entries, MAP_LARGE, 0};
	sk_levelzero.lists = (struct sk_levelzero_map){list_entries, MAP_SMALL, 0};
	sk_levelzero.pools = (struct sk_levelzero_map){pool_entries, MAP_SMALL, 0};
	sk_levelzero.kernels = (struct sk_levelzero_map){kernel_entries, MAP_SMALL, 0};
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
