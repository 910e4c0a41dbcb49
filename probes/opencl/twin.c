/* SPDX-License-Identifier: Apache-2.0 */
/* Moving a queue's commands between the application's queue and its twin with profiling.
 *
 * Profiling is fixed when a queue is made, and it costs every launch. So the application's queue
 * has none (unless it asked), and while launches are timed its commands go to a twin that has.
 * A queue moves at the next call into it, in that call, when no other thread is in a call into it;
 * else it is put off to the call after that, and counted. Order stays what it was, and nobody
 * waits:
 * - a queue in order: a marker in the old one, a barrier in the new one that waits for the marker;
 * - one out of order promises no order but that of its barriers, which order.c carries over, so
 *   only the latest barrier is waited for. A marker over all would wait for commands that the
 *   application holds up, and so could hold up what it does not expect to be.
 */
#include "turn.h"

#include <string.h>

static bool is_inside(const struct sk_queue *queue, const struct sk_thread *self)
{
	/* A thread that is inside of a call into this queue and makes another, from a callback. */
	uint32_t strangers = layer->strangers;

	if (strangers > (self ? 0 : 1))
		return true;
	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS; index++) {
		struct sk_thread *thread = (struct sk_thread *)atomic_load_explicit(
			&sk_tracer->slots[index], memory_order_acquire);

		/* Pairs with the release when a call ends: its command is in the queue. */
		if (thread && thread != self &&
		    atomic_load_explicit(&thread->in_queue, memory_order_acquire) == queue->handle)
			return true;
	}
	return false;
}

static size_t place_of(cl_command_queue twin, cl_command_queue wanted)
{
	size_t place = sk_queue_place(twin);

	for (size_t i = 0; i < SK_PROBES; i++)
		if (layer->twin_handles[(place + i) % SK_QUEUES] == wanted)
			return (place + i) % SK_QUEUES;
	return SK_QUEUES;
}

struct sk_queue *sk_twin_owner(cl_command_queue twin)
{
	size_t place = twin ? place_of(twin, twin) : SK_QUEUES;

	return place < SK_QUEUES ? &layer->queues[layer->twin_rows[place]] : NULL;
}

/* What the application gave, with profiling. */
static cl_command_queue create(const struct sk_queue *queue)
{
	cl_queue_properties more[SK_QUEUE_PROPERTIES + 2], flags = 0;
	unsigned used = 2;
	cl_int error;

	for (unsigned i = 0; i + 1 < queue->property_count; i += 2)
		if (queue->properties[i] == CL_QUEUE_PROPERTIES) {
			flags = queue->properties[i + 1];
		} else {
			more[used++] = queue->properties[i];
			more[used++] = queue->properties[i + 1];
		}
	more[0] = CL_QUEUE_PROPERTIES;
	more[1] = flags | CL_QUEUE_PROFILING_ENABLE;
	more[used] = 0;
	if (next.clCreateCommandQueueWithProperties && used > 2)
		return next.clCreateCommandQueueWithProperties(queue->context, queue->on, more,
							       &error);
	return next.clCreateCommandQueue(queue->context, queue->on, more[1], &error);
}

static bool make_twin(struct sk_queue *queue)
{
	cl_command_queue twin = create(queue);
	size_t place = twin ? place_of(twin, NULL) : SK_QUEUES;

	if (twin && place == SK_QUEUES)
		next.clReleaseCommandQueue(twin);
	if (place == SK_QUEUES)
		return false;
	layer->twin_rows[place] = (uint16_t)(queue - layer->queues);
	/* Pairs with sk_twin_owner: the row is there. */
	atomic_store_explicit(&layer->twin_handles[place], twin, memory_order_release);
	queue->twin = twin;
	return true;
}

/* All that was put into `from` comes before all that will be put into `to`. */
static bool carry_order(struct sk_queue *queue, cl_command_queue from, cl_command_queue to)
{
	cl_event marker = NULL;

	if (queue->unordered)
		return !queue->barrier ||
		       !next.clEnqueueBarrierWithWaitList(to, 1, &queue->barrier, NULL);
	if (next.clEnqueueMarkerWithWaitList(from, 0, NULL, &marker) || !marker)
		return false;
	bool done = !next.clEnqueueBarrierWithWaitList(to, 1, &marker, NULL);

	next.clReleaseEvent(marker);
	return done;
}

