/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernels by their handles: a cache of handles over the segment's table of names.
 *
 * A handle may be freed and given to another kernel, so making a kernel always replaces what the
 * cache has for its handle. The driver is asked again for the name of a handle that is not cached.
 */
#include "layer.h"

#include <stdlib.h>

enum { HANDLE_BITS = 48 };

#define HANDLE_MASK ((UINT64_C(1) << HANDLE_BITS) - 1)

static size_t slot_of(uint64_t handle)
{
	return (size_t)((handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 51);
}

static void remember(cl_kernel kernel, unsigned name)
{
	uint64_t handle = (uint64_t)(uintptr_t)kernel;
	size_t slot = slot_of(handle), target = slot % SK_CL_KERNEL_CACHE;

	if (handle & ~HANDLE_MASK)
		return; /* more address bits than there is room for; the driver is asked each time
			 */
	for (size_t i = 0; i < SK_CL_PROBES; i++) {
		uint64_t entry = sk_cl->kernels[(slot + i) % SK_CL_KERNEL_CACHE];

		if (!entry || (entry & HANDLE_MASK) == handle) {
			target = (slot + i) % SK_CL_KERNEL_CACHE;
			break;
		}
	}
	atomic_store_explicit(&sk_cl->kernels[target], handle | (uint64_t)name << HANDLE_BITS,
			      memory_order_relaxed);
}

static unsigned ask(cl_kernel kernel)
{
	char small[256], *name = small;
	size_t bytes = 0;
	unsigned row = 0;

	if (sk_cl_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, 0, NULL, &bytes) || !bytes)
		return 0;
	if (bytes > sizeof(small))
		name = malloc(bytes);
	if (name &&
	    !sk_cl_next.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, bytes, name, NULL)) {
		pthread_mutex_lock(&sk_cl->lock);
		row = sk_tracer_name(name);
		remember(kernel, row);
		pthread_mutex_unlock(&sk_cl->lock);
	}
	if (name != small)
		free(name);
	return row;
}

unsigned sk_cl_kernel_name(cl_kernel kernel)
{
	uint64_t handle = (uint64_t)(uintptr_t)kernel;
	size_t slot = slot_of(handle);

	for (size_t i = 0; i < SK_CL_PROBES; i++) {
		uint64_t entry = atomic_load_explicit(
			&sk_cl->kernels[(slot + i) % SK_CL_KERNEL_CACHE], memory_order_relaxed);

		if ((entry & HANDLE_MASK) == handle)
			return (unsigned)(entry >> HANDLE_BITS);
		if (!entry)
			break;
	}
	return ask(kernel);
}

static bool ready(void)
{
	return sk_tracer_ready();
}

static cl_kernel CL_API_CALL on_create(cl_program program, const char *name, cl_int *error)
{
	cl_kernel kernel = sk_cl_next.clCreateKernel(program, name, error);

	if (kernel && ready())
		ask(kernel);
	return kernel;
}

static cl_int CL_API_CALL on_create_all(cl_program program, cl_uint count, cl_kernel *kernels,
					cl_uint *count_ret)
{
	cl_uint made = 0;
	cl_int error = sk_cl_next.clCreateKernelsInProgram(program, count, kernels, &made);

	if (count_ret)
		*count_ret = made;
	for (cl_uint i = 0; !error && kernels && i < made && i < count && ready(); i++)
		ask(kernels[i]);
	return error;
}

static cl_kernel CL_API_CALL on_clone(cl_kernel source, cl_int *error)
{
	cl_kernel kernel = sk_cl_next.clCloneKernel(source, error);

	if (kernel && ready())
		ask(kernel);
	return kernel;
}

void sk_cl_kernel_hook(struct _cl_icd_dispatch *table)
{
	SK_CL_HOOK(table, clCreateKernel, on_create);
	SK_CL_HOOK(table, clCreateKernelsInProgram, on_create_all);
	SK_CL_HOOK(table, clCloneKernel, on_clone);
}
