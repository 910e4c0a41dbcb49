/* SPDX-License-Identifier: Apache-2.0
 *
 * A known shape rates only the nodes that changed since it was last used. A new one, or one that
 * missed too many changes, rates the nodes whose free amounts may suffice. Vectors have eight slots
 * and are split where the machine has narrower ones; the results are the same everywhere.
 */
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/node.h"
#include "core/policy/rate.h"
#include "core/policy/score.h"
#include "core/policy/signal.h"
#include "core/policy/workload.h"
#include "core/state/changes.h"
#include "core/state/table.h"

#define SK_LANES 8u
#define SK_INLINE static inline __attribute__((always_inline))

_Static_assert(SK_BLOCK % SK_LANES == 0, "blocks are whole vectors");
_Static_assert((SK_BUCKETS & (SK_BUCKETS - 1)) == 0, "a mask of the hash");

#if defined(__x86_64__)
#define SK_TWO_VARIANTS
#define SK_WIDE __attribute__((target("avx2")))
#endif

#pragma GCC diagnostic ignored "-Wpsabi"

typedef uint32_t sk_vector __attribute__((vector_size(SK_LANES * 4)));
typedef int32_t sk_signed_vector __attribute__((vector_size(SK_LANES * 4)));
typedef uint64_t sk_wide_vector __attribute__((vector_size(SK_LANES * 4)));

SK_INLINE sk_vector load(const uint32_t *from)
{
	sk_vector vector;

	memcpy(&vector, from, sizeof vector);
	return vector;
}

SK_INLINE sk_vector all(uint32_t value)
{
	return (sk_vector){0} + value;
}

SK_INLINE bool any(const sk_vector *mask)
{
	sk_wide_vector wide = (sk_wide_vector)*mask;

	return (wide[0] | wide[1] | wide[2] | wide[3]) != 0;
}

#define SK_LESS(a, b) ((sk_vector)((a) < (b)))
#define SK_LESS_SIGNED(a, b) ((sk_vector)((sk_signed_vector)(a) < (sk_signed_vector)(b)))
#define SK_CHOOSE(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

/* ---- what changed ---- */

static uint32_t clamped(uint64_t value)
{
	return value < INT32_MAX ? (uint32_t)value : INT32_MAX;
}

static void summarise(const struct sk_core *core, uint32_t slot)
{
	const struct sk_node *node = &core->nodes[slot];
	struct sk_summary *summary = &core->hints->summary;
	uint32_t part = 0;

	core->hints->prepared_as[slot] = 0;
	summary->cpu[slot] = node->up ? clamped(sk_node_cpu_free(node) + 1) : 0;
	summary->memory[slot] = node->up ? clamped(sk_node_memory_free(node) >> 20) : 0;
	summary->whole[slot] = node->up ? node->devices_free : 0;
	for (uint32_t index = 0; node->up && index < node->devices; index++) {
		uint32_t free = sk_device_free(sk_device_at(core, slot, index));

		part = free > part ? free : part;
	}
	summary->part[slot] = part;
	summary->plain[slot] =
		node->up && !node->labels_n && node->tasks_count < core->limits.node_tasks;
}

/* Slots past the last node ever seen are not rated. When a node joins there, all ratings are
 * void. */
static void reach(struct sk_hints *hints, uint32_t slot)
{
	if (slot < hints->end)
		return;
	hints->end = (slot / SK_BLOCK + 1) * SK_BLOCK;
	hints->generation++;
}

static void look(const struct sk_core *core)
{
	struct sk_hints *hints = core->hints;
	struct sk_changes *changes = &hints->changes;

	if (changes->count - changes->read > SK_CHANGED_MAX) {
		changes->read = changes->count;
		for (uint32_t slot = 1; slot <= core->limits.nodes; slot++) {
			if (core->nodes[slot].id)
				reach(hints, slot);
			summarise(core, slot);
			hints->changed_at[slot] = changes->count;
		}
	}
	for (; changes->read < changes->count; changes->read++) {
		uint32_t slot = changes->nodes[changes->read % SK_CHANGED_MAX];

		hints->changed_at[slot] = changes->read;
		reach(hints, slot);
		summarise(core, slot);
	}
}

/* ---- shapes ---- */

