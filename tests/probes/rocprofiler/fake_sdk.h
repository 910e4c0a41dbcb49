/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A rocprofiler-sdk and a HIP of our own, SIMULATED: enough of both to load a tool, launch kernels
 * and copies on devices that are nothing but a clock, and deliver records as the real one does.
 *
 * Relied on by program.c and the tests. It keeps the rules that a tool may lean on: services are
 * set up inside of `initialize` only, callbacks come in the launching thread, a launch belongs to
 * the contexts that were active when it was enqueued, records come in batches from a thread of the
 * library, a full buffer drops and counts. Everything it did is told as truth in CLOCK_MONOTONIC.
 *
 * Environment: FAKE_VERSION (10000), FAKE_SKEW_NS and FAKE_DRIFT_PPB (its clock against
 * CLOCK_BOOTTIME), FAKE_HOLD (nothing is delivered before the end, so buffers fill).
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
	uint32_t kernel; /* number of the kernel; of a copy 100 + direction */
	uint32_t device;
	uint32_t timed; /* some context had asked for a record */
};

/** Load the tools that ROCP_TOOL_LIBRARIES names, as the runtime does when it is first used. */
void fake_init(void);

/** Enqueue kernel 0 .. FAKE_KERNELS - 1, `ns` long, on a device; returns at once. */
void fake_launch(unsigned kernel, unsigned device, uint64_t ns);

/** Enqueue a copy; `direction` as rocprofiler_memory_copy_operation_t. */
void fake_copy(unsigned direction, unsigned device, uint64_t bytes, uint64_t ns);

/** Wait until the devices are idle and every record is in its buffer or dropped. */
void fake_wait(void);

/** What was done so far, and how much. */
const struct fake_truth *fake_done(uint64_t *count);

#endif
