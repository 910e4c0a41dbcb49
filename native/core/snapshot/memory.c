/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of the block of memory: the core first, then every array, the journal, and the hints,
 * which are no part of the state. Invariant: the same walk computes the size and the places, so
 * that the two cannot disagree.
 */
#include <errno.h>
#include <string.h>

#include "core/ledger/queue.h"
#include "core/policy/hints.h"
#include "core/state/journal_bound.h"

/* Measured bounds of what one operation records; sk_command_journal_max reserves by them. */
#define SK_JOURNAL_BYTES                                                                           \
	(SK_JOURNAL_REQUEST * SK_BATCH_REQUESTS_MAX + SK_JOURNAL_TASK * SK_BATCH_PLACES_MAX +      \
	 SK_JOURNAL_SHARE * SK_BATCH_PLACES_MAX * SK_TASK_DEVICES_MAX +                            \
	 SK_JOURNAL_AFTER * SK_AFTERS_MAX + SK_JOURNAL_PROMOTE * SK_PROMOTE_MAX)

/* Each task of a node has one share, except those with whole devices. */
static uint64_t journal_reserve(const struct sk_limits *limits)
{
	return SK_JOURNAL_REQUEST + SK_JOURNAL_SPEED + SK_JOURNAL_SHARE * 2 * SK_NODE_DEVICES_MAX +
	       (SK_JOURNAL_TASK + SK_JOURNAL_SHARE) * (uint64_t)limits->node_tasks;
}

struct sk_carve {
	uint8_t *base; /* NULL: measure only */
	uint64_t at;
};

static void *carve_array(struct sk_carve *carve, uint64_t count, uint64_t size)
{
	uint64_t at = carve->at;

	carve->at = (at + count * size + 63) & ~(uint64_t)63;
	return carve->base ? carve->base + at : NULL;
}

/* Only memory that is read before it is written is cleared. Of an array of slots that is slot 0;
 * the other slots are written when they are taken. */
static void *carve_zeroed(struct sk_carve *carve, uint64_t count, uint64_t size)
{
	void *at = carve_array(carve, count, size);

	if (at)
		memset(at, 0, count * size);
	return at;
}

static uint32_t power_of_two(uint32_t at_least)
{
	uint32_t power = 16;

	while (power < at_least)
		power *= 2;
	return power;
}

static void table_carve(struct sk_table *table, struct sk_carve *carve, uint32_t slots)
{
	uint32_t buckets = power_of_two(slots);

	table->mask = buckets - 1;
	table->buckets = carve_zeroed(carve, buckets, sizeof *table->buckets);
}

static void index_carve(struct sk_index *index, struct sk_carve *carve, uint32_t classes,
			uint32_t slots)
{
	index->classes = classes;
	index->words = (slots + 63) / 64;
	index->bits = carve_zeroed(carve, (uint64_t)classes * index->words, sizeof(uint64_t));
	index->counts = carve_zeroed(carve, classes, sizeof(uint32_t));
	index->classes_used = carve_zeroed(carve, (classes + 63) / 64, sizeof(uint64_t));
}

static void pool_set(struct sk_pool *pool, uint32_t slots)
{
	pool->fresh = 1;
	pool->end = slots + 1;
}

static void carve_ledger(struct sk_core *core, struct sk_carve *carve)
{
	const struct sk_limits *limits = &core->limits;
	uint32_t chunks = limits->nodes + limits->devices / SK_CHUNK_DEVICES;
	uint32_t nodes = limits->nodes + 1;

	core->nodes = carve_zeroed(carve, nodes, sizeof *core->nodes);
	core->node_slots = carve_zeroed(carve, (nodes + 63) / 64, sizeof(uint64_t));
	core->observed = carve_zeroed(carve, nodes, sizeof *core->observed);
	core->chunks = carve_array(carve, chunks + 1u, sizeof *core->chunks);
	core->tasks = carve_array(carve, limits->tasks + 1u, sizeof *core->tasks);
	table_carve(&core->node_table, carve, nodes);
	index_carve(&core->free_whole, carve, SK_NODE_DEVICES_MAX + 1, nodes);
	index_carve(&core->free_part, carve, SK_MILLI, nodes);
	pool_set(&core->chunk_pool, chunks);
	pool_set(&core->task_pool, limits->tasks);
}

