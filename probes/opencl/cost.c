/* SPDX-License-Identifier: Apache-2.0 */
/* stoker-layer-cost: what the OpenCL layer adds to a launch, in each mode, in nanoseconds.
 *
 * SIM: the driver in this file does a few stores, so nothing of a real driver is measured. The
 * layer is loaded as a loader does it and called through its table; the time of the same calls
 * straight into the driver is taken off. The program plays the agent as well: it writes the control
 * block and empties the ring. The figures are the best of many short slices, by the phase that the
 * segment shows before and after each.
 *
 *     STOKER_TRACE_DIR=<empty folder> stoker-layer-cost LAYER.so
 *
 * prints {"driver_ns", "dormant_ns", "blind_ns", "counted_ns", "governed_ns", "full_ns"}: the first
 * is the time of the driver alone, the others are added to it. A phase that was not met is null.
 */
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include "records/segment.h"
#include "tracer/clock.h"

#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CALLS = 1000, EVENTS = 4096, QUEUES = 8 };

static uint64_t now_ns(void)
{
	return sk_tracer_clock_ns(CLOCK_MONOTONIC);
}

/* --- the driver ------------------------------------------------------------------------------- */

static struct {
	uint64_t stamp;
} events[EVENTS];
static uint32_t events_made;
static char queues[QUEUES][64];
static int queues_made;
static volatile uint64_t work;

static cl_int CL_API_CALL driver_launch(cl_command_queue queue, cl_kernel kernel,
					cl_uint dimensions, const size_t *offset,
					const size_t *global, const size_t *local, cl_uint waits,
					const cl_event *wait, cl_event *event)
{
	work++;
	if (event) {
		uint32_t index = events_made++ % EVENTS;

		events[index].stamp = now_ns();
		*event = (cl_event)&events[index];
	}
	return CL_SUCCESS;
}

static cl_int CL_API_CALL driver_stamp(cl_event event, cl_profiling_info what, size_t size,
				       void *value, size_t *size_ret)
{
	*(cl_ulong *)value = *(uint64_t *)event;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL driver_event(cl_event event)
{
	return CL_SUCCESS;
}

static cl_command_queue CL_API_CALL driver_queue(cl_context context, cl_device_id device,
						 cl_command_queue_properties flags, cl_int *error)
{
	*error = CL_SUCCESS;
	return (cl_command_queue)queues[queues_made++ % QUEUES];
}

static cl_int CL_API_CALL driver_same(cl_command_queue queue)
{
	return CL_SUCCESS;
}

static cl_int CL_API_CALL driver_order(cl_command_queue queue, cl_uint waits, const cl_event *wait,
				       cl_event *event)
{
	if (event)
		*event = (cl_event)&events[0];
	return CL_SUCCESS;
}

static cl_int answer(const void *from, size_t bytes, size_t size, void *value, size_t *size_ret)
{
	memset(value, 0, value ? size : 0);
	if (value)
		memcpy(value, from, bytes < size ? bytes : size);
	if (size_ret)
		*size_ret = bytes;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL driver_kernel_info(cl_kernel kernel, cl_kernel_info what, size_t size,
					     void *value, size_t *size_ret)
{
	return answer("empty", 6, size, value, size_ret);
}

static cl_int CL_API_CALL driver_device_info(cl_device_id device, cl_device_info what, size_t size,
					     void *value, size_t *size_ret)
{
	return what == CL_DEVICE_NAME ? answer("SIM", 4, size, value, size_ret)
				      : answer("", 1, size, value, size_ret);
}

static cl_int CL_API_CALL driver_platform_info(cl_platform_id platform, cl_platform_info what,
					       size_t size, void *value, size_t *size_ret)
{
	return answer("SIM", 4, size, value, size_ret);
}

static cl_int CL_API_CALL driver_devices(cl_platform_id platform, cl_device_type type,
					 cl_uint entries, cl_device_id *ids, cl_uint *count)
{
	if (count)
		*count = 0;
	return CL_SUCCESS;
}

static const struct _cl_icd_dispatch DRIVER = {
	.clGetDeviceIDs = driver_devices,
	.clGetPlatformInfo = driver_platform_info,
	.clGetDeviceInfo = driver_device_info,
	.clGetKernelInfo = driver_kernel_info,
	.clCreateCommandQueue = driver_queue,
	.clReleaseCommandQueue = driver_same,
	.clEnqueueNDRangeKernel = driver_launch,
	.clEnqueueMarkerWithWaitList = driver_order,
	.clEnqueueBarrierWithWaitList = driver_order,
	.clFlush = driver_same,
	.clFinish = driver_same,
	.clGetEventProfilingInfo = driver_stamp,
	.clReleaseEvent = driver_event,
	.clRetainEvent = driver_event,
};

/* --- the agent -------------------------------------------------------------------------------- */

static struct sk_segment *segment;

static void fail(const char *what)
{
	fprintf(stderr, "stoker-layer-cost: %s\n", what);
	exit(1);
}

static void map_segment(void)
{
	const char *folder = getenv("STOKER_TRACE_DIR");
	DIR *open_folder = opendir(folder);
	struct dirent *entry = NULL;
	char path[4096] = "";
	struct stat stat;

	while (open_folder && (entry = readdir(open_folder)))
		if (strstr(entry->d_name, ".seg"))
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
	int fd = open(path, O_RDWR);

	if (fd < 0 || fstat(fd, &stat))
		fail("no segment in STOKER_TRACE_DIR");
	segment = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment == MAP_FAILED)
		fail("the segment cannot be mapped");
}

static void empty_rings(void)
{
	for (int slot = 0; slot < SK_SEGMENT_SLOTS; slot++)
		segment->slots[slot].tail = segment->slots[slot].head;
}

/* --- the loop --------------------------------------------------------------------------------- */

static double slice(cl_api_clEnqueueNDRangeKernel launch, cl_command_queue queue)
{
	const size_t one = 1;
	uint64_t from = now_ns();

	for (int i = 0; i < CALLS; i++)
		launch(queue, (cl_kernel)&work, 1, NULL, &one, &one, 0, NULL, NULL);
	return (double)(now_ns() - from) / CALLS;
}

/* The best slice of each phase; the index is enum sk_phase, and 0 is for runs without phases. */
static void run(cl_api_clEnqueueNDRangeKernel launch, cl_command_queue queue, double seconds,
		double best[4])
{
	uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);

	while (now_ns() < until) {
		uint64_t switches = segment ? segment->header.answer.switches : 0;
		double ns = slice(launch, queue);
		bool same = !segment || switches == segment->header.answer.switches;
		unsigned phase = segment ? segment->header.answer.phase & 3 : 0;

		if (segment)
			empty_rings();
		if (same && (best[phase] == 0 || ns < best[phase]))
			best[phase] = ns;
	}
}

