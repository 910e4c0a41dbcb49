/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: each gets profiling, and answers questions as if it had what the application asked for.
 *
 * An application that asked for profiling sees no difference. One that did not is told so by
 * clGetCommandQueueInfo and clGetEventProfilingInfo as the specification says.
 */
#include "layer.h"

#include <string.h>

static size_t slot_of(const void *handle)
{
	return (size_t)(((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

struct sk_queue *sk_queue_find(cl_command_queue handle)
{
	size_t slot = slot_of(handle);

	for (size_t i = 0; i < SK_PROBES; i++) {
		struct sk_queue *queue = &layer->queues[(slot + i) % SK_QUEUES];

		/* Pairs with the release in `remember`: the row is filled. */
		if (atomic_load_explicit(&queue->handle, memory_order_acquire) == handle)
			return queue;
	}
	return NULL;
}

static struct sk_queue *free_row(cl_command_queue handle)
{
	size_t slot = slot_of(handle);
	struct sk_queue *found = sk_queue_find(handle); /* of a queue long gone */

	for (size_t i = 0; !found && i < SK_PROBES; i++)
		if (!layer->queues[(slot + i) % SK_QUEUES].handle)
			found = &layer->queues[(slot + i) % SK_QUEUES];
	return found;
}

static void fill_row(struct sk_queue *queue, cl_device_id device,
		     const cl_queue_properties *properties, bool asked)
{
	unsigned row = sk_device_row(device), count = 0;

	while (properties && count < SK_QUEUE_PROPERTIES - 2 && properties[count])
		count += 2;
	if (properties) {
		memcpy(queue->properties, properties, count * sizeof(*properties));
		queue->properties[count++] = 0;
	}
	queue->property_count = (uint8_t)count;
	queue->number = (uint16_t)layer->queues_made;
	queue->lane = (uint8_t)(layer->queues_made++ % SK_SEGMENT_LANES);
	queue->device = (uint8_t)row;
	queue->asked = asked;
	if (row == SK_NO_DEVICE)
		sk_tracer_add(&sk_tracer->segment->header.devices_refused, 1);
}

static void remember(cl_command_queue handle, cl_device_id device,
		     const cl_queue_properties *properties, bool asked)
{
	pthread_mutex_lock(&layer->lock);
	struct sk_queue *queue = free_row(handle);

	if (queue) {
		queue->handle = NULL;
		fill_row(queue, device, properties, asked);
		atomic_store_explicit(&queue->handle, handle, memory_order_release);
	} else {
		sk_tracer_add(&sk_tracer->segment->header.queues_refused, 1);
	}
	pthread_mutex_unlock(&layer->lock);
	if (!asked)
		atomic_fetch_add(&layer->hidden_queues, 1);
}

static bool ready(void)
{
	return sk_tracer_ready();
}

static cl_command_queue CL_API_CALL on_create(cl_context context, cl_device_id device,
					      cl_command_queue_properties flags, cl_int *error)
{
	const cl_queue_properties as_given[] = {CL_QUEUE_PROPERTIES, flags, 0};
	cl_command_queue queue = NULL;

	if (ready())
		queue = next.clCreateCommandQueue(context, device,
						  flags | CL_QUEUE_PROFILING_ENABLE, error);
	if (!queue)
		return next.clCreateCommandQueue(context, device, flags, error);
	remember(queue, device, as_given, flags & CL_QUEUE_PROFILING_ENABLE);
	return queue;
}

/* The list with profiling added; false when it is too long or asks for a device-side queue. */
static bool with_profiling(const cl_queue_properties *given,
			   cl_queue_properties ret[SK_QUEUE_PROPERTIES + 2], bool *asked)
{
	cl_queue_properties flags = 0;
	unsigned used = 2;

	for (; given && *given; given += 2) {
		if (*given == CL_QUEUE_PROPERTIES) {
			flags = given[1];
			continue;
		}
		if (used + 2 >= SK_QUEUE_PROPERTIES)
			return false;
		ret[used++] = given[0];
		ret[used++] = given[1];
	}
	*asked = flags & CL_QUEUE_PROFILING_ENABLE;
	ret[0] = CL_QUEUE_PROPERTIES;
	ret[1] = flags | CL_QUEUE_PROFILING_ENABLE;
	ret[used] = 0;
	return !(flags & CL_QUEUE_ON_DEVICE);
}

static cl_command_queue CL_API_CALL on_create_with(cl_context context, cl_device_id device,
						   const cl_queue_properties *properties,
						   cl_int *error)
{
	cl_queue_properties more[SK_QUEUE_PROPERTIES + 2];
	cl_command_queue queue = NULL;
	bool asked;

	if (ready() && with_profiling(properties, more, &asked))
		queue = next.clCreateCommandQueueWithProperties(context, device, more, error);
	if (!queue)
		return next.clCreateCommandQueueWithProperties(context, device, properties, error);
	remember(queue, device, properties, asked);
	return queue;
}

/* Deprecated since OpenCL 1.1; profiling stays on whatever is asked. */
static cl_int CL_API_CALL on_set(cl_command_queue handle, cl_command_queue_properties flags,
				 cl_bool enable, cl_command_queue_properties *old)
{
	struct sk_queue *queue = ready() ? sk_queue_find(handle) : NULL;
	bool profiling = flags & CL_QUEUE_PROFILING_ENABLE;

	if (!queue)
		return next.clSetCommandQueueProperty(handle, flags, enable, old);
	flags &= ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
	cl_int error =
		flags ? next.clSetCommandQueueProperty(handle, flags, enable, old) : CL_SUCCESS;

	if (old && !flags)
		error = next.clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof(*old), old,
						   NULL);
	if (old && !error && !queue->asked)
		*old &= ~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
	if (profiling && !error) {
		queue->asked = enable;
		atomic_fetch_add(&layer->hidden_queues, !enable);
	}
	return error;
}

static cl_int answer_properties(const struct sk_queue *queue, size_t size, void *value,
				size_t *size_ret)
{
	size_t bytes = queue->property_count * sizeof(queue->properties[0]);

	if (value && size < bytes)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, queue->properties, bytes);
	if (size_ret)
		*size_ret = bytes;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL on_info(cl_command_queue handle, cl_command_queue_info what, size_t size,
				  void *value, size_t *size_ret)
{
	cl_int error = next.clGetCommandQueueInfo(handle, what, size, value, size_ret);
	struct sk_queue *queue = !error && layer->hidden_queues ? sk_queue_find(handle) : NULL;

	if (!queue || queue->asked)
		return error;
	if (what == CL_QUEUE_PROPERTIES_ARRAY)
		return answer_properties(queue, size, value, size_ret);
	if (what == CL_QUEUE_PROPERTIES && value)
		*(cl_command_queue_properties *)value &=
			~(cl_command_queue_properties)CL_QUEUE_PROFILING_ENABLE;
	return error;
}

static cl_int CL_API_CALL on_profiling(cl_event event, cl_profiling_info what, size_t size,
				       void *value, size_t *size_ret)
{
	cl_command_queue handle = NULL;

	if (layer->hidden_queues &&
	    !next.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(handle), &handle, NULL) &&
	    handle) {
		struct sk_queue *queue = sk_queue_find(handle);

		if (queue && !queue->asked)
			return CL_PROFILING_INFO_NOT_AVAILABLE;
	}
	return next.clGetEventProfilingInfo(event, what, size, value, size_ret);
}

void sk_queue_hook(struct _cl_icd_dispatch *table)
{
	SK_HOOK(table, clCreateCommandQueue, on_create);
	SK_HOOK(table, clCreateCommandQueueWithProperties, on_create_with);
	SK_HOOK(table, clSetCommandQueueProperty, on_set);
	SK_HOOK(table, clGetCommandQueueInfo, on_info);
	SK_HOOK(table, clGetEventProfilingInfo, on_profiling);
}
