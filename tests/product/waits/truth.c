// SPDX-License-Identifier: Apache-2.0
// Reads what the kernel says of the calling thread at the ends of a phase: the program's own truth,
// which neither the tracer nor BPF has a part in.
#define _GNU_SOURCE
#include "waits.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec time;

	clock_gettime(id, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t now_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* Time spent waiting for a CPU: Documentation/scheduler/sched-stats.rst. */
static uint64_t runnable_ns(void)
{
	static int fd = -1;
	char text[128] = "";

	if (fd < 0)
		fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	must(fd < 0 || pread(fd, text, sizeof(text) - 1, 0) <= 0, "schedstat");
	char *second;

	strtoull(text, &second, 10);
	return strtoull(second, NULL, 10);
}

void truth_read(struct truth *ret)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	ret->minor = (uint64_t)usage.ru_minflt;
	ret->major = (uint64_t)usage.ru_majflt;
	ret->switches = (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
	ret->system_ns = (uint64_t)usage.ru_stime.tv_sec * 1000000000u +
			 (uint64_t)usage.ru_stime.tv_usec * 1000u;
	ret->runnable_ns = runnable_ns();
	ret->cpu_ns = cpu_ns();
	ret->wall_ns = now_ns();
}

void truth_add(struct truth *sum, const struct truth *from, const struct truth *to)
{
	sum->wall_ns += to->wall_ns - from->wall_ns;
	sum->cpu_ns += to->cpu_ns - from->cpu_ns;
	sum->runnable_ns += to->runnable_ns - from->runnable_ns;
	sum->system_ns += to->system_ns - from->system_ns;
	sum->switches += to->switches - from->switches;
	sum->minor += to->minor - from->minor;
	sum->major += to->major - from->major;
}

void truth_print(const char *name, const struct truth *truth)
{
	printf("\"%s\": {\"wall_ns\": %llu, \"cpu_ns\": %llu, \"runnable_ns\": %llu, "
	       "\"system_ns\": %llu, \"minor\": %llu, \"major\": %llu, \"switches\": %llu}",
	       name, (unsigned long long)truth->wall_ns, (unsigned long long)truth->cpu_ns,
	       (unsigned long long)truth->runnable_ns, (unsigned long long)truth->system_ns,
	       (unsigned long long)truth->minor, (unsigned long long)truth->major,
	       (unsigned long long)truth->switches);
}