static void carve_jobs(struct sk_core *core, struct sk_carve *carve)
{
	const struct sk_limits *limits = &core->limits;
	uint32_t jobs =
		limits->jobs + limits->finished + 1; /* one ends before another is forgotten */
	uint32_t queues = limits->queues + 2;

	core->jobs = carve_array(carve, jobs + 1u, sizeof *core->jobs);
	core->waits = carve_array(carve, (jobs + 1ull) * SK_JOB_AFTERS_MAX, sizeof *core->waits);
	core->keys = carve_array(carve, limits->keys + 1u, sizeof *core->keys);
	table_carve(&core->job_table, carve, jobs);
	core->key_owners = carve_array(carve, limits->keys + 1u, sizeof *core->key_owners);
	table_carve(&core->key_table, carve, limits->keys);
	table_carve(&core->key_owner_table, carve, limits->keys);
	core->delayed = carve_array(carve, limits->jobs + 1u, sizeof *core->delayed);
	core->queues = carve_zeroed(carve, queues + 1u, sizeof *core->queues);
	core->pending =
		carve_zeroed(carve, (queues + 1ull) * SK_QUEUE_KINDS, sizeof *core->pending);
	core->groups = carve_array(carve, limits->tasks + 1u, sizeof *core->groups);
	core->accounts = carve_array(carve, limits->jobs + 1u, sizeof *core->accounts);
	core->user_lines = carve_array(carve, limits->jobs + 1u, sizeof *core->user_lines);
	table_carve(&core->account_table, carve, limits->jobs);
	table_carve(&core->user_line_table, carve, limits->jobs);
	pool_set(&core->account_pool, limits->jobs);
	pool_set(&core->user_line_pool, limits->jobs);
	table_carve(&core->queue_table, carve, queues);
	table_carve(&core->group_table, carve, limits->tasks);
	core->speeds = carve_array(carve, SK_SPEEDS_MAX + 1u, sizeof *core->speeds);
	table_carve(&core->speed_table, carve, SK_SPEEDS_MAX);
	pool_set(&core->speed_pool, SK_SPEEDS_MAX);
	pool_set(&core->group_pool, limits->tasks);
	pool_set(&core->job_pool, jobs);
	pool_set(&core->key_pool, limits->keys);
	pool_set(&core->key_owner_pool, limits->keys);
}

static void carve_summary(struct sk_summary *summary, struct sk_carve *carve, uint32_t stride)
{
	summary->cpu = carve_zeroed(carve, stride, sizeof *summary->cpu);
	summary->memory = carve_zeroed(carve, stride, sizeof *summary->memory);
	summary->part = carve_zeroed(carve, stride, sizeof *summary->part);
	summary->whole = carve_zeroed(carve, stride, sizeof *summary->whole);
	summary->plain = carve_zeroed(carve, stride, sizeof *summary->plain);
}

static void carve_domains(struct sk_domains *domains, struct sk_carve *carve, uint32_t stride)
{
	domains->stride = stride;
	domains->nodes = carve_array(carve, stride, sizeof *domains->nodes);
	domains->next = carve_array(carve, stride, sizeof *domains->next);
	domains->last = carve_array(carve, stride, sizeof *domains->last);
	domains->member = carve_array(carve, stride, sizeof *domains->member);
	domains->buckets = carve_array(carve, stride, sizeof *domains->buckets);
	domains->labels = carve_array(carve, stride, sizeof *domains->labels);
	domains->room = carve_array(carve, stride, sizeof *domains->room);
}

