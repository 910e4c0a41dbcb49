// SPDX-License-Identifier: Apache-2.0
// The OpenCL side of `launches`: one kernel that lasts as long as it is asked to, and when it ran,
// by the program's own profiling events.
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "launches.h"

#include <stdatomic.h>
#include <stdlib.h>

static const char *const SOURCE =
	"__kernel void burn(__global float *x, int n) { float v = x[0];\n"
	"  for (int k = 0; k < n; k++) v = v * 0.999f + 0.5f; x[0] = v; }\n";

enum { LAUNCHES_MAX = 1 << 14 };

struct stretch {
	cl_ulong from, to;
};

static struct {
	cl_command_queue queue;
	cl_program program;
	cl_mem buffer;
	double per_ms; /* iterations */
	_Atomic unsigned done;
	struct stretch stretches[LAUNCHES_MAX];
} device = {.per_ms = 1};

cl_kernel device_kernel(void)
{
	cl_int error;
	cl_kernel kernel = clCreateKernel(device.program, "burn", &error);

	must(error, "kernel");
	must(clSetKernelArg(kernel, 0, sizeof(device.buffer), &device.buffer), "argument");
	return kernel;
}

cl_event device_launch(cl_kernel kernel, double ms, cl_uint waits, const cl_event *wait)
{
	const size_t one = 1;
	int iterations = (int)(ms * device.per_ms) + 1;
	cl_event event;

	must(clSetKernelArg(kernel, 1, sizeof(iterations), &iterations), "argument");
	must(clEnqueueNDRangeKernel(device.queue, kernel, 1, NULL, &one, NULL, waits, wait, &event),
	     "launch");
	return event;
}

void device_flush(void)
{
	must(clFlush(device.queue), "flush");
}

void device_finish(void)
{
	must(clFinish(device.queue), "finish");
}

static cl_ulong stamp(cl_event event, cl_profiling_info what)
{
	cl_ulong ns;

	must(clGetEventProfilingInfo(event, what, sizeof(ns), &ns, NULL), "stamp");
	return ns;
}

void device_done(cl_event event)
{
	unsigned row = device.done++;

	must(row >= LAUNCHES_MAX, "room for launches");
	device.stretches[row] = (struct stretch){stamp(event, CL_PROFILING_COMMAND_START),
						 stamp(event, CL_PROFILING_COMMAND_END)};
	clReleaseEvent(event);
}

static int by_start(const void *left, const void *right)
{
	const struct stretch *a = left, *b = right;

	return (a->from > b->from) - (a->from < b->from);
}

uint64_t device_launches(void)
{
	return device.done;
}

uint64_t device_busy_ns(void)
{
	uint64_t busy = 0, end = 0;

	qsort(device.stretches, device.done, sizeof(device.stretches[0]), by_start);
	for (unsigned row = 0; row < device.done; row++) {
		uint64_t from = device.stretches[row].from, to = device.stretches[row].to;

		from = from > end ? from : end;
		busy += to > from ? to - from : 0;
		end = to > end ? to : end;
	}
	return busy;
}

static void open_program(cl_context context, cl_device_id id)
{
	const char *source = SOURCE;
	cl_int error;

	device.program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
	must(error, "program");
	must(clBuildProgram(device.program, 1, &id, "", NULL, NULL), "build");
}

/* The second launch tells how long an iteration takes. */
static void measure(void)
{
	cl_kernel kernel = device_kernel();

	for (int i = 0; i < 2; i++) {
		cl_event event = device_launch(kernel, 1 << 16, 0, NULL);

		device_finish();
		device_done(event);
	}
	device.per_ms = 65536e6 / (double)(device.stretches[1].to - device.stretches[1].from);
	clReleaseKernel(kernel);
}

void device_open(void)
{
	cl_platform_id platform;
	cl_device_id id;
	cl_int error;

	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL), "device");
	cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);

	must(error, "context");
	device.queue = clCreateCommandQueue(
		context, id, CL_QUEUE_PROFILING_ENABLE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
		&error);
	must(error, "queue");
	open_program(context, id);
	device.buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
	must(error, "buffer");
	measure();
}
