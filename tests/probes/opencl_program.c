/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL program that does one thing by name; what a traced job may do and must not notice.
 * Exit status 0 when everything was as the specification says; else a line says what was not. */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const char SOURCE[] = "__kernel void alpha(__global float *a) { a[0] += 1; }\n"
			     "__kernel void beta(__global float *a) { a[1] += 1; }\n";

static cl_platform_id platform;
static cl_device_id device;
static cl_context context;
static cl_program program;
static cl_kernel alpha;
static cl_mem buffer;

static cl_command_queue make_queue(cl_command_queue_properties flags)
{
	cl_int error;
	cl_command_queue queue = clCreateCommandQueue(context, device, flags, &error);

	CHECK(!error);
	return queue;
}

static cl_kernel make_kernel(const char *name)
{
	cl_int error;
	cl_kernel kernel = clCreateKernel(program, name, &error);

	CHECK(!error);
	CHECK(!clSetKernelArg(kernel, 0, sizeof(buffer), &buffer));
	return kernel;
}

static void prepare(void)
{
	const char *source = SOURCE;
	cl_int error;

	CHECK(!clGetPlatformIDs(1, &platform, NULL));
	CHECK(!clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
	CHECK(!error);
	program = clCreateProgramWithSource(context, 1, &source, NULL, &error);
	CHECK(!error);
	CHECK(!clBuildProgram(program, 1, &device, "", NULL, NULL));
	buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, 1 << 16, NULL, &error);
	CHECK(!error);
	alpha = make_kernel("alpha");
}

static void launch(cl_command_queue queue, cl_kernel kernel, cl_event *event)
{
	const size_t one = 1;

	CHECK(!clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, event));
}

static void launch_many(cl_command_queue queue, int count)
{
	for (int i = 0; i < count; i++)
		launch(queue, alpha, NULL);
	CHECK(!clFinish(queue));
}

static cl_uint references(cl_event event)
{
	cl_uint count = 0;

	CHECK(!clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof(count), &count, NULL));
	return count;
}

/* Profiling that was not asked for is not there; profiling that was asked for is. */
static void do_profiling(int unused)
{
	cl_command_queue plain = make_queue(0), asked = make_queue(CL_QUEUE_PROFILING_ENABLE);
	cl_command_queue_properties flags = ~(cl_command_queue_properties)0;
	cl_event event;
	cl_ulong ns = 0, more = 0;

	CHECK(!clGetCommandQueueInfo(plain, CL_QUEUE_PROPERTIES, sizeof(flags), &flags, NULL));
	CHECK(flags == 0);
	launch(plain, alpha, &event);
	CHECK(!clWaitForEvents(1, &event));
	CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(ns), &ns, NULL) ==
	      CL_PROFILING_INFO_NOT_AVAILABLE);
	CHECK(!clReleaseEvent(event));
	CHECK(!clGetCommandQueueInfo(asked, CL_QUEUE_PROPERTIES, sizeof(flags), &flags, NULL));
	CHECK(flags == CL_QUEUE_PROFILING_ENABLE);
	launch(asked, alpha, &event);
	CHECK(!clWaitForEvents(1, &event));
	CHECK(!clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof(ns), &ns, NULL));
	CHECK(!clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof(more), &more, NULL));
	CHECK(ns && more >= ns);
	CHECK(!clReleaseEvent(event));
	CHECK(!clReleaseCommandQueue(plain));
	CHECK(!clReleaseCommandQueue(asked));
}

/* Properties by list come back as they were given. */
static void do_properties(int unused)
{
	const cl_queue_properties given[] = {CL_QUEUE_PROPERTIES,
					     CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
	cl_queue_properties back[8];
	size_t bytes = 0;
	cl_int error;
	cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, given, &error);

	CHECK(!error);
	CHECK(!clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, sizeof(back), back, &bytes));
	CHECK(bytes == sizeof(given) && !memcmp(back, given, bytes));
	CHECK(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES_ARRAY, 8, back, NULL) ==
	      CL_INVALID_VALUE);
	launch_many(queue, 1);
	queue = clCreateCommandQueueWithProperties(context, device, NULL, &error);
	CHECK(!error);
	launch_many(queue, 1);
	queue = clCreateCommandQueue(context, NULL, 0, &error);
	CHECK(!queue && error == CL_INVALID_DEVICE);
}

