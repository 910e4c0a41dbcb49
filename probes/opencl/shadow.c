/* SPDX-License-Identifier: Apache-2.0 */
/* Shadow queues: a queue's commands move between the application's queue and its shadow with
 * profiling.
 *
 * Profiling is fixed when a queue is made, and it costs every launch. So the application's queue
 * has none (unless it asked), and while launches are timed its commands go to a shadow queue that
 * has. A queue moves in the next call into it, when no other thread is in a call into it; otherwise
 * the move is put off to a later call, and counted. The order of commands stays the same and nobody
 * waits:
 *
 * - A queue in order gets a marker in the old queue and a barrier in the new one, which waits for
 * it.
 * - A queue out of order promises no order but that of its barriers, which order.c carries over, so
 *   only the latest barrier is waited for. A marker over all commands would wait for those that the
 *   application holds back, and could hold back others that must not wait for them.
 */
#include "epoch.h"

#include <string.h>

static bool is_inside(const struct sk_cl_queue *queue, const struct sk_cl_thread *self)
{
	/* A call of the thread itself, around a callback that makes this call, does not count. */
	uint32_t unregistered = sk_cl->unregistered;

	if (unregistered > (self ? 0 : 1))
		return true;
	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS; index++) {
		struct sk_cl_thread *thread = (struct sk_cl_thread *)atomic_load_explicit(
			&sk_tracer->slots[index], memory_order_acquire);

		/* Pairs with the release at the end of a call: its command is in the queue. */
		if (thread && thread != self &&
		    atomic_load_explicit(&thread->in_queue, memory_order_acquire) == queue->handle)
			return true;
	}
	return false;
}

static size_t place_of(cl_command_queue shadow, cl_command_queue wanted)
{
	size_t place = sk_cl_queue_place(shadow);

	for (size_t i = 0; i < SK_CL_PROBES; i++)
		if (sk_cl->shadow_handles[(place + i) % SK_CL_QUEUES] == wanted)
			return (place + i) % SK_CL_QUEUES;
	return SK_CL_QUEUES;
}

struct sk_cl_queue *sk_cl_shadow_owner(cl_command_queue shadow)
{
	size_t place = shadow ? place_of(shadow, shadow) : SK_CL_QUEUES;

	return place < SK_CL_QUEUES ? &sk_cl->queues[sk_cl->shadow_rows[place]] : NULL;
}

/* Make a queue with the application's properties and profiling. */
static cl_command_queue create(const struct sk_cl_queue *queue)
{
	cl_queue_properties more[SK_CL_QUEUE_PROPERTIES + 2], flags = 0;
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
	if (sk_cl_next.clCreateCommandQueueWithProperties && used > 2)
		return sk_cl_next.clCreateCommandQueueWithProperties(queue->context, queue->on,
								     more, &error);
	return sk_cl_next.clCreateCommandQueue(queue->context, queue->on, more[1], &error);
}

static bool make_shadow(struct sk_cl_queue *queue)
{
	cl_command_queue shadow = create(queue);
	size_t place = shadow ? place_of(shadow, NULL) : SK_CL_QUEUES;

	if (shadow && place == SK_CL_QUEUES)
		sk_cl_next.clReleaseCommandQueue(shadow);
	if (place == SK_CL_QUEUES)
		return false;
	sk_cl->shadow_rows[place] = (uint16_t)(queue - sk_cl->queues);
	/* Pairs with the look-up in sk_cl_shadow_owner: the row is there. */
	atomic_store_explicit(&sk_cl->shadow_handles[place], shadow, memory_order_release);
	queue->shadow = shadow;
	if (queue->unordered)
		sk_cl->unordered = true;
	return true;
}

/* Make all commands of `from` come before all further commands of `to`. */
static bool carry_order(struct sk_cl_queue *queue, cl_command_queue from, cl_command_queue to)
{
	cl_event marker = NULL;

	if (queue->unordered)
		return !queue->barrier ||
		       !sk_cl_next.clEnqueueBarrierWithWaitList(to, 1, &queue->barrier, NULL);
	if (sk_cl_next.clEnqueueMarkerWithWaitList(from, 0, NULL, &marker) || !marker)
		return false;
	bool done = !sk_cl_next.clEnqueueBarrierWithWaitList(to, 1, &marker, NULL);

	sk_cl_next.clReleaseEvent(marker);
	return done;
}

