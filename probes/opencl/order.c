/* SPDX-License-Identifier: Apache-2.0 */
/* Markers, barriers and other commands that only have an order.
 *
 * A queue out of order may have commands in itself and in its shadow (see shadow.c). A marker or
 * barrier over all earlier commands covers both queues there. The latest barrier is kept, so that
 * commands sent after a move still come after it.
 */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

/* Return the other queue of a queue out of order, to which commands do not go now, or NULL. */
static cl_command_queue other_of(const struct sk_cl_launch *launch, cl_command_queue to)
{
	const struct sk_cl_queue *queue = launch->row;

	if (!queue || !queue->unordered || !queue->shadow)
		return NULL;
	return to == queue->shadow ? queue->handle : queue->shadow;
}

/* Return an event that is complete when all earlier commands of `queue` are. The caller flushes it.
 */
static cl_event mark(cl_command_queue queue)
{
	cl_event marker = NULL;

	return sk_cl_next.clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker) ? NULL : marker;
}

static cl_int enqueue_marker(cl_command_queue to, cl_command_queue other, cl_uint waits,
			     const cl_event *wait, cl_event *event)
{
	cl_event both[2];

	if (waits || !other)
		return sk_cl_next.clEnqueueMarkerWithWaitList(to, waits, wait, event);
	both[0] = mark(other);
	both[1] = both[0] ? mark(to) : NULL;
	cl_int error = both[1] ? sk_cl_next.clEnqueueMarkerWithWaitList(to, 2, both, event)
			       : sk_cl_next.clEnqueueMarkerWithWaitList(to, 0, NULL, event);

	for (int i = 0; i < 2; i++)
		if (both[i])
			sk_cl_next.clReleaseEvent(both[i]);
	sk_cl_next.clFlush(other);
	return error;
}

static cl_int enqueue_barrier(cl_command_queue to, cl_command_queue other, cl_uint waits,
			      const cl_event *wait, cl_event *event)
{
	cl_event marker = !waits && other ? mark(other) : NULL;

	if (marker) {
		sk_cl_next.clEnqueueBarrierWithWaitList(to, 1, &marker, NULL);
		sk_cl_next.clReleaseEvent(marker);
	}
	return sk_cl_next.clEnqueueBarrierWithWaitList(to, waits, wait, event);
}

/* Keep the barrier as the latest one. The lock keeps barriers of two threads in the order in which
 * the queue got them: each comes after all before it, so the latest one is enough. */
static cl_int enqueue_kept(struct sk_cl_queue *queue, cl_command_queue to, cl_command_queue other,
			   cl_uint waits, const cl_event *wait, cl_event *event)
{
	cl_event own = NULL, *taken = event ? event : &own, old = NULL;

	pthread_mutex_lock(&sk_cl->queue_lock);
	cl_int error = enqueue_barrier(to, other, waits, wait, taken);

	if (!error) {
		if (event)
			sk_cl_next.clRetainEvent(*event);
		old = queue->barrier;
		queue->barrier = *taken;
	}
	pthread_mutex_unlock(&sk_cl->queue_lock);
	if (old)
		sk_cl_next.clReleaseEvent(old);
	if (other)
		sk_cl_next.clFlush(other);
	return error;
}

/* Look up the row, which the shortest way through sk_cl_launch_enter leaves out. */
static cl_command_queue enter(struct sk_cl_launch *launch, cl_command_queue queue)
{
	cl_command_queue to = sk_cl_launch_enter(launch, queue);

	if (!launch->row && queue)
		launch->row = sk_cl_queue_find(queue);
	return to;
}

static cl_int CL_API_CALL on_marker_list(cl_command_queue queue, cl_uint waits,
					 const cl_event *wait, cl_event *event)
{
	struct sk_cl_launch launch;
	cl_command_queue to = enter(&launch, queue);
	cl_event *taken = sk_cl_launch_begin(&launch, SK_KIND_BARRIER, 0, event);
	cl_int error = enqueue_marker(to, other_of(&launch, to), waits, wait, taken);

	sk_cl_launch_end(&launch, error, 0);
	return error;
}

static cl_int CL_API_CALL on_barrier_list(cl_command_queue queue, cl_uint waits,
					  const cl_event *wait, cl_event *event)
{
	struct sk_cl_launch launch;
	cl_command_queue to = enter(&launch, queue);
	cl_event *taken = sk_cl_launch_begin(&launch, SK_KIND_BARRIER, 0, event);
	cl_int error =
		launch.row && launch.row->unordered
			? enqueue_kept(launch.row, to, other_of(&launch, to), waits, wait, taken)
			: sk_cl_next.clEnqueueBarrierWithWaitList(to, waits, wait, taken);

	sk_cl_launch_end(&launch, error, 0);
	return error;
}

static bool is_unordered(cl_command_queue handle)
{
	const struct sk_cl_queue *queue = handle ? sk_cl_queue_find(handle) : NULL;

	return queue && queue->unordered && !queue->pinned;
}

