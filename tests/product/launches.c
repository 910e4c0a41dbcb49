// SPDX-License-Identifier: Apache-2.0
// A job for the tracing tests: `launches LONG SHORT [PAUSE_US]` launches two kernels, LONG times
// `grind` and SHORT times `touch`, in turn, and prints "grind <count> <ns>" and "touch <count>
// <ns>" from its own profiling events: what a trace of it must say as well. With `forever` as
// fourth word it goes on launching `touch` after "ready" until it is killed.
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const SOURCE =
	"__kernel void grind(__global float *x) { size_t i = get_global_id(0); float v = x[i];\n"
	"  for (int k = 0; k < 2000; k++) v = v * 0.999f + 0.5f; x[i] = v; }\n"
	"__kernel void touch(__global float *x) { size_t i = get_global_id(0);\n"
	"  float v = x[i]; for (int k = 0; k < 300; k++) v = v * 0.5f + 1.0f; x[i] = v; }\n";
static const size_t ITEMS = 2048;

struct side {
	const char *name;
	cl_kernel kernel;
	long count;
	unsigned long long ns;
};

static void must(cl_int error, const char *what)
{
	if (error) {
		fprintf(stderr, "launches: %s: %d\n", what, error);
		exit(1);
	}
}

static void launch(cl_command_queue queue, struct side *side)
{
	cl_event event;
	cl_ulong from, to;
	must(clEnqueueNDRangeKernel(queue, side->kernel, 1, NULL, &ITEMS, NULL, 0, NULL, &event),
	     "launch");
	must(clWaitForEvents(1, &event), "wait");
	clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(from), &from, NULL);
	clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(to), &to, NULL);
	clReleaseEvent(event);
	side->count++;
	side->ns += to - from;
}

int main(int argc, char **argv)
{
	cl_platform_id platform;
	cl_device_id device;
	cl_int error;
	long wanted[2] = {argc > 1 ? atol(argv[1]) : 1, argc > 2 ? atol(argv[2]) : 1};
	long pause_us = argc > 3 ? atol(argv[3]) : 0;
	struct side sides[2] = {{.name = "grind"}, {.name = "touch"}};

	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	must(error, "context");
	cl_command_queue queue =
		clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &error);
	must(error, "queue");
	const char *source = SOURCE;
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
	must(error, "program");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
	cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof(float), NULL, &error);
	must(error, "buffer");
	for (int i = 0; i < 2; i++) {
		sides[i].kernel = clCreateKernel(program, sides[i].name, &error);
		must(error, "kernel");
		clSetKernelArg(sides[i].kernel, 0, sizeof(x), &x);
	}
	for (long done = 0; sides[0].count < wanted[0] || sides[1].count < wanted[1]; done++) {
		if (sides[done % 2].count < wanted[done % 2])
			launch(queue, &sides[done % 2]);
		if (pause_us)
			usleep((useconds_t)pause_us);
	}
	for (int i = 0; i < 2; i++)
		printf("%s %ld %llu\n", sides[i].name, sides[i].count, sides[i].ns);
	fflush(stdout);
	if (argc > 4 && !strcmp(argv[4], "forever")) {
		printf("ready\n");
		fflush(stdout);
		for (;;) {
			launch(queue, &sides[1]);
			usleep(1000);
		}
	}
	return 0;
}