static void shape_key(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		      struct sk_shape_key *ret)
{
	const struct sk_request *request = &job->request;

	memset(ret, 0, sizeof *ret);
	ret->memory_bytes = request->memory_bytes;
	ret->device_memory_bytes = request->device_memory_bytes;
	ret->models = job->wish.models;
	ret->traits = request->gpu_milli ? job->wish.traits : 0;
	ret->memory_least = job->wish.memory_least;
	ret->families = request->gpu_milli ? job->wish.families : 0;
	memcpy(ret->require, request->require, sizeof ret->require);
	memcpy(ret->avoid, request->avoid, sizeof ret->avoid);
	memcpy(ret->tolerate, request->tolerate, sizeof ret->tolerate);
	ret->gpu_milli = request->gpu_milli;
	ret->cpu_milli = request->cpu_milli;
	ret->how = how;
	ret->options = request->options & SK_MIX_VENDORS;
	ret->together = job->wish.together;
	if (how != SK_PLACEMENT_FASTEST)
		return;
	ret->series = request->series;
	ret->speeds = sk_signal_speeds(core, request->series);
}

/* A job with this shape and nothing else. */
static void shape_job(const struct sk_shape_key *key, struct sk_job *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->wish.models = key->models;
	ret->wish.traits = key->traits;
	ret->wish.memory_least = key->memory_least;
	ret->wish.families = key->families;
	ret->wish.together = (uint8_t)key->together;
	ret->request.memory_bytes = key->memory_bytes;
	ret->request.device_memory_bytes = key->device_memory_bytes;
	memcpy(ret->request.require, key->require, sizeof key->require);
	memcpy(ret->request.avoid, key->avoid, sizeof key->avoid);
	memcpy(ret->request.tolerate, key->tolerate, sizeof key->tolerate);
	ret->request.gpu_milli = key->gpu_milli;
	ret->request.cpu_milli = key->cpu_milli;
	ret->request.options = (uint16_t)key->options;
	ret->request.series = key->series;
}

static uint32_t shape_hash(const struct sk_shape_key *key)
{
	const uint64_t *words = (const uint64_t *)key;
	uint64_t hash = 0;

	_Static_assert(sizeof *key % sizeof *words == 0, "no holes");
	for (uint32_t i = 0; i < sizeof *key / sizeof *words; i++)
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u + (hash >> 29);
	return (uint32_t)sk_mix(hash);
}

static uint32_t shape_find(const struct sk_hints *hints, const struct sk_shape_key *key,
			   uint32_t hash)
{
	uint32_t at = hints->buckets[hash % SK_BUCKETS];

	while (at && (hints->shapes[at - 1].hash != hash ||
		      memcmp(&hints->shapes[at - 1].key, key, sizeof *key)))
		at = hints->shapes[at - 1].next;
	return at;
}

static void shape_drop(struct sk_hints *hints, uint32_t at)
{
	uint16_t *cell = &hints->buckets[hints->shapes[at - 1].hash % SK_BUCKETS];

	while (*cell != at)
		cell = &hints->shapes[*cell - 1].next;
	*cell = hints->shapes[at - 1].next;
}

/* Add a shape in place of an unused one, or of the one that was not used for the longest time. */
static uint32_t shape_add(struct sk_hints *hints, const struct sk_shape_key *key, uint32_t hash)
{
	struct sk_shape *shape;
	uint32_t at = 0;

	for (uint32_t i = 1; i < SK_SHAPES_MAX; i++)
		if (hints->used_at[i] < hints->used_at[at])
			at = i;
	shape = &hints->shapes[at++];
	if (shape->generation)
		shape_drop(hints, at);
	*shape = (struct sk_shape){.key = *key, .generation = UINT64_MAX, .hash = hash};
	shape->next = hints->buckets[hash % SK_BUCKETS];
	hints->buckets[hash % SK_BUCKETS] = (uint16_t)at;
	return at;
}

/* ---- ratings ---- */

struct sk_least_free {
	uint32_t cpu;
	uint32_t memory;
	uint32_t devices;
	const uint32_t *has; /* free devices, in the same unit */
};

static struct sk_least_free least_free(const struct sk_hints *hints, const struct sk_job *job)
{
	bool whole = job->request.gpu_milli >= SK_MILLI;

