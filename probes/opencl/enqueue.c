/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel launches, and the addresses of functions that are not in the loader's table. */
#include "launch.h"

#include <string.h>

/* Return the row of the kernel's name if the call is counted. */
static unsigned name_of(const struct sk_cl_launch *launch, cl_kernel kernel)
{
	return sk_cl_launch_sees(launch) ? sk_cl_kernel_name(kernel) : 0;
}

static cl_int CL_API_CALL on_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
				    const size_t *offset, const size_t *global, const size_t *local,
				    cl_uint waits, const cl_event *wait, cl_event *event)
{
	struct sk_cl_launch launch;

	sk_tracer_throttle();
	cl_command_queue to = sk_cl_launch_enter(&launch, queue);
	cl_event *taken =
		sk_cl_launch_begin(&launch, SK_KIND_KERNEL, name_of(&launch, kernel), event);
	cl_int error = sk_cl_next.clEnqueueNDRangeKernel(to, kernel, dimensions, offset, global,
							 local, waits, wait, taken);

	sk_cl_launch_end(&launch, error, 0);
	return error;
}

static cl_int CL_API_CALL on_task(cl_command_queue queue, cl_kernel kernel, cl_uint waits,
				  const cl_event *wait, cl_event *event)
{
	struct sk_cl_launch launch;

	sk_tracer_throttle();
	cl_command_queue to = sk_cl_launch_enter(&launch, queue);
	cl_event *taken =
		sk_cl_launch_begin(&launch, SK_KIND_KERNEL, name_of(&launch, kernel), event);
	cl_int error = sk_cl_next.clEnqueueTask(to, kernel, waits, wait, taken);

	sk_cl_launch_end(&launch, error, 0);
	return error;
}

/* A native kernel is a function of the host that the driver calls in the queue's order. */
static cl_int CL_API_CALL on_native(cl_command_queue queue, void(CL_CALLBACK *function)(void *),
				    void *arguments, size_t bytes, cl_uint objects,
				    const cl_mem *list, const void **locations, cl_uint waits,
				    const cl_event *wait, cl_event *event)
{
	struct sk_cl_launch launch;

	sk_tracer_throttle();
	cl_command_queue to = sk_cl_launch_enter(&launch, queue);
	unsigned name = sk_cl_launch_sees(&launch) ? sk_tracer_name("(native kernel)") : 0;
	cl_event *taken = sk_cl_launch_begin(&launch, SK_KIND_KERNEL, name, event);
	cl_int error = sk_cl_next.clEnqueueNativeKernel(to, function, arguments, bytes, objects,
							list, locations, waits, wait, taken);

	sk_cl_launch_end(&launch, error, 0);
	return error;
}

/* Return whether a function takes queues. Its commands bypass this layer and go to the
 * application's queue, so all other commands have to go there from then on. */
static bool takes_queues(const char *name)
{
	return !strncmp(name, "clEnqueue", 9) || strstr(name, "CommandBuffer") ||
	       strstr(name, "CommandQueue");
}

static void *found_extension(const char *name, void *address)
{
	void *ours = name && address ? sk_cl_order_extension(name) : NULL;

	if (ours || !name || !address || !takes_queues(name) || !sk_tracer_ready())
		return ours ? ours : address;
	if (strstr(name, "CommandBuffer"))
		atomic_fetch_add(&sk_tracer->segment->header.command_buffers, 1);
	sk_cl_shadow_pin_all();
	return address;
}

static void *CL_API_CALL on_extension(cl_platform_id platform, const char *name)
{
	return found_extension(name,
			       sk_cl_next.clGetExtensionFunctionAddressForPlatform(platform, name));
}

static void *CL_API_CALL on_old_extension(const char *name)
{
	return found_extension(name, sk_cl_next.clGetExtensionFunctionAddress(name));
}

void sk_cl_enqueue_hook(struct _cl_icd_dispatch *table)
{
	SK_CL_HOOK(table, clEnqueueNDRangeKernel, on_kernel);
	SK_CL_HOOK(table, clEnqueueTask, on_task);
	SK_CL_HOOK(table, clEnqueueNativeKernel, on_native);
	SK_CL_HOOK(table, clGetExtensionFunctionAddressForPlatform, on_extension);
	SK_CL_HOOK(table, clGetExtensionFunctionAddress, on_old_extension);
}
