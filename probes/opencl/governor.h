/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Which launches are timed under `governed`: all of them while that is cheap, else a fair sample.
 *
 * Launches of one kernel on one thread form blocks of 2^shift; one of each block, chosen at random
 * when the block begins, is timed and stands for the block. The shift depends on the past alone,
 * so the sample is unbiased whatever the durations are. It is set so that the tracer's measured
 * time stays below one part in SK_GOVERNOR_SHARE of the thread's time: a thread earns credit as
 * time passes and pays for each launch it times; without credit a kernel is timed half as often,
 * unless it is so rare that its own part of the budget pays for it.
 * Threads: the owner of the slot. Cost: no clock reading but at the start of a block.
 */
#ifndef SK_OPENCL_GOVERNOR_H
#define SK_OPENCL_GOVERNOR_H

#include "layer.h"

enum {
	SK_GOVERNOR_CREDIT_NS = 1000000, /* short programs are timed whole */
	SK_GOVERNOR_SHIFT_MAX = 15,
};

static inline void sk_governor_refill(struct sk_thread *thread, uint64_t now_ns)
{
	uint64_t elapsed = now_ns - thread->refilled_ns;

	if (!thread->refilled_ns)
		thread->credit_ns = SK_GOVERNOR_CREDIT_NS;
	else
		thread->credit_ns += (int64_t)(elapsed / layer->share);
	if (thread->credit_ns > SK_GOVERNOR_CREDIT_NS)
		thread->credit_ns = SK_GOVERNOR_CREDIT_NS;
	thread->refilled_ns = now_ns;
}

/* How far apart launches of one kernel must be for its part of the budget to pay for each. */
static inline uint64_t sk_governor_fair_ns(const struct sk_thread *thread)
{
	uint64_t cost = thread->hook_cost_ns + thread->harvest_cost_ns;

	return cost * layer->share * (thread->cells_used ? thread->cells_used : 1);
}

static inline void sk_governor_begin_block(struct sk_thread *thread, struct sk_cell *cell,
					   uint64_t now)
{
	uint64_t took = now - cell->began_ns;
	uint64_t fair = sk_governor_fair_ns(thread);

	thread->cells_used += !cell->began_ns;
	sk_governor_refill(thread, now);
	if (!cell->began_ns)
		cell->shift = 0;
	else if (thread->credit_ns > 0 || took > 2 * fair)
		cell->shift -= cell->shift > 0;
	else if (took < fair)
		cell->shift += cell->shift < SK_GOVERNOR_SHIFT_MAX;
	cell->began_ns = now;
	cell->left = 1u << cell->shift;
	/* xorshift64 (Marsaglia 2003): any of the block, all alike. */
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	cell->pick = 1 + (uint32_t)(thread->random >> 32 & (cell->left - 1));
}

/** Is this launch timed? `now_ns` is set where the clock had to be read, else left alone. */
static inline bool sk_governor_take(struct sk_thread *thread, struct sk_cell *cell,
				    uint64_t *now_ns)
{
	if (!cell->left) {
		*now_ns = sk_tracer_now();
		sk_governor_begin_block(thread, cell, *now_ns);
	}
	return cell->left-- == cell->pick;
}

#endif