static void publish(struct sk_cl_queue *queue, bool profiled)
{
	atomic_store_explicit(&queue->current, profiled ? queue->shadow : queue->handle,
			      memory_order_relaxed);
	atomic_store_explicit(&queue->profiled, profiled, memory_order_relaxed);
	sk_cl->shadows += profiled ? 1 : -1u;
}

static void pin_here(struct sk_cl_queue *queue)
{
	queue->pinned = true;
	atomic_fetch_add(&sk_tracer->segment->header.answer.pinned, 1);
}

/* Move the queue, with `queue_lock` held and no call inside. False: it stays where it is. */
static bool move(struct sk_cl_queue *queue, bool profiled, bool unused)
{
	if (profiled && !queue->shadow && !make_shadow(queue))
		return false;
	if (!unused &&
	    !carry_order(queue, queue->current, profiled ? queue->shadow : queue->handle))
		return false;
	publish(queue, profiled);
	return true;
}

static void note_late(void)
{
	atomic_fetch_add(&sk_tracer->segment->header.answer.switches_late, 1);
}

/* Return the queue to flush afterwards, or NULL. Called with `queue_lock` held. */
static cl_command_queue follow(struct sk_cl_queue *queue, struct sk_cl_thread *thread,
			       uint64_t epoch)
{
	bool wanted = sk_cl_epoch_phase(epoch) == SK_PHASE_TIMED, pinned = queue->pinned;
	cl_command_queue from = NULL;

	if (!pinned && queue->profiled != wanted) {
		/* In the epoch in which a queue was made, every call into it comes through here
		 * first. */
		bool unused = !queue->used && queue->made_epoch == epoch;

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
	/* Pairs with the acquire in a call: `current` belongs to this epoch. */
	atomic_store_explicit(&queue->epoch, epoch, memory_order_release);
	return from;
}

void sk_cl_shadow_follow(struct sk_cl_queue *queue, struct sk_cl_thread *thread, uint64_t epoch)
{
	cl_command_queue from = NULL;

	pthread_mutex_lock(&sk_cl->queue_lock);
	if (sk_cl->settled == epoch && queue->epoch != epoch)
		from = follow(queue, thread, epoch);
	queue->used = true;
	pthread_mutex_unlock(&sk_cl->queue_lock);
	/* A driver may run commands in this call, so it is made without the lock. */
	if (from)
		sk_cl_next.clFlush(from);
}

void sk_cl_shadow_pin(struct sk_cl_queue *queue)
{
	cl_command_queue from = queue->current;

	if (queue->pinned)
		return;
	/* This thread is not in a call into the queue, so a command of another thread may come
	 * late. */
	if (from == queue->shadow && from && move(queue, false, false))
		sk_cl_next.clFlush(from);
	pin_here(queue);
}

void sk_cl_shadow_pin_all(void)
{
	pthread_mutex_lock(&sk_cl->queue_lock);
	if (!sk_cl->pin_new)
		for (size_t row = 0; row < SK_CL_QUEUES; row++)
			if (sk_cl->queues[row].handle)
				sk_cl_shadow_pin(&sk_cl->queues[row]);
	sk_cl->pin_new = 1;
	pthread_mutex_unlock(&sk_cl->queue_lock);
}

struct sk_cl_leftover sk_cl_shadow_forget(struct sk_cl_queue *queue)
{
	const struct sk_cl_leftover left = {queue->shadow, queue->barrier};
	size_t place = queue->shadow ? place_of(queue->shadow, queue->shadow) : SK_CL_QUEUES;

	if (place < SK_CL_QUEUES)
		sk_cl->shadow_handles[place] = NULL;
	sk_cl->shadows -= queue->shadow && queue->current == queue->shadow;
	queue->handle = NULL;
	queue->shadow = NULL;
	queue->barrier = NULL;
	return left;
}

void sk_cl_shadow_let_go(const struct sk_cl_leftover *left)
{
	if (left->barrier)
		sk_cl_next.clReleaseEvent(left->barrier);
	if (left->shadow)
		sk_cl_next.clReleaseCommandQueue(left->shadow);
}
