/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches. Markers, barriers and user events pass through: they have no device time. */
#include "launch.h"

#include <string.h>

static bool is_traced(const struct sk_thread *thread)
{
	return thread || sk_tracer->state == SK_TRACER_READY;
}

static cl_int CL_API_CALL on_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
				    const size_t *offset, const size_t *global, const size_t *local,
				    cl_uint waits, const cl_event *wait, cl_event *event)
{
	struct sk_thread *thread = sk_thread_here();
	struct sk_launch launch;
	unsigned name = is_traced(thread) ? sk_kernel_name(kernel) : 0;
	cl_event *taken = sk_launch_begin(&launch, thread, SK_KIND_KERNEL, name, event);
	cl_int error = next.clEnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local,
						   waits, wait, taken);

	sk_launch_end(&launch, queue, error, 0);
	return error;
}

static cl_int CL_API_CALL on_task(cl_command_queue queue, cl_kernel kernel, cl_uint waits,
				  const cl_event *wait, cl_event *event)
{
	struct sk_thread *thread = sk_thread_here();
	struct sk_launch launch;
	unsigned name = is_traced(thread) ? sk_kernel_name(kernel) : 0;
	cl_event *taken = sk_launch_begin(&launch, thread, SK_KIND_KERNEL, name, event);
	cl_int error = next.clEnqueueTask(queue, kernel, waits, wait, taken);

	sk_launch_end(&launch, queue, error, 0);
	return error;
}

/* A function of the host that the driver calls in the queue's order. */
static cl_int CL_API_CALL on_native(cl_command_queue queue, void(CL_CALLBACK *function)(void *),
				    void *arguments, size_t bytes, cl_uint objects,
				    const cl_mem *list, const void **locations, cl_uint waits,
				    const cl_event *wait, cl_event *event)
{
	struct sk_thread *thread = sk_thread_here();
	struct sk_launch launch;
	unsigned name = is_traced(thread) ? sk_tracer_name("(native kernel)") : 0;
	cl_event *taken = sk_launch_begin(&launch, thread, SK_KIND_KERNEL, name, event);
	cl_int error = next.clEnqueueNativeKernel(queue, function, arguments, bytes, objects, list,
						  locations, waits, wait, taken);

	sk_launch_end(&launch, queue, error, 0);
	return error;
}

/* Launches inside of a command buffer go past this layer: the summary says so. */
static void note_extension(const char *name)
{
	if (name && !strcmp(name, "clEnqueueCommandBufferKHR") &&
	    sk_tracer->state == SK_TRACER_READY)
		atomic_fetch_add(&sk_tracer->segment->header.command_buffers, 1);
}

static void *CL_API_CALL on_extension(cl_platform_id platform, const char *name)
{
	note_extension(name);
	return next.clGetExtensionFunctionAddressForPlatform(platform, name);
}

static void *CL_API_CALL on_old_extension(const char *name)
{
	note_extension(name);
	return next.clGetExtensionFunctionAddress(name);
}

void sk_enqueue_hook(struct _cl_icd_dispatch *table)
{
	SK_HOOK(table, clEnqueueNDRangeKernel, on_kernel);
	SK_HOOK(table, clEnqueueTask, on_task);
	SK_HOOK(table, clEnqueueNativeKernel, on_native);
	SK_HOOK(table, clGetExtensionFunctionAddressForPlatform, on_extension);
	SK_HOOK(table, clGetExtensionFunctionAddress, on_old_extension);
}
