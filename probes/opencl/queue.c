/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of the application: made as it asks, known to the layer until it has released them.
 *
 * What it can see of the twins is answered as if there were none: the queue of an event, and that
 * an event of a queue without profiling has no stamps.
 */
#include "turn.h"

#include <string.h>

static struct sk_queue *free_row(cl_command_queue handle, struct sk_leftover *left)
{
	struct sk_queue *found = sk_queue_find(handle); /* of a queue that went without a word */
	size_t place = sk_queue_place(handle);

	if (found)
		*left = sk_twin_forget(found);
	for (size_t i = 0; !found && i < SK_PROBES; i++)
		if (!layer->queues[(place + i) % SK_QUEUES].handle)
			found = &layer->queues[(place + i) % SK_QUEUES];
	return found;
}

static cl_queue_properties flags_of(const cl_queue_properties *properties)
{
	for (; properties && *properties; properties += 2)
		if (*properties == CL_QUEUE_PROPERTIES)
			return properties[1];
	return 0;
}

/* False when there are more of them than a twin can be given. */
static bool keep_properties(struct sk_queue *queue, const cl_queue_properties *properties)
{
	unsigned count = 0;

	while (properties && properties[count] && count < SK_QUEUE_PROPERTIES)
		count += 2;
	queue->property_count = (uint8_t)(count < SK_QUEUE_PROPERTIES ? count : 0);
	if (count)
		memcpy(queue->properties, properties, queue->property_count * sizeof(*properties));
	return count < SK_QUEUE_PROPERTIES;
}

static void fill_row(struct sk_queue *queue, cl_command_queue handle, cl_device_id device,
		     const cl_queue_properties *properties)
{
	cl_queue_properties flags = flags_of(properties);
	bool movable = keep_properties(queue, properties) && !layer->pin_new &&
		       next.clEnqueueMarkerWithWaitList && next.clEnqueueBarrierWithWaitList;

	queue->current = handle;
	queue->turn = 0;
	queue->used = false;
	queue->on = device;
	queue->made_turn = layer->turn;
	queue->references = 1;
	queue->number = (uint16_t)layer->queues_made;
	queue->lane = (uint8_t)(layer->queues_made++ % SK_SEGMENT_LANES);
	queue->device = (uint8_t)sk_device_row(device);
	queue->profiled = flags & CL_QUEUE_PROFILING_ENABLE;
	queue->unordered = flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
	/* An application that wants profiling has it, and there is nothing to move. */
	queue->pinned = !movable || queue->profiled;
	if (!movable && !queue->profiled)
		atomic_fetch_add(&sk_tracer->segment->header.answer.pinned, 1);
	if (queue->device == SK_NO_DEVICE)
		sk_tracer_add(&sk_tracer->segment->header.devices_refused, 1);
}

static void remember(cl_command_queue handle, cl_context context, cl_device_id device,
		     const cl_queue_properties *properties)
{
	/* A queue on the device's side takes no commands from the host. */
	if (flags_of(properties) & CL_QUEUE_ON_DEVICE || !sk_tracer_ready())
		return;
	sk_thread_here();
	pthread_mutex_lock(&layer->turn_lock);
	struct sk_leftover left = {0};
	struct sk_queue *queue = free_row(handle, &left);

	if (queue) {
		fill_row(queue, handle, device, properties);
		queue->context = context;
		atomic_store_explicit(&queue->handle, handle, memory_order_release);
	} else {
		sk_tracer_add(&sk_tracer->segment->header.queues_refused, 1);
	}
	pthread_mutex_unlock(&layer->turn_lock);
	sk_twin_let_go(&left);
}

static cl_command_queue CL_API_CALL on_create(cl_context context, cl_device_id device,
					      cl_command_queue_properties flags, cl_int *error)
{
	const cl_queue_properties as_given[] = {CL_QUEUE_PROPERTIES, flags, 0};
	cl_command_queue queue = next.clCreateCommandQueue(context, device, flags, error);

	if (queue)
		remember(queue, context, device, as_given);
	return queue;
}

