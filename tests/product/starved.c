// SPDX-License-Identifier: Apache-2.0
// A job that becomes starved of CPU: `starved FLAG` sleeps 20 ms before each of its kernels. From
// the moment when the file FLAG exists, it works for 20 ms of CPU time instead, and its launching
// thread shares one CPU with three processes of the job that only compute.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const char *const SOURCE = "__kernel void add(__global uint *x) { x[0] += 1; }\n";

enum { RIVALS = 3, WORK_NS = 20000000 };

static void must(cl_int error, const char *what)
{
	if (error) {
		fprintf(stderr, "starved: %s: %d\n", what, error);
		exit(1);
	}
}

/* Work until this thread itself has had WORK_NS of a CPU. */
static void work(void)
{
	struct timespec now;
	long long from = -1, at;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		at = now.tv_sec * 1000000000LL + now.tv_nsec;
		if (from < 0)
			from = at;
	} while (at - from < WORK_NS);
}

/* Share one CPU with processes that end with this one. */
static void meet_rivals(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		must(1, "affinity");
	for (int i = 0; i < RIVALS; i++) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				;
		}
	}
}

int main(int argc, char **argv)
{
	size_t items = 1;
	int met = 0;
	cl_platform_id platform;
	cl_device_id device;
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem buffer;
	cl_int error;

	if (argc != 2)
		must(1, "arguments");
	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	must(error, "context");
	queue = clCreateCommandQueue(context, device, 0, &error);
	must(error, "queue");
	program = clCreateProgramWithSource(context, 1, (const char **)&SOURCE, NULL, &error);
	must(error, "program");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
	kernel = clCreateKernel(program, "add", &error);
	must(error, "kernel");
	buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &error);
	must(error, "buffer");
	must(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer), "argument");
	for (;;) {
		if (met)
			work();
		else
			usleep(WORK_NS / 1000);
		must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
		     "launch");
		must(clFinish(queue), "finish");
		if (!met && !access(argv[1], F_OK)) {
			meet_rivals();
			met = 1;
		}
	}
}