static void publish(struct sk_queue *queue, bool profiled)
{
	atomic_store_explicit(&queue->current, profiled ? queue->twin : queue->handle,
			      memory_order_relaxed);
	atomic_store_explicit(&queue->profiled, profiled, memory_order_relaxed);
	layer->twins += profiled ? 1 : -1u;
}

static void pin_here(struct sk_queue *queue)
{
	queue->pinned = true;
	atomic_fetch_add(&sk_tracer->segment->header.answer.pinned, 1);
}

/* With `turn_lock` held and nobody inside. False: it was not to be, and stays where it is. */
static bool move(struct sk_queue *queue, bool profiled, bool unused)
{
	if (profiled && !queue->twin && !make_twin(queue))
		return false;
	if (!unused && !carry_order(queue, queue->current, profiled ? queue->twin : queue->handle))
		return false;
	publish(queue, profiled);
	return true;
}

static void note_late(void)
{
	atomic_fetch_add(&sk_tracer->segment->header.answer.switches_late, 1);
}

/* With `turn_lock` held. The queue to flush afterwards, or NULL. */
static cl_command_queue follow(struct sk_queue *queue, struct sk_thread *thread, uint64_t turn)
{
	bool wanted = sk_turn_phase(turn) == SK_PHASE_TIMED, held = queue->pinned;
	cl_command_queue from = NULL;

	if (!held && queue->profiled != wanted) {
		/* Every call into a queue of this very turn comes by here first. */
		bool unused = !queue->used && queue->made_turn == turn;

		if (!unused && is_inside(queue, thread)) {
			note_late();
			return NULL;
		}
		from = unused ? NULL : queue->current;
		if (!move(queue, wanted, unused)) {
			pin_here(queue);
			from = NULL;
		}
	}
	/* Pairs with the acquire of a call: `current` is what belongs to this turn. */
	atomic_store_explicit(&queue->turn, turn, memory_order_release);
	return from;
}

void sk_twin_follow(struct sk_queue *queue, struct sk_thread *thread, uint64_t turn)
{
	cl_command_queue from = NULL;

	pthread_mutex_lock(&layer->turn_lock);
	if (layer->settled == turn && queue->turn != turn)
		from = follow(queue, thread, turn);
	queue->used = true;
	pthread_mutex_unlock(&layer->turn_lock);
	/* A driver may run commands in this call, so nobody is kept waiting for it. */
	if (from)
		next.clFlush(from);
}

void sk_twin_pin(struct sk_queue *queue)
{
	cl_command_queue from = queue->current;

	if (queue->pinned)
		return;
	/* From outside of the queue's calls, so what another thread is just sending may be late. */
	if (from == queue->twin && from && move(queue, false, false))
		next.clFlush(from);
	pin_here(queue);
}

void sk_twin_pin_all(void)
{
	pthread_mutex_lock(&layer->turn_lock);
	if (!layer->pin_new)
		for (size_t row = 0; row < SK_QUEUES; row++)
			if (layer->queues[row].handle)
				sk_twin_pin(&layer->queues[row]);
	layer->pin_new = 1;
	pthread_mutex_unlock(&layer->turn_lock);
}

struct sk_leftover sk_twin_forget(struct sk_queue *queue)
{
	const struct sk_leftover left = {queue->twin, queue->barrier};
	size_t place = queue->twin ? place_of(queue->twin, queue->twin) : SK_QUEUES;

	if (place < SK_QUEUES)
		layer->twin_handles[place] = NULL;
	layer->twins -= queue->twin && queue->current == queue->twin;
	queue->handle = NULL;
	queue->twin = NULL;
	queue->barrier = NULL;
	return left;
}

void sk_twin_let_go(const struct sk_leftover *left)
{
	if (left->barrier)
		next.clReleaseEvent(left->barrier);
	if (left->twin)
		next.clReleaseCommandQueue(left->twin);
}
