/* SPDX-License-Identifier: Apache-2.0 */
/* Commands: they are taken from the pool into a list or into flight, and end as records. */
#include "levelzero/levelzero.h"

#include <stddef.h>

enum { AT_ONCE = 32, NOT_READY = 1 };

static uint32_t number_of(const struct sk_levelzero_command *command)
{
	return (uint32_t)(command - sk_levelzero.commands) + 1;
}

static struct sk_levelzero_command *at(uint32_t number)
{
	return number ? &sk_levelzero.commands[number - 1] : NULL;
}

struct sk_levelzero_command *sk_levelzero_command_take(void)
{
	struct sk_levelzero_command *command = at(sk_levelzero.command_free);

	if (command)
		sk_levelzero.command_free = command->next;
	else if (sk_levelzero.commands_used < SK_LEVELZERO_COMMANDS)
		command = &sk_levelzero.commands[sk_levelzero.commands_used++];
	else
		return NULL;
	*command = (struct sk_levelzero_command){.state = SK_LEVELZERO_MADE};
	return command;
}

void sk_levelzero_command_give(struct sk_levelzero_command *command)
{
	if (command->event && command->own) {
		if (command->used)
			SK_LEVELZERO_OURS(sk_levelzero.call.event_reset(command->event));
		sk_levelzero_event_give(command->context, command->event);
	}
	command->state = SK_LEVELZERO_FREE;
	command->next = sk_levelzero.command_free;
	sk_levelzero.command_free = number_of(command);
}

void sk_levelzero_command_arm(struct sk_levelzero_command *command)
{
	struct sk_levelzero_command *last = at(sk_levelzero.flight_last);

	command->state = SK_LEVELZERO_FLIGHT;
	command->used = true;
	command->before = sk_levelzero.flight_last;
	command->after = 0;
	sk_levelzero.flight_last = number_of(command);
	if (last)
		last->after = sk_levelzero.flight_last;
	else
		sk_levelzero.flight_first = sk_levelzero.flight_last;
	if (!command->own)
		sk_levelzero_map_set(&sk_levelzero.events, command->event,
				     sk_levelzero_event_value(true, number_of(command)));
}

static void land(struct sk_levelzero_command *command)
{
	struct sk_levelzero_command *before = at(command->before), *after = at(command->after);

	if (sk_levelzero.cursor == number_of(command))
		sk_levelzero.cursor = command->after;
	*(before ? &before->after : &sk_levelzero.flight_first) = command->after;
	*(after ? &after->before : &sk_levelzero.flight_last) = command->before;
	/* The event may have been destroyed by now, so it is not put back. */
	struct sk_levelzero_entry *entry =
		command->own ? NULL : sk_levelzero_map_find(&sk_levelzero.events, command->event);

	if (entry && entry->value >> 1 == number_of(command))
		entry->value = sk_levelzero_event_value(true, 0);
	command->state = SK_LEVELZERO_RECORDED;
	if (command->once)
		sk_levelzero_command_give(command);
}

/* More threads than slots: there is no ring to put it into. */
static void count_nobodys(void)
{
	atomic_fetch_add_explicit(&sk_tracer->segment->header.vendor_dropped, 1,
				  memory_order_relaxed);
}

static void count(size_t counter)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();

	if (slot)
		sk_tracer_add((_Atomic uint64_t *)((char *)&slot->shared->counters + counter), 1);
	else
		count_nobodys();
}

void sk_levelzero_command_lose(struct sk_levelzero_command *command)
{
	count(offsetof(struct sk_slot_counters, unstamped));
	/* The device may still signal this event of the tracer, so it is never used again. */
	if (command->once && command->own)
		command->event = NULL;
	land(command);
}

static void publish(const struct sk_levelzero_command *command, uint64_t start_ns, uint64_t end_ns)
{
	struct sk_tracer_slot *slot = sk_tracer_slot();
	const struct sk_levelzero_device *device = &sk_levelzero.devices[command->device];
	struct sk_record *record = slot ? sk_tracer_reserve(slot, end_ns - start_ns) : NULL;

	if (!slot)
		count_nobodys();
	if (!record)
		return; /* the tracer library has counted it */
	*record = (struct sk_record){
		.queued_ns = command->queued_ns,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.bytes = command->bytes,
		.correlation = command->correlation,
		.call_ns = command->call_ns,
		.tid = command->tid,
		.name = command->name,
		.kind = command->kind,
		.device = (uint8_t)device->row,
		.queue = command->queue,
	};
	if (start_ns + device->line.error_ns < command->queued_ns)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.clock_mismatches, 1,
					  memory_order_relaxed);
	sk_tracer_commit(slot);
}

bool sk_levelzero_command_harvest(struct sk_levelzero_command *command)
{
	struct sk_levelzero_stamps stamps = {0};
	int status = sk_levelzero.call.event_status(command->event);

	if (status == NOT_READY)
		return false;
	if (status || sk_levelzero.call.event_stamps(command->event, &stamps)) {
		count(offsetof(struct sk_slot_counters, failed));
		land(command);
		return true;
	}
	const struct sk_levelzero_device *device = &sk_levelzero.devices[command->device];
	uint64_t start = sk_levelzero_device_place(device, stamps.global_start);
	/* The end may have wrapped where the start had not; the difference is right in both cases.
	 */
	uint64_t length = (stamps.global_end - stamps.global_start) & device->kernel_mask;
	uint64_t end = start + (uint64_t)((unsigned __int128)length * 1000000000 / device->hz);

	if (!stamps.global_start && !stamps.global_end)
		count(offsetof(struct sk_slot_counters, unstamped));
	else
		publish(command, start, end);
	land(command);
	return true;
}

void sk_levelzero_list_clear(struct sk_levelzero_list *list)
{
	for (struct sk_levelzero_command *command = at(list->first), *next; command;
	     command = next) {
		next = at(command->next);
		if (command->state == SK_LEVELZERO_FLIGHT && !sk_levelzero_command_harvest(command))
			sk_levelzero_command_lose(command);
		sk_levelzero_command_give(command);
	}
	list->first = list->last = list->unseen = 0;
}

void sk_levelzero_settle_lists(void)
{
	for (struct sk_levelzero_command *command = at(sk_levelzero.flight_first), *next; command;
	     command = next) {
		next = at(command->after);
		if (!command->once && !sk_levelzero_command_harvest(command))
			sk_levelzero_command_lose(command);
	}
}

static uint64_t oldest_call(void)
{
	uint64_t oldest = 0;

	for (struct sk_levelzero_command *command = at(sk_levelzero.flight_first); command;
	     command = at(command->after))
		if (!oldest || command->queued_ns < oldest)
			oldest = command->queued_ns;
	return oldest;
}

uint64_t sk_levelzero_harvest_all(void)
{
	pthread_mutex_lock(&sk_levelzero.lock);
	sk_levelzero.cursor = sk_levelzero.flight_first;
	while (sk_levelzero.cursor) {
		for (int i = 0; i < AT_ONCE && sk_levelzero.cursor; i++) {
			struct sk_levelzero_command *command = at(sk_levelzero.cursor);

			sk_levelzero.cursor = command->after;
			sk_levelzero_command_harvest(command);
		}
		/* Release the lock between rounds, so that threads of the application can take it.
		 */
		pthread_mutex_unlock(&sk_levelzero.lock);
		pthread_mutex_lock(&sk_levelzero.lock);
	}
	uint64_t oldest = oldest_call();

	pthread_mutex_unlock(&sk_levelzero.lock);
	return oldest;
}
