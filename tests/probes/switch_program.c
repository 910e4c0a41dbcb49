/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL program whose results show every command that ran out of order, twice or not at all.
 *
 * Threads work on queues in order and out of order, shared and their own, with events, barriers,
 * user events that hold commands up, copies, and queues that come and go. Each command is a step of
 * a sequence that is computed on the host as well, so the results are known whatever the number of
 * rounds. It runs until its standard input ends, or for the rounds that are asked for, and prints
 * a hash of the buffers as they were after SHOWN rounds; exit status 0 when all results were right.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 64, THREADS = 3, SEQUENCES = 6, SHOWN = 50 };

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const char SOURCE[] = "__kernel void advance(__global uint *a, uint k) {\n"
			     "	size_t i = get_global_id(0);\n"
			     "	a[i] = a[i] * 1664525u + k + (uint)i; }\n";

static cl_device_id device;
static cl_context context;
static cl_program program;
static cl_command_queue shared, shared_unordered;
static atomic_int over;
static int rounds_asked;
static uint64_t shown[THREADS];

/* A buffer of the device and what must be in it. */
struct sequence {
	cl_mem buffer;
	cl_kernel kernel;
	uint32_t expected[WORDS];
	uint32_t steps;
};

static struct sequence all[THREADS][SEQUENCES];

static cl_command_queue make_queue(cl_command_queue_properties flags)
{
	const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, flags, 0};
	cl_int error;
	cl_command_queue queue =
		clCreateCommandQueueWithProperties(context, device, properties, &error);

	CHECK(!error);
	return queue;
}

static void prepare(void)
{
	const char *source = SOURCE;
	cl_platform_id platform;
	cl_int error;

	CHECK(!clGetPlatformIDs(1, &platform, NULL));
	CHECK(!clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	CHECK(!error);
	program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
	CHECK(!error);
	CHECK(!clBuildProgram(program, 1, &device, "", NULL, NULL));
	shared = make_queue(0);
	shared_unordered = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
}

static void make_sequence(struct sequence *sequence)
{
	cl_int error;

	memset(sequence, 0, sizeof(*sequence));
	sequence->buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
					  sizeof(sequence->expected), sequence->expected, &error);
	CHECK(!error);
	sequence->kernel = clCreateKernel(program, "advance", &error);
	CHECK(!error);
	CHECK(!clSetKernelArg(sequence->kernel, 0, sizeof(cl_mem), &sequence->buffer));
}

/* The next step, to be run after the events in `wait` and what else the queue orders. */
static void step(struct sequence *sequence, cl_command_queue queue, cl_uint waits,
		 const cl_event *wait, cl_event *event)
{
	const size_t words = WORDS;
	cl_uint k = ++sequence->steps;

	for (uint32_t i = 0; i < WORDS; i++)
		sequence->expected[i] = sequence->expected[i] * 1664525u + k + i;
	CHECK(!clSetKernelArg(sequence->kernel, 1, sizeof(k), &k));
	CHECK(!clEnqueueNDRangeKernel(queue, sequence->kernel, 1, NULL, &words, NULL, waits, wait,
				      event));
}

static void compare(struct sequence *sequence, cl_command_queue queue)
{
	uint32_t found[WORDS];

	CHECK(!clEnqueueReadBuffer(queue, sequence->buffer, CL_TRUE, 0, sizeof(found), found, 0,
				   NULL, NULL));
	if (memcmp(found, sequence->expected, sizeof(found))) {
		fprintf(stderr, "sequence %d of thread %d is wrong after %u steps\n",
			(int)((sequence - all[0]) % SEQUENCES),
			(int)((sequence - all[0]) / SEQUENCES), sequence->steps);
		exit(1);
	}
}

/* All threads use one queue in order: each thread's commands keep their order. */
static void in_order(struct sequence *sequence, cl_command_queue queue)
{
	cl_event event;
	cl_command_queue of = NULL;

	for (int i = 0; i < 5; i++)
		step(sequence, queue, 0, NULL, NULL);
	step(sequence, queue, 0, NULL, &event);
	CHECK(!clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(of), &of, NULL));
	CHECK(of == queue);
	for (int i = 0; i < 5; i++)
		step(sequence, queue, 0, NULL, NULL);
	CHECK(!clReleaseEvent(event));
	compare(sequence, queue);
}

/* Commands that a user event holds up, and more behind them, before it is set. */
static void held_up(struct sequence *sequence, cl_command_queue queue)
{
	cl_int error;
	cl_event gate = clCreateUserEvent(context, &error);

	CHECK(!error);
	step(sequence, queue, 1, &gate, NULL);
	for (int i = 0; i < 3; i++)
		step(sequence, queue, 0, NULL, NULL);
	CHECK(!clFlush(queue));
	if (sequence->steps % 7 == 0)
		usleep(1000);
	for (int i = 0; i < 3; i++)
		step(sequence, queue, 0, NULL, NULL);
	CHECK(!clSetUserEventStatus(gate, CL_COMPLETE));
	CHECK(!clReleaseEvent(gate));
	CHECK(!clFinish(queue));
	compare(sequence, queue);
}

