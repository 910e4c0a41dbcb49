/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of its queue, and of the queues above it, that a waiting job would exceed now, or once
 * running jobs have ended as estimated. Invariant: nothing here writes.
 */
#ifndef SK_CORE_LEDGER_LIMITS_H
#define SK_CORE_LEDGER_LIMITS_H

#include "core/state/state.h"

/* Devices that the queues of the job may not give now: all of them, or those of some models. Of one
 * more model, the scarcest, only so many tasks may be placed. */
struct sk_blocked {
	bool all;
	uint64_t models;
	uint32_t families; /* families of devices that do not count, each a bit */
	uint64_t capped;   /* bit of that model; 0: none */
	uint64_t cap;
	uint32_t near; /* only nodes in one domain with this one count; 0: all */
};

/* Find the limits that this job would exceed at that time. `lines` may be NULL, or receives one for
 * each that blocks, at most `capacity`; `*count` are written. */
struct sk_blocked sk_limits_block(const struct sk_core *core, uint32_t job, uint64_t at_ns,
				  struct sk_explain *lines, uint32_t capacity, uint32_t *count);

#endif
