// SPDX-License-Identifier: Apache-2.0
// A job that means harm: `scribble SECONDS SEED` launches a little, so that it has a trace segment,
// and then writes into that segment at random, header, control, windows, slots and rings alike,
// while it goes on launching. Now and then it cuts the file short, makes it long again, or adds
// others.
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const SOURCE = "__kernel void touch(__global float *x) { x[0] += 1.0f; }\n";

static cl_command_queue queue;
static cl_kernel kernel;
static uint64_t state;

static void must(int error, const char *what)
{
	if (error) {
		fprintf(stderr, "scribble: %s: %d\n", what, error);
		exit(1);
	}
}

static uint64_t chance(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void prepare(void)
{
	const char *source = SOURCE;
	cl_platform_id platform;
	cl_device_id device;
	cl_int error;

	must(clGetPlatformIDs(1, &platform, NULL), "platform");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
	cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);

	must(error, "context");
	queue = clCreateCommandQueue(context, device, 0, &error);
	must(error, "queue");
	cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &error);

	must(error, "program");
	must(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
	kernel = clCreateKernel(program, "touch", &error);
	must(error, "kernel");
	cl_mem x = clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, &error);

	must(error, "buffer");
	clSetKernelArg(kernel, 0, sizeof(x), &x);
}

static void launch(int count)
{
	const size_t one = 1;

	while (count--)
		clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &one, NULL, 0, NULL, NULL);
	clFinish(queue);
}

/* This process's segment, to be written. */
static int open_segment(const char *folder)
{
	char start[32], path[4096];
	DIR *entries = opendir(folder);
	int found = -1;

	must(!entries, "the trace folder");
	snprintf(start, sizeof(start), "%d-", getpid());
	for (struct dirent *entry; found < 0 && (entry = readdir(entries));) {
		if (strncmp(entry->d_name, start, strlen(start)) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		found = open(path, O_RDWR | O_CLOEXEC);
	}
	closedir(entries);
	must(found < 0, "the segment");
	return found;
}

/* Half of the writes go to the first pages, where the lengths and places are. What the layer maps
 * must stay there: a file cut short kills its own process alone, which is done at the very end. */
static void scribble(int segment, uint64_t bytes)
{
	uint64_t word = chance(3) ? chance(UINT64_MAX) : chance(300);
	uint64_t at = chance(chance(2) ? bytes : 128 << 10) & ~UINT64_C(7);

	/* The first 16 bytes are spared: the layer of this process itself goes by them. */
	if (at >= 16 && pwrite(segment, &word, sizeof(word), (off_t)at) < 0)
		exit(3);
}

/* Files that look like segments of somebody. */
static void add_file(const char *folder, int number)
{
	char path[4096], bytes[8192];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)chance(256);
	memcpy(bytes, "tokeseg1\2\0\0", 12);
	snprintf(path, sizeof(path), "%s/%d-%d-%d.seg", folder, getpid(), number, number);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return;
	if (write(fd, bytes, sizeof(bytes)) > 0 && ftruncate(fd, (off_t)chance(64 << 20)))
		exit(4);
	close(fd);
}

int main(int argc, char **argv)
{
	const char *folder = getenv("STOKER_TRACE_DIR");
	struct stat stat;

	must(argc != 3 || !folder, "arguments");
	state = (uint64_t)atoll(argv[2]) + 88172645463325252u;
	prepare();
	launch(200);
	int segment = open_segment(folder);

	must(fstat(segment, &stat), "size");
	time_t until = time(NULL) + atoi(argv[1]);

	/* Its own tracer may well be killed by this: a child goes on. */
	if (!fork()) {
		for (int round = 0; time(NULL) < until; round++) {
			for (int i = 0; i < 200; i++)
				scribble(segment, (uint64_t)stat.st_size);
			if (round % 50 == 0 && round < 1000)
				add_file(folder, round);
			usleep(1000);
		}
		must(ftruncate(segment, (off_t)chance(200000)), "cut");
		_exit(0);
	}
	while (time(NULL) < until) {
		launch(20);
		usleep(1000);
	}
	return 0;
}
