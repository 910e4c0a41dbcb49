// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of `launches`, a program that launches in unusual ways.
//
// launches.c holds the command line and the sums, ways.c one function per way of launching,
// device.c the OpenCL side.
#ifndef LAUNCHES_H
#define LAUNCHES_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>

/* One way of launching, so many rounds of it. */
struct way {
	const char *name;
	void (*run)(int rounds);
};

extern const struct way WAYS[];

/* Spend CPU time, or sleep at the least so long, between launches; both are counted. */
void work(double ms);
void nap(double ms);

void device_open(void);
cl_kernel device_kernel(void);
/* A launch of about so long, after the events it has to wait for. */
cl_event device_launch(cl_kernel kernel, double ms, cl_uint waits, const cl_event *wait);
void device_flush(void);
void device_finish(void);
/* Takes in the times of a finished launch and lets its event go. */
void device_done(cl_event event);
uint64_t device_launches(void);
/* Time in which at least one launch ran. */
uint64_t device_busy_ns(void);

/* Prints the counts so far as one JSON object. */
void tell(void);

void must(int error, const char *what);

#endif
