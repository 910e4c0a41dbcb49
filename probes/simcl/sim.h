/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A simulated OpenCL driver: one device, SIM, whose commands take exactly the time that they are
 * given.
 *
 * `stoker bench probes` uses it for launch rates that no real driver reaches on the machine. It is
 * an ICD library that is loaded by name (OCL_ICD_VENDORS) and never otherwise. A kernel's second
 * argument, an int, is its length in ns; a copy takes SIM_BYTES_PER_NS. Nothing is computed.
 * Invariant: the start and end of a command are settled at its enqueue, on CLOCK_MONOTONIC, each
 * queue in order, so a command without an event costs a clock reading and one atomic update.
 * Waiting is polling, as CUDA's is by default. Functions that are not simulated return
 * CL_INVALID_OPERATION.
 *
 * Memory: one block per object, with counted references. Threads: any, as the specification
 * demands.
 */
#ifndef SK_SIMCL_SIM_H
#define SK_SIMCL_SIM_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#include <CL/cl.h>
#include <CL/cl_icd.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SIM_BYTES_PER_NS = 10, SIM_NAME_BYTES = 64 };

/** The beginning of every object, for the loader and for the reference count. */
struct sim_object {
	const struct _cl_icd_dispatch *dispatch;
	_Atomic int references;
};

struct _cl_platform_id {
	struct sim_object object;
};

struct _cl_device_id {
	struct sim_object object;
};

struct _cl_context {
	struct sim_object object;
};

struct _cl_command_queue {
	struct sim_object object;
	cl_context context;
	cl_command_queue_properties flags;
	_Atomic uint64_t busy_until_ns;
};

struct _cl_mem {
	struct sim_object object;
	cl_context context;
	size_t bytes;
	char *host;
};

struct _cl_program {
	struct sim_object object;
	cl_context context;
};

struct _cl_kernel {
	struct sim_object object;
	cl_context context;
	_Atomic int length_ns;
	char name[SIM_NAME_BYTES];
};

struct _cl_event {
	struct sim_object object;
	cl_command_queue queue;
	cl_command_type type;
	uint64_t queued_ns;
	uint64_t start_ns;
	uint64_t end_ns;
};

extern struct _cl_icd_dispatch sim_dispatch;
extern struct _cl_platform_id sim_platform;
extern struct _cl_device_id sim_device;

/** Return CLOCK_MONOTONIC in ns. */
uint64_t sim_now(void);

/** Return a zeroed object of `bytes` with one reference, or NULL. */
void *sim_make(size_t bytes);

/** Drop one reference; true when it was the last and the caller frees the object. */
bool sim_let_go(struct sim_object *object);

/** Answer a query of the clGet...Info kind. */
cl_int sim_answer(const void *from, size_t bytes, size_t size, void *value, size_t *size_ret);

/** Fill the entries of the dispatch table that a file implements. */
void sim_fill_platform(struct _cl_icd_dispatch *table);
void sim_fill_objects(struct _cl_icd_dispatch *table);
void sim_fill_commands(struct _cl_icd_dispatch *table);

#endif
