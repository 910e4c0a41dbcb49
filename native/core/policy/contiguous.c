/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that lie together by their numbers are a window of those that are free, so each window is
 * looked at once.
 */
#include "core/ledger/device.h"
#include "core/policy/contiguous.h"
#include "core/policy/subset.h"

static uint32_t wanted(const struct sk_job *job)
{
	return job->request.gpu_milli / SK_MILLI;
}

static uint32_t gaps_of(const struct sk_core *core, uint32_t node, uint64_t mask)
{
	uint32_t first = (uint32_t)__builtin_ctzll(mask);
	uint32_t last = 63u - (uint32_t)__builtin_clzll(mask);
	uint32_t between = last - first + 1 - (uint32_t)__builtin_popcountll(mask);
	uint16_t link = sk_device_at(core, node, first)->link;
	bool apart = !link;

	for (uint64_t left = mask; left; left &= left - 1)
		apart |= sk_device_at(core, node, (uint32_t)__builtin_ctzll(left))->link != link;
	return 2 * between + apart;
}

/* The first `count` of these devices. */
static uint64_t window(uint64_t from, uint32_t count)
{
	uint64_t mask = 0;

	for (; count; count--, from &= from - 1)
		mask |= from & -from;
	return mask;
}

/* The closest group, where families lie so that no window of free devices will do. */
static uint64_t group(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      uint64_t suited, uint32_t *gaps)
{
	struct sk_place place = {0};

	if (!sk_subset_choose_among(core, job, node, suited, &place))
		return 0;
	*gaps = sk_contiguous_gaps(core, node, &place);
	return suited;
}

uint64_t sk_contiguous_choose(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			      uint64_t suited, uint32_t *gaps)
{
	uint32_t count = wanted(job);
	uint64_t best = 0, all = suited;

	*gaps = SK_GAPS_NONE;
	if (count < 2) {
		*gaps = suited ? 0 : SK_GAPS_NONE;
		return suited;
	}
	for (; (uint32_t)__builtin_popcountll(suited) >= count; suited &= suited - 1) {
		uint64_t mask = window(suited, count);
		uint32_t own = gaps_of(core, node, mask);
		struct sk_place place = {0};

		if (own >= *gaps || !sk_subset_choose_among(core, job, node, mask, &place))
			continue;
		*gaps = own;
		best = mask;
	}
	return best ? best : group(core, job, node, all, gaps);
}

uint32_t sk_contiguous_gaps(const struct sk_core *core, uint32_t node, const struct sk_place *place)
{
	uint64_t mask = 0;

	for (uint32_t i = 0; i < place->shares_n; i++)
		mask |= (uint64_t)1 << place->shares[i].index;
	return place->shares_n < 2 ? 0 : gaps_of(core, node, mask);
}
