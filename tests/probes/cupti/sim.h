/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * SIM: what the simulated CUDA driver and the simulated CUPTI know of each other.
 *
 * Relied on by sim_cuda.c and sim_cupti.c, which together behave to a program and to a tracer as
 * NVIDIA's headers say the real ones do. No device is real and no time of one is measured: kernels
 * last as long as their grid says, in a clock that is far away from every clock of the host.
 */
#ifndef SIM_H
#define SIM_H

#include <cupti.h>
#include <stdint.h>
#include <stdlib.h>

#define SIM_DEVICE_CLOCK INT64_C(123456789012345678) /* ns ahead of CLOCK_MONOTONIC */

/** Something that a device did or will have done. */
struct sim_work {
	CUpti_ActivityKind kind;
	const char *name;
	uint64_t start; /* in the clock of the device */
	uint64_t end;
	uint64_t bytes;
	uint8_t copy_kind;
	uint32_t correlation;
	uint32_t context;
	uint32_t stream;
	uint32_t device;
	uint32_t graph;
};

/** A host wait that has returned. */
struct sim_wait {
	CUpti_ActivitySynchronizationType type;
	uint64_t took_ns;
	uint32_t correlation;
	uint32_t context;
	uint32_t stream;
};

/** What the driver tells CUPTI; NULL while there is none. */
struct sim_hooks {
	void (*on_call)(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			const CUpti_CallbackData *data);
	void (*on_work)(const struct sim_work *work);
	void (*on_wait)(const struct sim_wait *wait);
	int (*wants_graphs)(void); /* as one record each */
};

extern struct sim_hooks *sim_cuda_hooks(void);

/** Work of the host that takes so long. */
static inline void sim_spin(uint64_t (*now)(void), uint64_t ns)
{
	uint64_t until = ns ? now() + ns : 0;

	while (ns && now() < until)
		;
}

/** A number in the environment, or 0. */
static inline uint64_t sim_setting(const char *name)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : 0;
}

uint64_t sim_now(void);

#endif
