/* SPDX-License-Identifier: Apache-2.0 */
/* The entry of the simulated driver: how the loader finds it, and what platform and device answer.
 */
#include "sim.h"

#include "tracer/clock.h"

#include <stdlib.h>
#include <string.h>

struct _cl_icd_dispatch sim_dispatch;
struct _cl_platform_id sim_platform = {{&sim_dispatch, 1}};
struct _cl_device_id sim_device = {{&sim_dispatch, 1}};

uint64_t sim_now(void)
{
	return sk_tracer_clock_ns(CLOCK_MONOTONIC);
}

void *sim_make(size_t bytes)
{
	struct sim_object *object = calloc(1, bytes);

	if (object) {
		object->dispatch = &sim_dispatch;
		atomic_store_explicit(&object->references, 1, memory_order_relaxed);
	}
	return object;
}

bool sim_let_go(struct sim_object *object)
{
	/* The thread that releases the last reference sees everything that the others did. */
	return atomic_fetch_sub_explicit(&object->references, 1, memory_order_acq_rel) == 1;
}

cl_int sim_answer(const void *from, size_t bytes, size_t size, void *value, size_t *size_ret)
{
	if (value && size < bytes)
		return CL_INVALID_VALUE;
	if (value)
		memcpy(value, from, bytes);
	if (size_ret)
		*size_ret = bytes;
	return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t size, void *value, size_t *size_ret)
{
	return sim_answer(text, strlen(text) + 1, size, value, size_ret);
}

static cl_int CL_API_CALL platform_ids(cl_uint room, cl_platform_id *ret, cl_uint *count)
{
	if (ret && room)
		*ret = &sim_platform;
	if (count)
		*count = 1;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t size,
					void *value, size_t *size_ret)
{
	switch (what) {
	case CL_PLATFORM_PROFILE:
		return answer_text("FULL_PROFILE", size, value, size_ret);
	case CL_PLATFORM_VERSION:
		return answer_text("OpenCL 2.1 SIM", size, value, size_ret);
	case CL_PLATFORM_NAME:
	case CL_PLATFORM_VENDOR:
	case CL_PLATFORM_ICD_SUFFIX_KHR:
		return answer_text("SIM", size, value, size_ret);
	case CL_PLATFORM_EXTENSIONS:
		return answer_text("cl_khr_icd", size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
				     cl_device_id *ret, cl_uint *count)
{
	if (!(type & (CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_ACCELERATOR)))
		return CL_DEVICE_NOT_FOUND;
	if (ret && room)
		*ret = &sim_device;
	if (count)
		*count = 1;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id device, cl_device_info what, size_t size,
				      void *value, size_t *size_ret)
{
	const cl_device_type type = CL_DEVICE_TYPE_ACCELERATOR;
	const cl_platform_id platform = &sim_platform;
	const cl_device_id none = NULL;
	const cl_bool yes = CL_TRUE;
	const cl_uint one = 1;
	const size_t tick = 1;

	switch (what) {
	case CL_DEVICE_TYPE:
		return sim_answer(&type, sizeof(type), size, value, size_ret);
	case CL_DEVICE_PLATFORM:
		return sim_answer(&platform, sizeof(platform), size, value, size_ret);
	case CL_DEVICE_PARENT_DEVICE:
		return sim_answer(&none, sizeof(none), size, value, size_ret);
	case CL_DEVICE_AVAILABLE:
	case CL_DEVICE_COMPILER_AVAILABLE:
		return sim_answer(&yes, sizeof(yes), size, value, size_ret);
	case CL_DEVICE_MAX_COMPUTE_UNITS:
		return sim_answer(&one, sizeof(one), size, value, size_ret);
	case CL_DEVICE_PROFILING_TIMER_RESOLUTION:
		return sim_answer(&tick, sizeof(tick), size, value, size_ret);
	case CL_DEVICE_NAME:
		return answer_text("SIM device", size, value, size_ret);
	case CL_DEVICE_VENDOR:
		return answer_text("SIM", size, value, size_ret);
	case CL_DEVICE_VERSION:
		return answer_text("OpenCL 2.1 SIM", size, value, size_ret);
	case CL_DEVICE_EXTENSIONS:
		return answer_text("", size, value, size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static cl_int CL_API_CALL device_count_reference(cl_device_id device)
{
	return CL_SUCCESS; /* a root device has none */
}

static cl_int CL_API_CALL both_timers(cl_device_id device, cl_ulong *on_device, cl_ulong *on_host)
{
	*on_device = *on_host = sim_now();
	return CL_SUCCESS;
}

static cl_int CL_API_CALL host_timer(cl_device_id device, cl_ulong *on_host)
{
	*on_host = sim_now();
	return CL_SUCCESS;
}

static cl_int CL_API_CALL unsupported(void)
{
	return CL_INVALID_OPERATION;
}

static void *CL_API_CALL extension(const char *name);

void sim_fill_platform(struct _cl_icd_dispatch *table)
{
	table->clGetPlatformIDs = platform_ids;
	table->clGetPlatformInfo = platform_info;
	table->clGetDeviceIDs = device_ids;
	table->clGetDeviceInfo = device_info;
	table->clRetainDevice = device_count_reference;
	table->clReleaseDevice = device_count_reference;
	table->clGetDeviceAndHostTimer = both_timers;
	table->clGetHostTimer = host_timer;
	table->clGetExtensionFunctionAddress = extension;
}

__attribute__((constructor)) static void fill(void)
{
	cl_int(CL_API_CALL * none)(void) = unsupported;

	/* Every entry is a function pointer; entries that no file fills refuse the call. */
	for (size_t at = 0; at < sizeof(sim_dispatch); at += sizeof(none))
		memcpy((char *)&sim_dispatch + at, &none, sizeof(none));
	sim_fill_platform(&sim_dispatch);
	sim_fill_objects(&sim_dispatch);
	sim_fill_commands(&sim_dispatch);
}

static void *CL_API_CALL extension(const char *name)
{
	cl_int(CL_API_CALL * found)(cl_uint, cl_platform_id *, cl_uint *) = platform_ids;
	void *address;

	if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0)
		return NULL;
	memcpy(&address, &found, sizeof(address));
	return address;
}

__attribute__((visibility("default"))) void *CL_API_CALL
clGetExtensionFunctionAddress(const char *name)
{
	return extension(name);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clIcdGetPlatformIDsKHR(cl_uint room, cl_platform_id *ret, cl_uint *count)
{
	return platform_ids(room, ret, count);
}

/* The loader looks this function up by name, before it has a platform. */
__attribute__((visibility("default"))) cl_int CL_API_CALL clGetPlatformInfo(
	cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *size_ret)
{
	return platform_info(platform, what, size, value, size_ret);
}
