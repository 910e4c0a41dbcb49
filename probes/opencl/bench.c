/* SPDX-License-Identifier: Apache-2.0 */
/* stoker-bench-opencl: a closed loop of kernel launches, to be run with and without the tracer.
 *
 * It makes one launch at a time: it enqueues a kernel and waits until that has finished. The kernel
 * spins for a given number of iterations. What counts is the time of short slices of the whole
 * loop.
 *
 *     stoker-bench-opencl serve    reads lines "ITERATIONS LAUNCHES VARIED WARM SLICES" until its
 * input ends
 *     stoker-bench-opencl serve-alone    does so without a second thread
 *
 * The program has a second thread, which sleeps, because every runtime of a GPU and PoCL's default
 * device start some. glibc takes its locks without atomic instructions while a process has one
 * thread, so the first thread that anybody starts, here the tracer, makes each lock dearer.
 *
 * For each line it launches WARM slices unmeasured, then SLICES, and prints {"wall_ns", "cpu_ns",
 * "iterations"} for each of these; the first line of output includes the warm slices. Launches have
 * no events and no profiling, so a tracer has to bring its own.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "tracer/clock.h"

#include <CL/cl.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char SOURCE[] = "__kernel void spin(__global float *a, int n) {\n"
			     "	float x = a[0];\n"
			     "	for (int i = 0; i < n; i++) x = x * 1.0001f + 0.1f;\n"
			     "	a[0] = x; }\n";

static struct {
	cl_command_queue queue;
	cl_kernel kernel;
} device;

static void must(cl_int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "stoker-bench-opencl: %s failed with %d\n", what, error);
	exit(1);
}

static void prepare(void)
{
	const char *source = SOURCE;
	cl_platform_id platform;
	cl_device_id id;
	cl_int error;

	must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL), "clGetDeviceIDs");
	cl_context context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);

	must(error, "clCreateContext");
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);

	must(error, "clCreateProgramWithSource");
	must(clBuildProgram(program, 1, &id, "", NULL, NULL), "clBuildProgram");
	device.queue = clCreateCommandQueue(context, id, 0, &error);
	must(error, "clCreateCommandQueue");
	device.kernel = clCreateKernel(program, "spin", &error);
	must(error, "clCreateKernel");
	cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);

	must(error, "clCreateBuffer");
	must(clSetKernelArg(device.kernel, 0, sizeof(buffer), &buffer), "clSetKernelArg");
}

static void launch(void)
{
	const size_t one = 1;

	must(clEnqueueNDRangeKernel(device.queue, device.kernel, 1, NULL, &one, &one, 0, NULL,
				    NULL),
	     "launch");
	must(clFinish(device.queue), "clFinish");
}

/* The lengths go from a quarter to four times the given one, in an order without a short period. */
static int varied(int iterations)
{
	static const int EIGHTHS[8] = {2, 2, 2, 4, 4, 8, 10, 32}; /* the mean is 8 */
	static uint64_t state = 88172645463325252u;

	state ^= state << 13; /* Marsaglia, Xorshift RNGs, 2003 */
	state ^= state >> 7;
	state ^= state << 17;
	return (int)((int64_t)iterations * EIGHTHS[state >> 61] / 8);
}

/* Make LAUNCHES in a row and return their iterations. */
static uint64_t launch_many(int iterations, int launches, int vary)
{
	uint64_t done = 0;

	for (int i = 0; i < launches; i++) {
		int length = vary ? varied(iterations) : iterations;

		if (vary)
			must(clSetKernelArg(device.kernel, 1, sizeof(length), &length),
			     "clSetKernelArg");
		launch();
		done += (uint64_t)length;
	}
	return done;
}

/* At least the first tenth of a slice is not measured, so that caches and clocks are warm. */
static void serve_one(int iterations, int launches, int vary, int warm, int slices)
{
	must(clSetKernelArg(device.kernel, 1, sizeof(iterations), &iterations), "clSetKernelArg");
	uint64_t done = launch_many(iterations, launches / 10 + 1 + warm * launches, vary);

	for (int i = 0; i < slices; i++) {
		uint64_t cpu = sk_tracer_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		uint64_t from = sk_tracer_clock_ns(CLOCK_MONOTONIC);

		done += launch_many(iterations, launches, vary);
		uint64_t to = sk_tracer_clock_ns(CLOCK_MONOTONIC);

		printf("{\"wall_ns\": %llu, \"cpu_ns\": %llu, \"iterations\": %llu}\n",
		       (unsigned long long)(to - from),
		       (unsigned long long)(sk_tracer_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu),
		       (unsigned long long)done);
		done = 0;
	}
	fflush(stdout);
}

static int serve(void)
{
	int iterations, launches, vary, warm, slices;

	while (scanf("%d %d %d %d %d", &iterations, &launches, &vary, &warm, &slices) == 5)
		serve_one(iterations, launches, vary, warm, slices);
	return 0;
}

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void start_second_thread(void)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, sleep_on, NULL), "pthread_create");
}

int main(int argc, char **argv)
{
	bool alone = argc == 2 && !strcmp(argv[1], "serve-alone");

	if (argc != 2 || (!alone && strcmp(argv[1], "serve"))) {
		fprintf(stderr, "usage: stoker-bench-opencl serve | serve-alone\n");
		return 2;
	}
	if (!alone)
		start_second_thread();
	prepare();
	return serve();
}
