/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Which call caused which record: calls of the application in order, found by correlation id.
 *
 * Relied on by calls of the CUDA driver (entered, left) in the application's threads and by the
 * decoder, which gets records long after. A ring of calls in the order they were entered, over
 * which a table of correlation ids points; both are of fixed size, so a call that is never joined
 * costs nothing but its place, and the one that loses its place is counted.
 * Owns the answer to "how old is the oldest call whose record is still to come", which the reader
 * of the segment must not settle beyond: `oldest_ns` is never later than that while a call waits.
 *
 * Memory: the caller's block, zeroed; about 5 MB of address space, resident as it is used.
 * Threads: any number enter and leave; the others are called by one at a time.
 */
#ifndef SK_CUPTI_JOINS_H
#define SK_CUPTI_JOINS_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SK_JOINS_CALLS = 1 << 16,
	SK_JOINS_TABLE = 1 << 17,
	SK_JOINS_PROBES = 8,
};

/** Of no position: however early, or however late. */
#define SK_JOINS_OPEN UINT64_MAX

/** Longest wait for a record while those of later calls come: beyond it there will be none. */
#define SK_JOINS_PATIENCE_NS UINT64_C(10000000000)

enum sk_join_flags {
	SK_JOIN_TIMED = 1, /* a record is wanted */
	SK_JOIN_MANY = 2,  /* it may cause any number of records, as a graph does */
	SK_JOIN_BARE = 4,  /* nothing waits for its record, as of a synchronization */
};

enum sk_join_state { SK_JOIN_FILLING, SK_JOIN_CALLING, SK_JOIN_WAITING, SK_JOIN_DONE };

/** One call. */
struct sk_join {
	alignas(64) _Atomic uint64_t word; /* position << 2 | enum sk_join_state */
	_Atomic uint32_t correlation;
	_Atomic uint32_t alias; /* the id of the runtime's call around it; 0: none */
	uint64_t entered_ns;
	_Atomic uint32_t call_ns;
	uint32_t tid;
	uint32_t context;
	uint8_t flags; /* enum sk_join_flags */
	uint8_t kind;  /* enum sk_record_kind */
	uint16_t name;
	_Atomic uint64_t seen; /* of one that may cause many: the flush of its newest record */
};
static_assert(sizeof(struct sk_join) == 64, "a call is one cache line");

struct sk_joins {
	alignas(64) _Atomic uint64_t tail; /* calls entered so far */
	alignas(64) uint64_t head;	   /* calls before it wait for nothing; of the sweeper */
	uint64_t newest_ns;		   /* entry of the newest call that was joined */
	uint64_t given_up;		   /* calls whose record never came */
	_Atomic uint64_t evicted;	   /* calls that lost their place while they waited */
	_Atomic uint64_t *oldest_ns;	   /* in the segment */
	struct sk_join calls[SK_JOINS_CALLS];
	_Atomic uint64_t table[SK_JOINS_TABLE]; /* correlation << 32 | low half of a position */
};

/** What is known of a call when it is entered. */
struct sk_join_call {
	uint64_t entered_ns;
	uint32_t correlation; /* not 0 */
	uint32_t alias;
	uint32_t tid;
	uint32_t context;
	uint8_t flags;
	uint8_t kind;
};

/** Take in a call, before it is made; returns its position. */
uint64_t sk_joins_enter(struct sk_joins *joins, const struct sk_join_call *call);

/** The call has returned. `taken`: a record will come of it. */
void sk_joins_leave(struct sk_joins *joins, uint64_t position, uint32_t call_ns, uint16_t name,
		    bool taken);

/** The call with this correlation id, or NULL. Valid until the next call of this kind. */
struct sk_join *sk_joins_find(struct sk_joins *joins, uint32_t correlation);

/** A record of the call was read in flush number `flush`. */
void sk_joins_seen(struct sk_joins *joins, struct sk_join *call, uint64_t flush);

/** After flush number `flush`: set `oldest_ns` anew. `quiet`: no record can be under way any
 * more, so nothing is waited for. Returns the context of the oldest call that waits, 0: none. */
uint32_t sk_joins_sweep(struct sk_joins *joins, uint64_t flush, bool quiet);

/** Whether one of the calls before position `end` has returned and lacks its record. */
bool sk_joins_lacks(struct sk_joins *joins, uint64_t end);

/** Whether an id was given out no earlier than to the call at position `from` and before position
 * `to`, either of which may be SK_JOINS_OPEN: ids are given in the order of calls. */
bool sk_joins_spans(struct sk_joins *joins, uint64_t from, uint64_t to, uint32_t correlation);

/** Calls that wait, at most. */
static inline uint64_t sk_joins_waiting(const struct sk_joins *joins)
{
	return atomic_load_explicit(&joins->tail, memory_order_relaxed) - joins->head;
}

#endif
