/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement scores against a dumb computation that tries every device by itself: the published
 * formulas in floats for FGD, plain counting for the default. Built in several ways by
 * test_frag.py; prints a digest of all it saw, which is the same for every way. `test_frag SEED`.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy/frag.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (seed %s step %u)\n", __FILE__, __LINE__,       \
				#condition, seed_given, step_now);                                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define MIB ((uint64_t)1 << 20)

static const char *seed_given;
static uint32_t step_now;
static uint64_t random_state, digest;

/* Java's generator of 48 bits, high bits: enough for tests. */
static uint64_t chance(uint64_t below)
{
	random_state = random_state * 0x5deece66d + 11;
	return (random_state >> 17) % below;
}

/* ---- the dumb computation ---- */

struct world {
	enum sk_frag_policy policy;
	struct sk_frag_class classes[SK_FRAG_CLASSES_MAX];
	int64_t share[SK_FRAG_CLASSES_MAX];
	int64_t worth[SK_FRAG_CLASSES_MAX];
	uint32_t count;
	uint64_t equals;
};

static int64_t size_of(const struct sk_frag_class *each)
{
	return (int64_t)each->gpu_milli * each->count;
}

/* Compute shares, worths and what a processor stands for, as docs/developer/placement.md defines
 * them. */
static void weigh(struct world *world)
{
	uint64_t total = 0, copies = 0, cpu = 0, milli = 0;

	world->equals = 0;
	for (uint32_t at = 0; at < world->count; at++)
		total += world->classes[at].weight;
	for (uint32_t at = 0; at < world->count; at++) {
		const struct sk_frag_class *each = &world->classes[at];
		int64_t size = size_of(each);

		world->share[at] = total ? (int64_t)((uint64_t)each->weight * 65536 / total) : 0;
		if (!size)
			continue;
		copies += ((uint64_t)world->share[at] << 24) / (uint64_t)size;
		cpu += (uint64_t)world->share[at] *
		       (each->cpu_milli < INT32_MAX ? each->cpu_milli : INT32_MAX);
		milli += (uint64_t)(world->share[at] * size);
	}
	for (uint32_t at = 0; at < world->count; at++)
		world->worth[at] = size_of(&world->classes[at]) && copies
					   ? (int64_t)(((uint64_t)world->share[at] << 32) / copies)
					   : 0;
	if (cpu)
		world->equals = milli * 33554432 / (3 * cpu);
	if (world->equals > 17179869184)
		world->equals = 17179869184;
}

static int64_t idle_of(const struct sk_frag_node *node)
{
	int64_t idle = 0;

	for (uint32_t index = 0; index < node->devices; index++)
		idle += node->free[index];
	return idle;
}

static bool suits(const struct world *world, const struct sk_frag_node *node,
		  const struct sk_frag_class *each)
{
	if (each->models && !(each->models & node->models))
		return false;
	if (world->policy == SK_FRAG_DEFAULT &&
	    (each->memory_bytes + MIB - 1) / MIB > node->memory_free / MIB)
		return false;
	return each->cpu_milli <= node->cpu_free;
}

/* Milli of the node's devices that such a request cannot use. */
static int64_t wasted(const struct sk_frag_node *node, const struct sk_frag_class *each,
		      bool suited)
{
	int64_t usable = 0;
	uint32_t devices = 0;

	for (uint32_t index = 0; index < node->devices; index++)
		if (node->free[index] >= each->gpu_milli) {
			usable += node->free[index];
			devices++;
		}
	return idle_of(node) - (suited && devices >= each->count ? usable : 0);
}

static int64_t copies(const struct sk_frag_node *node, const struct sk_frag_class *each)
{
	int64_t requests = 0, devices = 0;

	for (uint32_t index = 0; index < node->devices; index++) {
		requests += node->free[index] / each->gpu_milli;
		devices += node->free[index] >= each->gpu_milli;
	}
	return each->count == 1 ? requests : devices / each->count;
}

static int64_t value_of(const struct world *world, const struct sk_frag_node *node)
{
	int64_t value = 0, rest = 65536;

	for (uint32_t at = 0; at < world->count; at++) {
		const struct sk_frag_class *each = &world->classes[at];
		bool suited = suits(world, node, each);

		if (!size_of(each))
			continue;
		rest -= world->share[at];
		if (world->policy == SK_FRAG_FGD)
			value += world->share[at] * wasted(node, each, suited);
		else if (suited)
			value += world->worth[at] * copies(node, each);
	}
	return world->policy == SK_FRAG_FGD ? value + rest * idle_of(node) : value;
}

