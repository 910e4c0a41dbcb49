/* SPDX-License-Identifier: Apache-2.0 */
/* stoker-demo-opencl: a small OpenCL program to look at: three kernels of different length, copies,
 * a host that computes and sleeps in between, on as many threads and queues as asked.
 *
 * It knows nothing of stoker. With --json it ends with what its own profiling events add up to,
 * which is what a trace of it can be compared with. Without --json it does not ask for profiling.
 *
 *     stoker-demo-opencl [--rounds N] [--threads N] [--queues N] [--elements N] [--launches N]
 *                        [--pause-us N] [--json]
 *
 * --launches N: instead of rounds, N launches of the shortest kernel in each thread.
 * Takes the first GPU, else the first device. Exit status: 0, 1 on a wrong result or error.
 */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, QUEUES = 8, EVENTS = 256, NAMES = 6, PLATFORMS = 16 };

enum name { SAXPY, SMOOTH, NORM, WRITE, READ, FILL };

static const char *const NAME[NAMES] = {"saxpy", "smooth", "norm", "write", "read", "fill"};

static const char SOURCE[] =
	"__kernel void saxpy(float a, __global const float *x, __global float *y) {\n"
	"	size_t i = get_global_id(0); y[i] = a * x[i] + y[i]; }\n"
	"__kernel void smooth(__global const float *x, __global float *y) {\n"
	"	size_t i = get_global_id(0), n = get_global_size(0); float sum = 0;\n"
	"	for (int k = -16; k <= 16; k++) sum += x[(i + n + k) % n];\n"
	"	y[i] = sum / 33; }\n"
	"__kernel void norm(__global const float *x, __global float *y, int rounds) {\n"
	"	size_t i = get_global_id(0); float v = x[i];\n"
	"	for (int k = 0; k < rounds; k++) v = sqrt(v * v + 1e-6f);\n"
	"	y[i] = v; }\n";

static struct {
	int rounds, threads, queues, elements, launches, pause_us;
	bool json;
} ask = {.rounds = 40, .threads = 1, .queues = 1, .elements = 65536, .pause_us = 2000};

/* One per thread; everything in it is used by that thread alone. */
struct worker {
	pthread_t thread;
	cl_context context;
	cl_program program;
	cl_command_queue queues[QUEUES];
	cl_kernel kernels[3];
	cl_mem x, y;
	float *host;
	cl_event events[EVENTS];
	enum name names[EVENTS];
	int used, launched;
	long long count[NAMES], ns[NAMES];
	bool wrong;
};

static void must(cl_int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "stoker-demo-opencl: %s failed with %d\n", what, error);
	exit(1);
}

/* Give the event of the next launch a place, or none unless totals were asked for. */
static cl_event *event_for(struct worker *worker, enum name name)
{
	worker->count[name]++;
	if (!ask.json)
		return NULL;
	worker->names[worker->used] = name;
	return &worker->events[worker->used++];
}

static cl_command_queue next_queue(struct worker *worker)
{
	return worker->queues[worker->launched++ % ask.queues];
}

/* Wait for everything and add up the events. */
static void settle(struct worker *worker)
{
	for (int i = 0; i < ask.queues; i++)
		must(clFinish(worker->queues[i]), "clFinish");
	for (int i = 0; i < worker->used; i++) {
		cl_ulong from = 0, to = 0;

		must(clGetEventProfilingInfo(worker->events[i], CL_PROFILING_COMMAND_START,
					     sizeof(from), &from, NULL),
		     "profiling");
		must(clGetEventProfilingInfo(worker->events[i], CL_PROFILING_COMMAND_END,
					     sizeof(to), &to, NULL),
		     "profiling");
		worker->ns[worker->names[i]] += (long long)(to - from);
		clReleaseEvent(worker->events[i]);
	}
	worker->used = 0;
}

static void run_kernel(struct worker *worker, enum name name, size_t elements)
{
	cl_command_queue queue = next_queue(worker);

	if (worker->used == EVENTS)
		settle(worker);
	must(clEnqueueNDRangeKernel(queue, worker->kernels[name], 1, NULL, &elements, NULL, 0, NULL,
				    event_for(worker, name)),
	     NAME[name]);
}

static void set_arguments(struct worker *worker)
{
	float factor = 0.5f;
	int rounds = 40;

	clSetKernelArg(worker->kernels[SAXPY], 0, sizeof(factor), &factor);
	clSetKernelArg(worker->kernels[SAXPY], 1, sizeof(cl_mem), &worker->x);
	clSetKernelArg(worker->kernels[SAXPY], 2, sizeof(cl_mem), &worker->y);
	clSetKernelArg(worker->kernels[SMOOTH], 0, sizeof(cl_mem), &worker->y);
	clSetKernelArg(worker->kernels[SMOOTH], 1, sizeof(cl_mem), &worker->x);
	clSetKernelArg(worker->kernels[NORM], 0, sizeof(cl_mem), &worker->x);
	clSetKernelArg(worker->kernels[NORM], 1, sizeof(cl_mem), &worker->y);
	clSetKernelArg(worker->kernels[NORM], 2, sizeof(rounds), &rounds);
}

