/* SPDX-License-Identifier: Apache-2.0 */
/* Events of ours: pools of 256 with stamps, made in a context when its free ones are used up. */
#include "levelzero/levelzero.h"

/* One more pool; its events are free. */
static bool grow(struct sk_ze_context *context)
{
	const struct sk_ze_pool_desc desc = {
		.type = SK_ZE_EVENT_POOL_DESC,
		.flags = SK_ZE_POOL_HOST_VISIBLE | SK_ZE_POOL_TIMESTAMP,
		.count = SK_ZE_POOL_EVENTS,
	};
	sk_ze pool = NULL;

	if (context->pool_count == SK_ZE_POOLS ||
	    SK_ZE_OURS(sk_ze_it.call.pool_create(context->handle, &desc, 0, NULL, &pool)))
		return false;
	context->pools[context->pool_count++] = pool;
	for (uint32_t i = 0; i < SK_ZE_POOL_EVENTS; i++) {
		const struct sk_ze_event_desc event = {
			.type = SK_ZE_EVENT_DESC, .index = i, .signal = SK_ZE_SCOPE_HOST};

		if (!SK_ZE_OURS(sk_ze_it.call.event_create(pool, &event,
							   &context->free[context->free_count])))
			context->free_count++;
	}
	return context->free_count;
}

sk_ze sk_ze_event_take(uint16_t number)
{
	if (number >= sk_ze_it.context_count)
		return NULL;
	struct sk_ze_context *context = &sk_ze_it.contexts[number];

	if (!context->handle || (!context->free_count && !grow(context)))
		return NULL;
	return context->free[--context->free_count];
}

void sk_ze_event_give(uint16_t number, sk_ze event)
{
	struct sk_ze_context *context = &sk_ze_it.contexts[number];

	if (number >= sk_ze_it.context_count || !context->handle)
		return; /* it went with its context */
	if (context->free_count < SK_ZE_POOLS * SK_ZE_POOL_EVENTS)
		context->free[context->free_count++] = event;
}

uint16_t sk_ze_context_number(sk_ze handle)
{
	uint16_t number = 0;

	while (number < sk_ze_it.context_count && sk_ze_it.contexts[number].handle != handle)
		number++;
	if (number < sk_ze_it.context_count)
		return number;
	/* One that was destroyed leaves its place. */
	for (number = 0; number < sk_ze_it.context_count; number++)
		if (!sk_ze_it.contexts[number].handle)
			break;
	if (number == SK_ZE_CONTEXTS)
		return number;
	sk_ze_it.context_count += number == sk_ze_it.context_count;
	sk_ze_it.contexts[number].handle = handle;
	return number;
}

void sk_ze_context_forget(sk_ze handle)
{
	for (uint16_t number = 0; number < sk_ze_it.context_count; number++) {
		struct sk_ze_context *context = &sk_ze_it.contexts[number];

		if (context->handle != handle)
			continue;
		for (uint32_t i = 0; i < SK_ZE_COMMANDS && i < sk_ze_it.commands_used; i++)
			if (sk_ze_it.commands[i].state == SK_ZE_FLIGHT &&
			    sk_ze_it.commands[i].context == number &&
			    !sk_ze_command_harvest(&sk_ze_it.commands[i]))
				sk_ze_command_lose(&sk_ze_it.commands[i]);
		/* The pools take their events with them. */
		while (context->pool_count)
			SK_ZE_OURS(
				sk_ze_it.call.pool_destroy(context->pools[--context->pool_count]));
		context->free_count = 0;
		context->handle = NULL;
	}
}
