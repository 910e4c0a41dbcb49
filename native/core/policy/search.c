/* SPDX-License-Identifier: Apache-2.0
 *
 * BINPACK takes the first node of the lowest sufficient class of an index. In a domain, each of its
 * nodes tells its class.
 */
#include "core/ledger/device.h"
#include "core/ledger/level.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/task.h"
#include "core/policy/rate.h"
#include "core/policy/search.h"
#include "core/state/index.h"
#include "core/state/table.h"

void sk_search_take(const struct sk_search *search, uint32_t node, uint16_t reason)
{
	search->place->node = search->core->nodes[node].id;
	search->place->reason = reason;
	sk_rate_note_warned(search->core, node, search->place);
}

bool sk_search_try(const struct sk_search *search, uint32_t node)
{
	const struct sk_core *core = search->core;
	const struct sk_job *job = &core->jobs[search->job];
	struct sk_why why;

	search->place->candidates++;
	return sk_task_room(core, search->job, node, search->now_ns, &why) == SK_REASON_NONE &&
	       sk_rate_shares(core, job, search->how, node, search->place) &&
	       sk_queue_admits(core, job->queue, node, search->place->shares,
			       search->place->shares_n, &why) == SK_REASON_NONE;
}

uint64_t sk_search_chance(const struct sk_search *search)
{
	return sk_mix((search->seed + search->place->task) ^ sk_mix(search->place->job));
}

/* True if the device taken is partly used; the amount in the index may belong to a device that this
 * job does not accept. */
static bool partly_used(const struct sk_search *search, uint32_t node)
{
	return sk_device_at(search->core, node, search->place->shares[0].index)->used != 0;
}

/* Take the first node of the index, from this class on, that fits. */
static bool pack(const struct sk_search *search, const struct sk_index *index, uint32_t class,
		 uint16_t reason)
{
	uint32_t slot = 0;

	for (; sk_index_next(index, &class, &slot); slot++) {
		if (!sk_search_try(search, slot) ||
		    (reason == SK_PACKED_SHARE && !partly_used(search, slot)))
			continue;
		sk_search_take(search, slot, reason);
		return true;
	}
	return false;
}

/* Take the node of the domain that comes first in the index, from this class on, and fits. */
static bool pack_near(const struct sk_search *search, const struct sk_index *index, uint32_t class,
		      uint16_t reason)
{
	const struct sk_core *core = search->core;
	uint32_t near = sk_search_near(search), best = 0, least = UINT32_MAX;
	struct sk_place taken = *search->place;

	for (uint32_t node = near; node; node = sk_level_after(core, near, node)) {
		uint32_t at = sk_device_class(core, index, node, class);

		if (at >= least || !sk_search_try(search, node) ||
		    (reason == SK_PACKED_SHARE && !partly_used(search, node)))
			continue;
		least = at;
		best = node;
		taken = *search->place;
	}
	taken.candidates = search->place->candidates;
	*search->place = taken;
	if (best)
		sk_search_take(search, best, reason);
	return best != 0;
}

static bool policy_pack(const struct sk_search *search)
{
	const struct sk_core *core = search->core;
	uint32_t gpu = core->jobs[search->job].request.gpu_milli;
	bool (*packed)(const struct sk_search *, const struct sk_index *, uint32_t, uint16_t) =
		sk_search_near(search) ? pack_near : pack;

	if (gpu >= SK_MILLI)
		return packed(search, &core->free_whole, gpu / SK_MILLI, SK_FREE_DEVICES);
	return packed(search, &core->free_part, gpu, SK_PACKED_SHARE) ||
	       packed(search, &core->free_whole, 1, SK_OPENED_DEVICE);
}

/* The load of a node is read only where two have equally many tasks. */
static bool same_tasks(const struct sk_core *core, uint32_t a, uint32_t b)
{
	return core->nodes[a].tasks_count == core->nodes[b].tasks_count;
}

/* Fewest tasks, then the least load seen, then the lowest slot. */
static bool less_busy(const struct sk_core *core, uint32_t a, uint32_t b)
{
	if (!same_tasks(core, a, b))
		return core->nodes[a].tasks_count < core->nodes[b].tasks_count;
	if (core->observed[a].load_milli != core->observed[b].load_milli)
		return core->observed[a].load_milli < core->observed[b].load_milli;
	return a < b;
}

/* The first few nodes that have room, beginning at a random place in the ring of nodes. */
static uint32_t policy_sample(const struct sk_search *search, uint32_t start,
			      uint32_t sample[SK_SEARCH_SAMPLE])
{
	const struct sk_core *core = search->core;
	uint32_t near = sk_search_near(search), seen = 0;

	for (uint32_t lap = 0; lap < 2; lap++) {
		uint32_t slot =
			near || lap ? sk_level_first(core, near) : sk_node_next(core, start);

		for (; slot && (!lap || slot < start); slot = sk_level_after(core, near, slot)) {
			if ((slot < start) != lap || !sk_search_try(search, slot))
				continue;
			sample[seen++] = slot;
			if (seen == SK_SEARCH_SAMPLE)
				return seen;
		}
	}
	return seen;
}

/* Take the least busy node of a sample, so that a thousand such tasks do not pile up on the first
 * node. */
static bool policy_host(const struct sk_search *search)
{
	const struct sk_core *core = search->core;
	struct sk_place *place = search->place;
	uint32_t nodes = core->nodes_count ? core->nodes_count : 1;
	uint32_t start = (uint32_t)(sk_search_chance(search) % nodes) + 1;
	uint32_t sample[SK_SEARCH_SAMPLE];
	uint32_t seen = policy_sample(search, start, sample), best = 0, read = 0;

	if (!seen)
		return false;
	for (uint32_t i = 1; i < seen; i++) {
		if (same_tasks(core, sample[i], sample[best]))
			read |= 1u << i | 1u << best;
		if (less_busy(core, sample[i], sample[best]))
			best = i;
	}
	sk_search_take(search, sample[best], SK_LEAST_BUSY);
	for (uint32_t i = 0; i < seen; i++)
		if (read >> i & 1)
			sk_rate_note(place, core->observed[sample[i]].id);
	return true;
}

bool sk_search_pack(const struct sk_search *search)
{
	if (!search->core->jobs[search->job].request.gpu_milli)
		return policy_host(search);
	return policy_pack(search);
}