/* Events belong to the caller: references, status, wait lists, user events, callbacks. */
static void CL_CALLBACK called(cl_event event, cl_int status, void *counter)
{
	__atomic_add_fetch((int *)counter, status == CL_COMPLETE, __ATOMIC_SEQ_CST);
}

static void do_events(int unused)
{
	cl_command_queue queue = make_queue(0), other = make_queue(0);
	cl_int error, status = 0;
	cl_event gate = clCreateUserEvent(context, &error), first, second, marker;
	const size_t one = 1;
	int counter = 0;

	CHECK(!error);
	CHECK(!clEnqueueNDRangeKernel(queue, alpha, 1, NULL, &one, &one, 1, &gate, &first));
	CHECK(!clEnqueueNDRangeKernel(other, alpha, 1, NULL, &one, &one, 1, &first, &second));
	CHECK(!clSetEventCallback(second, CL_COMPLETE, called, &counter));
	CHECK(!clEnqueueMarkerWithWaitList(other, 1, &second, &marker));
	CHECK(!clRetainEvent(first));
	CHECK(references(first) >= 2);
	CHECK(!clReleaseEvent(first));
	CHECK(!clGetEventInfo(first, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status,
			      NULL));
	CHECK(status > CL_COMPLETE);
	CHECK(!clSetUserEventStatus(gate, CL_COMPLETE));
	CHECK(!clWaitForEvents(1, &marker));
	CHECK(!clFinish(queue) && !clFinish(other));
	for (int i = 0; i < 1000 && !__atomic_load_n(&counter, __ATOMIC_SEQ_CST); i++)
		usleep(1000);
	CHECK(counter == 1);
	CHECK(references(first) >= 1 && references(second) >= 1);
	CHECK(!clReleaseEvent(first) && !clReleaseEvent(second) && !clReleaseEvent(marker) &&
	      !clReleaseEvent(gate));
}

/* A call that the driver refuses is refused as it is without a tracer, and does not count. */
static void do_errors(int unused)
{
	cl_command_queue queue = make_queue(0);
	const size_t one = 1;
	cl_int error;
	cl_kernel bare = clCreateKernel(program, "beta", &error);
	char byte;

	CHECK(!error);
	CHECK(clEnqueueNDRangeKernel(queue, bare, 1, NULL, &one, &one, 0, NULL, NULL));
	CHECK(clEnqueueNDRangeKernel(queue, alpha, 9, NULL, &one, &one, 0, NULL, NULL) ==
	      CL_INVALID_WORK_DIMENSION);
	CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 1 << 20, 1, &byte, 0, NULL, NULL));
	CHECK(clEnqueueReadBuffer(NULL, buffer, CL_TRUE, 0, 1, &byte, 0, NULL, NULL) ==
	      CL_INVALID_COMMAND_QUEUE);
	CHECK(clCreateKernel(program, "gamma", &error) == NULL && error);
	launch_many(queue, 1);
}

/* Every kind of copy that a CPU device does, 1 each. */
static void do_copies(int unused)
{
	cl_command_queue queue = make_queue(0);
	const size_t at[3] = {0, 0, 0}, region[3] = {16, 4, 1};
	char host[4096] = {0}, pattern = 7;
	cl_int error;
	cl_mem other = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);
	void *mapped;

	CHECK(!error);
	CHECK(!clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, 100, host, 0, NULL, NULL));
	CHECK(!clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 200, host, 0, NULL, NULL));
	CHECK(!clEnqueueCopyBuffer(queue, buffer, other, 0, 0, 300, 0, NULL, NULL));
	CHECK(!clEnqueueFillBuffer(queue, other, &pattern, 1, 0, 400, 0, NULL, NULL));
	CHECK(!clEnqueueReadBufferRect(queue, buffer, CL_TRUE, at, at, region, 16, 0, 16, 0, host,
				       0, NULL, NULL));
	mapped = clEnqueueMapBuffer(queue, other, CL_TRUE, CL_MAP_READ, 0, 500, 0, NULL, NULL,
				    &error);
	CHECK(mapped && !error && ((char *)mapped)[0] == 7);
	CHECK(!clEnqueueUnmapMemObject(queue, other, mapped, 0, NULL, NULL));
	CHECK(!clEnqueueMigrateMemObjects(queue, 1, &other, 0, 0, NULL, NULL));
	CHECK(!clFinish(queue));
	CHECK(!clEnqueueMapBuffer(queue, other, CL_TRUE, CL_MAP_READ, 1 << 20, 5, 0, NULL, NULL,
				  &error) &&
	      error);
}