/* Calls go on, since a dormant process looks at the control block in them. */
static void want(cl_api_clEnqueueNDRangeKernel launch, cl_command_queue queue, uint64_t mode)
{
	static uint64_t serial;

	segment->header.control.lease_ns = now_ns() + UINT64_C(3600000000000);
	segment->header.control.wanted = mode | UINT64_C(10000) << 8 | ++serial << 32;
	for (int i = 0; i < 5000 && segment->header.answer.mode != mode; i++) {
		slice(launch, queue);
		empty_rings();
		usleep(1000);
	}
}

static void print(const char *name, double ns, double driver, const char *after)
{
	if (ns > 0)
		printf("\"%s\": %.1f%s", name, ns - driver, after);
	else
		printf("\"%s\": null%s", name, after);
}

static const struct _cl_icd_dispatch *load(const char *path)
{
	void *layer = dlopen(path, RTLD_NOW);
	pfn_clInitLayer init = layer ? (pfn_clInitLayer)dlsym(layer, "clInitLayer") : NULL;
	const struct _cl_icd_dispatch *table;
	cl_uint entries = sizeof(DRIVER) / sizeof(void *);

	if (!init || init(entries, &DRIVER, &entries, &table))
		fail("the layer cannot be loaded");
	return table;
}

int main(int argc, char **argv)
{
	double driver[4] = {0}, dormant[4] = {0}, governed[4] = {0}, full[4] = {0};
	cl_int error;

	if (argc != 2)
		fail("usage: STOKER_TRACE_DIR=<empty folder> stoker-layer-cost LAYER.so");
	setenv("STOKER_TRACE_MODE", "dormant", 1);
	const struct _cl_icd_dispatch *table = load(argv[1]);
	cl_command_queue queue = table->clCreateCommandQueue(NULL, (cl_device_id)&work, 0, &error);

	run(DRIVER.clEnqueueNDRangeKernel, queue, 0.3, driver);
	map_segment();
	run(table->clEnqueueNDRangeKernel, queue, 0.5, dormant);
	want(table->clEnqueueNDRangeKernel, queue, SK_MODE_GOVERNED);
	run(table->clEnqueueNDRangeKernel, queue, 1.5, governed);
	want(table->clEnqueueNDRangeKernel, queue, SK_MODE_FULL);
	run(table->clEnqueueNDRangeKernel, queue, 0.5, full);
	printf("{\"driver_ns\": %.1f, ", driver[0]);
	print("dormant_ns", dormant[SK_PHASE_BLIND], driver[0], ", ");
	print("blind_ns", governed[SK_PHASE_BLIND], driver[0], ", ");
	print("counted_ns", governed[SK_PHASE_COUNTED], driver[0], ", ");
	print("governed_ns", governed[SK_PHASE_TIMED], driver[0], ", ");
	print("full_ns", full[SK_PHASE_TIMED], driver[0], "}\n");
	return 0;
}
