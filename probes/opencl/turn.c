/* SPDX-License-Identifier: Apache-2.0 */
/* Changing the turn; see turn.h. Only the tick thread does, so no two changes meet. */
#include "turn.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool fence_all_threads(int command)
{
	return !syscall(SYS_membarrier, command, 0, 0);
}

static uint64_t word_of(uint32_t mode, uint32_t phase, uint64_t serial)
{
	return serial * SK_TURN_SERIAL | phase | (mode == SK_MODE_GOVERNED ? SK_TURN_SAMPLED : 0);
}

void sk_turn_begin(void)
{
	uint32_t mode = sk_tracer_mode(), phase = sk_tracer_phase(mode);
	uint64_t none = 0, first = word_of(mode, phase, 1);

	if (layer->turn)
		return;
	/* Without it nothing is ever moved: the mode stays what it was at the start. */
	layer->has_fence = fence_all_threads(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	if (phase != SK_PHASE_TIMED)
		first |= SK_TURN_PLAIN | (sk_tracer->ticking ? 0 : SK_TURN_ASLEEP);
	atomic_store(&layer->share, 125);
	/* The tick thread may be at it as well: then its turn is the later one. */
	if (!atomic_compare_exchange_strong(&layer->turn, &none, first))
		return;
	none = 0;
	atomic_compare_exchange_strong(&layer->settled, &none, first);
}

void sk_turn_change(uint32_t mode, uint32_t phase)
{
	uint64_t old = layer->turn;
	uint64_t turn = word_of(mode, phase, old / SK_TURN_SERIAL + 1);

	if (phase != SK_PHASE_TIMED)
		turn |= old & SK_TURN_PLAIN;
	atomic_store_explicit(&layer->turn, turn, memory_order_release);
	/* After it every call that began with the old word shows in its thread's `in_queue`. */
	fence_all_threads(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void sk_turn_settle(void)
{
	atomic_store_explicit(&layer->settled, layer->turn, memory_order_release);
}

void sk_turn_simplify(void)
{
	uint64_t turn = layer->turn;

	if (!turn || turn & SK_TURN_PLAIN || turn != layer->settled ||
	    sk_turn_phase(turn) == SK_PHASE_TIMED)
		return;
	/* Nothing moves to a twin before the next turn, so what is so now stays so. */
	pthread_mutex_lock(&layer->turn_lock);
	if (!layer->twins) {
		atomic_store_explicit(&layer->turn, turn | SK_TURN_PLAIN, memory_order_release);
		atomic_store_explicit(&layer->settled, turn | SK_TURN_PLAIN, memory_order_release);
	}
	pthread_mutex_unlock(&layer->turn_lock);
}
