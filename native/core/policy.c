/* SPDX-License-Identifier: Apache-2.0
 *
 * Best fit by the two indexes: the first node of the lowest class that suffices.
 */
#include "core/index.h"
#include "core/node.h"
#include "core/policy.h"
#include "core/queue.h"
#include "core/subset.h"
#include "core/table.h"

struct sk_search {
	const struct sk_core *core;
	uint32_t job;
	uint64_t now_ns;
	struct sk_place *place;
};

static void sk_search_take(const struct sk_search *search, uint32_t node, uint16_t reason)
{
	search->place->node = search->core->nodes[node].id;
	search->place->reason = reason;
	search->place->observations[0] = search->core->observed[node].id;
}

/* Whether the task goes there; its shares are filled in. */
static bool sk_search_try(const struct sk_search *search, uint32_t node)
{
	const struct sk_core *core = search->core;
	const struct sk_job *job = &core->jobs[search->job];
	struct sk_why why;

	search->place->candidates++;
	return sk_task_room(core, search->job, node, search->now_ns, &why) == SK_REASON_NONE &&
	       sk_subset_choose(core, job, node, search->place) &&
	       sk_queue_admits(core, job->queue, node, search->place->shares,
			       search->place->shares_n, &why) == SK_REASON_NONE;
}

/* The first node of the index from this class on that does. */
static bool sk_pack(const struct sk_search *search, const struct sk_index *index, uint32_t class,
		    uint16_t reason)
{
	uint32_t slot = 0;

	for (; sk_index_next(index, &class, &slot); slot++) {
		if (!sk_search_try(search, slot))
			continue;
		sk_search_take(search, slot, reason);
		return true;
	}
	return false;
}

static bool sk_policy_pack(const struct sk_search *search)
{
	const struct sk_core *core = search->core;
	uint32_t gpu = core->jobs[search->job].ask.gpu_milli;

	if (gpu >= SK_MILLI)
		return sk_pack(search, &core->free_whole, gpu / SK_MILLI, SK_FREE_DEVICES);
	return sk_pack(search, &core->free_part, gpu, SK_PACKED_SHARE) ||
	       sk_pack(search, &core->free_whole, 1, SK_OPENED_DEVICE);
}

/* Fewest tasks, then the least load seen, then the lowest slot. */
static bool sk_less_busy(const struct sk_core *core, uint32_t a, uint32_t b)
{
	if (core->nodes[a].tasks_count != core->nodes[b].tasks_count)
		return core->nodes[a].tasks_count < core->nodes[b].tasks_count;
	if (core->observed[a].load_milli != core->observed[b].load_milli)
		return core->observed[a].load_milli < core->observed[b].load_milli;
	return a < b;
}

/* The first few nodes that have room, from a place in the ring of nodes given by chance. */
static uint32_t sk_policy_sample(const struct sk_search *search, uint32_t start,
				 uint32_t sample[SK_POLICY_SAMPLE])
{
	const struct sk_core *core = search->core;
	uint32_t seen = 0;

	for (uint32_t lap = 0; lap < 2; lap++) {
		uint32_t slot = sk_node_next(core, lap ? 1 : start);

		for (; slot && (!lap || slot < start); slot = sk_node_next(core, slot + 1)) {
			if (!sk_search_try(search, slot))
				continue;
			sample[seen++] = slot;
			if (seen == SK_POLICY_SAMPLE)
				return seen;
		}
	}
	return seen;
}

/* The least busy of a sample, so that a thousand such tasks do not pile up on the first node. */
static bool sk_policy_host(const struct sk_search *search, uint64_t seed)
{
	const struct sk_core *core = search->core;
	struct sk_place *place = search->place;
	uint32_t nodes = core->nodes_count ? core->nodes_count : 1;
	uint32_t start = (uint32_t)(sk_mix(seed ^ sk_mix(place->job)) % nodes) + 1;
	uint32_t sample[SK_POLICY_SAMPLE];
	uint32_t seen = sk_policy_sample(search, start, sample), best = 0, used = 0;

	for (uint32_t i = 0; i < seen; i++)
		if (!best || sk_less_busy(core, sample[i], best))
			best = sample[i];
	if (!best)
		return false;
	sk_search_take(search, best, SK_LEAST_BUSY);
	used = place->observations[0] != 0;
	for (uint32_t i = 0; i < seen; i++)
		if (sample[i] != best && core->observed[sample[i]].id)
			place->observations[used++] = core->observed[sample[i]].id;
	return true;
}

enum sk_placement sk_policy_placement(const struct sk_core *core, const struct sk_job *job)
{
	uint32_t placement = job->ask.placement;

	for (uint32_t queue = job->queue; queue && !placement; queue = core->queues[queue].parent)
		placement = core->queues[queue].placement;
	return placement ? (enum sk_placement)placement : SK_PLACEMENT_BEST;
}

bool sk_policy_choose(const struct sk_core *core, uint32_t slot, uint64_t now_ns, uint64_t seed,
		      struct sk_place *place)
{
	const struct sk_search search = {core, slot, now_ns, place};

	if (sk_policy_placement(core, &core->jobs[slot]) == SK_PLACEMENT_CUSTOM)
		return false;
	if (!core->jobs[slot].ask.gpu_milli)
		return sk_policy_host(&search, seed + place->task);
	return sk_policy_pack(&search);
}
