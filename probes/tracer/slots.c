/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and their slots: a thread takes one at its first call and gives it up when it ends. */
#include "tracer/parts.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RING_CHUNK = 4096 /* records, 256 KiB, that get memory at once */ };

_Thread_local struct sk_tracer_local sk_tracer_here;

static pthread_key_t ending;
static pthread_once_t ending_once = PTHREAD_ONCE_INIT;
static bool ending_made;

static void store_u64(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void sk_tracer_free(struct sk_tracer_slot *slot)
{
	struct sk_slot_counters *counters = &slot->shared->counters;

	if (counters->seen_ns > counters->opened_ns)
		sk_tracer_add(&counters->thread_ns, counters->seen_ns - counters->opened_ns);
	store_u64(&counters->opened_ns, 0);
	store_u64(&counters->seen_ns, 0);
	/* Pairs with the acquire of the next owner: the counters are closed. */
	atomic_store_explicit(&slot->shared->tid, 0, memory_order_release);
	atomic_store_explicit(&slot->state, SK_TRACER_SLOT_FREE, memory_order_release);
}

/* The thread ends; launches that still wait are left to the ticks. */
static void leave(void *generation)
{
	struct sk_tracer_slot *slot = sk_tracer_here.slot;

	if (!slot || (uintptr_t)generation != (uintptr_t)sk_tracer->generation)
		return; /* the slot belongs to the process that this one was forked from */
	sk_tracer_here = (struct sk_tracer_local){0};
	store_u64(&slot->shared->counters.seen_ns, sk_tracer_now());
	if (!sk_tracer_options.on_leave || sk_tracer_options.on_leave(slot))
		sk_tracer_free(slot);
	else
		atomic_store_explicit(&slot->state, SK_TRACER_SLOT_LEFT, memory_order_release);
}

static void make_key(void)
{
	ending_made = !pthread_key_create(&ending, leave);
}

static struct sk_tracer_slot *make_private(uint32_t index)
{
	struct sk_segment *segment = sk_tracer->segment;
	size_t bytes = sk_tracer_options.slot_bytes;

	if (bytes < sizeof(struct sk_tracer_slot))
		bytes = sizeof(struct sk_tracer_slot);
	struct sk_tracer_slot *slot =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (slot == MAP_FAILED)
		return NULL;
	slot->shared = &segment->slots[index];
	slot->counts = segment->counts[index];
	slot->copies = segment->copies[index];
	slot->index = index;
	if (!sk_tracer_populate(segment->counts[index], sizeof(segment->counts[0]))) {
		munmap(slot, bytes);
		return NULL;
	}
	sk_ring_init(&slot->ring, slot->shared, (char *)segment + slot->shared->ring_offset);
	return slot;
}

static void become_owner(struct sk_tracer_slot *slot)
{
	struct sk_slot_counters *counters = &slot->shared->counters;
	uint64_t now = sk_tracer_now();

	if (sk_tracer_options.on_join)
		sk_tracer_options.on_join(slot);
	slot->clock = (struct sk_thread_clock){.usable = sk_tracer->counter};
	store_u64(&counters->opened_ns, now);
	store_u64(&counters->seen_ns, now);
	slot->shared->tid = (uint32_t)syscall(SYS_gettid);
	slot->state = SK_TRACER_SLOT_OWNED;
}

/* Take a slot that is free, or one that was never used. Called with `lock` held. */
static struct sk_tracer_slot *take_slot(void)
{
	for (uint32_t index = 0; index < sk_tracer->segment->header.slots; index++) {
		struct sk_tracer_slot *slot = sk_tracer->slots[index];

		if (!slot) {
			slot = make_private(index);
			if (!slot)
				return NULL;
			become_owner(slot);
			sk_tracer->segment->header.slots_used = index + 1;
			/* Pairs with the tick thread's acquire: the slot is filled. */
			atomic_store_explicit(&sk_tracer->slots[index], slot, memory_order_release);
			return slot;
		}
		if (atomic_load_explicit(&slot->state, memory_order_acquire) ==
		    SK_TRACER_SLOT_FREE) {
			become_owner(slot);
			return slot;
		}
	}
	return NULL;
}

struct sk_tracer_slot *sk_tracer_join(void)
{
	if (!sk_tracer_ready())
		return NULL;
	pthread_once(&ending_once, make_key);
	pthread_mutex_lock(&sk_tracer->lock);
	sk_tracer_here.slot = take_slot();
	pthread_mutex_unlock(&sk_tracer->lock);
	sk_tracer_here.generation = sk_tracer->generation;
	if (sk_tracer_here.slot && ending_made)
		pthread_setspecific(ending, (void *)(uintptr_t)sk_tracer->generation);
	return sk_tracer_here.slot;
}

bool sk_tracer_more_cells(struct sk_tracer_slot *slot)
{
	struct sk_ring *ring = &slot->ring;
	uint64_t count = ring->mask + 1 - ring->head;

	count = count < RING_CHUNK ? count : RING_CHUNK;
	if (!sk_tracer_populate(&ring->cells[ring->head], count * sizeof(struct sk_record)))
		return false;
	slot->populated = ring->head + count;
	return true;
}

void sk_tracer_count_shared(bool kernel, unsigned row, uint64_t bytes)
{
	struct sk_segment *segment;

	if (!sk_tracer || sk_tracer->state != SK_TRACER_READY)
		return; /* the process is not traced */
	segment = sk_tracer->segment;
	if (kernel) {
		atomic_fetch_add(&segment->counts[SK_SEGMENT_SLOTS][row], 1);
	} else {
		atomic_fetch_add(&segment->copies[SK_SEGMENT_SLOTS][row].count, 1);
		atomic_fetch_add(&segment->copies[SK_SEGMENT_SLOTS][row].bytes, bytes);
	}
	atomic_fetch_add(&segment->header.threads_refused, 1);
}
