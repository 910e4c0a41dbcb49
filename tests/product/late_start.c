// SPDX-License-Identifier: Apache-2.0
// A job that gets hardly any CPU while it loads its driver: `late_start SECONDS` maps PoCL, waits
// for a CPU that rivals of its own take until that has cost SECONDS, and launches kernels then.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const SOURCE = "__kernel void add(__global uint *x) { x[0] += 1; }\n";

enum { RIVALS = 9, LAUNCHES = 50 };

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "late_start: %s: %d\n", what, error);
		exit(1);
	}
}

/* The time in which this thread has been ready and had no CPU. */
static double starved_s(void)
{
	unsigned long long ran, waited;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	must(!file || fscanf(file, "%llu %llu", &ran, &waited) != 2, "schedstat");
	fclose(file);
	return (double)waited / 1e9;
}

/* Share one CPU with processes that end with this one. */
static void meet_rivals(pid_t rivals[])
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	must(sched_setaffinity(0, sizeof(one), &one), "affinity");
	for (int i = 0; i < RIVALS; i++) {
		rivals[i] = fork();
		if (!rivals[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				;
		}
	}
}

/* The rivals begin before the driver is mapped, so that they have not mapped it themselves. */
static void load_starved(double seconds)
{
	pid_t rivals[RIVALS];
	cpu_set_t all;

	must(sched_getaffinity(0, sizeof(all), &all), "affinity");
	meet_rivals(rivals);
	must(!dlopen("libpocl.so.2", RTLD_LAZY), "no PoCL");
	for (double until = starved_s() + seconds; starved_s() < until;)
		;
	for (int i = 0; i < RIVALS; i++) {
		kill(rivals[i], SIGKILL);
		waitpid(rivals[i], NULL, 0);
	}
	must(sched_setaffinity(0, sizeof(all), &all), "affinity");
}

int main(int argc, char **argv)
{
	cl_platform_id platform;
	cl_device_id device;
	size_t one = 1;
	cl_int error;

	must(argc != 2, "arguments");
	load_starved(atof(argv[1]));
	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	must(error, "context");
	cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
	must(error, "queue");
	cl_program program =
		clCreateProgramWithSource(context, 1, (const char **)&SOURCE, NULL, &error);
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "program");
	cl_kernel kernel = clCreateKernel(program, "add", &error);
	cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 4, NULL, &error);
	must(clSetKernelArg(kernel, 0, sizeof(buffer), &buffer), "argument");
	for (int i = 0; i < LAUNCHES; i++) {
		must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL),
		     "launch");
		must(clFinish(queue), "finish");
		usleep(10000);
	}
	return 0;
}