cl_command_queue CL_API_CALL sk_queue_create_with(cl_context context, cl_device_id device,
						  const cl_queue_properties *properties,
						  cl_int *error)
{
	cl_command_queue queue =
		next.clCreateCommandQueueWithProperties(context, device, properties, error);

	if (queue)
		remember(queue, context, device, properties);
	return queue;
}

static cl_int CL_API_CALL on_retain(cl_command_queue handle)
{
	cl_int error = next.clRetainCommandQueue(handle);
	struct sk_queue *queue = error ? NULL : sk_queue_find(handle);

	if (queue)
		queue->references++;
	return error;
}

/* Our references to events and twins must not keep a queue longer than the application does. */
static cl_int CL_API_CALL on_release(cl_command_queue handle)
{
	struct sk_leftover left = {0};

	sk_harvest_after_wait();
	pthread_mutex_lock(&layer->turn_lock);
	struct sk_queue *queue = handle ? sk_queue_find(handle) : NULL;

	if (queue && !--queue->references)
		left = sk_twin_forget(queue);
	pthread_mutex_unlock(&layer->turn_lock);
	sk_twin_let_go(&left);
	return next.clReleaseCommandQueue(handle);
}

static cl_int CL_API_CALL on_release_context(cl_context context)
{
	sk_harvest_after_wait();
	return next.clReleaseContext(context);
}

/* Deprecated since OpenCL 1.1. What has been made different is left where it is. */
static cl_int CL_API_CALL on_set(cl_command_queue handle, cl_command_queue_properties flags,
				 cl_bool enable, cl_command_queue_properties *old)
{
	struct sk_queue *queue = handle ? sk_queue_find(handle) : NULL;

	if (!queue)
		return next.clSetCommandQueueProperty(handle, flags, enable, old);
	pthread_mutex_lock(&layer->turn_lock);
	sk_twin_pin(queue);
	cl_int error = next.clSetCommandQueueProperty(handle, flags, enable, old);

	if (!error && flags & CL_QUEUE_PROFILING_ENABLE)
		queue->profiled = enable;
	if (!error && flags & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
		queue->unordered = enable;
	pthread_mutex_unlock(&layer->turn_lock);
	return error;
}

static cl_int CL_API_CALL on_event_info(cl_event event, cl_event_info what, size_t size,
					void *value, size_t *size_ret)
{
	cl_int error = next.clGetEventInfo(event, what, size, value, size_ret);

	if (!error && what == CL_EVENT_COMMAND_QUEUE && value) {
		struct sk_queue *owner = sk_twin_owner(*(cl_command_queue *)value);

		if (owner)
			*(cl_command_queue *)value = owner->handle;
	}
	/* Who asks until it has ended waits for it as well. */
	if (!error && what == CL_EVENT_COMMAND_EXECUTION_STATUS && value &&
	    *(cl_int *)value <= CL_COMPLETE)
		sk_harvest_after_wait();
	return error;
}

static cl_int CL_API_CALL on_profiling(cl_event event, cl_profiling_info what, size_t size,
				       void *value, size_t *size_ret)
{
	cl_command_queue handle = NULL;

	if (!next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(handle), &handle, NULL) &&
	    sk_twin_owner(handle))
		return CL_PROFILING_INFO_NOT_AVAILABLE;
	cl_int error = next.clGetEventProfilingInfo(event, what, size, value, size_ret);

	if (!error && what == CL_PROFILING_COMMAND_END)
		sk_harvest_after_wait();
	return error;
}

void sk_queue_hook(struct _cl_icd_dispatch *table)
{
	SK_HOOK(table, clCreateCommandQueue, on_create);
	SK_HOOK(table, clCreateCommandQueueWithProperties, sk_queue_create_with);
	SK_HOOK(table, clRetainCommandQueue, on_retain);
	SK_HOOK(table, clReleaseCommandQueue, on_release);
	SK_HOOK(table, clReleaseContext, on_release_context);
	SK_HOOK(table, clSetCommandQueueProperty, on_set);
	SK_HOOK(table, clGetEventInfo, on_event_info);
	SK_HOOK(table, clGetEventProfilingInfo, on_profiling);
}
