// SPDX-License-Identifier: Apache-2.0
// A job that launches in an unusual way, and prints what it measured of itself.
//
//     launches ROUNDS WAY
//
// Each way is a function of ways.c. Between launches the program computes (`worked_ns`, CPU time)
// or sleeps (`slept_ns`, what it asked for: it sleeps at least as long). Output: one JSON object.
#define _GNU_SOURCE
#include "launches.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Atomic uint64_t worked_ns, slept_ns;

void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "launches: %s: %d\n", what, error);
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* CPU time, whatever the clock says meanwhile: a starved thread takes longer. */
void work(double ms)
{
	uint64_t until = cpu_ns() + (uint64_t)(ms * 1e6);

	while (cpu_ns() < until)
		;
	worked_ns += (uint64_t)(ms * 1e6);
}

void nap(double ms)
{
	struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};

	nanosleep(&time, NULL);
	slept_ns += (uint64_t)(ms * 1e6);
}

void tell(void)
{
	printf("{\"worked_ns\": %llu, \"slept_ns\": %llu, \"launches\": %llu, \"busy_ns\": %llu}\n",
	       (unsigned long long)worked_ns, (unsigned long long)slept_ns,
	       (unsigned long long)device_launches(), (unsigned long long)device_busy_ns());
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const struct way *way = WAYS;

	while (argc == 3 && way->name && strcmp(way->name, argv[2]))
		way++;
	if (argc != 3 || !way->name) {
		fprintf(stderr, "usage: launches ROUNDS WAY\n");
		return 2;
	}
	way->run(atoi(argv[1]));
	tell();
	return 0;
}
