/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the simulated driver: their times are settled when they are enqueued. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static void wait_until(uint64_t ns)
{
	while (sim_now() < ns)
		;
}

static uint64_t latest(uint64_t ns, cl_uint count, const cl_event *events)
{
	for (cl_uint i = 0; i < count; i++)
		ns = events[i]->end_ns > ns ? events[i]->end_ns : ns;
	return ns;
}

/* Take `length_ns` of the queue's time, behind all earlier commands; returns its start. */
static uint64_t take_place(cl_command_queue queue, uint64_t earliest_ns, uint64_t length_ns)
{
	uint64_t seen = atomic_load_explicit(&queue->busy_until_ns, memory_order_relaxed), start;

	do
		start = seen > earliest_ns ? seen : earliest_ns;
	while (!atomic_compare_exchange_weak_explicit(&queue->busy_until_ns, &seen,
						      start + length_ns, memory_order_relaxed,
						      memory_order_relaxed));
	return start;
}

static cl_int enqueue(cl_command_queue queue, cl_command_type type, uint64_t length_ns,
		      cl_uint wait_count, const cl_event *wait_for, bool wait, cl_event *ret)
{
	uint64_t now = sim_now();
	uint64_t start = take_place(queue, latest(now, wait_count, wait_for), length_ns);

	if (ret) {
		cl_event event = malloc(sizeof(*event));

		if (!event)
			return CL_OUT_OF_HOST_MEMORY;
		/* An event may outlive the application's own reference to its queue. */
		atomic_fetch_add_explicit(&queue->object.references, 1, memory_order_relaxed);
		*event = (struct _cl_event){{&sim_dispatch, 1}, queue, type, now, start,
					    start + length_ns};
		*ret = event;
	}
	if (wait)
		wait_until(start + length_ns);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
					 const size_t *offset, const size_t *global,
					 const size_t *local, cl_uint wait_count,
					 const cl_event *wait_for, cl_event *event)
{
	int length = atomic_load_explicit(&kernel->length_ns, memory_order_relaxed);

	return enqueue(queue, CL_COMMAND_NDRANGE_KERNEL, length > 0 ? (uint64_t)length : 0,
		       wait_count, wait_for, false, event);
}

static cl_int CL_API_CALL enqueue_write(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
					size_t offset, size_t bytes, const void *from,
					cl_uint wait_count, const cl_event *wait_for,
					cl_event *event)
{
	if (offset > buffer->bytes || bytes > buffer->bytes - offset)
		return CL_INVALID_VALUE;
	memcpy(buffer->host + offset, from, bytes);
	return enqueue(queue, CL_COMMAND_WRITE_BUFFER, bytes / SIM_BYTES_PER_NS, wait_count,
		       wait_for, blocking, event);
}

static cl_int CL_API_CALL enqueue_read(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
				       size_t offset, size_t bytes, void *to, cl_uint wait_count,
				       const cl_event *wait_for, cl_event *event)
{
	if (offset > buffer->bytes || bytes > buffer->bytes - offset)
		return CL_INVALID_VALUE;
	memcpy(to, buffer->host + offset, bytes);
	return enqueue(queue, CL_COMMAND_READ_BUFFER, bytes / SIM_BYTES_PER_NS, wait_count,
		       wait_for, blocking, event);
}

static cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_uint wait_count,
					 const cl_event *wait_for, cl_event *event)
{
	return enqueue(queue, CL_COMMAND_MARKER, 0, wait_count, wait_for, false, event);
}

static cl_int CL_API_CALL enqueue_barrier(cl_command_queue queue, cl_uint wait_count,
					  const cl_event *wait_for, cl_event *event)
{
	return enqueue(queue, CL_COMMAND_BARRIER, 0, wait_count, wait_for, false, event);
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
	wait_until(atomic_load_explicit(&queue->busy_until_ns, memory_order_relaxed));
	return CL_SUCCESS;
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event *events)
{
	wait_until(latest(0, count, events));
	return CL_SUCCESS;
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
	atomic_fetch_add_explicit(&event->object.references, 1, memory_order_relaxed);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
	if (sim_let_go(&event->object)) {
		sim_dispatch.clReleaseCommandQueue(event->queue);
		free(event);
	}
	return CL_SUCCESS;
}

static cl_int status_of(const struct _cl_event *event)
{
	uint64_t now = sim_now();

	if (now >= event->end_ns)
		return CL_COMPLETE;
	return now >= event->start_ns ? CL_RUNNING : CL_SUBMITTED;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t size, void *value,
				     size_t *size_ret)
{
	const cl_int status = status_of(event);
	const cl_uint references = (cl_uint)event->object.references;

	switch (what) {
	case CL_EVENT_COMMAND_EXECUTION_STATUS:
		return sim_answer(&status, sizeof(status), size, value, size_ret);
	case CL_EVENT_COMMAND_QUEUE:
		return sim_answer(&event->queue, sizeof(event->queue), size, value, size_ret);
	case CL_EVENT_CONTEXT:
		return sim_answer(&event->queue->context, sizeof(cl_context), size, value,
				  size_ret);
	case CL_EVENT_COMMAND_TYPE:
		return sim_answer(&event->type, sizeof(event->type), size, value, size_ret);
	case CL_EVENT_REFERENCE_COUNT:
		return sim_answer(&references, sizeof(references), size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL event_profiling(cl_event event, cl_profiling_info what, size_t size,
					  void *value, size_t *size_ret)
{
	const cl_ulong stamps[] = {event->queued_ns, event->queued_ns, event->start_ns,
				   event->end_ns, event->end_ns};

	if (!(event->queue->flags & CL_QUEUE_PROFILING_ENABLE) || sim_now() < event->end_ns)
		return CL_PROFILING_INFO_NOT_AVAILABLE;
	if (what < CL_PROFILING_COMMAND_QUEUED || what > CL_PROFILING_COMMAND_COMPLETE)
		return CL_INVALID_VALUE;
	return sim_answer(&stamps[what - CL_PROFILING_COMMAND_QUEUED], sizeof(stamps[0]), size,
			  value, size_ret);
}

void sim_fill_commands(struct _cl_icd_dispatch *table)
{
	table->clEnqueueNDRangeKernel = enqueue_kernel;
	table->clEnqueueWriteBuffer = enqueue_write;
	table->clEnqueueReadBuffer = enqueue_read;
	table->clEnqueueMarkerWithWaitList = enqueue_marker;
	table->clEnqueueBarrierWithWaitList = enqueue_barrier;
	table->clFinish = finish;
	table->clFlush = flush;
	table->clWaitForEvents = wait_for_events;
	table->clRetainEvent = retain_event;
	table->clReleaseEvent = release_event;
	table->clGetEventInfo = event_info;
	table->clGetEventProfilingInfo = event_profiling;
}