/* The hints are behind the journal, where no digest of memory reads. */
static void carve_hints(struct sk_core *core, struct sk_carve *carve)
{
	const struct sk_limits *limits = &core->limits;
	uint32_t chunks = limits->nodes + limits->devices / SK_CHUNK_DEVICES + 1;
	struct sk_hints measured, *hints;

	core->hints = carve_zeroed(carve, 1, sizeof *core->hints);
	hints = core->hints ? core->hints : &measured;
	core->changes = core->hints ? &hints->changes : NULL;
	core->domains = core->hints ? &hints->domains : NULL;
	hints->changes.nodes = carve_array(carve, SK_CHANGED_MAX, sizeof *hints->changes.nodes);
	hints->stride = (limits->nodes / SK_BLOCK + 1) * SK_BLOCK;
	hints->generation = 1;
	hints->changed_at = carve_zeroed(carve, hints->stride, sizeof *hints->changed_at);
	carve_summary(&hints->summary, carve, hints->stride);
	carve_domains(&hints->domains, carve, hints->stride);
	hints->shapes = carve_zeroed(carve, SK_SHAPES_MAX, sizeof *hints->shapes);
	hints->todo = carve_array(carve, hints->stride + 8u, sizeof *hints->todo);
	hints->used_at = carve_zeroed(carve, SK_SHAPES_MAX, sizeof *hints->used_at);
	hints->buckets = carve_zeroed(carve, SK_BUCKETS, sizeof *hints->buckets);
	hints->scores =
		carve_array(carve, (uint64_t)hints->stride * SK_SHAPES_MAX, sizeof(uint32_t));
	hints->figures = carve_array(carve, hints->stride, sizeof *hints->figures);
	hints->prepared = carve_array(carve, hints->stride, sizeof *hints->prepared);
	hints->prepared_as = carve_zeroed(carve, hints->stride, 1);
	hints->mixed = carve_zeroed(carve, hints->stride, 1);
	hints->tables = carve_zeroed(carve, 2, sizeof *hints->tables);
	hints->classes = carve_zeroed(carve, SK_CLASSES_MAX, sizeof *hints->classes);
	hints->counted = carve_array(carve, SK_COUNTED_MAX, sizeof *hints->counted);
	hints->typical = carve_array(carve, SK_CLASSES_MAX, sizeof *hints->typical);
	hints->samples =
		carve_zeroed(carve, (uint64_t)chunks * SK_CHUNK_DEVICES, sizeof *hints->samples);
	hints->evidence = carve_array(carve, SK_EVIDENCE_MAX, sizeof *hints->evidence);
	hints->choices = carve_array(carve, SK_CHOICES_MAX, sizeof *hints->choices);
	hints->tried =
		carve_zeroed(carve, limits->jobs + limits->finished + 2ull, sizeof *hints->tried);
}

static bool limit_ok(uint32_t value, uint32_t max)
{
	return value && value <= max;
}

static bool limits_ok(const struct sk_limits *limits)
{
	return limit_ok(limits->nodes, SK_NODES_LIMIT_MAX) &&
	       limit_ok(limits->devices, SK_DEVICES_LIMIT_MAX) &&
	       limit_ok(limits->jobs, SK_JOBS_LIMIT_MAX) &&
	       limit_ok(limits->finished, SK_JOBS_LIMIT_MAX) &&
	       limit_ok(limits->tasks, SK_TASKS_LIMIT_MAX) &&
	       limit_ok(limits->node_tasks, SK_TASKS_LIMIT_MAX) &&
	       limit_ok(limits->keys, SK_KEYS_LIMIT_MAX) &&
	       limit_ok(limits->queues, SK_QUEUES_LIMIT_MAX);
}

static void carve_all(struct sk_core *core, struct sk_carve *carve)
{
	carve_array(carve, 1, sizeof *core);
	carve_ledger(core, carve);
	carve_jobs(core, carve);
	core->journal.reserve = journal_reserve(&core->limits);
	core->journal.capacity = SK_JOURNAL_BYTES + core->journal.reserve;
	core->journal.bytes = carve_array(carve, core->journal.capacity, 1);
	carve_hints(core, carve);
	core->size = carve->at;
}

size_t sk_core_memsize(const struct sk_limits *limits)
{
	struct sk_core core = {.limits = *limits};
	struct sk_carve carve = {0};

	if (!limits_ok(limits))
		return 0;
	carve_all(&core, &carve);
	return core.size;
}

int sk_core_init(void *memory, size_t size, const struct sk_limits *limits, struct sk_core **ret)
{
	struct sk_carve carve = {.base = memory};
	struct sk_core *core = memory;
	size_t needed = sk_core_memsize(limits);

	if (!needed || size < needed || (uintptr_t)memory % 64)
		return -EINVAL;
	memset(core, 0, sizeof *core);
	core->limits = *limits;
	core->next_job = 1;
	carve_all(core, &carve);
	sk_queue_first(core);
	*ret = core;
	return 0;
}