static int64_t equals(const struct world *world, uint64_t cpu)
{
	return (int64_t)((cpu < 268435456 ? cpu : 268435456) * world->equals / 16777216);
}

static int64_t lack(const struct world *world, const struct sk_frag_node *node)
{
	int64_t idle = idle_of(node), cpu = equals(world, node->cpu_free);

	return cpu >= 2 * idle ? -1024 : 1024 - cpu * 1024 / idle;
}

static int64_t cost_of(const struct world *world, const struct sk_frag_node *before,
		       const struct sk_frag_node *after, const struct sk_frag_request *request)
{
	int64_t from = value_of(world, before), to = value_of(world, after), excess;

	if (world->policy == SK_FRAG_FGD) {
		double added = (double)(to - from) / 65536;

		return 100 - (int64_t)(100 / (1 + exp(added / 1000)));
	}
	excess = equals(world, request->cpu_milli);
	if (excess > 1048576)
		excess = 1048576;
	excess -= (int64_t)request->gpu_milli * request->count;
	return from - to + excess * lack(world, before) / 32 + idle_of(before) / 4;
}

static void take(struct sk_frag_node *node, const struct sk_frag_request *request, uint64_t devices)
{
	node->cpu_free -= request->cpu_milli;
	node->memory_free -= request->memory_bytes;
	for (uint32_t index = 0; index < node->devices; index++)
		if (devices >> index & 1)
			node->free[index] = (uint16_t)(node->free[index] - request->gpu_milli);
}

/* The `count` devices with the least that suffice, the lowest first; 0 where there are too few. */
static uint64_t several(const struct sk_frag_node *node, const struct sk_frag_request *request)
{
	uint64_t devices = 0;
	uint32_t found = 0;

	for (uint32_t free = request->gpu_milli; free <= SK_FRAG_MILLI; free++)
		for (uint32_t index = 0; index < node->devices && found < request->count; index++)
			if (node->free[index] == free) {
				devices |= (uint64_t)1 << index;
				found++;
			}
	return found == request->count ? devices : 0;
}

static bool expect(const struct world *world, const struct sk_frag_node *node,
		   const struct sk_frag_request *request, struct sk_frag_place *ret)
{
	bool none = !request->count || !request->gpu_milli, found = false;

	if (request->cpu_milli > node->cpu_free || request->memory_bytes > node->memory_free ||
	    (request->models && !(request->models & node->models)))
		return false;
	for (uint32_t index = 0; index < SK_FRAG_DEVICES_MAX; index++) {
		uint64_t devices = (uint64_t)1 << index;
		struct sk_frag_node after = *node;
		int64_t cost;

		if (none || request->count > 1)
			devices = none ? 0 : several(node, request);
		else if (index >= node->devices || node->free[index] < request->gpu_milli)
			continue;
		if (!none && !devices)
			return false;
		take(&after, request, devices);
		cost = cost_of(world, node, &after, request);
		if (!found || cost < ret->cost)
			*ret = (struct sk_frag_place){cost, devices};
		found = true;
		if (none || request->count > 1)
			return true;
	}
	return found;
}

/* ---- random worlds ---- */

static uint16_t some_milli(void)
{
	static const uint16_t usual[] = {1000, 1000, 1000, 810, 650, 470, 320, 190, 160, 1, 999};

	return chance(4) ? usual[chance(sizeof usual / sizeof *usual)]
			 : (uint16_t)chance(SK_FRAG_MILLI + 1);
}

static uint16_t some_count(void)
{
	static const uint16_t usual[] = {0, 1, 1, 1, 1, 1, 2, 3, 4, 8, 64};

	return usual[chance(sizeof usual / sizeof *usual)];
}

static uint64_t some_models(void)
{
	return chance(2) ? 0 : (uint64_t)1 << chance(64) | (uint64_t)1 << chance(64);
}

static struct world some_world(void)
{
	struct world world = {.policy = chance(2) ? SK_FRAG_FGD : SK_FRAG_DEFAULT};

