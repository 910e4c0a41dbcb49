/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic over classes is in frag_lanes.h, built for each kind of machine; this file has the
 * rest.
 */
#include "core/policy/frag.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SK_FRAG_LANES 8	   /* most lanes of one vector; tables use a multiple of it */
#define SK_FRAG_PART 65536 /* shares are parts of this */

_Static_assert(SK_FRAG_CLASSES_MAX % SK_FRAG_LANES == 0, "lanes are used in whole vectors");
_Static_assert((uint64_t)SK_FRAG_PART *SK_FRAG_DEVICES_MAX *SK_FRAG_MILLI <= UINT32_MAX,
	       "a node's waste fits 32 bits");

/* The code is compiled for two kinds of machine. Each call chooses by a load and a test. */
#if defined(__x86_64__) && !defined(SK_FRAG_ONE_VARIANT)
#define SK_FRAG_TWO_VARIANTS
#endif

/* `many` devices change from `from` free milli to `to`. */
struct sk_frag_swap {
	uint32_t from;
	uint32_t to;
	uint32_t many;
};

/* ---- the table ---- */

static uint32_t small(uint64_t value)
{
	return value < INT32_MAX ? (uint32_t)value : INT32_MAX;
}

static bool needs_devices(const struct sk_frag_class *each)
{
	return each->count && each->gpu_milli;
}

static uint32_t class_share(const struct sk_frag_class *each, uint64_t weights)
{
	return (uint32_t)((uint64_t)each->weight * SK_FRAG_PART / weights);
}

static uint64_t class_size(const struct sk_frag_class *each)
{
	return (uint64_t)each->gpu_milli * each->count;
}

static void table_add(struct sk_frag_table *table, uint32_t lane, const struct sk_frag_class *each,
		      uint32_t share)
{
	bool several = each->count > 1;

	table->cpu[lane] = small(each->cpu_milli);
	table->memory[lane] =
		small((each->memory_bytes >> 20) + ((each->memory_bytes & 0xfffff) != 0));
	table->milli[lane] = each->gpu_milli;
	table->count[lane] = each->count;
	table->inverse[lane] = several ? 0 : ((1u << 20) + each->gpu_milli - 1) / each->gpu_milli;
	table->several[lane] = several;
	table->divide[lane] = (SK_FRAG_PART + each->count - 1u) / each->count;
	table->share[lane] = share;
	table->models_low[lane] = (uint32_t)each->models;
	table->models_high[lane] = (uint32_t)(each->models >> 32);
	table->models_any[lane] = !each->models;
}

static int classes_check(const struct sk_frag_class *classes, uint32_t count, uint64_t *weights)
{
	if (count > SK_FRAG_CLASSES_MAX)
		return -E2BIG;
	for (uint32_t at = 0; at < count; at++) {
		if (classes[at].gpu_milli > SK_FRAG_MILLI ||
		    classes[at].count > SK_FRAG_DEVICES_MAX)
			return -EINVAL;
		*weights += classes[at].weight;
	}
	return 0;
}

/* The classes together are worth what they request, so the unit of the weights and the classes left
 * out do not matter. */
static void table_weigh(struct sk_frag_table *table, const uint64_t *sizes, uint32_t count)
{
	uint64_t cpu = 0, milli = 0, copies = 0;

	for (uint32_t lane = 0; lane < count; lane++) {
		cpu += (uint64_t)table->share[lane] * table->cpu[lane];
		milli += table->share[lane] * sizes[lane];
		copies += ((uint64_t)table->share[lane] << 24) / sizes[lane];
	}
	for (uint32_t lane = 0; lane < count && copies; lane++)
		table->worth[lane] = (uint32_t)(((uint64_t)table->share[lane] << 32) / copies);
	if (cpu)
		table->equals = (milli << 25) / (3 * cpu);
	if (table->equals > UINT64_C(1) << 34)
		table->equals = UINT64_C(1) << 34;
}

int sk_frag_table_init(struct sk_frag_table *table, enum sk_frag_policy policy,
		       const struct sk_frag_class *classes, uint32_t count)
{
	uint64_t sizes[SK_FRAG_CLASSES_MAX], weights = 0;
	uint32_t lane = 0;
	int error = classes_check(classes, count, &weights);

	if (error)
		return error;
	if (policy != SK_FRAG_DEFAULT && policy != SK_FRAG_FGD)
		return -EINVAL;
	memset(table, 0, sizeof *table);
	table->policy = policy;
	for (uint32_t at = 0; at < count; at++) {
		if (!needs_devices(&classes[at]) || !classes[at].weight)
			continue;
		sizes[lane] = class_size(&classes[at]);
		table_add(table, lane++, &classes[at], class_share(&classes[at], weights));
	}
	table_weigh(table, sizes, lane);
	table->lanes = (lane + SK_FRAG_LANES - 1) / SK_FRAG_LANES * SK_FRAG_LANES;
	return 0;
}

/* ---- one node ---- */

static void node_kinds(struct sk_frag_node *node)
{
	node->kinds = 0;
	node->idle = 0;
	for (uint32_t index = 0; index < node->devices; index++) {
		uint32_t kind = 0;

		if (!node->free[index])
			continue;
		while (kind < node->kinds && node->kind_free[kind] != node->free[index])
			kind++;
		if (kind == node->kinds) {
			node->kind_free[kind] = node->free[index];
			node->kind_first[kind] = (uint8_t)index;
			node->kind_many[kind] = 0;
			node->kinds++;
		}
		node->kind_many[kind]++;
		node->idle += node->free[index];
	}
}

/* The device milli that so many processors usually come with, times 1.5. */
static int64_t cpu_equals(const struct sk_frag_table *table, uint64_t cpu)
{
	uint64_t most = UINT64_C(1) << 28;

	return (int64_t)(((cpu < most ? cpu : most) * table->equals) >> 24);
}

