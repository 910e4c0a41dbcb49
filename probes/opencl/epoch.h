/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The epoch: one word that says what is seen of calls, from one change of mode or window to the
 * next.
 *
 * A call reads the word once. A change (epoch.c) takes two steps: the word is stored and a barrier
 * is run on every thread; then the epoch is settled. By then a call that began with the old word
 * shows in its thread's `in_queue`, and a thread that moves a queue looks there first. Memory: the
 * layer's. Threads: calls read, the tick thread writes.
 */
#ifndef SK_OPENCL_EPOCH_H
#define SK_OPENCL_EPOCH_H

#include "layer.h"

enum {
	SK_CL_EPOCH_PHASE = 3,	 /* enum sk_phase */
	SK_CL_EPOCH_SAMPLED = 4, /* the governor chooses which launches are timed */
	SK_CL_EPOCH_PLAIN =
		8, /* no queue is on its shadow: commands go to the application's queue */
	SK_CL_EPOCH_ASLEEP = 16,  /* no thread ticks, so calls look at the control block */
	SK_CL_EPOCH_SERIAL = 256, /* the bits above are a number that never repeats */
};

static inline unsigned sk_cl_epoch_phase(uint64_t epoch)
{
	return epoch & SK_CL_EPOCH_PHASE;
}

static inline uint64_t sk_cl_epoch_now(void)
{
	return atomic_load_explicit(&sk_cl->epoch, memory_order_acquire);
}

#endif
