/* SPDX-License-Identifier: Apache-2.0
 *
 * Each level of closeness is one pass over the devices of the node, until a level has a group that
 * suffices.
 */
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/policy/subset.h"

/* The place of a device is one number with these parts. Devices are together at a level if they
 * agree in all parts of that level. Where the devices of a task must be of one family, each level
 * has that part as well. */
#define SK_PLACE_FAMILY (UINT64_C(0xff) << 48)
#define SK_PLACE_LINK (UINT64_C(0xffff) << 32)
#define SK_PLACE_NUMA (UINT64_C(0xffff) << 16)
#define SK_PLACE_BUS UINT64_C(0xffff)

/* Levels from the closest to the loosest. */
static const uint64_t levels[] = {
	SK_PLACE_LINK | SK_PLACE_NUMA | SK_PLACE_BUS,
	SK_PLACE_LINK | SK_PLACE_NUMA,
	SK_PLACE_LINK,
	SK_PLACE_NUMA,
	0,
};
#define SK_LEVELS_COUNT (sizeof levels / sizeof levels[0])

static uint64_t place_of(const struct sk_device *device)
{
	return (uint64_t)device->family << 48 | (uint64_t)device->link << 32 |
	       (uint64_t)device->numa << 16 | device->bus;
}

static bool takes_whole(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, node, index);

	return sk_device_free(device) == SK_MILLI && !sk_fit_device(job, device);
}

/* The candidates that are together with the first of them. */
static uint64_t group_mask(const uint64_t *places, uint64_t candidates, uint64_t level)
{
	uint64_t first = places[__builtin_ctzll(candidates)], mask = 0;

	for (uint64_t left = candidates; left; left &= left - 1) {
		uint32_t at = (uint32_t)__builtin_ctzll(left);

		mask |= (uint64_t)(((first ^ places[at]) & level) == 0) << at;
	}
	return mask;
}

/* The smallest group of this level that has at least `count`, or 0. */
static uint64_t group_best(const uint64_t *places, uint64_t candidates, uint32_t count,
			   uint64_t level)
{
	uint32_t least = UINT32_MAX;
	uint64_t best = 0;

	for (uint64_t left = candidates; left;) {
		uint64_t mask = group_mask(places, left, level);
		uint32_t size = (uint32_t)__builtin_popcountll(mask);

		left &= ~mask;
		if (size < count || size >= least)
			continue;
		best = mask;
		least = size;
	}
	return best;
}

/* The parts of a place in which the devices of the task must agree. */
static uint64_t required(const struct sk_job *job)
{
	uint32_t together = job->wish.together;

	if (!(together & SK_LINKED_GANG) && job->request.gpu_milli <= SK_MILLI)
		return 0;
	return (together & SK_LINKED ? SK_PLACE_LINK : 0) |
	       (together & SK_ONE_NUMA ? SK_PLACE_NUMA : 0);
}

/* True if the device is in a group of each part. */
static bool has_parts(const struct sk_device *device, uint64_t parts)
{
	return (!(parts & SK_PLACE_LINK) || device->link) &&
	       (!(parts & SK_PLACE_NUMA) || device->numa);
}

static bool subset_whole(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 uint64_t among, struct sk_place *place)
{
	uint32_t count = job->request.gpu_milli / SK_MILLI, found = 0;
	uint64_t places[SK_NODE_DEVICES_MAX], candidates = 0, group = 0;
	uint64_t together = job->request.options & SK_MIX_VENDORS ? 0 : SK_PLACE_FAMILY;
	uint64_t parts = required(job);

	for (uint32_t index = 0; index < core->nodes[node].devices; index++)
		if (among >> index & 1 && takes_whole(core, job, node, index) &&
		    has_parts(sk_device_at(core, node, index), parts)) {
			places[index] = place_of(sk_device_at(core, node, index));
			candidates |= (uint64_t)1 << index;
			found++;
		}
	if (found < count)
		return false;
	for (uint32_t i = 0; i < SK_LEVELS_COUNT && !group; i++)
		if ((levels[i] & parts) == parts)
			group = group_best(places, candidates, count, levels[i] | together);
	if (!group)
		return false;
	for (uint32_t i = 0; i < count; i++, group &= group - 1)
		place->shares[i] = (struct sk_share){(uint16_t)__builtin_ctzll(group), SK_MILLI};
	place->shares_n = (uint16_t)count;
	return true;
}

static bool subset_share(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 uint64_t among, struct sk_place *place)
{
	uint32_t best = SK_NODE_DEVICES_MAX, least = SK_MILLI + 1;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);
		uint32_t free = sk_device_free(device);

		if (!(among >> index & 1) || free < job->request.gpu_milli || free >= least ||
		    sk_fit_device(job, device))
			continue;
		best = index;
		least = free;
	}
	if (best == SK_NODE_DEVICES_MAX)
		return false;
	place->shares[0] = (struct sk_share){(uint16_t)best, (uint16_t)job->request.gpu_milli};
	place->shares_n = 1;
	return true;
}

bool sk_subset_choose_among(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t among, struct sk_place *place)
{
	if (!job->request.gpu_milli) {
		place->shares_n = 0;
		return true;
	}
	if (job->request.gpu_milli < SK_MILLI)
		return subset_share(core, job, node, among, place);
	return subset_whole(core, job, node, among, place);
}

bool sk_subset_choose(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      struct sk_place *place)
{
	return sk_subset_choose_among(core, job, node, UINT64_MAX, place);
}
