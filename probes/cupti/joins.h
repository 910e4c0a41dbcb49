/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The join of records with their calls: calls in the order they were entered, found by correlation
 * id.
 *
 * Threads of the application enter and leave calls; the decoder gets their records long after.
 * Calls are in a ring, and a table of correlation ids points into it. Both are of fixed size: a
 * call that is never joined costs its place alone, and a waiting call that loses its place is
 * counted. Invariant: while a call waits for its record, `oldest_ns` is not later than that call,
 * so the reader of the segment settles nothing too early.
 *
 * Memory: the caller's block, zeroed; about 5 MB of address space, resident as it is used. Threads:
 * any number may enter and leave; the other functions are called by one thread at a time.
 */
#ifndef SK_CUPTI_JOINS_H
#define SK_CUPTI_JOINS_H

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SK_CUPTI_JOINS_CALLS = 1 << 16,
	SK_CUPTI_JOINS_TABLE = 1 << 17,
	SK_CUPTI_JOINS_PROBES = 8,
};

/** A position that is earlier or later than every call. */
#define SK_CUPTI_JOINS_OPEN UINT64_MAX

/** Longest wait for a record while those of later calls come; after that there will be none. */
#define SK_CUPTI_JOINS_PATIENCE_NS UINT64_C(10000000000)

enum sk_cupti_join_flags {
	SK_CUPTI_JOIN_TIMED = 1, /* a record is wanted */
	SK_CUPTI_JOIN_MANY = 2,	 /* the call may cause any number of records, as a graph does */
	SK_CUPTI_JOIN_BARE = 4,	 /* the record is not waited for, as that of a synchronization */
};

enum sk_cupti_join_state {
	SK_CUPTI_JOIN_FILLING,
	SK_CUPTI_JOIN_CALLING,
	SK_CUPTI_JOIN_WAITING,
	SK_CUPTI_JOIN_DONE
};

/** One call. */
struct sk_cupti_join {
	alignas(64) _Atomic uint64_t word; /* position << 2 | enum sk_cupti_join_state */
	_Atomic uint32_t correlation;
	_Atomic uint32_t alias; /* the id of the runtime's call around it; 0: none */
	uint64_t entered_ns;
	_Atomic uint32_t call_ns;
	uint32_t tid;
	uint32_t context;
	uint8_t flags; /* enum sk_cupti_join_flags */
	uint8_t kind;  /* enum sk_record_kind */
	uint16_t name;
	_Atomic uint64_t seen; /* flush of the newest record of a call that may cause many */
};
static_assert(sizeof(struct sk_cupti_join) == 64, "a call is one cache line");

struct sk_cupti_joins {
	alignas(64) _Atomic uint64_t tail; /* calls entered so far */
	alignas(64) uint64_t head; /* calls before this position wait for nothing; the sweeper's */
	uint64_t newest_ns;	   /* entry of the newest call that was joined */
	uint64_t given_up;	   /* calls whose record never came */
	_Atomic uint64_t evicted;  /* calls that lost their place while they waited */
	_Atomic uint64_t *oldest_ns; /* the word in the segment */
	struct sk_cupti_join calls[SK_CUPTI_JOINS_CALLS];
	_Atomic uint64_t
		table[SK_CUPTI_JOINS_TABLE]; /* correlation << 32 | low half of a position */
};

/** A call as it is known when it is entered. */
struct sk_cupti_join_call {
	uint64_t entered_ns;
	uint32_t correlation; /* not 0 */
	uint32_t alias;
	uint32_t tid;
	uint32_t context;
	uint8_t flags;
	uint8_t kind;
};

/** Take in a call before it is made; returns its position. */
uint64_t sk_cupti_joins_enter(struct sk_cupti_joins *joins, const struct sk_cupti_join_call *call);

/** Note that the call has returned. `taken`: there will be a record of it. */
void sk_cupti_joins_leave(struct sk_cupti_joins *joins, uint64_t position, uint32_t call_ns,
			  uint16_t name, bool taken);

/** Return the call with this correlation id, or NULL. It is valid until the next find. */
struct sk_cupti_join *sk_cupti_joins_find(struct sk_cupti_joins *joins, uint32_t correlation);

/** Note that a record of the call was read in flush number `flush`. */
void sk_cupti_joins_seen(struct sk_cupti_joins *joins, struct sk_cupti_join *call, uint64_t flush);

/** Set `oldest_ns` anew after flush number `flush`. `quiet`: no record can be under way, so nothing
 * is waited for. Returns the context of the oldest call that waits, 0: none. */
uint32_t sk_cupti_joins_sweep(struct sk_cupti_joins *joins, uint64_t flush, bool quiet);

/** Return whether one of the calls before position `end` has returned without having its record. */
bool sk_cupti_joins_is_missing(struct sk_cupti_joins *joins, uint64_t end);

/** Return whether an id was given out no earlier than to the call at position `from` and before
 * position `to`, either of which may be SK_CUPTI_JOINS_OPEN. Ids are given in the order of calls.
 */
bool sk_cupti_joins_spans(struct sk_cupti_joins *joins, uint64_t from, uint64_t to,
			  uint32_t correlation);

/** Return an upper bound of the calls that wait. */
static inline uint64_t sk_cupti_joins_waiting(const struct sk_cupti_joins *joins)
{
	return atomic_load_explicit(&joins->tail, memory_order_relaxed) - joins->head;
}

#endif