	return (struct sk_least_free){
		.cpu = clamped((uint64_t)job->request.cpu_milli + 1),
		.memory = clamped(job->request.memory_bytes >> 20),
		.devices = whole ? job->request.gpu_milli / SK_MILLI : job->request.gpu_milli,
		.has = whole ? hints->summary.whole : hints->summary.part,
	};
}

/* Mark all slots as unfit except those in `todo`, whose free amounts may suffice; returns their
 * number. */
SK_INLINE uint32_t sift_lanes(const struct sk_hints *hints, const struct sk_least_free *least,
			      uint32_t *scores, uint32_t *todo)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < hints->end; slot += SK_LANES) {
		sk_vector few =
			SK_LESS_SIGNED(load(hints->summary.cpu + slot), all(least->cpu)) |
			SK_LESS_SIGNED(load(hints->summary.memory + slot), all(least->memory)) |
			SK_LESS_SIGNED(load(least->has + slot), all(least->devices));
		sk_vector none = all(SK_SCORE_NONE), enough = ~few;

		memcpy(scores + slot, &none, sizeof none);
		if (!any(&enough))
			continue;
		for (uint32_t i = 0; i < SK_LANES; i++) {
			todo[count] = slot + i;
			count += enough[i] & 1;
		}
	}
	return count;
}

/* The first slot at or after this one with that score, or `end`. */
SK_INLINE uint32_t next_lanes(const uint32_t *scores, uint32_t slot, uint32_t end, uint32_t score)
{
	for (; slot % SK_LANES && slot < end; slot++)
		if (scores[slot] == score)
			return slot;
	for (; slot < end; slot += SK_LANES) {
		sk_vector same = (sk_vector)(load(scores + slot) == all(score));

		if (!any(&same))
			continue;
		while (scores[slot] != score)
			slot++;
		return slot;
	}
	return end;
}

SK_INLINE uint32_t min_lanes(const sk_vector *lanes)
{
	uint32_t least = (*lanes)[0];

	for (uint32_t i = 1; i < SK_LANES; i++)
		least = (*lanes)[i] < least ? (*lanes)[i] : least;
	return least;
}

SK_INLINE uint32_t lowest_lanes(const uint32_t *scores, uint32_t end)
{
	sk_vector a = all(SK_SCORE_NONE), b = a;

	for (uint32_t slot = 0; slot < end; slot += 2 * SK_LANES) {
		sk_vector left = load(scores + slot);
		sk_vector right = load(scores + slot + SK_LANES);

		a = SK_CHOOSE(SK_LESS(left, a), left, a);
		b = SK_CHOOSE(SK_LESS(right, b), right, b);
	}
	a = SK_CHOOSE(SK_LESS(b, a), b, a);
	return min_lanes(&a);
}

/* The lowest second rating among the slots with this first rating. */
SK_INLINE uint32_t lowest_of_lanes(const uint32_t *scores, const uint32_t *second, uint32_t end,
				   uint32_t score)
{
	sk_vector least = all(SK_SCORE_NONE);

	for (uint32_t slot = 0; slot < end; slot += SK_LANES) {
		sk_vector same = (sk_vector)(load(scores + slot) == all(score));
		sk_vector other = load(second + slot) | ~same;

		least = SK_CHOOSE(SK_LESS(other, least), other, least);
	}
	return min_lanes(&least);
}

SK_INLINE uint32_t least_lanes(const struct sk_hints *hints, const uint32_t *first,
			       const uint32_t *second)
{
	uint32_t score = lowest_lanes(first, hints->end), least, slot;

	if (score == SK_SCORE_NONE)
		return 0;
	slot = next_lanes(first, 0, hints->end, score);
	if (!second)
		return slot;
	least = lowest_of_lanes(first, second, hints->end, score);
	while (second[slot] != least)
		slot = next_lanes(first, slot + 1, hints->end, score);
	return slot;
}

SK_INLINE uint32_t count_lanes(const struct sk_hints *hints, const uint32_t *scores)
{
	sk_vector fit = all(0);
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < hints->end; slot += SK_LANES)
		fit -= (sk_vector)(load(scores + slot) != all(SK_SCORE_NONE));
	for (uint32_t i = 0; i < SK_LANES; i++)
		count += fit[i];
	return count;
}