static void do_launch(int count)
{
	launch_many(make_queue(0), count);
}

/* Never wait: finished launches are recorded while the program does something else. */
static void do_sleep(int count)
{
	cl_command_queue queue = make_queue(0);

	for (int i = 0; i < count; i++)
		launch(queue, alpha, NULL);
	CHECK(!clFlush(queue));
	puts("asleep");
	fflush(stdout);
	sleep(30);
}

static void do_forever(int unused)
{
	cl_command_queue queue = make_queue(0);

	puts("running");
	fflush(stdout);
	for (;;)
		launch_many(queue, 100);
}

/* Make a batch of launches for each line of input, and print one line when it is done. */
static void do_batches(int count)
{
	cl_command_queue queue = make_queue(0);
	char line[16];

	puts("running");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		launch_many(queue, count);
		puts("done");
		fflush(stdout);
	}
}

/* Make so many launches, with a wait after each 256 of them. */
static void do_rounds(int count)
{
	cl_command_queue queue = make_queue(0);

	for (; count > 0; count -= 256)
		launch_many(queue, count < 256 ? count : 256);
}

static void do_fork(int count)
{
	cl_command_queue queue = make_queue(0);
	int status;

	launch_many(queue, count);
	pid_t child = fork();

	if (!child) {
		launch_many(queue, 3);
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	launch_many(queue, 1);
	child = fork(); /* one thread never calls again */
	if (!child)
		exit(0);
	CHECK(waitpid(child, &status, 0) == child && !status);
}

static void do_exec(int count)
{
	char *const argv[] = {"program", "launch", "5", NULL};

	launch_many(make_queue(0), count);
	execv("/proc/self/exe", argv);
	CHECK(!"exec");
}

static pthread_barrier_t together;

static void *one_thread(void *wait)
{
	cl_command_queue queue = make_queue(0);

	launch_many(queue, 10);
	if (wait)
		pthread_barrier_wait(&together);
	clReleaseCommandQueue(queue);
	return NULL;
}

static void run_threads(int count, void *wait)
{
	pthread_t threads[256];

	CHECK(count <= 256);
	pthread_barrier_init(&together, NULL, (unsigned)count);
	for (int i = 0; i < count; i++)
		CHECK(!pthread_create(&threads[i], NULL, one_thread, wait));
	for (int i = 0; i < count; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* Run threads one after the other, so that slots are used again. */
static void do_serial_threads(int count)
{
	for (int i = 0; i < count; i++)
		run_threads(1, NULL);
}

/* Run all threads at once. */
static void do_threads(int count)
{
	run_threads(count, &together);
}

/* An event holds one queue up while another queue goes on. */
static void do_held_up(int count)
{
	cl_command_queue held = make_queue(0), free_one = make_queue(0);
	const size_t one = 1;
	cl_int error;
	cl_event gate = clCreateUserEvent(context, &error);

	CHECK(!error);
	CHECK(!clEnqueueNDRangeKernel(held, alpha, 1, NULL, &one, &one, 1, &gate, NULL));
	for (int i = 0; i < count; i++)
		launch(held, alpha, NULL);
	launch_many(free_one, count);
	CHECK(!clSetUserEventStatus(gate, CL_COMPLETE));
	CHECK(!clFinish(held));
}

/* A daemon closes every descriptor it finds. */
static void do_close_all(int count)
{
	cl_command_queue queue = make_queue(0);

	launch_many(queue, count);
	for (int fd = 3; fd < 256; fd++)
		close(fd);
	launch_many(queue, count);
}

/* Make one of each thing that a thread waits for or orders by. */
static void do_waits(int count)
{
	cl_command_queue queue = make_queue(0);
	cl_event marker, last;
	cl_int error;
	cl_event gate = clCreateUserEvent(context, &error);
	char byte;

	CHECK(!error);
	for (int i = 1; i < count; i++)
		launch(queue, alpha, NULL);
	CHECK(!clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL));
	launch(queue, alpha, &last);
	CHECK(!clEnqueueMarkerWithWaitList(queue, 0, NULL, &marker));
	usleep(2000);
	CHECK(!clSetUserEventStatus(gate, CL_COMPLETE));
	CHECK(!clWaitForEvents(1, &last));
	CHECK(!clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, 1, &byte, 0, NULL, NULL));
	CHECK(!clFinish(queue));
	CHECK(!clReleaseEvent(gate) && !clReleaseEvent(marker) && !clReleaseEvent(last));
}

/* Call a function that takes queues by its address, between launches. */
static void do_extension(int count)
{
	cl_command_queue queue = make_queue(0);

	launch_many(queue, count);
	if (!clGetExtensionFunctionAddressForPlatform(platform, "clEnqueueCommandBufferKHR"))
		puts("no such extension");
	launch_many(queue, count);
}

static void do_slow(int count)
{
	cl_command_queue queue = make_queue(0);

	for (int i = 0; i < count; i++) {
		launch_many(queue, 1);
		usleep(5000);
	}
}

/* Check the queue of an event, references, and the queue that a function gets to free memory for.
 */
static void CL_CALLBACK free_memory(cl_command_queue queue, cl_uint count, void **pointers,
				    void *told)
{
	for (cl_uint i = 0; i < count; i++)
		clSVMFree(context, pointers[i]);
	__atomic_store_n((cl_command_queue *)told, queue, __ATOMIC_SEQ_CST);
}

static void do_handles(int unused)
{
	cl_command_queue queue = make_queue(0), of = NULL, told = NULL;
	void *memory = clSVMAlloc(context, CL_MEM_READ_WRITE, 4096, 0);
	cl_event event;

	launch(queue, alpha, &event);
	CHECK(!clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(of), &of, NULL));
	CHECK(of == queue);
	CHECK(!clReleaseEvent(event));
	if (memory) {
		CHECK(!clEnqueueSVMFree(queue, 1, &memory, free_memory, &told, 0, NULL, NULL));
		CHECK(!clFinish(queue));
		CHECK(told == queue);
	}
	CHECK(!clRetainCommandQueue(queue) && !clReleaseCommandQueue(queue));
	launch(queue, alpha, NULL);
	CHECK(!clEnqueueMarker(queue, &event) && !clEnqueueBarrier(queue));
	launch(queue, alpha, NULL);
	CHECK(!clFinish(queue));
	CHECK(!clReleaseEvent(event) && !clReleaseCommandQueue(queue));
	CHECK(clFinish(NULL) == CL_INVALID_COMMAND_QUEUE);
	CHECK(clFlush(NULL) == CL_INVALID_COMMAND_QUEUE);
	CHECK(clReleaseCommandQueue(NULL) == CL_INVALID_COMMAND_QUEUE);
	CHECK(clRetainCommandQueue(NULL) == CL_INVALID_COMMAND_QUEUE);
	CHECK(clEnqueueBarrierWithWaitList(NULL, 0, NULL, NULL) == CL_INVALID_COMMAND_QUEUE);
}

