/* SPDX-License-Identifier: Apache-2.0 */
/* Markers and barriers, and the other commands that only have an order.
 *
 * A queue out of order may have commands in both, itself and its twin (see twin.c). There a marker
 * or barrier over all that was sent before it covers both, and the latest barrier is kept, so that
 * what is sent after a move still comes after it.
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

/* Of a queue out of order: the one of the two where commands do not go just now, or NULL. */
static cl_command_queue other_of(const struct sk_launch *launch, cl_command_queue to)
{
	const struct sk_queue *queue = launch->row;

	if (!queue || !queue->unordered || !queue->twin)
		return NULL;
	return to == queue->twin ? queue->handle : queue->twin;
}

/* An event that is complete when all that was sent to `queue` so far is. It is to be flushed. */
static cl_event mark(cl_command_queue queue)
{
	cl_event marker = NULL;

	return next.clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker) ? NULL : marker;
}

static cl_int enqueue_marker(cl_command_queue to, cl_command_queue other, cl_uint waits,
			     const cl_event *wait, cl_event *event)
{
	cl_event both[2];

	if (waits || !other)
		return next.clEnqueueMarkerWithWaitList(to, waits, wait, event);
	both[0] = mark(other);
	both[1] = both[0] ? mark(to) : NULL;
	cl_int error = both[1] ? next.clEnqueueMarkerWithWaitList(to, 2, both, event)
			       : next.clEnqueueMarkerWithWaitList(to, 0, NULL, event);

	for (int i = 0; i < 2; i++)
		if (both[i])
			next.clReleaseEvent(both[i]);
	next.clFlush(other);
	return error;
}

static cl_int enqueue_barrier(cl_command_queue to, cl_command_queue other, cl_uint waits,
			      const cl_event *wait, cl_event *event)
{
	cl_event marker = !waits && other ? mark(other) : NULL;

	if (marker) {
		next.clEnqueueBarrierWithWaitList(to, 1, &marker, NULL);
		next.clReleaseEvent(marker);
	}
	return next.clEnqueueBarrierWithWaitList(to, waits, wait, event);
}

/* The barrier becomes the latest one. Two threads' barriers are kept in the order in which the
 * queue got them, hence the lock: each comes after all before it, so the latest one is enough. */
static cl_int enqueue_kept(struct sk_queue *queue, cl_command_queue to, cl_command_queue other,
			   cl_uint waits, const cl_event *wait, cl_event *event)
{
	cl_event own = NULL, *taken = event ? event : &own, old = NULL;

	pthread_mutex_lock(&layer->turn_lock);
	cl_int error = enqueue_barrier(to, other, waits, wait, taken);

	if (!error) {
		if (event)
			next.clRetainEvent(*event);
		old = queue->barrier;
		queue->barrier = *taken;
	}
	pthread_mutex_unlock(&layer->turn_lock);
	if (old)
		next.clReleaseEvent(old);
	if (other)
		next.clFlush(other);
	return error;
}

/* The row, which the shortest way through sk_launch_enter does not look for. */
static cl_command_queue enter(struct sk_launch *launch, cl_command_queue queue)
{
	cl_command_queue to = sk_launch_enter(launch, queue);

	if (!launch->row && queue)
		launch->row = sk_queue_find(queue);
	return to;
}

static cl_int CL_API_CALL on_marker_list(cl_command_queue queue, cl_uint waits,
					 const cl_event *wait, cl_event *event)
{
	struct sk_launch launch;
	cl_command_queue to = enter(&launch, queue);
	cl_event *taken = sk_launch_begin(&launch, SK_KIND_BARRIER, 0, event);
	cl_int error = enqueue_marker(to, other_of(&launch, to), waits, wait, taken);

	sk_launch_end(&launch, error, 0);
	return error;
}

static cl_int CL_API_CALL on_barrier_list(cl_command_queue queue, cl_uint waits,
					  const cl_event *wait, cl_event *event)
{
	struct sk_launch launch;
	cl_command_queue to = enter(&launch, queue);
	cl_event *taken = sk_launch_begin(&launch, SK_KIND_BARRIER, 0, event);
	cl_int error =
		launch.row && launch.row->unordered
			? enqueue_kept(launch.row, to, other_of(&launch, to), waits, wait, taken)
			: next.clEnqueueBarrierWithWaitList(to, waits, wait, taken);

	sk_launch_end(&launch, error, 0);
	return error;
}

static bool is_unordered(cl_command_queue handle)
{
	const struct sk_queue *queue = handle ? sk_queue_find(handle) : NULL;

	return queue && queue->unordered && !queue->pinned;
}

static cl_int CL_API_CALL on_marker(cl_command_queue queue, cl_event *event)
{
	if (event && is_unordered(queue))
		return on_marker_list(queue, 0, NULL, event);
	struct sk_launch launch;
	cl_command_queue to = enter(&launch, queue);
	cl_event *taken = sk_launch_begin(&launch, SK_KIND_BARRIER, 0, event);
	cl_int error = next.clEnqueueMarker(to, taken);

	sk_launch_end(&launch, error, 0);
	return error;
}