	world.count = (uint32_t)(chance(20) ? chance(50) : chance(SK_FRAG_CLASSES_MAX + 1));
	for (uint32_t at = 0; at < world.count; at++)
		world.classes[at] = (struct sk_frag_class){
			.memory_bytes = chance(64 * MIB * 1024),
			.models = some_models(),
			.cpu_milli = (uint32_t)(chance(50) ? chance(32000) : UINT32_MAX),
			.weight = (uint32_t)(chance(50) ? chance(1000) : UINT32_MAX),
			.gpu_milli = some_milli(),
			.count = some_count()};
	weigh(&world);
	return world;
}

static void some_node(struct sk_frag_node *node)
{
	memset(node, 0x5a, sizeof *node);
	node->cpu_free = chance(20) ? chance(128000) : UINT64_MAX - chance(2);
	node->memory_free = chance(20) ? chance(768 * MIB * 1024) : UINT64_MAX;
	node->models = chance(8) ? (uint64_t)1 << chance(64) : 0;
	node->devices = (uint16_t)(chance(20) ? chance(9) : chance(SK_FRAG_DEVICES_MAX + 1));
	for (uint32_t index = 0; index < node->devices; index++)
		node->free[index] = chance(5) ? some_milli() : 0;
}

static struct sk_frag_request some_request(const struct sk_frag_node *node)
{
	struct sk_frag_request request = {.cpu_milli = chance(32000),
					  .memory_bytes = chance(64 * MIB * 1024),
					  .models = chance(4) ? 0 : some_models() | node->models,
					  .gpu_milli = some_milli(),
					  .count = some_count()};

	if (!chance(50))
		request.cpu_milli = node->cpu_free;
	if (!chance(50))
		request.memory_bytes = node->memory_free;
	return request;
}

static void note(uint64_t word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15;
	digest ^= digest >> 29;
}

static void check_place(const struct world *world, const struct sk_frag_table *table,
			const struct sk_frag_node *node)
{
	struct sk_frag_request request = some_request(node);
	struct sk_frag_place expected = {0, 0}, given = {0, 0};
	bool fits = expect(world, node, &request, &expected);

	CHECK(sk_frag_place(table, node, &request, &given) == fits);
	if (!fits)
		return;
	CHECK(given.cost == expected.cost);
	CHECK(given.devices == expected.devices);
	note((uint64_t)given.cost);
	note(given.devices);
}

static void check_world(struct sk_frag_table *table, struct sk_frag_node *node)
{
	struct world world = some_world();

	CHECK(!sk_frag_table_init(table, world.policy, world.classes, world.count));
	for (uint32_t nodes = 0; nodes < 6; nodes++) {
		some_node(node);
		sk_frag_node_prepare(table, node);
		CHECK(node->before == value_of(&world, node));
		CHECK(node->idle == idle_of(node));
		for (uint32_t requests = 0; requests < 6; requests++)
			check_place(&world, table, node);
	}
}

/* ---- what is refused, and what must hold whatever the formula ---- */

static void check_refusals(struct sk_frag_table *table)
{
	static struct sk_frag_class classes[SK_FRAG_CLASSES_MAX + 1];

	CHECK(sk_frag_table_init(table, SK_FRAG_DEFAULT, classes, SK_FRAG_CLASSES_MAX + 1) ==
	      -E2BIG);
	CHECK(sk_frag_table_init(table, (enum sk_frag_policy)2, classes, 1) == -EINVAL);
	classes[0].gpu_milli = SK_FRAG_MILLI + 1;
	CHECK(sk_frag_table_init(table, SK_FRAG_DEFAULT, classes, 1) == -EINVAL);
	classes[0].gpu_milli = SK_FRAG_MILLI;
	classes[0].count = SK_FRAG_DEVICES_MAX + 1;
	CHECK(sk_frag_table_init(table, SK_FRAG_FGD, classes, 1) == -EINVAL);
	classes[0].count = SK_FRAG_DEVICES_MAX;
	CHECK(!sk_frag_table_init(table, SK_FRAG_FGD, classes, 1));
}

