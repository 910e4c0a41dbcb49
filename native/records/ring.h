/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One-producer one-consumer ring of records with free-running 64-bit indices.
 *
 * Invariant: a full ring refuses, nothing published is overwritten, a killed producer leaves either
 * the whole record or nothing. Memory: the caller's. Threads: one producer. Cost: no allocation,
 * lock or system call.
 */
#ifndef SK_RECORDS_RING_H
#define SK_RECORDS_RING_H

#include "records/segment.h"

#include <stdbool.h>

/** The producer's private view of a slot's ring. */
struct sk_ring {
	struct sk_slot *slot;
	struct sk_record *cells;
	uint64_t mask;
	uint64_t head;	    /* next index to write */
	uint64_t tail_seen; /* the consumer was at least here */
};

static inline void sk_ring_init(struct sk_ring *ring, struct sk_slot *slot, void *cells)
{
	ring->slot = slot;
	ring->cells = cells;
	ring->mask = slot->ring_records - 1;
	ring->head = atomic_load_explicit(&slot->head, memory_order_relaxed);
	ring->tail_seen = atomic_load_explicit(&slot->tail, memory_order_acquire);
}

/** Return the cell to fill next, or NULL when the ring is full. */
static inline struct sk_record *sk_ring_reserve(struct sk_ring *ring)
{
	if (ring->head - ring->tail_seen > ring->mask) {
		/* Pairs with the reader's fence before it writes `tail`: its copy of the cell is
		 * complete before the cell is filled again. */
		ring->tail_seen = atomic_load_explicit(&ring->slot->tail, memory_order_acquire);
		if (ring->head - ring->tail_seen > ring->mask)
			return NULL;
	}
	return &ring->cells[ring->head & ring->mask];
}

/** Publish the reserved cell. */
static inline void sk_ring_commit(struct sk_ring *ring)
{
	ring->cells[ring->head & ring->mask].sequence = (uint32_t)ring->head;
	ring->head++;
	/* Pairs with the reader's fence after it read `head`: the cells below it are filled. */
	atomic_store_explicit(&ring->slot->head, ring->head, memory_order_release);
}

#endif