/* Make kernels again and again, as pyopencl does; handles are freed and given out anew. */
static void do_kernels(int count)
{
	cl_command_queue queue = make_queue(0);

	for (int i = 0; i < count; i++) {
		cl_kernel kernel = make_kernel(i % 2 ? "alpha" : "beta");

		launch(queue, kernel, NULL);
		CHECK(!clFinish(queue));
		CHECK(!clReleaseKernel(kernel));
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int);
	} THINGS[] = {
		{"profiling", do_profiling},
		{"properties", do_properties},
		{"events", do_events},
		{"errors", do_errors},
		{"copies", do_copies},
		{"launch", do_launch},
		{"sleep", do_sleep},
		{"forever", do_forever},
		{"batches", do_batches},
		{"rounds", do_rounds},
		{"fork", do_fork},
		{"exec", do_exec},
		{"threads", do_threads},
		{"held-up", do_held_up},
		{"close-all", do_close_all},
		{"kernels", do_kernels},
		{"serial-threads", do_serial_threads},
		{"waits", do_waits},
		{"extension", do_extension},
		{"slow", do_slow},
		{"handles", do_handles},
	};

	CHECK(argc >= 2);
	prepare();
	for (size_t i = 0; i < sizeof(THINGS) / sizeof(THINGS[0]); i++)
		if (!strcmp(argv[1], THINGS[i].name)) {
			THINGS[i].run(argc > 2 ? atoi(argv[2]) : 10);
			return 0;
		}
	CHECK(!"a known thing to do");
}
