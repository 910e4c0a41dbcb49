/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of the host for devices: waits become records, and finished launches are harvested.
 *
 * Under `governed` a wait is recorded where the thread's latest call was timed, so waits are
 * sampled with the launches they wait for. The record of a user event spans from its making to its
 * completion.
 */
#include "epoch.h"

static struct sk_cl_thread *known_thread(void)
{
	bool here = sk_tracer_here.generation && sk_tracer_here.generation == sk_tracer->generation;

	return here ? (struct sk_cl_thread *)sk_tracer_here.slot : NULL;
}

/* No command goes to a shadow queue, so a wait only goes to the driver. What an earlier window has
 * left to be harvested is left to the tick thread: a launch that is counted, or not seen at all,
 * must not pay for that look. */
static bool is_plain(void)
{
	return sk_cl_epoch_now() & SK_CL_EPOCH_PLAIN;
}

/* Return when this thread's wait begins, or 0 when it is not to be recorded. */
static uint64_t begin_wait(struct sk_cl_thread *thread)
{
	uint64_t epoch = sk_cl_epoch_now();

	if (!thread || sk_cl_epoch_phase(epoch) != SK_PHASE_TIMED)
		return 0;
	return !(epoch & SK_CL_EPOCH_SAMPLED) || thread->last_timed ? sk_cl_thread_now(thread) : 0;
}

static void end_wait(struct sk_cl_thread *thread, uint64_t from_ns, const struct sk_cl_queue *queue)
{
	uint64_t now = sk_cl_thread_now(thread);
	const struct sk_cl_host_span span = {.from_ns = from_ns,
					     .to_ns = now,
					     .correlation = thread->last_correlation,
					     .queue = queue ? queue->number : 0,
					     .kind = SK_KIND_SYNC,
					     .device = queue ? queue->device : SK_NO_DEVICE,
					     .shift = thread->last_shift};

	sk_cl_harvest_host(thread, &span);
	/* A recorded wait takes two readings of the clock and a record, as a launch's hook does. */
	sk_tracer_add(&thread->base.shared->counters.tracer_ns, thread->hook_cost_ns / 2);
	thread->credit_ns -= thread->hook_cost_ns / 2;
}

/* Commands of a queue out of order may be in both queues, each where its epoch sent it. */
static cl_int finish(struct sk_cl_queue *queue, cl_command_queue handle)
{
	cl_command_queue to =
		queue ? atomic_load_explicit(&queue->current, memory_order_acquire) : handle;
	cl_int error = sk_cl_next.clFinish(to);

	if (!error && queue && queue->unordered && queue->shadow)
		error = sk_cl_next.clFinish(to == handle ? queue->shadow : handle);
	return error;
}

static cl_int CL_API_CALL on_finish(cl_command_queue handle)
{
	/* A shadow out of order may still have commands after its last window. */
	if (is_plain() && !atomic_load_explicit(&sk_cl->unordered, memory_order_relaxed))
		return sk_cl_next.clFinish(handle);
	struct sk_cl_thread *thread = known_thread();
	struct sk_cl_queue *queue = handle ? sk_cl_queue_find(handle) : NULL;
	uint64_t from = queue ? begin_wait(thread) : 0;
	cl_int error = finish(queue, handle);

	if (from && !error)
		end_wait(thread, from, queue);
	sk_cl_harvest_after_wait();
	return error;
}

static cl_int CL_API_CALL on_flush(cl_command_queue handle)
{
	if (is_plain())
		return sk_cl_next.clFlush(handle);
	struct sk_cl_queue *queue = handle ? sk_cl_queue_find(handle) : NULL;
	cl_int error = sk_cl_next.clFlush(
		queue ? atomic_load_explicit(&queue->current, memory_order_acquire) : handle);

	sk_cl_harvest_after_wait();
	return error;
}

/* Return the queue that the first of the events belongs to. */
static const struct sk_cl_queue *queue_of(cl_event event)
{
	cl_command_queue handle = NULL;

	if (sk_cl_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(handle), &handle,
				      NULL) ||
	    !handle)
		return NULL;
	struct sk_cl_queue *owner = sk_cl_shadow_owner(handle);

	return owner ? owner : sk_cl_queue_find(handle);
}

static cl_int CL_API_CALL on_wait(cl_uint count, const cl_event *events)
{
	if (is_plain())
		return sk_cl_next.clWaitForEvents(count, events);
	struct sk_cl_thread *thread = known_thread();
	uint64_t from = begin_wait(thread);
	cl_int error = sk_cl_next.clWaitForEvents(count, events);

	if (from && !error)
		end_wait(thread, from, queue_of(events[0]));
	sk_cl_harvest_after_wait();
	return error;
}

static struct sk_cl_user_event *find_user_event(cl_event event)
{
	for (size_t i = 0; i < SK_CL_USER_EVENTS; i++)
		if (sk_cl->user_events[i].event == event)
			return &sk_cl->user_events[i];
	return NULL;
}

static void remember_user_event(struct sk_cl_thread *thread, cl_event event)
{
	pthread_mutex_lock(&sk_cl->user_lock);
	struct sk_cl_user_event *old = sk_cl->user_count ? find_user_event(event) : NULL;
	struct sk_cl_user_event *row = old ? old : find_user_event(NULL);

	sk_cl->user_count += row && !old;
	if (row)
		*row = (struct sk_cl_user_event){event, sk_tracer_now()};
	pthread_mutex_unlock(&sk_cl->user_lock);
	if (!row)
		sk_tracer_host_lost(&thread->base);
}

/* Return when the event was made, or 0. */
static uint64_t forget_user_event(cl_event event)
{
	uint64_t made_ns = 0;

	if (!sk_cl->user_count)
		return 0;
	pthread_mutex_lock(&sk_cl->user_lock);
	struct sk_cl_user_event *row = find_user_event(event);

	if (row) {
		made_ns = row->made_ns;
		*row = (struct sk_cl_user_event){0};
		sk_cl->user_count--;
	}
	pthread_mutex_unlock(&sk_cl->user_lock);
	return made_ns;
}

static cl_event CL_API_CALL on_user_event(cl_context context, cl_int *error)
{
	cl_event event = sk_cl_next.clCreateUserEvent(context, error);
	struct sk_cl_thread *thread = event ? sk_cl_thread_here() : NULL;

	if (thread && sk_cl_epoch_phase(sk_cl_epoch_now()) == SK_PHASE_TIMED)
		remember_user_event(thread, event);
	return event;
}

static cl_int CL_API_CALL on_set_user_event(cl_event event, cl_int status)
{
	/* The event is looked up before the call; after it the handle may be another's. */
	uint64_t made_ns = event ? forget_user_event(event) : 0;
	struct sk_cl_thread *thread = made_ns ? sk_cl_thread_here() : NULL;
	cl_int error = sk_cl_next.clSetUserEventStatus(event, status);

	if (thread) {
		const struct sk_cl_host_span span = {.from_ns = made_ns,
						     .to_ns = sk_tracer_now(),
						     .correlation = thread->last_correlation,
						     .kind = SK_KIND_USER_EVENT,
						     .device = SK_NO_DEVICE};

		sk_cl_harvest_host(thread, &span);
	}
	return error;
}

void sk_cl_wait_hook(struct _cl_icd_dispatch *table)
{
	SK_CL_HOOK(table, clFinish, on_finish);
	SK_CL_HOOK(table, clFlush, on_flush);
	SK_CL_HOOK(table, clWaitForEvents, on_wait);
	SK_CL_HOOK(table, clCreateUserEvent, on_user_event);
	SK_CL_HOOK(table, clSetUserEventStatus, on_set_user_event);
}