#if defined(SK_TWO_VARIANTS)
static SK_WIDE uint32_t count_wide(const struct sk_hints *hints, const uint32_t *scores)
{
	return count_lanes(hints, scores);
}

static SK_WIDE uint32_t sift_wide(const struct sk_hints *hints, const struct sk_least_free *least,
				  uint32_t *scores, uint32_t *todo)
{
	return sift_lanes(hints, least, scores, todo);
}

static SK_WIDE uint32_t least_wide(const struct sk_hints *hints, const uint32_t *first,
				   const uint32_t *second)
{
	return least_lanes(hints, first, second);
}
#endif

static uint32_t sift(const struct sk_hints *hints, const struct sk_least_free *least,
		     uint32_t *scores, uint32_t *todo)
{
#if defined(SK_TWO_VARIANTS)
	if (__builtin_cpu_supports("avx2"))
		return sift_wide(hints, least, scores, todo);
#endif
	return sift_lanes(hints, least, scores, todo);
}

uint32_t sk_score_least(const struct sk_hints *hints, const uint32_t *first, const uint32_t *second)
{
#if defined(SK_TWO_VARIANTS)
	if (__builtin_cpu_supports("avx2"))
		return least_wide(hints, first, second);
#endif
	return least_lanes(hints, first, second);
}

uint32_t sk_score_count(const struct sk_hints *hints, const uint32_t *scores)
{
#if defined(SK_TWO_VARIANTS)
	if (__builtin_cpu_supports("avx2"))
		return count_wide(hints, scores);
#endif
	return count_lanes(hints, scores);
}

/* Prefetch the parts of a node that a rating reads. */
static void fetch(const struct sk_hints *hints, uint32_t slot)
{
	const struct sk_frag_node *node = &hints->prepared[slot];

	__builtin_prefetch(node);
	__builtin_prefetch(&node->kinds);
	__builtin_prefetch(&node->kind_many);
	__builtin_prefetch(&node->idle);
	__builtin_prefetch(node->takes);
	__builtin_prefetch(node->takes + 16);
	__builtin_prefetch(node->takes + 32);
}

#define SK_AHEAD 4u /* nodes prefetched ahead */

static void rate_every(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		       uint32_t *scores)
{
	const struct sk_hints *hints = core->hints;
	struct sk_least_free least = least_free(hints, job);
	uint32_t count = sift(hints, &least, scores, hints->todo);

	for (uint32_t i = 0; i < count; i++) {
		if (i + SK_AHEAD < count)
			fetch(hints, hints->todo[i + SK_AHEAD]);
		scores[hints->todo[i]] = sk_rate(core, job, how, hints->todo[i]);
	}
}

static void rate_one(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		     const struct sk_least_free *least, uint32_t slot, uint32_t *scores)
{
	const struct sk_summary *summary = &core->hints->summary;
	bool few = summary->cpu[slot] < least->cpu || summary->memory[slot] < least->memory ||
		   least->has[slot] < least->devices;

	scores[slot] = few ? SK_SCORE_NONE : sk_rate(core, job, how, slot);
}

/* Rate at most `budget` of the nodes that changed since, skipping those that changed again
 * later. */
static uint32_t rate_changed(const struct sk_core *core, const struct sk_job *job,
			     struct sk_shape *shape, uint32_t *scores, uint32_t budget)
{
	const struct sk_hints *hints = core->hints;
	const struct sk_changes *changes = &hints->changes;
	struct sk_least_free least = least_free(hints, job);
	uint32_t rated = 0;

	for (; shape->seen < changes->count && rated < budget; shape->seen++) {
		uint32_t slot = changes->nodes[shape->seen % SK_CHANGED_MAX];

		if (hints->changed_at[slot] != shape->seen)
			continue;
		rated++;
		rate_one(core, job, (enum sk_placement)shape->key.how, &least, slot, scores);
	}
	return rated;
}

/* Rate the changed nodes for a shape that missed so many changes that it is quicker to check every
 * node for its last change. */
