// SPDX-License-Identifier: Apache-2.0
// A job for the switching tests: `chain STOP` computes on its device in two threads, each with
// three queues (plain, profiled, out of order), until the file STOP exists, and checks every answer
// that a tracer could change: results, the order of dependent commands, an event's queue and its
// stamps. Prints "rounds <n> wrong <n>".
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const SOURCE = "__kernel void blend(__global uint *x) {\n"
				  "  size_t i = get_global_id(0);\n"
				  "  x[i] = x[i] * 1664525u + 1013904223u + (uint)i; }\n";

enum { ITEMS = 256, STEPS = 5, THREADS = 2 };
enum { PLAIN, PROFILED, UNORDERED, QUEUES };

struct worker {
	pthread_t thread;
	cl_command_queue queues[QUEUES];
	cl_kernel kernel;
	cl_mem front, back;
	unsigned long rounds, wrong;
};

static cl_context context;
static cl_device_id device;
static const char *stop;

static void must(cl_int error, const char *what)
{
	if (error) {
		fprintf(stderr, "chain: %s: %d\n", what, error);
		exit(1);
	}
}

static void expect(struct worker *worker, int holds, const char *what)
{
	if (!holds && worker->wrong++ < 5)
		fprintf(stderr, "chain: wrong: %s in round %lu\n", what, worker->rounds);
}

static void set_up(struct worker *worker, cl_program program)
{
	static const cl_command_queue_properties FLAGS[QUEUES] = {
		0, CL_QUEUE_PROFILING_ENABLE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE};
	size_t bytes = ITEMS * sizeof(cl_uint);
	cl_int error;

	for (int i = 0; i < QUEUES; i++) {
		worker->queues[i] = clCreateCommandQueue(context, device, FLAGS[i], &error);
		must(error, "queue");
	}
	worker->kernel = clCreateKernel(program, "blend", &error);
	must(error, "kernel");
	worker->front = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	must(error, "buffer");
	worker->back = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
	must(error, "buffer");
}

/* One step behind `after`, in whichever queue; takes the reference to `after`. */
static cl_event step(struct worker *worker, int queue, cl_event after)
{
	const size_t items = ITEMS;
	cl_event event;

	must(clEnqueueNDRangeKernel(worker->queues[queue], worker->kernel, 1, NULL, &items, NULL,
				    after ? 1 : 0, after ? &after : NULL, &event),
	     "launch");
	if (after)
		clReleaseEvent(after);
	clFlush(worker->queues[queue]);
	return event;
}

/* An event must report the queue, command and context that the application made it with. */
static void check_event(struct worker *worker, cl_event event, int queue)
{
	cl_command_queue said = NULL;
	cl_command_type type = 0;
	cl_ulong stamps[4] = {0};
	cl_int found = 0;

	clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(said), &said, NULL);
	expect(worker, said == worker->queues[queue], "the queue of an event");
	clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof(type), &type, NULL);
	expect(worker, type == CL_COMMAND_NDRANGE_KERNEL, "the type of an event");
	for (cl_uint i = 0; i < 4 && !found; i++)
		found = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_QUEUED + i,
						sizeof(stamps[i]), &stamps[i], NULL);
	if (queue != PROFILED)
		expect(worker, found == CL_PROFILING_INFO_NOT_AVAILABLE, "stamps nobody asked for");
	else
		expect(worker,
		       !found && stamps[0] <= stamps[1] && stamps[1] <= stamps[2] &&
			       stamps[2] <= stamps[3] && stamps[0],
		       "stamps");
}

static void run_steps(struct worker *worker, cl_uint seed, cl_uint got[ITEMS])
{
	static const int ORDER[STEPS] = {PLAIN, PROFILED, UNORDERED, PLAIN, UNORDERED};
	size_t bytes = ITEMS * sizeof(cl_uint);
	cl_event event = NULL, copied;

	must(clSetKernelArg(worker->kernel, 0, sizeof(cl_mem), &worker->front), "argument");
	for (int i = 0; i < ITEMS; i++)
		got[i] = seed + (cl_uint)i;
	must(clEnqueueWriteBuffer(worker->queues[PLAIN], worker->front, CL_FALSE, 0, bytes, got, 0,
				  NULL, &event),
	     "write");
	for (int i = 0; i < STEPS; i++)
		event = step(worker, ORDER[i], event);
	must(clEnqueueCopyBuffer(worker->queues[PROFILED], worker->front, worker->back, 0, 0, bytes,
				 1, &event, &copied),
	     "copy");
	must(clEnqueueReadBuffer(worker->queues[UNORDERED], worker->back, CL_TRUE, 0, bytes, got, 1,
				 &copied, NULL),
	     "read");
	check_event(worker, event, UNORDERED);
	clReleaseEvent(event);
	clReleaseEvent(copied);
}

/* In one queue order alone is what keeps the steps apart. */
static void run_in_order(struct worker *worker, int queue, cl_uint got[ITEMS])
{
	const size_t items = ITEMS;
	cl_event last;

	for (int i = 0; i < STEPS; i++)
		must(clEnqueueNDRangeKernel(worker->queues[queue], worker->kernel, 1, NULL, &items,
					    NULL, 0, NULL, i == STEPS - 1 ? &last : NULL),
		     "launch");
	must(clEnqueueReadBuffer(worker->queues[queue], worker->front, CL_FALSE, 0,
				 ITEMS * sizeof(cl_uint), got, 0, NULL, NULL),
	     "read");
	must(clFinish(worker->queues[queue]), "finish");
	check_event(worker, last, queue);
	clReleaseEvent(last);
}

static int is_right(const cl_uint got[ITEMS], cl_uint seed, int steps)
{
	for (cl_uint i = 0; i < ITEMS; i++) {
		cl_uint x = seed + i;

		for (int step = 0; step < steps; step++)
			x = x * 1664525u + 1013904223u + i;
		if (x != got[i])
			return 0;
	}
	return 1;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	cl_uint got[ITEMS];

	for (; access(stop, F_OK); worker->rounds++) {
		cl_uint seed = (cl_uint)worker->rounds * 2654435761u;

		run_steps(worker, seed, got);
		expect(worker, is_right(got, seed, STEPS), "steps kept apart by events");
		run_in_order(worker, worker->rounds % 2 ? PLAIN : PROFILED, got);
		expect(worker, is_right(got, seed, 2 * STEPS), "steps kept apart by a queue");
		usleep(300);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS];
	unsigned long rounds = 0, wrong = 0;
	cl_platform_id platform;
	cl_int error;

	stop = argc > 1 ? argv[1] : "stop";
	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	must(error, "context");
	const char *source = SOURCE;
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);

	must(error, "program");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
	for (int i = 0; i < THREADS; i++)
		set_up(&workers[i], program);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		rounds += workers[i].rounds;
		wrong += workers[i].wrong;
	}
	printf("rounds %lu wrong %lu\n", rounds, wrong);
	return wrong != 0;
}
