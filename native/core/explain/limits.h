/* SPDX-License-Identifier: Apache-2.0
 *
 * Which limits of its queue, and of the queues above it, a waiting job would pass, now or once
 * running jobs have ended as estimated. Invariant: nothing here writes.
 */
#ifndef SK_CORE_EXPLAIN_LIMITS_H
#define SK_CORE_EXPLAIN_LIMITS_H

#include "core/state/state.h"

/* What the job's queue and those above it may not give now: all devices, or those of models; of one
 * more, the scarcest, only so many tasks. */
struct sk_blocked {
	bool all;
	uint64_t models;
	uint32_t families; /* of devices that do not count, each a bit */
	uint64_t capped;   /* its bit; 0: none */
	uint64_t cap;
};

/* Limits that this job would pass at that time. With `lines` one for each that blocks, at most
 * `capacity` of them; `*count` are written. */
struct sk_blocked sk_limits_block(const struct sk_core *core, uint32_t job, uint64_t at_ns,
				  struct sk_explain *lines, uint32_t capacity, uint32_t *count);

#endif
