// SPDX-License-Identifier: Apache-2.0
// The OpenCL side of `waits`: one kernel that lasts as long as it is asked to, and one copy. Their
// lengths are taken from the program's own profiling events.
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "waits.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const SOURCE =
	"__kernel void burn(__global float *x, int n) { float v = x[0];\n"
	"  for (int k = 0; k < n; k++) v = v * 0.999f + 0.5f; x[0] = v; }\n";

enum { COPY_MB_MAX = 64 };

static struct {
	cl_command_queue queue;
	cl_kernel kernel;
	cl_mem buffer;
	char *host;
	double per_ms; /* iterations */
	uint64_t launches;
	uint64_t kernel_ns;
	uint64_t copies;
	uint64_t copy_ns;
} device;

void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "waits: %s: %d\n", what, error);
	exit(1);
}

/* Device time of a finished command, whose event is let go. */
static uint64_t took(cl_event event)
{
	cl_ulong from, to;

	must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(from), &from, NULL),
	     "start");
	must(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(to), &to, NULL),
	     "end");
	clReleaseEvent(event);
	return to - from;
}

static uint64_t launch(int iterations)
{
	const size_t one = 1;
	cl_event event;

	must(clSetKernelArg(device.kernel, 1, sizeof(iterations), &iterations), "argument");
	must(clEnqueueNDRangeKernel(device.queue, device.kernel, 1, NULL, &one, NULL, 0, NULL,
				    &event),
	     "launch");
	must(clFinish(device.queue), "finish");
	uint64_t ns = took(event);

	device.launches++;
	device.kernel_ns += ns;
	return ns;
}

void device_kernel(double ms)
{
	launch((int)(ms * device.per_ms) + 1);
}

void device_copy(double megabytes)
{
	size_t bytes = (size_t)(megabytes * 1e6);
	cl_event event;

	must(bytes > (size_t)COPY_MB_MAX << 20, "copy too large");
	must(clEnqueueWriteBuffer(device.queue, device.buffer, CL_TRUE, 0, bytes, device.host, 0,
				  NULL, &event),
	     "copy");
	device.copies++;
	device.copy_ns += took(event);
}

void device_open(void)
{
	cl_platform_id platform;
	cl_device_id id;
	cl_int error;
	size_t bytes = (size_t)COPY_MB_MAX << 20;

	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL), "device");
	cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);

	must(error, "context");
	device.queue = clCreateCommandQueue(context, id, CL_QUEUE_PROFILING_ENABLE, &error);
	must(error, "queue");
	const char *source = SOURCE;
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);

	must(error, "program");
	must(clBuildProgram(program, 1, &id, "", NULL, NULL), "build");
	device.kernel = clCreateKernel(program, "burn", &error);
	must(error, "kernel");
	device.buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	must(error, "buffer");
	device.host = calloc(1, bytes);
	must(!device.host, "memory");
	must(clSetKernelArg(device.kernel, 0, sizeof(device.buffer), &device.buffer), "argument");
	launch(1);
	device.per_ms = 1e6 / ((double)launch(1 << 16) / (1 << 16));
}

void device_totals(uint64_t *launches, uint64_t *kernel_ns, uint64_t *copies, uint64_t *copy_ns)
{
	*launches = device.launches;
	*kernel_ns = device.kernel_ns;
	*copies = device.copies;
	*copy_ns = device.copy_ns;
}
