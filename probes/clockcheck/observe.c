/* SPDX-License-Identifier: Apache-2.0 */
/* The times at which kernels really begin and end, as the host sees them.
 *
 * A kernel writes to memory that the host shares. A thread spins on it and reads CLOCK_MONOTONIC
 * when it sees the write. The program compares that with what the tracer has recorded of the same
 * launches. probes/kernels/clock_check.py runs it under the tracer.
 *
 *     stoker-clock-observe LAUNCHES LOOPS
 *
 * prints a line for each launch, the tracer's start and end, then the host's: `start_ns end_ns
 * seen_start_ns seen_end_ns late_start_ns late_end_ns`. The segment is that of this process, read
 * at the end; no other program may have drained it. Exit status 3: no device, 4: no segment, 5: it
 * does not fit.
 *
 * Invariant: launches are made one at a time, so the n-th record is of the n-th launch.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include "records/segment.h"
#include "tracer/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAUNCHES_MAX = 10000, LINE_INTS = 16, WARM = 20 };

/* `flags` has a cache line each for the beginning, the end, and a word to read meanwhile. */
static const char SOURCE[] =
	"__kernel void mark(__global volatile int *flags, int number, int loops) {\n"
	"  int sum = 0;\n"
	"  flags[0] = number;\n"
	"  for (int i = 0; i < loops; i++) sum += flags[32];\n"
	"  flags[48] = sum;\n"
	"  flags[16] = number;\n"
	"}\n";

/* `late` is the time from the observer's look before to this one. When it is longer than a look
 * takes, the observer was not running. */
struct look {
	uint64_t at_ns, late_ns;
};

struct seen {
	struct look start, end;
};

static struct seen seen[LAUNCHES_MAX + 1];
static _Alignas(4096) int flags[1024];
static int launches;
static _Atomic int watching; /* the observer waits for the launch of this number */

static uint64_t now_ns(void)
{
	return sk_tracer_clock_ns(CLOCK_MONOTONIC);
}

/* Wait until the flag shows the number. The write came after the last look that did not see it,
 * which was after `earlier`. */
static struct look wait_for(const volatile int *flag, int number, uint64_t from_ns)
{
	uint64_t before = from_ns, earlier = from_ns;

	for (;;) {
		bool there = *flag == number;
		uint64_t now = now_ns();

		if (there)
			return (struct look){now, now - earlier};
		earlier = before;
		before = now;
	}
}

static void *observe(void *unused)
{
	for (int number = 1; number <= launches; number++) {
		uint64_t from = now_ns();

		atomic_store(&watching, number);
		seen[number].start = wait_for(&flags[0], number, from);
		seen[number].end = wait_for(&flags[LINE_INTS], number, seen[number].start.at_ns);
	}
	return NULL;
}

static void fail(int code, const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(code);
}

static cl_device_id find_device(void)
{
	cl_platform_id platforms[8];
	cl_uint count = 0;
	cl_device_id device;

	if (clGetPlatformIDs(8, platforms, &count))
		fail(3, "no OpenCL platform");
	for (cl_uint i = 0; i < count && i < 8; i++)
		if (!clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL))
			return device;
	fail(3, "no OpenCL device that works in the host's memory");
	return NULL;
}

static void launch_all(int loops)
{
	cl_device_id device = find_device();
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
	cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
	const char *text = SOURCE;
	cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, NULL);
	cl_mem shared = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
				       sizeof(flags), flags, NULL);
	size_t one = 1;

	if (!shared || clBuildProgram(program, 1, &device, NULL, NULL, NULL))
		fail(3, "the kernel cannot be built");
	cl_kernel kernel = clCreateKernel(program, "mark", NULL);

	clSetKernelArg(kernel, 0, sizeof(shared), &shared);
	clSetKernelArg(kernel, 2, sizeof(loops), &loops);
	/* Number 0 is never waited for, since the first launches compile the kernel. */
	for (int i = -WARM; i < launches; i++) {
		int number = i < 0 ? 0 : i + 1;

		/* Launch only when the observer is there: it would wait forever for a launch that
		 * it missed. */
		while (number > atomic_load(&watching))
			sched_yield();
		clSetKernelArg(kernel, 1, sizeof(number), &number);
		if (clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL) ||
		    clFinish(queue))
			fail(3, "a launch failed");
	}
}

static const struct sk_segment *own_segment(void)
{
	const char *folder = getenv("STOKER_TRACE_DIR");
	DIR *entries = folder ? opendir(folder) : NULL;
	char prefix[32], path[4096] = "";
	struct stat status;
	struct dirent *entry;

	snprintf(prefix, sizeof(prefix), "%d-", (int)getpid());
	while (entries && (entry = readdir(entries)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
	int fd = *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0 || fstat(fd, &status))
		fail(4, "the tracer made no segment");
	void *mapped = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);

	if (mapped == MAP_FAILED)
		fail(4, "the segment cannot be mapped");
	return mapped;
}

static void line(const struct sk_record *record, int number)
{
	const struct seen *host = &seen[number];

	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	       record->start_ns, record->end_ns, host->start.at_ns, host->end.at_ns,
	       host->start.late_ns, host->end.late_ns);
}

/* Take the kernels of one ring, after the first ones, which only compiled; other records are
 * skipped. Returns how many. */
static int tell_ring(const struct sk_segment *segment, const struct sk_slot *slot)
{
	const struct sk_record *records = (const void *)((const char *)segment + slot->ring_offset);
	int kernels = 0;

	if (slot->head > slot->ring_records)
		fail(5, "the ring has gone around");
	for (uint64_t i = 0; i < slot->head; i++)
		if (records[i].kind == SK_KIND_KERNEL && ++kernels > WARM)
			line(&records[i], kernels - WARM);
	return kernels - WARM;
}

static void tell(const struct sk_segment *segment)
{
	int told = 0;

	for (unsigned i = 0; i < SK_SEGMENT_SLOTS && !told; i++)
		if (segment->slots[i].head)
			told = tell_ring(segment, &segment->slots[i]);
	if (told != launches)
		fail(5, "not every launch has a record");
}

/* The observer gets the last processor, and threads that this one starts get the others: on one
 * processor the observer would see nothing while the other thread runs. */
static void part(pthread_t observer)
{
	cpu_set_t all, one;
	int last = -1;

	if (pthread_getaffinity_np(observer, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		fail(3, "two processors are needed");
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		last = CPU_ISSET(cpu, &all) ? cpu : last;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	CPU_CLR(last, &all);
	if (pthread_setaffinity_np(observer, sizeof(one), &one) ||
	    pthread_setaffinity_np(pthread_self(), sizeof(all), &all))
		fail(3, "the threads cannot be kept apart");
}

int main(int count, char **words)
{
	pthread_t observer;

	launches = count > 1 ? atoi(words[1]) : 500;
	if (launches < 1 || launches > LAUNCHES_MAX)
		fail(2, "launches: 1 to 10000");
	pthread_create(&observer, NULL, observe, NULL);
	part(observer);
	launch_all(count > 2 ? atoi(words[2]) : 2000);
	pthread_join(observer, NULL);
	usleep(300000); /* wait for the tracer's ticks to publish the last records */
	tell(own_segment());
	return 0;
}
