/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The date of a simulated host (SIM): to each process that preloads this library, CLOCK_REALTIME is
 * ahead of the machine's by the nanoseconds in the file that STOKER_SIM_DATE names, an int64_t that
 * may change at any moment. No other clock differs, and neither does what the kernel stamps.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SK_SIM_DATE __attribute__((visibility("default")))
#define NS_PER_S INT64_C(1000000000)

static const _Atomic int64_t nothing;
static const _Atomic int64_t *ahead_ns = &nothing;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_date(void)
{
	const char *path = getenv("STOKER_SIM_DATE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0)
		return;
	void *found = mmap(NULL, sizeof(*ahead_ns), PROT_READ, MAP_SHARED, fd, 0);

	if (found != MAP_FAILED)
		ahead_ns = found;
	close(fd);
}

static int machine_time(clockid_t clock, struct timespec *ret)
{
	if (!real_gettime)
		*(void **)&real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	return real_gettime(clock, ret);
}

SK_SIM_DATE int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int result = machine_time(clock, ret);

	if (result || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return result;
	int64_t ns = ret->tv_sec * NS_PER_S + ret->tv_nsec +
		     atomic_load_explicit(ahead_ns, memory_order_relaxed);

	ret->tv_sec = ns / NS_PER_S;
	ret->tv_nsec = ns % NS_PER_S;
	return 0;
}

SK_SIM_DATE int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	ret->tv_sec = now.tv_sec;
	ret->tv_usec = now.tv_nsec / 1000;
	return 0;
}

SK_SIM_DATE time_t time(time_t *ret)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