/* (1 - processors / devices) * 1024, not below -1024. */
static int32_t node_shortfall(const struct sk_frag_table *table, const struct sk_frag_node *node)
{
	int64_t equals = cpu_equals(table, node->cpu_free);

	if (equals >= 2 * (int64_t)node->idle)
		return -1024;
	return (int32_t)(1024 - equals * 1024 / node->idle);
}

/* ---- one request on one node ---- */

/* 65536000 ln((100 - s) / s) for s = 1..49, rounded down: where the published score
 * int(100 / (1 + exp(waste / 1000))) steps, in milli times 2^16. */
static const int32_t score_steps[] = {
	301145774, 255054335, 227809603, 208276935, 192966752, 180324618, 169521272,
	160061655, 151626378, 143997309, 137018808, 130575903, 124581233, 118966843,
	113678814, 108673635, 103915668, 99375349,  95027866,  90852187,  86830311,
	82946711,  79187883,  75542004,	 71998654,  68548595,  65183585,  61896235,
	58679888,  55528512,  52436618,	 49399188,  46411615,  43469649,  40569353,
	37707064,  34879361,  32083032,	 29315053,  26572561,  23852834,  21153277,
	18471397,  15804796,  13151154,	 10508215,  7873777,   5245678,	  2621789,
};

/* The largest added waste that still scores `score`. */
static int64_t step(uint32_t score)
{
	if (score < 50)
		return score_steps[score - 1];
	return score > 50 ? -(int64_t)score_steps[99 - score] - 1 : 0;
}

/* 0 (everything got usable) to 100, from added waste in milli times 2^16. */
static uint32_t score_of(int64_t added)
{
	uint32_t low = 0, high = 99;

	while (low < high) {
		uint32_t middle = (low + high + 1) / 2;

		if (added <= step(middle))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* The part of a cost that does not depend on which devices of the node are taken. */
static int64_t node_cost_of(const struct sk_frag_table *table, const struct sk_frag_node *node,
			    const struct sk_frag_request *request)
{
	int64_t size = (int64_t)request->gpu_milli * request->count;
	int64_t excess = cpu_equals(table, request->cpu_milli);

	if (table->policy == SK_FRAG_FGD)
		return ((int64_t)node->idle - size) * SK_FRAG_PART - node->before;
	excess = (excess < 1 << 20 ? excess : 1 << 20) - size;
	return node->before + excess * node->shortfall / 32 + node->idle / 4;
}

/* The `count` devices with the least free milli that suffice, lowest first; 0 if there are too
 * few. */
static uint64_t devices_of(const struct sk_frag_node *node, uint32_t milli, uint32_t count,
			   struct sk_frag_swap *swaps, uint32_t *swapped)
{
	uint64_t taken = 0;

	*swapped = 0;
	while (count--) {
		uint32_t best = SK_FRAG_DEVICES_MAX, least = UINT32_MAX;

		for (uint32_t index = 0; index < node->devices; index++)
			if (node->free[index] >= milli && node->free[index] < least &&
			    !(taken >> index & 1)) {
				best = index;
				least = node->free[index];
			}
		if (best == SK_FRAG_DEVICES_MAX)
			return 0;
		taken |= UINT64_C(1) << best;
		if (!*swapped || swaps[*swapped - 1].from != least)
			swaps[(*swapped)++] = (struct sk_frag_swap){least, least - milli, 0};
		swaps[*swapped - 1].many++;
	}
	return taken;
}

static bool fits_of(const struct sk_frag_node *node, const struct sk_frag_request *request)
{
	return request->cpu_milli <= node->cpu_free && request->memory_bytes <= node->memory_free &&
	       (!request->models || (request->models & node->models)) &&
	       (uint32_t)request->gpu_milli * request->count <= node->idle;
}

/* ---- the classes, for each kind of machine ---- */

#define SK_LANES(name) name##_plain
#define SK_LANES_WIDTH 4
#define SK_LANES_INLINE static inline __attribute__((always_inline))
#include "core/policy/frag_lanes.h"
#undef SK_LANES
#undef SK_LANES_WIDTH
#undef SK_LANES_INLINE

#if defined(SK_FRAG_TWO_VARIANTS)
#define SK_LANES(name) name##_wide
#define SK_LANES_WIDTH 8
#define SK_LANES_INLINE static inline __attribute__((always_inline, target("avx2")))
#include "core/policy/frag_lanes.h"

static __attribute__((target("avx2"))) void prepare_avx2(const struct sk_frag_table *table,
							 struct sk_frag_node *node)
{
	prepare_wide(table, node);
}

static __attribute__((target("avx2"))) bool place_avx2(const struct sk_frag_table *table,
						       const struct sk_frag_node *node,
						       const struct sk_frag_request *request,
						       struct sk_frag_place *ret)
{
	return place_wide(table, node, request, ret);
}
#endif

void sk_frag_node_prepare(const struct sk_frag_table *table, struct sk_frag_node *node)
{
#if defined(SK_FRAG_TWO_VARIANTS)
	if (__builtin_cpu_supports("avx2")) {
		prepare_avx2(table, node);
		return;
	}
#endif
	prepare_plain(table, node);
}

bool sk_frag_place(const struct sk_frag_table *table, const struct sk_frag_node *node,
		   const struct sk_frag_request *request, struct sk_frag_place *ret)
{
	if (!fits_of(node, request))
		return false;
#if defined(SK_FRAG_TWO_VARIANTS)
	if (__builtin_cpu_supports("avx2"))
		return place_avx2(table, node, request, ret);
#endif
	return place_plain(table, node, request, ret);
}