/* The queue is out of order: events alone make the order. */
static void by_events(struct sequence *sequence, cl_command_queue queue)
{
	cl_event before = NULL, after;

	for (int i = 0; i < 6; i++) {
		step(sequence, queue, before ? 1 : 0, before ? &before : NULL, &after);
		if (before)
			CHECK(!clReleaseEvent(before));
		before = after;
	}
	CHECK(!clWaitForEvents(1, &before));
	CHECK(!clReleaseEvent(before));
	compare(sequence, queue);
}

/* The queue is out of order: barriers alone make the order, of all kinds. */
static void by_barriers(struct sequence *sequence, cl_command_queue queue)
{
	cl_event event;

	for (int i = 0; i < 3; i++) {
		step(sequence, queue, 0, NULL, NULL);
		CHECK(!clEnqueueBarrierWithWaitList(queue, 0, NULL, NULL));
		step(sequence, queue, 0, NULL, &event);
		CHECK(!clEnqueueBarrierWithWaitList(queue, 1, &event, NULL));
		CHECK(!clReleaseEvent(event));
		step(sequence, queue, 0, NULL, NULL);
		CHECK(!clEnqueueMarkerWithWaitList(queue, 0, NULL, &event));
		CHECK(!clWaitForEvents(1, &event));
		CHECK(!clReleaseEvent(event));
	}
	step(sequence, queue, 0, NULL, NULL);
	CHECK(!clFinish(queue));
	compare(sequence, queue);
}

/* The queue is out of order: commands that nothing holds up run, and are waited for before the gate
 * is opened. */
static void not_held_up(struct sequence *held, struct sequence *free_one, cl_command_queue queue)
{
	cl_int error;
	cl_event gate = clCreateUserEvent(context, &error), done;

	CHECK(!error);
	step(held, queue, 1, &gate, NULL);
	if (held->steps % 5 == 0)
		usleep(1000);
	step(free_one, queue, 0, NULL, &done);
	CHECK(!clWaitForEvents(1, &done));
	CHECK(!clReleaseEvent(done));
	CHECK(!clSetUserEventStatus(gate, CL_COMPLETE));
	CHECK(!clReleaseEvent(gate));
	CHECK(!clFinish(queue));
	compare(held, queue);
	compare(free_one, queue);
}

/* Make a queue for a few commands, with references of its own. */
static void short_life(struct sequence *sequence, cl_command_queue_properties flags)
{
	cl_command_queue queue = make_queue(flags);
	cl_uint references = 0;

	CHECK(!clRetainCommandQueue(queue));
	step(sequence, queue, 0, NULL, NULL);
	CHECK(!clReleaseCommandQueue(queue));
	CHECK(!clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof(references),
				     &references, NULL));
	CHECK(references >= 1);
	CHECK(!clFinish(queue));
	compare(sequence, queue);
	step(sequence, queue, 0, NULL, NULL);
	CHECK(!clFinish(queue));
	CHECK(!clReleaseCommandQueue(queue));
}

static uint64_t hash_of(const struct sequence *sequences, int count)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (int s = 0; s < count; s++)
		for (int i = 0; i < WORDS; i++)
			hash = (hash ^ sequences[s].expected[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static void *work(void *number)
{
	cl_command_queue own = make_queue(0);
	cl_command_queue own_unordered = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
	int thread = (int)(intptr_t)number;
	struct sequence *sequences = all[thread];

	for (int round = 0; rounds_asked ? round < rounds_asked : !over || round < SHOWN; round++) {
		in_order(&sequences[0], shared);
		held_up(&sequences[1], round % 3 ? own : shared);
		by_events(&sequences[2], round % 2 ? own_unordered : shared_unordered);
		/* The queue is the thread's own: PoCL 3.1 loses a barrier now and then where
		 * several threads use one queue out of order, without any tracer. */
		by_barriers(&sequences[3], own_unordered);
		not_held_up(&sequences[4], &sequences[5], own_unordered);
		if (round % 8 == 0)
			short_life(&sequences[0],
				   round % 16 ? CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE : 0);
		if (round + 1 == SHOWN)
			shown[thread] = hash_of(sequences, SEQUENCES);
	}
	CHECK(!clReleaseCommandQueue(own) && !clReleaseCommandQueue(own_unordered));
	return NULL;
}

static void *wait_for_end(void *unused)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
	over = 1;
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS], waiter;

	rounds_asked = argc > 1 ? atoi(argv[1]) : 0;
	prepare();

	for (int i = 0; i < THREADS * SEQUENCES; i++)
		make_sequence(&all[i / SEQUENCES][i % SEQUENCES]);
	puts("running");
	fflush(stdout);
	CHECK(!pthread_create(&waiter, NULL, wait_for_end, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!clFinish(shared) && !clFinish(shared_unordered));
	for (int i = 0; i < THREADS; i++)
		printf("%016llx\n", (unsigned long long)shown[i]);
	return 0;
}