/* The two old calls that have no event are told by what they are in newer words, or not at all. */

static cl_int CL_API_CALL on_barrier(cl_command_queue queue)
{
	if (is_unordered(queue))
		return on_barrier_list(queue, 0, NULL, NULL);
	struct sk_launch launch;
	cl_int error = next.clEnqueueBarrier(sk_launch_enter(&launch, queue));

	sk_launch_leave(&launch);
	return error;
}

static cl_int CL_API_CALL on_wait_for(cl_command_queue queue, cl_uint count, const cl_event *events)
{
	if (count && events && is_unordered(queue))
		return on_barrier_list(queue, count, events, NULL);
	struct sk_launch launch;
	cl_int error = next.clEnqueueWaitForEvents(sk_launch_enter(&launch, queue), count, events);

	sk_launch_leave(&launch);
	return error;
}

/* A driver tells the function that frees the memory which queue it was: the application's. */
struct freeing {
	void(CL_CALLBACK *function)(cl_command_queue, cl_uint, void **, void *);
	void *data;
	cl_command_queue queue;
};

static void CL_CALLBACK free_memory(cl_command_queue queue, cl_uint count, void **pointers,
				    void *data)
{
	struct freeing freeing = *(struct freeing *)data;

	free(data);
	freeing.function(freeing.queue, count, pointers, freeing.data);
}

typedef void(CL_CALLBACK *free_function)(cl_command_queue, cl_uint, void **, void *);

static cl_int CL_API_CALL on_svm_free(cl_command_queue queue, cl_uint count, void **pointers,
				      free_function function, void *data, cl_uint waits,
				      const cl_event *wait, cl_event *event)
{
	struct freeing *freeing = function ? malloc(sizeof(*freeing)) : NULL;
	struct sk_launch launch;
	cl_command_queue to = sk_launch_enter(&launch, queue);

	if (freeing)
		*freeing = (struct freeing){function, data, queue};
	cl_int error = next.clEnqueueSVMFree(to, count, pointers, freeing ? free_memory : function,
					     freeing ? freeing : data, waits, wait, event);

	sk_launch_leave(&launch);
	if (error)
		free(freeing);
	return error;
}

/* Objects shared with a graphics library change hands in the queue's order. */
#define HAND_OVER(hook, function)                                                                  \
	static cl_int CL_API_CALL hook(cl_command_queue queue, cl_uint count,                      \
				       const cl_mem *objects, cl_uint waits, const cl_event *wait, \
				       cl_event *event)                                            \
	{                                                                                          \
		struct sk_launch launch;                                                           \
		cl_int error = next.function(sk_launch_enter(&launch, queue), count, objects,      \
					     waits, wait, event);                                  \
                                                                                                   \
		sk_launch_leave(&launch);                                                          \
		return error;                                                                      \
	}

HAND_OVER(on_acquire_gl, clEnqueueAcquireGLObjects)
HAND_OVER(on_release_gl, clEnqueueReleaseGLObjects)
HAND_OVER(on_acquire_egl, clEnqueueAcquireEGLObjectsKHR)
HAND_OVER(on_release_egl, clEnqueueReleaseEGLObjectsKHR)

void *sk_order_extension(const char *name)
{
	const struct {
		const char *name;
		void *hook;
	} hooks[] = {
		{"clEnqueueAcquireGLObjects",
		 next.clEnqueueAcquireGLObjects ? on_acquire_gl : NULL},
		{"clEnqueueReleaseGLObjects",
		 next.clEnqueueReleaseGLObjects ? on_release_gl : NULL},
		{"clEnqueueAcquireEGLObjectsKHR",
		 next.clEnqueueAcquireEGLObjectsKHR ? on_acquire_egl : NULL},
		{"clEnqueueReleaseEGLObjectsKHR",
		 next.clEnqueueReleaseEGLObjectsKHR ? on_release_egl : NULL},
		{"clCreateCommandQueueWithPropertiesKHR",
		 next.clCreateCommandQueueWithProperties ? sk_queue_create_with : NULL},
	};

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (!strcmp(name, hooks[i].name))
			return hooks[i].hook;
	return NULL;
}

void sk_order_hook(struct _cl_icd_dispatch *table)
{
	SK_HOOK(table, clEnqueueMarker, on_marker);
	SK_HOOK(table, clEnqueueBarrier, on_barrier);
	SK_HOOK(table, clEnqueueWaitForEvents, on_wait_for);
	SK_HOOK(table, clEnqueueMarkerWithWaitList, on_marker_list);
	SK_HOOK(table, clEnqueueBarrierWithWaitList, on_barrier_list);
	SK_HOOK(table, clEnqueueSVMFree, on_svm_free);
	SK_HOOK(table, clEnqueueAcquireGLObjects, on_acquire_gl);
	SK_HOOK(table, clEnqueueReleaseGLObjects, on_release_gl);
	SK_HOOK(table, clEnqueueAcquireEGLObjectsKHR, on_acquire_egl);
	SK_HOOK(table, clEnqueueReleaseEGLObjectsKHR, on_release_egl);
}