static void rate_missed(const struct sk_core *core, const struct sk_job *job,
			const struct sk_shape *shape, uint32_t *scores)
{
	const struct sk_hints *hints = core->hints;
	struct sk_least_free least = least_free(hints, job);
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < hints->end; slot++) {
		hints->todo[count] = slot;
		count += hints->changed_at[slot] >= shape->seen;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (i + SK_AHEAD < count)
			fetch(hints, hints->todo[i + SK_AHEAD]);
		rate_one(core, job, (enum sk_placement)shape->key.how, &least, hints->todo[i],
			 scores);
	}
}

static bool shape_near(const struct sk_hints *hints, const struct sk_shape *shape)
{
	return shape->generation == hints->generation &&
	       hints->changes.count - shape->seen <= SK_CHANGED_MAX;
}

/* True if its series has the speeds still with which it is rated. */
static bool shape_current(const struct sk_core *core, const struct sk_shape *shape)
{
	return !shape->key.series || shape->key.speeds == sk_signal_speeds(core, shape->key.series);
}

static void shape_rate(const struct sk_core *core, const struct sk_job *job, struct sk_shape *shape,
		       uint32_t *scores)
{
	const struct sk_hints *hints = core->hints;

	if (shape->generation != hints->generation)
		rate_every(core, job, (enum sk_placement)shape->key.how, scores);
	else if (shape_near(hints, shape) && hints->changes.count - shape->seen < hints->end / 2)
		rate_changed(core, job, shape, scores, UINT32_MAX);
	else
		rate_missed(core, job, shape, scores);
	shape->generation = hints->generation;
	shape->seen = hints->changes.count;
}

/* Named devices and the tasks placed before are no part of a shape: a job with such is rated as one
 * without them, and the choice of its devices on a node heeds them. */
static void shape_rate_bare(const struct sk_core *core, struct sk_shape *shape, uint32_t *scores)
{
	struct sk_job job;

	shape_job(&shape->key, &job);
	shape_rate(core, &job, shape, scores);
}

const uint32_t *sk_score_all(const struct sk_core *core, const struct sk_job *job,
			     enum sk_placement how)
{
	struct sk_hints *hints = core->hints;
	struct sk_shape_key key;
	struct sk_shape *shape;
	uint32_t hash, at, *scores;

	sk_workload_look(core);
	look(core);
	shape_key(core, job, how, &key);
	hash = shape_hash(&key);
	at = shape_find(hints, &key, hash);
	if (!at)
		at = shape_add(hints, &key, hash);
	shape = &hints->shapes[at - 1];
	scores = &hints->scores[(size_t)(at - 1) * hints->stride];
	hints->used_at[at - 1] = ++hints->clock;
	if (job->wish.named || job->wish.together & SK_LINKED_GANG)
		shape_rate_bare(core, shape, scores);
	else
		shape_rate(core, job, shape, scores);
	return scores;
}

/* Shapes are settled in order, so that none falls far behind. */
void sk_core_settle(struct sk_core *core, uint32_t budget)
{
	struct sk_hints *hints = core->hints;
	struct sk_job job;

	sk_workload_look(core);
	look(core);
	for (uint32_t i = 0; i < SK_SHAPES_MAX && budget; i++) {
		uint32_t at = hints->settling % SK_SHAPES_MAX;
		struct sk_shape *shape = &hints->shapes[at];
		uint32_t *scores = &hints->scores[(size_t)at * hints->stride];

		if (hints->used_at[at] && hints->clock - hints->used_at[at] <= SK_SETTLED_LATELY &&
		    shape_near(hints, shape) && shape_current(core, shape)) {
			shape_job(&shape->key, &job);
			budget -= rate_changed(core, &job, shape, scores, budget);
		}
		if (budget)
			hints->settling++;
	}
}

bool sk_core_scores_check(struct sk_core *core)
{
	struct sk_hints *hints = core->hints;
	struct sk_job job;

	for (uint32_t at = 0; at < SK_SHAPES_MAX; at++) {
		const struct sk_shape *shape = &hints->shapes[at];
		const uint32_t *scores;

		if (!shape->generation)
			continue;
		shape_job(&shape->key, &job);
		scores = sk_score_all(core, &job, (enum sk_placement)shape->key.how);
		for (uint32_t slot = 0; slot <= core->limits.nodes; slot++)
			if (sk_rate(core, &job, (enum sk_placement)shape->key.how, slot) !=
			    (slot < hints->end ? scores[slot] : SK_SCORE_NONE))
				return false;
	}
	return true;
}
