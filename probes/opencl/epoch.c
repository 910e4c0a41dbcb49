/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of the epoch; see epoch.h. Only the tick thread changes it, so no two changes meet. */
#include "epoch.h"
#include "governor.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool fence_all_threads(int command)
{
	return !syscall(SYS_membarrier, command, 0, 0);
}

static uint64_t word_of(uint32_t mode, uint32_t phase, uint64_t serial)
{
	return serial * SK_CL_EPOCH_SERIAL | phase |
	       (mode == SK_MODE_GOVERNED ? SK_CL_EPOCH_SAMPLED : 0);
}

/* Return what the driver takes for an event and its stamps, by the clock as it is here: where its
 * source is slow, stamps are what costs most. The best of a few tries was hardly interrupted. */
static uint32_t driver_ns(void)
{
	enum { TRIES = 8, READINGS = 16 };
	uint64_t best = UINT32_MAX;

	for (int i = 0; i < TRIES; i++) {
		uint64_t from = sk_tracer_clock_ns(CLOCK_MONOTONIC), to = from;

		for (int j = 0; j < READINGS; j++)
			to = sk_tracer_clock_ns(CLOCK_MONOTONIC);
		best = to - from < best ? to - from : best;
	}
	return SK_CL_EVENT_COST_NS + (uint32_t)(best * SK_CL_STAMPS / READINGS);
}

void sk_cl_epoch_begin(void)
{
	uint32_t mode = sk_tracer_mode(), phase = sk_tracer_phase(mode);
	uint64_t none = 0, first = word_of(mode, phase, 1);

	if (sk_cl->epoch)
		return;
	/* Without the barrier no queue is ever moved, and the mode stays what it was at the start.
	 */
	sk_cl->has_fence = fence_all_threads(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	if (phase != SK_PHASE_TIMED)
		first |= SK_CL_EPOCH_PLAIN | (sk_tracer->ticking ? 0 : SK_CL_EPOCH_ASLEEP);
	atomic_store(&sk_cl->share, 125);
	atomic_store(&sk_cl->credit_most_ns, SK_CL_GOVERNOR_CREDIT_NS);
	sk_cl->driver_ns = driver_ns();
	/* If the tick thread has begun one as well, its epoch is the later one. */
	if (!atomic_compare_exchange_strong(&sk_cl->epoch, &none, first))
		return;
	none = 0;
	atomic_compare_exchange_strong(&sk_cl->settled, &none, first);
}

void sk_cl_epoch_change(uint32_t mode, uint32_t phase)
{
	uint64_t old = sk_cl->epoch;
	uint64_t epoch = word_of(mode, phase, old / SK_CL_EPOCH_SERIAL + 1);

	if (phase != SK_PHASE_TIMED)
		epoch |= old & SK_CL_EPOCH_PLAIN;
	atomic_store_explicit(&sk_cl->epoch, epoch, memory_order_release);
	/* After the barrier every call that began with the old word shows in its thread's
	 * `in_queue`. */
	fence_all_threads(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void sk_cl_epoch_settle(void)
{
	atomic_store_explicit(&sk_cl->settled, sk_cl->epoch, memory_order_release);
}

void sk_cl_epoch_simplify(void)
{
	uint64_t epoch = sk_cl->epoch;

	if (!epoch || epoch & SK_CL_EPOCH_PLAIN || epoch != sk_cl->settled ||
	    sk_cl_epoch_phase(epoch) == SK_PHASE_TIMED)
		return;
	/* No queue moves to its shadow before the next epoch, so the count cannot rise meanwhile.
	 */
	pthread_mutex_lock(&sk_cl->queue_lock);
	if (!sk_cl->shadows) {
		atomic_store_explicit(&sk_cl->epoch, epoch | SK_CL_EPOCH_PLAIN,
				      memory_order_release);
		atomic_store_explicit(&sk_cl->settled, epoch | SK_CL_EPOCH_PLAIN,
				      memory_order_release);
	}
	pthread_mutex_unlock(&sk_cl->queue_lock);
}
