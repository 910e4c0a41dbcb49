/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes for the next task of a job, for a choice made outside. The tasks chosen so far are carried
 * out on trial and reverted.
 */
#include <errno.h>
#include <string.h>

#include "core/command/job_command.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/task.h"
#include "core/policy/rate.h"
#include "core/policy/signal.h"
#include "core/policy/score.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"
#include "core/state/table.h"

/* The milliwatts that the devices of this place would add, as SK_PLACEMENT_POWER counts them. */
static uint32_t candidate_adds(const struct sk_core *core, uint32_t slot,
			       const struct sk_place *place)
{
	uint32_t adds = 0;

	for (uint32_t i = 0; i < place->shares_n; i++)
		adds += sk_signal_adds_mw(core, slot, place->shares[i].index);
	return adds;
}

static uint64_t candidate_cost(const struct sk_node *node)
{
	uint64_t cost = UINT64_MAX;

	for (uint32_t i = 0; i < node->labels_n; i++)
		if (node->labels[i].flags & SK_LABEL_COST && node->labels[i].value < cost)
			cost = node->labels[i].value;
	return cost;
}

static void candidate_fill(const struct sk_core *core, uint32_t slot, const struct sk_place *place,
			   uint32_t rating, struct sk_candidate *ret)
{
	const struct sk_node *node = &core->nodes[slot];

	*ret = (struct sk_candidate){
		.node = node->id,
		.observation = core->observed[slot].id,
		.cost = candidate_cost(node),
		.cpu_free = sk_node_cpu_free(node),
		.memory_free = sk_node_memory_free(node),
		.load_milli = (uint32_t)core->observed[slot].load_milli,
		.tasks = node->tasks_count,
		.rating = rating,
		.adds_mw = candidate_adds(core, slot, place),
		.devices_free = node->devices_free,
		.shares_n = place->shares_n,
	};
	memcpy(ret->shares, place->shares, place->shares_n * sizeof ret->shares[0]);
}

static bool candidate_ok(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t now_ns,
			 struct sk_place *place)
{
	struct sk_why why;

	memset(place, 0, sizeof *place);
	return sk_task_room(core, job, node, now_ns, &why) == SK_REASON_NONE &&
	       sk_rate_shares(core, &core->jobs[job], SK_PLACEMENT_BEST, node, place) &&
	       sk_queue_admits(core, core->jobs[job].queue, node, place->shares, place->shares_n,
			       &why) == SK_REASON_NONE;
}

static uint32_t candidates_list(const struct sk_core *core, uint32_t job, uint64_t now_ns,
				uint64_t seed, struct sk_candidate *ret, uint32_t capacity)
{
	const uint32_t *scores = sk_score_all(core, &core->jobs[job], SK_PLACEMENT_BEST);
	uint32_t end = core->hints->end, count = 0;
	uint32_t from = end ? (uint32_t)(sk_mix(seed ^ sk_mix(core->jobs[job].id)) % end) : 0;
	struct sk_place place;

	for (uint32_t i = 0; i < end && count < capacity; i++) {
		uint32_t slot = (from + i) % end;

		if (scores[slot] != SK_SCORE_NONE && candidate_ok(core, job, slot, now_ns, &place))
			candidate_fill(core, slot, &place, scores[slot], &ret[count++]);
	}
	return count;
}

int sk_core_candidates(struct sk_core *core, uint64_t job, const struct sk_place *places,
		       uint32_t count, uint64_t now_ns, uint64_t seed,
		       struct sk_candidate *candidates, uint32_t capacity)
{
	const struct sk_act act = {.core = core, .now_ns = now_ns};
	uint32_t slot = sk_job_find(core, job);
	struct sk_why why;
	int ret = 0;

	if (!slot || core->jobs[slot].state != SK_PENDING)
		return -ENOENT;
	if (count >= core->jobs[slot].request.tasks)
		return -EINVAL;
	sk_journal_begin(core);
	for (uint32_t i = 0; i < count && !ret; i++)
		if (places[i].task != i || places[i].shares_n > SK_TASK_DEVICES_MAX ||
		    sk_place_task(&act, slot, &places[i], &why))
			ret = -EINVAL;
	if (!ret)
		ret = (int)candidates_list(core, slot, now_ns, seed, candidates, capacity);
	sk_journal_end(core, false);
	return ret;
}
