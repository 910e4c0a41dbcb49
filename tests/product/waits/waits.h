// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of `waits`, a program that waits in known ways.
//
// waits.c holds the rounds, ways.c one function per way of waiting, device.c the OpenCL side,
// truth.c the kernel's figures for the calling thread. Each way is measured as a phase.
#ifndef WAITS_H
#define WAITS_H

#include <stdint.h>

enum { PHASES = 16 };

/* Totals of the calling thread so far, in ns and counts. */
struct truth {
	uint64_t wall_ns;     /* CLOCK_MONOTONIC */
	uint64_t cpu_ns;      /* CLOCK_THREAD_CPUTIME_ID */
	uint64_t runnable_ns; /* second field of /proc/thread-self/schedstat */
	uint64_t system_ns;   /* ru_stime: by ticks, so coarse */
	uint64_t minor;	      /* page faults */
	uint64_t major;
	uint64_t switches; /* from a CPU */
};

/* One way of waiting, `amount` of it per round, and what it came to in all rounds. */
struct phase {
	const char *name;
	double amount; /* ms, or MB of a copy */
	void (*wait)(double amount);
	struct truth sum;
};

uint64_t now_ns(void);
uint64_t cpu_ns(void);
void truth_read(struct truth *ret);
void truth_add(struct truth *sum, const struct truth *from, const struct truth *to);
void truth_print(const char *name, const struct truth *truth);

/* The way called `name`, or NULL. */
void (*way_named(const char *name))(double amount);

/* Make what the ways named so far need, before OpenCL starts threads. */
void ways_prepare(const char *folder);

void device_open(void);
void device_kernel(double ms); /* one launch that lasts about so long, finished */
void device_copy(double megabytes);
void device_totals(uint64_t *launches, uint64_t *kernel_ns, uint64_t *copies, uint64_t *copy_ns);

void must(int error, const char *what);

#endif
