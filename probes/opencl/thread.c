/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and their slots: a thread takes one at its first call and gives it up when it ends. */
#include "layer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local struct sk_thread_local sk_here;

static pthread_key_t ending;
static pthread_once_t ending_once = PTHREAD_ONCE_INIT;
static bool ending_made;

static void store_u64(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void sk_thread_free(struct sk_thread *thread)
{
	struct sk_slot_counters *counters = &thread->slot->counters;

	if (counters->seen_ns > counters->opened_ns)
		sk_add(&counters->thread_ns, counters->seen_ns - counters->opened_ns);
	store_u64(&counters->opened_ns, 0);
	store_u64(&counters->seen_ns, 0);
	/* Pairs with the acquire of whoever takes the slot next: all of the above is done. */
	atomic_store_explicit(&thread->slot->tid, 0, memory_order_release);
	atomic_store_explicit(&thread->state, SK_THREAD_FREE, memory_order_release);
}

static bool is_empty(const struct sk_thread *thread)
{
	for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++)
		if (thread->lanes[lane].head != thread->lanes[lane].tail)
			return false;
	return true;
}

/* The thread ends. What it still waits for is left to the idle thread. */
static void leave(void *generation)
{
	struct sk_thread *thread = sk_here.thread;

	if (!thread || (uintptr_t)generation != (uintptr_t)layer->generation)
		return; /* of the process this one was forked from */
	sk_here = (struct sk_thread_local){0};
	store_u64(&thread->slot->counters.seen_ns, sk_clock_now());
	sk_harvest_all(thread);
	if (is_empty(thread))
		sk_thread_free(thread);
	else
		atomic_store_explicit(&thread->state, SK_THREAD_LEFT, memory_order_release);
}

static void make_key(void)
{
	ending_made = !pthread_key_create(&ending, leave);
}

static struct sk_thread *make_private(uint32_t index)
{
	struct sk_thread *thread = mmap(NULL, sizeof(*thread), PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (thread == MAP_FAILED)
		return NULL;
	thread->slot = &layer->segment->slots[index];
	thread->counts = layer->segment->counts[index];
	thread->copies = layer->segment->copies[index];
	thread->index = index;
	/* First guesses, soon replaced by what is measured. */
	thread->hook_cost_ns = 300;
	thread->harvest_cost_ns = 300;
	thread->untimed_cost_ns = 30;
	if (!sk_layer_populate(layer->segment->counts[index], sizeof(layer->segment->counts[0]))) {
		munmap(thread, sizeof(*thread));
		return NULL;
	}
	sk_ring_init(&thread->ring, thread->slot,
		     (char *)layer->segment + thread->slot->ring_offset);
	return thread;
}

static void become_owner(struct sk_thread *thread)
{
	struct sk_slot_counters *counters = &thread->slot->counters;
	uint64_t now = sk_clock_now();

	thread->random = now * UINT64_C(0x9e3779b97f4a7c15) | 1;
	thread->credit_ns = 0;
	thread->refilled_ns = 0;
	memset(thread->cells, 0, sizeof(thread->cells));
	thread->cells_used = 0;
	thread->lanes_waiting = 0;
	store_u64(&counters->opened_ns, now);
	store_u64(&counters->seen_ns, now);
	thread->slot->tid = (uint32_t)syscall(SYS_gettid);
	thread->state = SK_THREAD_OWNED;
}

/* With `lock` held: a slot that is free, or one never used. */
static struct sk_thread *take_slot(void)
{
	for (uint32_t index = 0; index < layer->segment->header.slots; index++) {
		struct sk_thread *thread = layer->threads[index];

		if (!thread) {
			thread = make_private(index);
			if (!thread)
				return NULL;
			become_owner(thread);
			layer->segment->header.slots_used = index + 1;
			/* Pairs with the idle thread's acquire: the thread is filled. */
			atomic_store_explicit(&layer->threads[index], thread, memory_order_release);
			return thread;
		}
		if (atomic_load_explicit(&thread->state, memory_order_acquire) == SK_THREAD_FREE) {
			become_owner(thread);
			return thread;
		}
	}
	return NULL;
}

struct sk_thread *sk_thread_join(void)
{
	if (!layer || !sk_layer_become_ready())
		return NULL;
	pthread_once(&ending_once, make_key);
	pthread_mutex_lock(&layer->lock);
	sk_here.thread = take_slot();
	pthread_mutex_unlock(&layer->lock);
	sk_here.generation = layer->generation;
	if (sk_here.thread && ending_made)
		pthread_setspecific(ending, (void *)(uintptr_t)layer->generation);
	return sk_here.thread;
}
