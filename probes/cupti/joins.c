/* SPDX-License-Identifier: Apache-2.0 */
#include "joins.h"

#include <stddef.h>

enum { STATE_BITS = 2, STATE_MASK = 3, FLUSHES_AFTER_LAST = 2 };

static struct sk_cupti_join *at(struct sk_cupti_joins *joins, uint64_t position)
{
	return &joins->calls[position & (SK_CUPTI_JOINS_CALLS - 1)];
}

static uint64_t word_of(uint64_t position, enum sk_cupti_join_state state)
{
	return position << STATE_BITS | state;
}

static enum sk_cupti_join_state state_of(uint64_t word)
{
	return (enum sk_cupti_join_state)(word & STATE_MASK);
}

static uint32_t slot_of(uint32_t correlation)
{
	return (uint32_t)(correlation * UINT32_C(0x9e3779b1)) >> 15 & (SK_CUPTI_JOINS_TABLE - 1);
}

/* Return the place for an id: the first one that is free or stale, otherwise the oldest. `ret` is
 * what is there now. */
static uint64_t choose(struct sk_cupti_joins *joins, uint32_t correlation, uint64_t position,
		       uint32_t *ret_slot)
{
	uint32_t from = slot_of(correlation), oldest = 0;
	uint64_t found = 0;

	*ret_slot = from;
	for (uint32_t i = 0; i < SK_CUPTI_JOINS_PROBES; i++) {
		uint32_t slot = (from + i) & (SK_CUPTI_JOINS_TABLE - 1);
		uint64_t there = atomic_load_explicit(&joins->table[slot], memory_order_relaxed);
		uint32_t age = there ? (uint32_t)position - (uint32_t)there : UINT32_MAX;

		/* A call that came a moment later, in another thread, is not older than this. */
		if (there && age > UINT32_MAX / 2)
			age = 0;
		if (!i || age > oldest) {
			*ret_slot = slot;
			oldest = age;
			found = there;
		}
		if (age >= SK_CUPTI_JOINS_CALLS)
			break;
	}
	return found;
}

/* Point the id at a position; if another thread takes the place first, look again. */
static void point(struct sk_cupti_joins *joins, uint32_t correlation, uint64_t position)
{
	uint64_t mine = (uint64_t)correlation << 32 | (uint32_t)position, there;
	uint32_t slot;

	for (int i = 0; i < SK_CUPTI_JOINS_PROBES; i++) {
		there = choose(joins, correlation, position, &slot);
		if (atomic_compare_exchange_strong_explicit(&joins->table[slot], &there, mine,
							    memory_order_release,
							    memory_order_relaxed))
			return;
	}
}

/* Lower `oldest_ns` to this call's time; 0 means that nothing waits. */
static void publish(struct sk_cupti_joins *joins, uint64_t entered_ns)
{
	uint64_t there = atomic_load(joins->oldest_ns);

	while ((!there || there > entered_ns) &&
	       !atomic_compare_exchange_weak(joins->oldest_ns, &there, entered_ns))
		;
}

uint64_t sk_cupti_joins_enter(struct sk_cupti_joins *joins, const struct sk_cupti_join_call *call)
{
	/* This is sequentially consistent, as the load in `publish` is; see sk_cupti_joins_sweep.
	 */
	uint64_t position = atomic_fetch_add(&joins->tail, 1);
	struct sk_cupti_join *join = at(joins, position);
	uint64_t before = atomic_load_explicit(&join->word, memory_order_relaxed);

	if (position >= SK_CUPTI_JOINS_CALLS && state_of(before) != SK_CUPTI_JOIN_DONE)
		atomic_fetch_add_explicit(&joins->evicted, 1, memory_order_relaxed);
	atomic_store_explicit(&join->word, word_of(position, SK_CUPTI_JOIN_FILLING),
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&join->correlation, call->correlation, memory_order_relaxed);
	atomic_store_explicit(&join->alias, call->alias, memory_order_relaxed);
	atomic_store_explicit(&join->call_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&join->seen, 0, memory_order_relaxed);
	join->entered_ns = call->entered_ns;
	join->tid = call->tid;
	join->context = call->context;
	join->flags = call->flags;
	join->kind = call->kind;
	join->name = 0;
	atomic_store(&join->word, word_of(position, SK_CUPTI_JOIN_CALLING));
	point(joins, call->correlation, position);
	if (call->alias && call->alias != call->correlation)
		point(joins, call->alias, position);
	if (!(call->flags & SK_CUPTI_JOIN_BARE))
		publish(joins, call->entered_ns);
	return position;
}

