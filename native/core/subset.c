/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over the node's devices for each level of closeness until one has a group that suffices.
 */
#include "core/device.h"
#include "core/fit.h"
#include "core/subset.h"

/* From the closest to the loosest: devices are together if they agree in all that is named. */
enum { SK_SAME_LINK_LEVEL = 1, SK_SAME_NUMA_LEVEL = 2, SK_SAME_BUS_LEVEL = 4 };
static const uint8_t sk_levels[] = {
	SK_SAME_LINK_LEVEL | SK_SAME_NUMA_LEVEL | SK_SAME_BUS_LEVEL,
	SK_SAME_LINK_LEVEL | SK_SAME_NUMA_LEVEL,
	SK_SAME_LINK_LEVEL,
	SK_SAME_NUMA_LEVEL,
	0,
};

static bool sk_together(const struct sk_device *a, const struct sk_device *b, uint32_t level)
{
	return !(level & SK_SAME_LINK_LEVEL && a->link != b->link) &&
	       !(level & SK_SAME_NUMA_LEVEL && a->numa != b->numa) &&
	       !(level & SK_SAME_BUS_LEVEL && a->bus != b->bus);
}

static bool sk_takes_whole(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			   uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, node, index);

	return sk_device_free(device) == SK_MILLI && !sk_fit_device(job, device);
}

/* The candidates that are together with this one. */
static uint64_t sk_group_mask(const struct sk_core *core, uint32_t node, uint64_t candidates,
			      uint32_t index, uint32_t level)
{
	const struct sk_device *first = sk_device_at(core, node, index);
	uint64_t mask = 0;

	for (uint64_t left = candidates; left; left &= left - 1) {
		uint32_t at = (uint32_t)__builtin_ctzll(left);

		if (sk_together(first, sk_device_at(core, node, at), level))
			mask |= (uint64_t)1 << at;
	}
	return mask;
}

/* The smallest group of this level that has `count`, or 0. */
static uint64_t sk_group_best(const struct sk_core *core, uint32_t node, uint64_t candidates,
			      uint32_t count, uint32_t level)
{
	uint64_t best = 0;

	for (uint64_t left = candidates; left;) {
		uint64_t mask =
			sk_group_mask(core, node, left, (uint32_t)__builtin_ctzll(left), level);
		uint32_t size = (uint32_t)__builtin_popcountll(mask);

		left &= ~mask;
		if (size >= count && (!best || size < (uint32_t)__builtin_popcountll(best)))
			best = mask;
	}
	return best;
}

static bool sk_link_allowed(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t group, uint32_t level)
{
	if (!(job->ask.options & SK_SAME_LINK) || job->ask.gpu_milli <= SK_MILLI)
		return true;
	return level & SK_SAME_LINK_LEVEL &&
	       sk_device_at(core, node, (uint32_t)__builtin_ctzll(group))->link;
}

static bool sk_subset_whole(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t among, struct sk_place *place)
{
	uint32_t count = job->ask.gpu_milli / SK_MILLI;
	uint64_t candidates = 0, group = 0;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++)
		if (among >> index & 1 && sk_takes_whole(core, job, node, index))
			candidates |= (uint64_t)1 << index;
	if ((uint32_t)__builtin_popcountll(candidates) < count)
		return false;
	for (uint32_t i = 0; i < sizeof sk_levels && !group; i++) {
		group = sk_group_best(core, node, candidates, count, sk_levels[i]);
		if (group && !sk_link_allowed(core, job, node, group, sk_levels[i]))
			group = 0;
	}
	if (!group)
		return false;
	for (uint32_t i = 0; i < count; i++, group &= group - 1)
		place->shares[i] = (struct sk_share){(uint16_t)__builtin_ctzll(group), SK_MILLI};
	place->shares_n = (uint16_t)count;
	return place->shares[count - 1].milli != 0;
}

static bool sk_subset_share(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t among, struct sk_place *place)
{
	uint32_t best = SK_NODE_DEVICES_MAX, least = SK_MILLI + 1;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);
		uint32_t free = sk_device_free(device);

		if (!(among >> index & 1) || free < job->ask.gpu_milli || free >= least ||
		    sk_fit_device(job, device))
			continue;
		best = index;
		least = free;
	}
	if (best == SK_NODE_DEVICES_MAX)
		return false;
	place->shares[0] = (struct sk_share){(uint16_t)best, (uint16_t)job->ask.gpu_milli};
	place->shares_n = 1;
	return true;
}

bool sk_subset_choose_among(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t among, struct sk_place *place)
{
	if (!job->ask.gpu_milli) {
		place->shares_n = 0;
		return true;
	}
	if (job->ask.gpu_milli < SK_MILLI)
		return sk_subset_share(core, job, node, among, place);
	return sk_subset_whole(core, job, node, among, place);
}

bool sk_subset_choose(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      struct sk_place *place)
{
	return sk_subset_choose_among(core, job, node, UINT64_MAX, place);
}
