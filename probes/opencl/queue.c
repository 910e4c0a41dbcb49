/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of the application: made as it asks, and known to the layer until it has released them.
 *
 * Shadow queues do not show to the application: the queue of an event is its own, and an event of a
 * queue without profiling has no stamps.
 */
#include "epoch.h"

#include <string.h>

static struct sk_cl_queue *free_row(cl_command_queue handle, struct sk_cl_leftover *left)
{
	struct sk_cl_queue *found =
		sk_cl_queue_find(handle); /* a row of a queue whose release was not seen */
	size_t place = sk_cl_queue_place(handle);

	if (found)
		*left = sk_cl_shadow_forget(found);
	for (size_t i = 0; !found && i < SK_CL_PROBES; i++)
		if (!sk_cl->queues[(place + i) % SK_CL_QUEUES].handle)
			found = &sk_cl->queues[(place + i) % SK_CL_QUEUES];
	return found;
}

static cl_queue_properties flags_of(const cl_queue_properties *properties)
{
	for (; properties && *properties; properties += 2)
		if (*properties == CL_QUEUE_PROPERTIES)
			return properties[1];
	return 0;
}

/* Return false when the queue has more properties than a shadow can be given. */
static bool keep_properties(struct sk_cl_queue *queue, const cl_queue_properties *properties)
{
	unsigned count = 0;

	while (properties && properties[count] && count < SK_CL_QUEUE_PROPERTIES)
		count += 2;
	queue->property_count = (uint8_t)(count < SK_CL_QUEUE_PROPERTIES ? count : 0);
	if (count)
		memcpy(queue->properties, properties, queue->property_count * sizeof(*properties));
	return count < SK_CL_QUEUE_PROPERTIES;
}

static void fill_row(struct sk_cl_queue *queue, cl_command_queue handle, cl_device_id device,
		     const cl_queue_properties *properties)
{
	cl_queue_properties flags = flags_of(properties);
	bool movable = keep_properties(queue, properties) && !sk_cl->pin_new &&
		       sk_cl_next.clEnqueueMarkerWithWaitList &&
		       sk_cl_next.clEnqueueBarrierWithWaitList;

	queue->current = handle;
	queue->epoch = 0;
	queue->used = false;
	queue->on = device;
	queue->made_epoch = sk_cl->epoch;
	queue->references = 1;
	queue->number = (uint16_t)sk_cl->queues_made;
	queue->lane = (uint8_t)(sk_cl->queues_made++ % SK_SEGMENT_LANES);
	queue->device = (uint8_t)sk_cl_device_row(device);
	queue->profiled = flags & CL_QUEUE_PROFILING_ENABLE;
	queue->unordered = flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
	/* A queue that was made with profiling needs no shadow. */
	queue->pinned = !movable || queue->profiled;
	if (!movable && !queue->profiled)
		atomic_fetch_add(&sk_tracer->segment->header.answer.pinned, 1);
	if (queue->device == SK_NO_DEVICE)
		sk_tracer_add(&sk_tracer->segment->header.devices_refused, 1);
}

static void remember(cl_command_queue handle, cl_context context, cl_device_id device,
		     const cl_queue_properties *properties)
{
	/* A queue on the device takes no commands from the host. */
	if (flags_of(properties) & CL_QUEUE_ON_DEVICE || !sk_tracer_ready())
		return;
	sk_cl_thread_here();
	pthread_mutex_lock(&sk_cl->queue_lock);
	struct sk_cl_leftover left = {0};
	struct sk_cl_queue *queue = free_row(handle, &left);

	if (queue) {
		fill_row(queue, handle, device, properties);
		queue->context = context;
		atomic_store_explicit(&queue->handle, handle, memory_order_release);
	} else {
		sk_tracer_add(&sk_tracer->segment->header.queues_refused, 1);
	}
	pthread_mutex_unlock(&sk_cl->queue_lock);
	sk_cl_shadow_let_go(&left);
}

static cl_command_queue CL_API_CALL on_create(cl_context context, cl_device_id device,
					      cl_command_queue_properties flags, cl_int *error)
{
	const cl_queue_properties as_given[] = {CL_QUEUE_PROPERTIES, flags, 0};
	cl_command_queue queue = sk_cl_next.clCreateCommandQueue(context, device, flags, error);

	if (queue)
		remember(queue, context, device, as_given);
	return queue;
}

