/* SPDX-License-Identifier: Apache-2.0 */
/* This library for LD_PRELOAD makes each reading of the system's clock take 2 us longer, as a slow
 * source does. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LONGER_NS = 2000 };

static long long read_ns(clockid_t clock, struct timespec *ret)
{
	syscall(SYS_clock_gettime, clock, ret);
	return ret->tv_sec * 1000000000LL + ret->tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	struct timespec now;
	long long until = read_ns(CLOCK_MONOTONIC, &now) + LONGER_NS;

	while (read_ns(CLOCK_MONOTONIC, &now) < until)
		;
	read_ns(clock, ret);
	return 0;
}