static void set_done(struct sk_cupti_join *call)
{
	uint64_t word = atomic_load_explicit(&call->word, memory_order_relaxed);

	if (state_of(word) == SK_CUPTI_JOIN_CALLING || state_of(word) == SK_CUPTI_JOIN_WAITING)
		atomic_compare_exchange_strong(&call->word, &word, word | SK_CUPTI_JOIN_DONE);
}

void sk_cupti_joins_leave(struct sk_cupti_joins *joins, uint64_t position, uint32_t call_ns,
			  uint16_t name, bool taken)
{
	struct sk_cupti_join *join = at(joins, position);
	uint64_t calling = word_of(position, SK_CUPTI_JOIN_CALLING);

	if (atomic_load_explicit(&join->word, memory_order_acquire) >> STATE_BITS != position)
		return; /* the call has lost its place */
	atomic_store_explicit(&join->call_ns, call_ns ? call_ns : 1, memory_order_relaxed);
	join->name = name;
	/* The record may have come already; see sk_cupti_joins_seen. */
	if (!(join->flags & SK_CUPTI_JOIN_MANY) && atomic_load(&join->seen))
		taken = false;
	atomic_compare_exchange_strong(
		&join->word, &calling,
		word_of(position, taken ? SK_CUPTI_JOIN_WAITING : SK_CUPTI_JOIN_DONE));
	if (!(join->flags & SK_CUPTI_JOIN_MANY) && atomic_load(&join->seen))
		set_done(join);
}

struct sk_cupti_join *sk_cupti_joins_find(struct sk_cupti_joins *joins, uint32_t correlation)
{
	uint32_t from = slot_of(correlation);

	for (uint32_t i = 0; correlation && i < SK_CUPTI_JOINS_PROBES; i++) {
		uint32_t slot = (from + i) & (SK_CUPTI_JOINS_TABLE - 1);
		uint64_t there = atomic_load_explicit(&joins->table[slot], memory_order_acquire);
		struct sk_cupti_join *join = at(joins, (uint32_t)there);
		uint64_t word = atomic_load_explicit(&join->word, memory_order_acquire);

		if (there >> 32 != correlation || state_of(word) == SK_CUPTI_JOIN_FILLING ||
		    (uint32_t)(word >> STATE_BITS) != (uint32_t)there)
			continue;
		if (join->correlation == correlation || join->alias == correlation)
			return join;
	}
	return NULL;
}

void sk_cupti_joins_seen(struct sk_cupti_joins *joins, struct sk_cupti_join *call, uint64_t flush)
{
	if (call->entered_ns > joins->newest_ns)
		joins->newest_ns = call->entered_ns;
	/* A call that has not returned is waited for, so that it is counted as well. */
	atomic_store(&call->seen, flush + 1);
	if (!(call->flags & SK_CUPTI_JOIN_MANY) &&
	    state_of(atomic_load(&call->word)) == SK_CUPTI_JOIN_WAITING)
		set_done(call);
}

/* Return whether the record of this call is still to come. */
static bool is_awaited(struct sk_cupti_joins *joins, struct sk_cupti_join *call, uint64_t flush,
		       bool quiet)
{
	uint64_t seen = atomic_load_explicit(&call->seen, memory_order_relaxed);

	if (call->flags & SK_CUPTI_JOIN_BARE)
		return false;
	if (seen && flush >= seen + FLUSHES_AFTER_LAST)
		return false;
	if (!quiet && joins->newest_ns < call->entered_ns + SK_CUPTI_JOINS_PATIENCE_NS)
		return true;
	joins->given_up += !seen;
	return false;
}