cl_command_queue CL_API_CALL sk_cl_queue_create_with(cl_context context, cl_device_id device,
						     const cl_queue_properties *properties,
						     cl_int *error)
{
	cl_command_queue queue =
		sk_cl_next.clCreateCommandQueueWithProperties(context, device, properties, error);

	if (queue)
		remember(queue, context, device, properties);
	return queue;
}

static cl_int CL_API_CALL on_retain(cl_command_queue handle)
{
	cl_int error = sk_cl_next.clRetainCommandQueue(handle);
	struct sk_cl_queue *queue = error ? NULL : sk_cl_queue_find(handle);

	if (queue)
		queue->references++;
	return error;
}

/* The layer's references must not keep a queue longer than the application does. */
static cl_int CL_API_CALL on_release(cl_command_queue handle)
{
	struct sk_cl_leftover left = {0};

	sk_cl_harvest_after_wait();
	pthread_mutex_lock(&sk_cl->queue_lock);
	struct sk_cl_queue *queue = handle ? sk_cl_queue_find(handle) : NULL;

	if (queue && !--queue->references)
		left = sk_cl_shadow_forget(queue);
	pthread_mutex_unlock(&sk_cl->queue_lock);
	sk_cl_shadow_let_go(&left);
	return sk_cl_next.clReleaseCommandQueue(handle);
}

static cl_int CL_API_CALL on_release_context(cl_context context)
{
	sk_cl_harvest_after_wait();
	return sk_cl_next.clReleaseContext(context);
}

/* This call is deprecated since OpenCL 1.1. A queue that it changes stays where it is. */
static cl_int CL_API_CALL on_set(cl_command_queue handle, cl_command_queue_properties flags,
				 cl_bool enable, cl_command_queue_properties *old)
{
	struct sk_cl_queue *queue = handle ? sk_cl_queue_find(handle) : NULL;

	if (!queue)
		return sk_cl_next.clSetCommandQueueProperty(handle, flags, enable, old);
	pthread_mutex_lock(&sk_cl->queue_lock);
	sk_cl_shadow_pin(queue);
	cl_int error = sk_cl_next.clSetCommandQueueProperty(handle, flags, enable, old);

	if (!error && flags & CL_QUEUE_PROFILING_ENABLE)
		queue->profiled = enable;
	if (!error && flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
		queue->unordered = enable;
	pthread_mutex_unlock(&sk_cl->queue_lock);
	return error;
}

static cl_int CL_API_CALL on_event_info(cl_event event, cl_event_info what, size_t size,
					void *value, size_t *size_ret)
{
	cl_int error = sk_cl_next.clGetEventInfo(event, what, size, value, size_ret);

	if (!error && what == CL_EVENT_COMMAND_QUEUE && value) {
		struct sk_cl_queue *owner = sk_cl_shadow_owner(*(cl_command_queue *)value);

		if (owner)
			*(cl_command_queue *)value = owner->handle;
	}
	/* A program that polls an event until it has ended waits for it as well. */
	if (!error && what == CL_EVENT_COMMAND_EXECUTION_STATUS && value &&
	    *(cl_int *)value <= CL_COMPLETE)
		sk_cl_harvest_after_wait();
	return error;
}

static cl_int CL_API_CALL on_profiling(cl_event event, cl_profiling_info what, size_t size,
				       void *value, size_t *size_ret)
{
	cl_command_queue handle = NULL;

	if (!sk_cl_next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(handle), &handle,
				       NULL) &&
	    sk_cl_shadow_owner(handle))
		return CL_PROFILING_INFO_NOT_AVAILABLE;
	cl_int error = sk_cl_next.clGetEventProfilingInfo(event, what, size, value, size_ret);

	if (!error && what == CL_PROFILING_COMMAND_END)
		sk_cl_harvest_after_wait();
	return error;
}

void sk_cl_queue_hook(struct _cl_icd_dispatch *table)
{
	SK_CL_HOOK(table, clCreateCommandQueue, on_create);
	SK_CL_HOOK(table, clCreateCommandQueueWithProperties, sk_cl_queue_create_with);
	SK_CL_HOOK(table, clRetainCommandQueue, on_retain);
	SK_CL_HOOK(table, clReleaseCommandQueue, on_release);
	SK_CL_HOOK(table, clReleaseContext, on_release_context);
	SK_CL_HOOK(table, clSetCommandQueueProperty, on_set);
	SK_CL_HOOK(table, clGetEventInfo, on_event_info);
	SK_CL_HOOK(table, clGetEventProfilingInfo, on_profiling);
}
