/* SPDX-License-Identifier: Apache-2.0
 *
 * Best fit by the two indexes: the first node of the lowest class that suffices.
 */
#include "core/device.h"
#include "core/index.h"
#include "core/node.h"
#include "core/policy.h"
#include "core/table.h"

static bool sk_policy_room(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			   struct sk_place *place)
{
	struct sk_why why;

	place->candidates++;
	return sk_task_room(core, job, node, &why) == SK_REASON_NONE;
}

static void sk_policy_take(const struct sk_core *core, uint32_t node, uint16_t reason,
			   struct sk_place *place)
{
	place->node = core->nodes[node].id;
	place->reason = reason;
	place->observations[0] = core->observed[node].id;
}

/* The lowest devices with exactly `free` milli, `count` of them, each giving `milli`. */
static void sk_policy_shares(const struct sk_core *core, uint32_t node, uint32_t free,
			     uint32_t milli, uint32_t count, struct sk_place *place)
{
	uint32_t index = 0;

	for (uint32_t i = 0; i < count; i++, index++) {
		index = sk_device_with_free(core, node, free, index);
		place->shares[i] = (struct sk_share){(uint16_t)index, (uint16_t)milli};
	}
	place->shares_n = (uint16_t)count;
}

static bool sk_policy_whole(const struct sk_core *core, const struct sk_job *job, uint32_t count,
			    uint32_t milli, uint16_t reason, struct sk_place *place)
{
	uint32_t class = count, slot = 0;

	for (; sk_index_next(&core->free_whole, &class, &slot); slot++) {
		if (!sk_policy_room(core, job, slot, place))
			continue;
		sk_policy_shares(core, slot, SK_MILLI, milli, count, place);
		sk_policy_take(core, slot, reason, place);
		return true;
	}
	return false;
}

static bool sk_policy_share(const struct sk_core *core, const struct sk_job *job,
			    struct sk_place *place)
{
	uint32_t class = job->gpu_milli, slot = 0;

	for (; sk_index_next(&core->free_part, &class, &slot); slot++) {
		if (!sk_policy_room(core, job, slot, place))
			continue;
		sk_policy_shares(core, slot, class, job->gpu_milli, 1, place);
		sk_policy_take(core, slot, SK_PACKED_SHARE, place);
		return true;
	}
	return sk_policy_whole(core, job, 1, job->gpu_milli, SK_OPENED_DEVICE, place);
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
static uint32_t sk_policy_sample(const struct sk_core *core, const struct sk_job *job,
				 uint32_t start, struct sk_place *place,
				 uint32_t sample[SK_POLICY_SAMPLE])
{
	uint32_t seen = 0;

	for (uint32_t lap = 0; lap < 2; lap++) {
		uint32_t slot = sk_node_next(core, lap ? 1 : start);

		for (; slot && (!lap || slot < start); slot = sk_node_next(core, slot + 1)) {
			if (!sk_policy_room(core, job, slot, place))
				continue;
			sample[seen++] = slot;
			if (seen == SK_POLICY_SAMPLE)
				return seen;
		}
	}
	return seen;
}

/* The least busy of a sample, so that a thousand such tasks do not pile up on the first node. */
static bool sk_policy_host(const struct sk_core *core, const struct sk_job *job, uint64_t seed,
			   struct sk_place *place)
{
	uint32_t nodes = core->nodes_count ? core->nodes_count : 1;
	uint32_t start = (uint32_t)(sk_mix(seed ^ sk_mix(job->id)) % nodes) + 1;
	uint32_t sample[SK_POLICY_SAMPLE];
	uint32_t seen = sk_policy_sample(core, job, start, place, sample), best = 0, used = 0;

	for (uint32_t i = 0; i < seen; i++)
		if (!best || sk_less_busy(core, sample[i], best))
			best = sample[i];
	if (!best)
		return false;
	sk_policy_take(core, best, SK_LEAST_BUSY, place);
	used = place->observations[0] != 0;
	for (uint32_t i = 0; i < seen; i++)
		if (sample[i] != best && core->observed[sample[i]].id)
			place->observations[used++] = core->observed[sample[i]].id;
	return true;
}

bool sk_policy_choose(const struct sk_core *core, uint32_t slot, uint64_t seed,
		      struct sk_place *place)
{
	const struct sk_job *job = &core->jobs[slot];

	if (!job->gpu_milli)
		return sk_policy_host(core, job, seed + place->task, place);
	if (job->gpu_milli < SK_MILLI)
		return sk_policy_share(core, job, place);
	return sk_policy_whole(core, job, job->gpu_milli / SK_MILLI, SK_MILLI, SK_FREE_DEVICES,
			       place);
}