/* Return the first call from `head` on that waits, or NULL; `busy` is set when one is just being
 * entered. */
static struct sk_cupti_join *first_waiting(struct sk_cupti_joins *joins, uint64_t tail,
					   uint64_t flush, bool quiet, bool *busy)
{
	*busy = false;
	if (tail - joins->head > SK_CUPTI_JOINS_CALLS)
		joins->head = tail - SK_CUPTI_JOINS_CALLS;
	for (; joins->head != tail; joins->head++) {
		struct sk_cupti_join *call = at(joins, joins->head);
		uint64_t word = atomic_load(&call->word);

		if (word >> STATE_BITS > joins->head)
			continue; /* a later call has taken its place */
		*busy = word >> STATE_BITS < joins->head || state_of(word) == SK_CUPTI_JOIN_FILLING;
		if (*busy)
			return NULL;
		if (state_of(word) == SK_CUPTI_JOIN_DONE)
			continue;
		if (is_awaited(joins, call, flush, quiet))
			return call;
		set_done(call);
	}
	return NULL;
}

uint32_t sk_cupti_joins_sweep(struct sk_cupti_joins *joins, uint64_t flush, bool quiet)
{
	uint64_t tail = atomic_load(&joins->tail), again;
	struct sk_cupti_join *first;
	bool busy;

	/* A thread takes its position before it looks at `oldest_ns`. So either it looks after the
	 * store below and lowers the value itself, or its position is seen by the load behind it.
	 */
	for (;;) {
		first = first_waiting(joins, tail, flush, quiet, &busy);
		if (busy)
			return 0; /* the published value stands until the next sweep */
		atomic_store(joins->oldest_ns, first ? first->entered_ns : 0);
		again = atomic_load(&joins->tail);
		if (first || again == tail)
			break;
		tail = again;
	}
	return first ? first->context : 0;
}

bool sk_cupti_joins_is_missing(struct sk_cupti_joins *joins, uint64_t end)
{
	for (uint64_t position = joins->head; position < end; position++) {
		const struct sk_cupti_join *call = at(joins, position);
		uint64_t word = atomic_load_explicit(&call->word, memory_order_acquire);

		if (word == word_of(position, SK_CUPTI_JOIN_WAITING) &&
		    !(call->flags & SK_CUPTI_JOIN_BARE) &&
		    !atomic_load_explicit(&call->seen, memory_order_relaxed))
			return true;
	}
	return false;
}

/* Set how much later an id is than the call at a position, negative where it is earlier. False: not
 * known. */
static bool distance(struct sk_cupti_joins *joins, uint64_t position, uint32_t correlation,
		     int32_t *ret)
{
	const struct sk_cupti_join *call = at(joins, position);
	uint64_t word = atomic_load_explicit(&call->word, memory_order_acquire);

	if (word >> STATE_BITS != position || state_of(word) == SK_CUPTI_JOIN_FILLING)
		return false;
	*ret = (int32_t)(correlation -
			 atomic_load_explicit(&call->correlation, memory_order_relaxed));
	return true;
}

bool sk_cupti_joins_spans(struct sk_cupti_joins *joins, uint64_t from, uint64_t to,
			  uint32_t correlation)
{
	uint64_t tail = atomic_load(&joins->tail);
	int32_t apart;

	if (to != SK_CUPTI_JOINS_OPEN &&
	    (!to || !distance(joins, to - 1, correlation, &apart) || apart > 0))
		return false;
	/* The first call lost its place long ago, so the records of all earlier ones have come. */
	if (from == SK_CUPTI_JOINS_OPEN || tail - from > SK_CUPTI_JOINS_CALLS)
		return true;
	return distance(joins, from, correlation, &apart) && apart >= 0;
}
