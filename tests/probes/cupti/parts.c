/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the CUPTI tracer that need no CUPTI: joins, buffers. Exits with 0. */
#include "cupti/buffers.h"
#include "cupti/joins.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static _Atomic uint64_t oldest_ns;

static struct sk_cupti_joins *make_joins(void)
{
	struct sk_cupti_joins *joins = mmap(NULL, sizeof(*joins), PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(joins != MAP_FAILED);
	oldest_ns = 0;
	joins->oldest_ns = &oldest_ns;
	return joins;
}

static uint64_t enter(struct sk_cupti_joins *joins, uint32_t id, uint64_t ns, unsigned flags)
{
	return sk_cupti_joins_enter(joins, &(struct sk_cupti_join_call){.entered_ns = ns,
									.correlation = id,
									.tid = id + 1,
									.context = 5,
									.flags = (uint8_t)flags});
}

static void finish(struct sk_cupti_joins *joins, uint32_t id, uint64_t flush)
{
	struct sk_cupti_join *call = sk_cupti_joins_find(joins, id);

	CHECK(call && call->tid == id + 1);
	sk_cupti_joins_seen(joins, call, flush);
}

static void test_the_oldest_call_holds_until_its_record_comes(void)
{
	struct sk_cupti_joins *joins = make_joins();

	sk_cupti_joins_leave(joins, enter(joins, 100, 1000, 0), 7, 3, true);
	sk_cupti_joins_leave(joins, enter(joins, 200, 2000, 0), 7, 3, true);
	sk_cupti_joins_leave(joins, enter(joins, 300, 3000, 0), 7, 3, false); /* refused */
	CHECK(oldest_ns == 1000);
	finish(joins, 200, 0);
	CHECK(sk_cupti_joins_sweep(joins, 1, false) == 5 && oldest_ns == 1000);
	finish(joins, 100, 1);
	CHECK(!sk_cupti_joins_sweep(joins, 2, false) && oldest_ns == 0);
	CHECK(!sk_cupti_joins_find(joins, 999) && joins->given_up == 0);
}

static void test_a_graph_holds_until_two_flushes_bring_nothing_more(void)
{
	struct sk_cupti_joins *joins = make_joins();

	sk_cupti_joins_leave(joins, enter(joins, 1, 1000, SK_CUPTI_JOIN_MANY), 7, 0, true);
	finish(joins, 1, 1);
	sk_cupti_joins_sweep(joins, 2, false);
	CHECK(oldest_ns == 1000);
	finish(joins, 1, 2);
	sk_cupti_joins_sweep(joins, 3, false);
	sk_cupti_joins_sweep(joins, 4, false);
	CHECK(oldest_ns == 1000);
	sk_cupti_joins_sweep(joins, 5, false);
	CHECK(oldest_ns == 0);
}

static void test_a_call_without_a_record_is_given_up(void)
{
	struct sk_cupti_joins *joins = make_joins();

	sk_cupti_joins_leave(joins, enter(joins, 1, 1000, 0), 7, 0, true);
	sk_cupti_joins_leave(joins, enter(joins, 2, 1000 + SK_CUPTI_JOINS_PATIENCE_NS, 0), 7, 0,
			     true);
	sk_cupti_joins_sweep(joins, 1, false);
	CHECK(oldest_ns == 1000);
	finish(joins, 2, 1);
	sk_cupti_joins_sweep(joins, 2, false);
	CHECK(oldest_ns == 0 && joins->given_up == 1);
}

static void test_an_alias_finds_the_same_call(void)
{
	struct sk_cupti_joins *joins = make_joins();

	sk_cupti_joins_enter(joins, &(struct sk_cupti_join_call){
					    .entered_ns = 9, .correlation = 10, .alias = 11});
	CHECK(sk_cupti_joins_find(joins, 10) &&
	      sk_cupti_joins_find(joins, 10) == sk_cupti_joins_find(joins, 11));
}

static void test_a_call_that_loses_its_place_is_counted(void)
{
	struct sk_cupti_joins *joins = make_joins();

	for (uint32_t id = 1; id <= SK_CUPTI_JOINS_CALLS + 10; id++)
		sk_cupti_joins_leave(joins, enter(joins, id, id, 0), 7, 0, true);
	CHECK(joins->evicted == 10);
	CHECK(!sk_cupti_joins_find(joins, 3) && sk_cupti_joins_find(joins, 11));
	sk_cupti_joins_sweep(joins, 1, false);
	CHECK(oldest_ns == 11);
}

static void test_a_call_that_has_returned_lacks_its_record_until_it_comes(void)
{
	struct sk_cupti_joins *joins = make_joins();
	uint64_t calling = enter(joins, 1, 1000, 0);

	sk_cupti_joins_leave(joins, enter(joins, 2, 2000, SK_CUPTI_JOIN_BARE), 7, 0, true);
	sk_cupti_joins_leave(joins, enter(joins, 3, 3000, 0), 7, 0, false);
	CHECK(!sk_cupti_joins_is_missing(joins, 3));
	sk_cupti_joins_leave(joins, enter(joins, 4, 4000, 0), 7, 0, true);
	CHECK(!sk_cupti_joins_is_missing(joins, 3) && sk_cupti_joins_is_missing(joins, 4));
	finish(joins, 4, 1);
	CHECK(!sk_cupti_joins_is_missing(joins, 4));
	sk_cupti_joins_leave(joins, calling, 7, 0, true);
	CHECK(sk_cupti_joins_is_missing(joins, 4));
}

static void test_ids_of_a_window_lie_between_its_calls(void)
{
	struct sk_cupti_joins *joins = make_joins();

	CHECK(sk_cupti_joins_spans(joins, SK_CUPTI_JOINS_OPEN, SK_CUPTI_JOINS_OPEN,
				   7)); /* positions before and after every call */
	CHECK(!sk_cupti_joins_spans(joins, SK_CUPTI_JOINS_OPEN, 0,
				    7)); /* no such id was given out */
	CHECK(!sk_cupti_joins_spans(joins, 0, SK_CUPTI_JOINS_OPEN,
				    7)); /* the id may be of a call before the first */
	for (uint32_t id = 10; id <= 40; id += 10)
		enter(joins, id, id, 0);
	CHECK(sk_cupti_joins_spans(joins, 0, 2, 20) && !sk_cupti_joins_spans(joins, 0, 2, 21));
	CHECK(sk_cupti_joins_spans(joins, 1, SK_CUPTI_JOINS_OPEN, 20) &&
	      sk_cupti_joins_spans(joins, 1, 3, 29));
	CHECK(!sk_cupti_joins_spans(joins, 1, SK_CUPTI_JOINS_OPEN, 19) &&
	      !sk_cupti_joins_spans(joins, 1, 3, 31));
	CHECK(!sk_cupti_joins_spans(joins, 4, SK_CUPTI_JOINS_OPEN,
				    50)); /* the first call is still to come */
	for (uint32_t id = 50; id <= SK_CUPTI_JOINS_CALLS + 60; id++)
		enter(joins, id, id, 0);
	CHECK(sk_cupti_joins_spans(joins, 1, SK_CUPTI_JOINS_OPEN, 15));
}

static struct sk_cupti_joins *shared;

static void *many(void *argument)
{
	uint32_t base = (uint32_t)(uintptr_t)argument;

	for (uint32_t i = 1; i <= 5000; i++)
		sk_cupti_joins_leave(shared, enter(shared, base + i, 1000 + i, 0), 1, 0, true);
	return NULL;
}

static void test_threads_lose_nothing(void)
{
	pthread_t threads[8];
	unsigned found = 0;

	shared = make_joins();
	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, many, (void *)(i * 100000));
	for (int i = 0; i < 200; i++)
		sk_cupti_joins_sweep(shared, 1, false);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t thread = 0; thread < 8; thread++)
		for (uint32_t i = 1; i <= 5000; i++) {
			found += sk_cupti_joins_find(shared, thread * 100000 + i) != NULL;
			finish(shared, thread * 100000 + i, 1);
		}
	sk_cupti_joins_sweep(shared, 9, false);
	CHECK(found == 40000 && shared->evicted == 0 && oldest_ns == 0);
}