/* y = 0.5 x + 0 of known x, read back and compared. */
static void check_result(struct worker *worker, size_t bytes)
{
	const float zero = 0;
	cl_command_queue queue = worker->queues[0];

	for (int i = 0; i < ask.elements; i++)
		worker->host[i] = (float)(i % 1000);
	must(clEnqueueWriteBuffer(queue, worker->x, CL_TRUE, 0, bytes, worker->host, 0, NULL,
				  event_for(worker, WRITE)),
	     "write");
	must(clEnqueueFillBuffer(queue, worker->y, &zero, sizeof(zero), 0, bytes, 0, NULL,
				 event_for(worker, FILL)),
	     "fill");
	worker->launched = 0; /* the same queue again */
	run_kernel(worker, SAXPY, (size_t)ask.elements);
	must(clEnqueueReadBuffer(queue, worker->y, CL_TRUE, 0, bytes, worker->host, 0, NULL,
				 event_for(worker, READ)),
	     "read");
	for (int i = 0; i < ask.elements; i++)
		worker->wrong |= fabsf(worker->host[i] - 0.5f * (float)(i % 1000)) > 1e-3f;
	settle(worker);
}

/* Stands for a host's work between launches: computes for a while, then sleeps. */
static void be_a_host(struct worker *worker)
{
	struct timespec pause = {0, ask.pause_us * 1000L};

	for (int i = 1; i < ask.elements; i++)
		worker->host[i] = worker->host[i - 1] * 0.5f + worker->host[i] * 0.5f;
	if (ask.pause_us)
		nanosleep(&pause, NULL);
}

static void run_round(struct worker *worker, size_t bytes)
{
	check_result(worker, bytes);
	for (int i = 0; i < 8; i++)
		run_kernel(worker, SAXPY, (size_t)ask.elements);
	for (int i = 0; i < 4; i++)
		run_kernel(worker, SMOOTH, (size_t)ask.elements);
	run_kernel(worker, NORM, (size_t)ask.elements);
	settle(worker);
	be_a_host(worker);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	size_t bytes = (size_t)ask.elements * sizeof(float);

	for (int i = 0; i < ask.launches; i++)
		run_kernel(worker, SAXPY, 64);
	for (int i = 0; i < ask.rounds && !ask.launches; i++)
		run_round(worker, bytes);
	settle(worker);
	return NULL;
}

static void prepare(struct worker *worker, cl_context context, cl_device_id device,
		    cl_program program)
{
	size_t bytes = (size_t)ask.elements * sizeof(float);
	cl_int error = CL_SUCCESS;

	for (int i = 0; i < ask.queues; i++) {
		worker->queues[i] = clCreateCommandQueue(
			context, device, ask.json ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
		must(error, "clCreateCommandQueue");
	}
	for (int i = 0; i < 3; i++) {
		worker->kernels[i] = clCreateKernel(program, NAME[i], &error);
		must(error, "clCreateKernel");
	}
	worker->x = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	must(error, "clCreateBuffer");
	worker->y = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	must(error, "clCreateBuffer");
	worker->host = calloc((size_t)ask.elements, sizeof(float));
	set_arguments(worker);
}

static cl_device_id find_device(void)
{
	cl_platform_id platforms[PLATFORMS];
	cl_uint count = 0;
	cl_device_id device;

	if (clGetPlatformIDs(PLATFORMS, platforms, &count))
		count = 0;
	count = count < PLATFORMS ? count : PLATFORMS;
	for (cl_uint i = 0; i < count; i++)
		if (!clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL))
			return device;
	for (cl_uint i = 0; i < count; i++)
		if (!clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL))
			return device;
	must(CL_DEVICE_NOT_FOUND, "finding an OpenCL device");
	return NULL;
}

static void print_totals(const struct worker *workers, cl_device_id device)
{
	char name[256] = "";

	clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof(name) - 1, name, NULL);
	printf("{\"device\": \"%s\"", name);
	for (int kind = 0; kind < NAMES; kind++) {
		long long count = 0, ns = 0;

		for (int i = 0; i < ask.threads; i++) {
			count += workers[i].count[kind];
			ns += workers[i].ns[kind];
		}
		printf(", \"%s\": {\"count\": %lld, \"total_ns\": %lld}", NAME[kind], count, ns);
	}
	printf("}\n");
}

static int *option(const char *text)
{
	static const struct {
		const char *name;
		int *value;
	} OPTIONS[] = {
		{"--rounds", &ask.rounds},     {"--threads", &ask.threads},
		{"--queues", &ask.queues},     {"--elements", &ask.elements},
		{"--launches", &ask.launches}, {"--pause-us", &ask.pause_us},
	};

	for (size_t i = 0; i < sizeof(OPTIONS) / sizeof(OPTIONS[0]); i++)
		if (!strcmp(text, OPTIONS[i].name))
			return OPTIONS[i].value;
	return NULL;
}

static bool parse(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		int *value = option(argv[i]);

		if (!strcmp(argv[i], "--json"))
			ask.json = true;
		else if (value && i + 1 < argc)
			*value = atoi(argv[++i]);
		else
			return false;
	}
	return ask.threads >= 1 && ask.threads <= THREADS && ask.queues >= 1 &&
	       ask.queues <= QUEUES && ask.elements >= 64;
}

static int run_all(struct worker *workers, cl_device_id device)
{
	const char *source = SOURCE;
	cl_int error;
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);

	must(error, "clCreateContext");
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);

	must(error, "clCreateProgramWithSource");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
	for (int i = 0; i < ask.threads; i++)
		prepare(&workers[i], context, device, program);
	for (int i = 1; i < ask.threads; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	work(&workers[0]);
	bool wrong = workers[0].wrong;

	for (int i = 1; i < ask.threads; i++) {
		pthread_join(workers[i].thread, NULL);
		wrong |= workers[i].wrong;
	}
	if (ask.json)
		print_totals(workers, device);
	if (wrong)
		fprintf(stderr, "stoker-demo-opencl: wrong result\n");
	return wrong;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];

	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: stoker-demo-opencl [--rounds N] [--threads 1-16] "
				"[--queues 1-8] [--elements N] [--launches N] [--pause-us N] "
				"[--json]\n");
		return 2;
	}
	return run_all(workers, find_device());
}
