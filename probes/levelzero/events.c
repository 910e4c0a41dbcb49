/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer's own events: pools of 256 with stamps, made in a context when its free events are
 * used up. */
#include "levelzero/levelzero.h"

/* Make one more pool; all its events are free. */
static bool grow(struct sk_levelzero_context *context)
{
	const struct sk_levelzero_pool_desc desc = {
		.type = SK_LEVELZERO_EVENT_POOL_DESC,
		.flags = SK_LEVELZERO_POOL_HOST_VISIBLE | SK_LEVELZERO_POOL_TIMESTAMP,
		.count = SK_LEVELZERO_POOL_EVENTS,
	};
	sk_levelzero_handle pool = NULL;

	if (context->pool_count == SK_LEVELZERO_POOLS ||
	    SK_LEVELZERO_OURS(
		    sk_levelzero.call.pool_create(context->handle, &desc, 0, NULL, &pool)))
		return false;
	context->pools[context->pool_count++] = pool;
	for (uint32_t i = 0; i < SK_LEVELZERO_POOL_EVENTS; i++) {
		const struct sk_levelzero_event_desc event = {.type = SK_LEVELZERO_EVENT_DESC,
							      .index = i,
							      .signal = SK_LEVELZERO_SCOPE_HOST};

		if (!SK_LEVELZERO_OURS(sk_levelzero.call.event_create(
			    pool, &event, &context->free[context->free_count])))
			context->free_count++;
	}
	return context->free_count;
}

sk_levelzero_handle sk_levelzero_event_take(uint16_t number)
{
	if (number >= sk_levelzero.context_count)
		return NULL;
	struct sk_levelzero_context *context = &sk_levelzero.contexts[number];

	if (!context->handle || (!context->free_count && !grow(context)))
		return NULL;
	return context->free[--context->free_count];
}

void sk_levelzero_event_give(uint16_t number, sk_levelzero_handle event)
{
	struct sk_levelzero_context *context = &sk_levelzero.contexts[number];

	if (number >= sk_levelzero.context_count || !context->handle)
		return; /* the event went with its context */
	if (context->free_count < SK_LEVELZERO_POOLS * SK_LEVELZERO_POOL_EVENTS)
		context->free[context->free_count++] = event;
}

uint16_t sk_levelzero_context_number(sk_levelzero_handle handle)
{
	uint16_t number = 0;

	while (number < sk_levelzero.context_count &&
	       sk_levelzero.contexts[number].handle != handle)
		number++;
	if (number < sk_levelzero.context_count)
		return number;
	/* A destroyed context leaves its place to a new one. */
	for (number = 0; number < sk_levelzero.context_count; number++)
		if (!sk_levelzero.contexts[number].handle)
			break;
	if (number == SK_LEVELZERO_CONTEXTS)
		return number;
	sk_levelzero.context_count += number == sk_levelzero.context_count;
	sk_levelzero.contexts[number].handle = handle;
	return number;
}

void sk_levelzero_context_forget(sk_levelzero_handle handle)
{
	for (uint16_t number = 0; number < sk_levelzero.context_count; number++) {
		struct sk_levelzero_context *context = &sk_levelzero.contexts[number];

		if (context->handle != handle)
			continue;
		for (uint32_t i = 0; i < SK_LEVELZERO_COMMANDS && i < sk_levelzero.commands_used;
		     i++)
			if (sk_levelzero.commands[i].state == SK_LEVELZERO_FLIGHT &&
			    sk_levelzero.commands[i].context == number &&
			    !sk_levelzero_command_harvest(&sk_levelzero.commands[i]))
				sk_levelzero_command_lose(&sk_levelzero.commands[i]);
		/* The pools are destroyed with their events. */
		while (context->pool_count)
			SK_LEVELZERO_OURS(sk_levelzero.call.pool_destroy(
				context->pools[--context->pool_count]));
		context->free_count = 0;
		context->handle = NULL;
	}
}
