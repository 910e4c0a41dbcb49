/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A turn: what is seen of calls, from one change of mode or window to the next, as one word.
 *
 * A call reads the word once. Changing it (turn.c) takes two steps: the word is stored, a barrier
 * is run on every thread, and only then it is settled. A call that was begun with the old word
 * is by then to be seen in its thread's `in_queue`, and whoever moves a queue looks there first.
 */
#ifndef SK_OPENCL_TURN_H
#define SK_OPENCL_TURN_H

#include "layer.h"

enum {
	SK_TURN_PHASE = 3,    /* enum sk_phase */
	SK_TURN_SAMPLED = 4,  /* the governor chooses among launches */
	SK_TURN_PLAIN = 8,    /* no queue is on its twin: commands go where they are sent */
	SK_TURN_ASLEEP = 16,  /* no thread ticks: calls look at what the agent wants */
	SK_TURN_SERIAL = 256, /* the rest is a number that never repeats */
};

static inline unsigned sk_turn_phase(uint64_t turn)
{
	return turn & SK_TURN_PHASE;
}

static inline uint64_t sk_turn_now(void)
{
	return atomic_load_explicit(&layer->turn, memory_order_acquire);
}

#endif
