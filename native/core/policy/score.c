/* SPDX-License-Identifier: Apache-2.0
 *
 * A known shape rates only the nodes that changed since it was last used. A new one, or one that
 * missed too many changes, rates the nodes whose free amounts may suffice. Vectors have eight slots
 * and are split where the machine has narrower ones; the results are the same everywhere.
 */
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/node.h"
#include "core/ledger/speed.h"
#include "core/policy/model_rate.h"
#include "core/policy/rate.h"
#include "core/policy/score.h"
#include "core/policy/score_lanes.h"
#include "core/policy/workload.h"
#include "core/state/changes.h"
#include "core/state/table.h"

_Static_assert((SK_BUCKETS & (SK_BUCKETS - 1)) == 0, "a mask of the hash");

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

static void shape_key(const struct sk_job *job, enum sk_placement how, struct sk_shape_key *ret)
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

/* The thing kept of a node is its rating, or for FASTEST the word from which it follows. */
static uint32_t kept_of(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
			uint32_t node)
{
	return how == SK_PLACEMENT_FASTEST ? sk_model_rate(core, job, node)
					   : sk_rate(core, job, how, node);
}

static void rate_every(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		       uint32_t *scores)
{
	const struct sk_hints *hints = core->hints;
	struct sk_least_free least = least_free(hints, job);
	uint32_t count = sift(hints, &least, scores, hints->todo);

	for (uint32_t i = 0; i < count; i++) {
		if (i + SK_AHEAD < count)
			fetch(hints, hints->todo[i + SK_AHEAD]);
		scores[hints->todo[i]] = kept_of(core, job, how, hints->todo[i]);
	}
}

static void rate_one(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		     const struct sk_least_free *least, uint32_t slot, uint32_t *scores)
{
	const struct sk_summary *summary = &core->hints->summary;
	bool few = summary->cpu[slot] < least->cpu || summary->memory[slot] < least->memory ||
		   least->has[slot] < least->devices;

	scores[slot] = few ? SK_SCORE_NONE : kept_of(core, job, how, slot);
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

/* The kept ratings of the shape of the job, brought up to date. */
static const uint32_t *kept_all(const struct sk_core *core, const struct sk_job *job,
				enum sk_placement how)
{
	struct sk_hints *hints = core->hints;
	struct sk_shape_key key;
	struct sk_shape *shape;
	uint32_t hash, at, *scores;

	sk_workload_look(core);
	look(core);
	shape_key(job, how, &key);
	hash = shape_hash(&key);
	at = shape_find(hints, &key, hash);
	if (!at)
		at = shape_add(hints, &key, hash);
	shape = &hints->shapes[at - 1];
	scores = &hints->scores[(size_t)(at - 1) * hints->stride];
	hints->used_at[at - 1] = ++hints->clock;
	shape_rate(core, job, shape, scores);
	return scores;
}

/* Named devices and the tasks placed before are no part of a shape: a job with such is rated as one
 * without them, and the choice of its devices on a node heeds them. */
static void bare_job(const struct sk_job *job, enum sk_placement how, struct sk_job *ret)
{
	struct sk_shape_key key;

	shape_key(job, how, &key);
	shape_job(&key, ret);
	ret->request.series = job->request.series;
}

const uint32_t *sk_score_all(const struct sk_core *core, const struct sk_job *job,
			     enum sk_placement how)
{
	struct sk_job bare;
	const uint32_t *kept;

	if (job->wish.named || job->wish.together & SK_LINKED_GANG) {
		bare_job(job, how, &bare);
		job = &bare;
	}
	kept = kept_all(core, job, how);
	return how == SK_PLACEMENT_FASTEST ? sk_model_rates(core, job, kept) : kept;
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
		    shape_near(hints, shape)) {
			shape_job(&shape->key, &job);
			budget -= rate_changed(core, &job, shape, scores, budget);
		}
		if (budget)
			hints->settling++;
	}
}

/* ---- the check ---- */

/* True if these ratings are those from scratch. */
static bool scores_sound(const struct sk_core *core, const struct sk_job *job,
			 enum sk_placement how, const uint32_t *scores,
			 uint32_t (*rate)(const struct sk_core *, const struct sk_job *,
					  enum sk_placement, uint32_t))
{
	for (uint32_t slot = 0; slot <= core->limits.nodes; slot++)
		if (rate(core, job, how, slot) !=
		    (slot < core->hints->end ? scores[slot] : SK_SCORE_NONE))
			return false;
	return true;
}

/* True if what FASTEST compares is right for every series that has a speed, and for none. */
static bool figures_sound(const struct sk_core *core, struct sk_job *job)
{
	enum sk_placement how = SK_PLACEMENT_FASTEST;

	for (uint32_t slot = core->speeds_order.first; slot; slot = core->speeds[slot].order.next) {
		job->request.series = core->speeds[slot].series;
		if (sk_speed_first(core, job->request.series) == slot &&
		    !scores_sound(core, job, how, sk_score_all(core, job, how), sk_rate))
			return false;
	}
	job->request.series = 0;
	return scores_sound(core, job, how, sk_score_all(core, job, how), sk_rate);
}

bool sk_core_scores_check(struct sk_core *core)
{
	struct sk_hints *hints = core->hints;
	struct sk_job job;

	for (uint32_t at = 0; at < SK_SHAPES_MAX; at++) {
		enum sk_placement how = (enum sk_placement)hints->shapes[at].key.how;

		if (!hints->shapes[at].generation)
			continue;
		shape_job(&hints->shapes[at].key, &job);
		if (!scores_sound(core, &job, how, kept_all(core, &job, how), kept_of))
			return false;
		if (how == SK_PLACEMENT_FASTEST && !figures_sound(core, &job))
			return false;
	}
	return true;
}