static cl_int CL_API_CALL on_marker(cl_command_queue queue, cl_event *event)
{
	if (event && is_unordered(queue))
		return on_marker_list(queue, 0, NULL, event);
	struct sk_cl_launch launch;
	cl_command_queue to = enter(&launch, queue);
	cl_event *taken = sk_cl_launch_begin(&launch, SK_KIND_BARRIER, 0, event);
	cl_int error = sk_cl_next.clEnqueueMarker(to, taken);

	sk_cl_launch_end(&launch, error, 0);
	return error;
}

/* The two old calls have no event, so they are made as their newer forms, or not recorded. */

static cl_int CL_API_CALL on_barrier(cl_command_queue queue)
{
	if (is_unordered(queue))
		return on_barrier_list(queue, 0, NULL, NULL);
	struct sk_cl_launch launch;
	cl_int error = sk_cl_next.clEnqueueBarrier(sk_cl_launch_enter(&launch, queue));

	sk_cl_launch_leave(&launch);
	return error;
}

static cl_int CL_API_CALL on_wait_for(cl_command_queue queue, cl_uint count, const cl_event *events)
{
	if (count && events && is_unordered(queue))
		return on_barrier_list(queue, count, events, NULL);
	struct sk_cl_launch launch;
	cl_int error = sk_cl_next.clEnqueueWaitForEvents(sk_cl_launch_enter(&launch, queue), count,
							 events);

	sk_cl_launch_leave(&launch);
	return error;
}

/* A driver passes its queue to the function that frees the memory, which expects the application's.
 */
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
	struct sk_cl_launch launch;
	cl_command_queue to = sk_cl_launch_enter(&launch, queue);

	if (freeing)
		*freeing = (struct freeing){function, data, queue};
	cl_int error =
		sk_cl_next.clEnqueueSVMFree(to, count, pointers, freeing ? free_memory : function,
					    freeing ? freeing : data, waits, wait, event);

	sk_cl_launch_leave(&launch);
	if (error)
		free(freeing);
	return error;
}

/* Objects shared with a graphics library are acquired and released in the queue's order. */
#define HAND_OVER(hook, function)                                                                  \
	static cl_int CL_API_CALL hook(cl_command_queue queue, cl_uint count,                      \
				       const cl_mem *objects, cl_uint waits, const cl_event *wait, \
				       cl_event *event)                                            \
	{                                                                                          \
		struct sk_cl_launch launch;                                                        \
		cl_int error = sk_cl_next.function(sk_cl_launch_enter(&launch, queue), count,      \
						   objects, waits, wait, event);                   \
                                                                                                   \
		sk_cl_launch_leave(&launch);                                                       \
		return error;                                                                      \
	}

HAND_OVER(on_acquire_gl, clEnqueueAcquireGLObjects)
HAND_OVER(on_release_gl, clEnqueueReleaseGLObjects)
HAND_OVER(on_acquire_egl, clEnqueueAcquireEGLObjectsKHR)
HAND_OVER(on_release_egl, clEnqueueReleaseEGLObjectsKHR)

void *sk_cl_order_extension(const char *name)
{
	const struct {
		const char *name;
		void *hook;
	} hooks[] = {
		{"clEnqueueAcquireGLObjects",
		 sk_cl_next.clEnqueueAcquireGLObjects ? on_acquire_gl : NULL},
		{"clEnqueueReleaseGLObjects",
		 sk_cl_next.clEnqueueReleaseGLObjects ? on_release_gl : NULL},
		{"clEnqueueAcquireEGLObjectsKHR",
		 sk_cl_next.clEnqueueAcquireEGLObjectsKHR ? on_acquire_egl : NULL},
		{"clEnqueueReleaseEGLObjectsKHR",
		 sk_cl_next.clEnqueueReleaseEGLObjectsKHR ? on_release_egl : NULL},
		{"clCreateCommandQueueWithPropertiesKHR",
		 sk_cl_next.clCreateCommandQueueWithProperties ? sk_cl_queue_create_with : NULL},
	};

	for (size_t i = 0; i < sizeof(hooks) / sizeof(hooks[0]); i++)
		if (!strcmp(name, hooks[i].name))
			return hooks[i].hook;
	return NULL;
}

void sk_cl_order_hook(struct _cl_icd_dispatch *table)
{
	SK_CL_HOOK(table, clEnqueueMarker, on_marker);
	SK_CL_HOOK(table, clEnqueueBarrier, on_barrier);
	SK_CL_HOOK(table, clEnqueueWaitForEvents, on_wait_for);
	SK_CL_HOOK(table, clEnqueueMarkerWithWaitList, on_marker_list);
	SK_CL_HOOK(table, clEnqueueBarrierWithWaitList, on_barrier_list);
	SK_CL_HOOK(table, clEnqueueSVMFree, on_svm_free);
	SK_CL_HOOK(table, clEnqueueAcquireGLObjects, on_acquire_gl);
	SK_CL_HOOK(table, clEnqueueReleaseGLObjects, on_release_gl);
	SK_CL_HOOK(table, clEnqueueAcquireEGLObjectsKHR, on_acquire_egl);
	SK_CL_HOOK(table, clEnqueueReleaseEGLObjectsKHR, on_release_egl);
}