static void test_buffers_are_zero_and_bounded(void)
{
	static struct sk_cupti_buffers buffers;
	uint8_t *taken[SK_CUPTI_BUFFERS];

	CHECK(!sk_cupti_buffers_out(&buffers));
	for (int i = 0; i < SK_CUPTI_BUFFERS; i++) {
		taken[i] = sk_cupti_buffers_take(&buffers);
		CHECK(taken[i]);
		taken[i][0] = taken[i][100] = 7;
	}
	CHECK(!sk_cupti_buffers_take(&buffers) && buffers.refused == 1 &&
	      sk_cupti_buffers_out(&buffers));
	sk_cupti_buffers_give(&buffers, taken[5], 101);
	CHECK(sk_cupti_buffers_take(&buffers) == taken[5] && !taken[5][0] && !taken[5][100]);
	sk_cupti_buffers_give(&buffers, (uint8_t *)&taken, 8); /* the buffer is not of the pool */
	CHECK(taken[5]);
	for (int i = 0; i < SK_CUPTI_BUFFERS; i++)
		sk_cupti_buffers_give(&buffers, taken[i], 101);
	CHECK(!sk_cupti_buffers_out(&buffers));
}

int main(void)
{
	test_the_oldest_call_holds_until_its_record_comes();
	test_a_graph_holds_until_two_flushes_bring_nothing_more();
	test_a_call_without_a_record_is_given_up();
	test_an_alias_finds_the_same_call();
	test_a_call_that_loses_its_place_is_counted();
	test_a_call_that_has_returned_lacks_its_record_until_it_comes();
	test_ids_of_a_window_lie_between_its_calls();
	test_threads_lose_nothing();
	test_buffers_are_zero_and_bounded();
	return 0;
}
