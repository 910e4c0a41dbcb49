/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The governor of launches chooses which of them are timed under `governed`: all of them while that
 * is cheap, otherwise a fair sample.
 *
 * Launches of one kernel on one thread form blocks of 2^shift. One launch of each block, chosen at
 * random when the block begins, is timed and stands for the block. The shift depends on the past
 * alone, so the sample has no bias, whatever the durations are. The shift keeps the tracer's
 * measured time below its share of the thread's time: a thread earns credit as time passes and pays
 * for each launch it times. Without credit a kernel is timed half as often, unless it is so rare
 * that its own part of the budget pays for it.
 *
 * Memory: the thread's slot. Threads: the owner of the slot. Cost: the clock is read at the start
 * of a block only.
 */
#ifndef SK_OPENCL_GOVERNOR_H
#define SK_OPENCL_GOVERNOR_H

#include "layer.h"

enum {
	SK_CL_GOVERNOR_CREDIT_NS = 1000000, /* enough to time short programs whole */
	SK_CL_GOVERNOR_SHIFT_MAX = 15,
};

static inline void sk_cl_governor_refill(struct sk_cl_thread *thread, uint64_t now_ns)
{
	uint64_t elapsed = now_ns - thread->refilled_ns;

	if (!thread->refilled_ns)
		thread->credit_ns = SK_CL_GOVERNOR_CREDIT_NS;
	else
		thread->credit_ns += (int64_t)(elapsed / sk_cl->share);
	if (thread->credit_ns > sk_cl->credit_most_ns)
		thread->credit_ns = sk_cl->credit_most_ns;
	thread->refilled_ns = now_ns;
}

/* Return how far apart launches of one kernel must be for its part of the budget to pay for each.
 */
static inline uint64_t sk_cl_governor_fair_ns(const struct sk_cl_thread *thread)
{
	uint64_t cost = thread->hook_cost_ns + thread->harvest_cost_ns;

	return cost * sk_cl->share * (thread->cells_used ? thread->cells_used : 1);
}

static inline void sk_cl_governor_begin_block(struct sk_cl_thread *thread, struct sk_cl_cell *cell,
					      uint64_t now)
{
	uint64_t took = now - cell->began_ns;
	uint64_t fair = sk_cl_governor_fair_ns(thread);

	thread->cells_used += !cell->began_ns;
	sk_cl_governor_refill(thread, now);
	if (!cell->began_ns)
		cell->shift = 0;
	else if (thread->credit_ns > 0 || took > 2 * fair)
		cell->shift -= cell->shift > 0;
	else if (took < fair)
		cell->shift += cell->shift < SK_CL_GOVERNOR_SHIFT_MAX;
	cell->began_ns = now;
	cell->left = 1u << cell->shift;
	/* xorshift64 (Marsaglia 2003) picks any launch of the block with equal chance. */
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	cell->pick = 1 + (uint32_t)(thread->random >> 32 & (cell->left - 1));
}

/** Return whether this launch is timed. `now_ns` is set where the clock had to be read. */
static inline bool sk_cl_governor_take(struct sk_cl_thread *thread, struct sk_cl_cell *cell,
				       uint64_t *now_ns)
{
	if (!cell->left) {
		*now_ns = sk_cl_thread_now(thread);
		sk_cl_governor_begin_block(thread, cell, *now_ns);
	}
	return cell->left-- == cell->pick;
}

#endif