/* One node of `devices` with so many processors and devices of these free milli, prepared. */
static void small_node(const struct sk_frag_table *table, struct sk_frag_node *node, uint64_t cpu,
		       uint16_t devices, const uint16_t *free)
{
	memset(node, 0, sizeof *node);
	node->cpu_free = cpu;
	node->memory_free = UINT64_MAX;
	node->devices = devices;
	memcpy(node->free, free, devices * sizeof *free);
	sk_frag_node_prepare(table, node);
}

static int64_t cost_on(const struct sk_frag_table *table, struct sk_frag_node *node, uint64_t cpu,
		       uint16_t devices, const uint16_t *free, struct sk_frag_request request)
{
	struct sk_frag_place place;

	small_node(table, node, cpu, devices, free);
	CHECK(sk_frag_place(table, node, &request, &place));
	return place.cost;
}

/* The default must make these choices. */
static void check_choices(struct sk_frag_table *table, struct sk_frag_node *node)
{
	const struct sk_frag_class usual[] = {
		{.cpu_milli = 12000, .weight = 2, .gpu_milli = 1000, .count = 1},
		{.cpu_milli = 4000, .weight = 1, .gpu_milli = 500, .count = 1}};
	const uint16_t whole[] = {1000, 1000}, half[] = {1000, 500};
	const struct sk_frag_request share = {.cpu_milli = 4000, .gpu_milli = 500, .count = 1};
	const struct sk_frag_request heavy = {.cpu_milli = 30000, .gpu_milli = 1000, .count = 1};
	const struct sk_frag_request light = {.cpu_milli = 2000, .gpu_milli = 1000, .count = 1};
	const struct sk_frag_request no_device = {.cpu_milli = 8000};
	struct sk_frag_place place;

	CHECK(!sk_frag_table_init(table, SK_FRAG_DEFAULT, usual, 2));
	small_node(table, node, 64000, 2, half);
	CHECK(sk_frag_place(table, node, &share, &place) && place.devices == 2);
	CHECK(cost_on(table, node, 64000, 2, half, share) <
	      cost_on(table, node, 64000, 2, whole, share));
	CHECK(cost_on(table, node, 90000, 2, whole, heavy) <
	      cost_on(table, node, 38000, 2, whole, heavy));
	CHECK(cost_on(table, node, 26000, 2, whole, light) <
	      cost_on(table, node, 90000, 2, whole, light));
	CHECK(cost_on(table, node, 64000, 0, whole, no_device) <
	      cost_on(table, node, 64000, 2, whole, no_device));
	CHECK(!sk_frag_table_init(table, SK_FRAG_DEFAULT, NULL, 0));
	CHECK(cost_on(table, node, 64000, 1, whole, light) <
	      cost_on(table, node, 64000, 2, whole, light));
}

static int64_t published(double added)
{
	return 100 - (int64_t)(100 / (1 + exp(added / 1000)));
}

/* Check every step of the published score to one milli: waste added by the last processor that the
 * only class needs, and waste removed by a request that the only class could not have used. */
static void check_steps(struct sk_frag_table *table, struct sk_frag_node *node)
{
	const struct sk_frag_class only = {
		.cpu_milli = 1000, .weight = 1, .gpu_milli = 1, .count = 1};
	uint16_t free[5];

	CHECK(!sk_frag_table_init(table, SK_FRAG_FGD, &only, 1));
	for (uint32_t added = 5; added <= 5 * SK_FRAG_MILLI; added++) {
		const struct sk_frag_request last = {.cpu_milli = 1};
		uint16_t milli = (uint16_t)(added / 5);
		const struct sk_frag_request taken = {.gpu_milli = milli, .count = 5};

		for (uint32_t index = 0; index < 5; index++)
			free[index] = (uint16_t)((added + index) / 5);
		CHECK(cost_on(table, node, 1000, 5, free, last) == published(added));
		CHECK(cost_on(table, node, 999, 5, free, taken) == published(-5.0 * milli));
	}
}

int main(int argc, char **argv)
{
	struct sk_frag_table *table = malloc(sizeof *table);
	struct sk_frag_node *node = malloc(sizeof *node);

	seed_given = argc > 1 ? argv[1] : "1";
	random_state = strtoull(seed_given, NULL, 10);
	check_refusals(table);
	check_choices(table, node);
	check_steps(table, node);
	for (step_now = 0; step_now < 1500; step_now++)
		check_world(table, node);
	printf("%016llx\n", (unsigned long long)digest);
	free(node);
	free(table);
	return 0;
}
