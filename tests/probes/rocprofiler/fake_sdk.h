/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A SIMULATED rocprofiler-sdk and HIP: enough of both to load a tool, launch kernels and copies on
 * devices that are nothing but a clock, and deliver records as the real library does.
 *
 * It keeps the rules that a tool may rely on: services are set up inside of `initialize` only,
 * callbacks come in the launching thread, a launch belongs to the contexts that were active when it
 * was enqueued, records come in batches from a thread of the library, and a full buffer drops
 * records and counts them. It prints what it did as the truth, in CLOCK_MONOTONIC.
 *
 * Environment: FAKE_VERSION (10000), FAKE_SKEW_NS and FAKE_DRIFT_PPB (its clock against
 * CLOCK_BOOTTIME), FAKE_HOLD (nothing is delivered before the end, so buffers fill),
 * FAKE_RENDER_MINOR (the render node of the first device, 128; the next one has the next). Memory:
 * static. Threads: any.
 */
#ifndef FAKE_SDK_H
#define FAKE_SDK_H

#include <stdint.h>

enum { FAKE_DEVICES = 2, FAKE_KERNELS = 3 };

struct fake_truth {
	uint64_t called_ns; /* CLOCK_MONOTONIC, as are the others */
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t bytes;
	uint32_t tid;
	uint32_t kernel; /* number of the kernel; for a copy 100 + direction */
	uint32_t device;
	uint32_t timed; /* a context has asked for a record */
};

/** Load the tools that ROCP_TOOL_LIBRARIES names, as the runtime does when it is first used. */
void fake_init(void);

/** Enqueue kernel 0 .. FAKE_KERNELS - 1, `ns` long, on a device; returns at once. */
void fake_launch(unsigned kernel, unsigned device, uint64_t ns);

/** Enqueue a copy; `direction` as rocprofiler_memory_copy_operation_t. */
void fake_copy(unsigned direction, unsigned device, uint64_t bytes, uint64_t ns);

/** Wait until the devices are idle and every record is in its buffer or dropped. */
void fake_wait(void);

/** Return what was done so far, and how many launches. */
const struct fake_truth *fake_done(uint64_t *count);

#endif
