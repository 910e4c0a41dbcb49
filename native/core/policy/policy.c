/* SPDX-License-Identifier: Apache-2.0
 *
 * BINPACK is in search.c. All other placements use the ratings of score.c; the conditions of the
 * job itself are checked for the best node only, and for all in order if that one fails.
 */
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/policy/choice.h"
#include "core/policy/evidence.h"
#include "core/policy/policy.h"
#include "core/policy/rate.h"
#include "core/policy/score.h"
#include "core/policy/search.h"
#include "core/policy/signal.h"
#include "core/policy/subset.h"
#include "core/policy/workload.h"

/* Tasks of the same job in the failure domain of the node, or on the node itself if it has none. */
static uint32_t affinity_of(const struct sk_search *search, uint32_t node)
{
	const struct sk_core *core = search->core;
	uint64_t domain = core->nodes[node].domain;
	uint32_t count = 0;

	for (uint32_t at = core->jobs[search->job].tasks_first; at; at = core->tasks[at].job_next)
		count += domain ? core->nodes[core->tasks[at].node].domain == domain
				: core->tasks[at].node == node;
	return count;
}

struct sk_best {
	uint32_t node;
	uint32_t affinity;
	uint32_t first;
	uint32_t second;
};

static bool better(const struct sk_best *a, const struct sk_best *b)
{
	if (!b->node || a->affinity != b->affinity)
		return !b->node || a->affinity < b->affinity;
	if (a->first != b->first)
		return a->first < b->first;
	return a->second < b->second;
}

/* The best node besides `but` that the conditions of the job allow, and the place there; 0: none.
 */
static uint32_t best_but(const struct sk_search *search, const uint32_t *first,
			 const uint32_t *second, uint32_t but, struct sk_place *ret)
{
	bool gang =
		search->how == SK_PLACEMENT_SPREAD && search->core->jobs[search->job].tasks_first;
	struct sk_place tried = *search->place;
	struct sk_search beside = *search;
	struct sk_best best = {0};
	uint32_t near = sk_search_near(search), node = sk_search_first(search->core, near);

	beside.place = &tried;
	*ret = tried;
	for (; node; node = sk_search_after(search->core, near, node)) {
		struct sk_best at = {node, 0, first[node], second ? second[node] : 0};

		if (at.first == SK_SCORE_NONE || (but && node == but))
			continue;
		at.affinity = gang ? affinity_of(search, node) : 0;
		if (!better(&at, &best) || !sk_search_try(&beside, node))
			continue;
		best = at;
		*ret = tried;
	}
	return best.node;
}

/* True if there are too many nodes to look for the next best score beside each decision. */
static bool too_many(const struct sk_search *search)
{
	return sk_evidence_scores(search->how) && search->core->nodes_count > SK_EVIDENCE_NODES_MAX;
}

/* Take the node, and keep what the placement read of this and the next best. */
static bool policy_took(const struct sk_search *search, const uint32_t *first,
			const uint32_t *second, uint32_t node)
{
	const struct sk_core *core = search->core;
	struct sk_place other;
	uint32_t next;

	sk_search_take(
		search, node,
		sk_rate_why(core, &core->jobs[search->job], search->how, node, search->place));
	if (!sk_evidence_tells(search->how))
		return true;
	next = too_many(search) ? 0 : best_but(search, first, second, node, &other);
	sk_evidence_keep(core, &core->jobs[search->job], search->how,
			 (struct sk_compared){node, search->place, first[node]},
			 (struct sk_compared){next, &other, next ? first[next] : 0});
	return true;
}

/* Take the best of all nodes that the conditions of the job allow. */
static bool policy_walk(const struct sk_search *search, const uint32_t *first,
			const uint32_t *second)
{
	struct sk_place taken;
	uint32_t node = best_but(search, first, second, 0, &taken);

	*search->place = taken;
	return node && policy_took(search, first, second, node);
}

/* The number of nodes that fit, in the domain that is tried or of all. */
static uint32_t fitting(const struct sk_search *search, const uint32_t *scores)
{
	uint32_t near = sk_search_near(search), count = 0;

	if (!near)
		return sk_score_count(search->core->hints, scores);
	for (uint32_t node = near; node; node = sk_search_after(search->core, near, node))
		count += scores[node] != SK_SCORE_NONE;
	return count;
}

/* Take a random node among those that fit, or the next one that the job accepts. */
static bool policy_random(const struct sk_search *search, const uint32_t *scores)
{
	const struct sk_core *core = search->core;
	uint32_t near = sk_search_near(search), count = fitting(search, scores);
	uint32_t skip = count ? (uint32_t)(sk_search_chance(search) % count) : 0;

	for (uint32_t lap = 0; count && lap < 2; lap++, skip = 0)
		for (uint32_t node = sk_search_first(core, near); node;
		     node = sk_search_after(core, near, node)) {
			if (scores[node] == SK_SCORE_NONE)
				continue;
			if (skip) {
				skip--;
				continue;
			}
			if (sk_search_try(search, node))
				return policy_took(search, scores, NULL, node);
		}
	return false;
}

static bool policy_best(const struct sk_search *search, const uint32_t *first)
{
	const struct sk_core *core = search->core;
	const struct sk_job *job = &core->jobs[search->job];
	const uint32_t *second = NULL;
	uint32_t node;

	if (sk_rate_twice(search->how))
		second = sk_score_all(core, job, SK_PLACEMENT_BEST);
	if (job->wish.near || (search->how == SK_PLACEMENT_SPREAD && job->tasks_first))
		return policy_walk(search, first, second);
	node = sk_score_least(core->hints, first, second);
	if (!node)
		return false;
	if (sk_search_try(search, node))
		return policy_took(search, first, second, node);
	return policy_walk(search, first, second);
}

/* Candidates are the nodes that fit: all of them were compared. */
static bool policy_rated(const struct sk_search *search)
{
	const struct sk_core *core = search->core;
	const uint32_t *scores = sk_score_all(core, &core->jobs[search->job], search->how);
	bool found = search->how == SK_PLACEMENT_RANDOM ? policy_random(search, scores)
							: policy_best(search, scores);

	search->place->candidates = fitting(search, scores);
	return found;
}

enum sk_placement sk_policy_placement(const struct sk_core *core, const struct sk_job *job)
{
	uint32_t placement = job->request.placement;

	for (uint32_t queue = job->queue; queue && !placement; queue = core->queues[queue].parent)
		placement = core->queues[queue].placement;
	return placement ? (enum sk_placement)placement : SK_PLACEMENT_BEST;
}

/* Without typical requests nothing is known about fragmentation. A task that reserves nothing adds
 * none anywhere, so all of them would go to one node. */
static bool packs(const struct sk_core *core, const struct sk_job *job, enum sk_placement how)
{
	const struct sk_request *request = &job->request;

	if (how == SK_PLACEMENT_BINPACK)
		return true;
	sk_workload_look(core);
	return (how == SK_PLACEMENT_BEST || how == SK_PLACEMENT_FGD) &&
	       (!sk_workload_known(core) ||
		!(request->gpu_milli || request->cpu_milli || request->memory_bytes));
}

static bool policy_built_in(struct sk_search *search, uint32_t slot)
{
	const struct sk_core *core = search->core;

	if (!packs(core, &core->jobs[slot], search->how))
		return policy_rated(search);
	search->how = SK_PLACEMENT_BINPACK;
	return sk_search_pack(search);
}

bool sk_policy_lacks_choice(const struct sk_core *core, const struct sk_job *job)
{
	enum sk_placement how = sk_policy_placement(core, job);

	return how == SK_PLACEMENT_CUSTOM ||
	       (how == SK_PLACEMENT_SCORED && !sk_choice_find(core, job));
}

/* The node with the highest rank besides `but` on which the task fits, the first of equals, with
 * the place there; its node is 0 if there is none. */
static struct sk_compared ranked_but(const struct sk_search *search, const struct sk_choice *choice,
				     uint32_t but, struct sk_place *ret)
{
	struct sk_compared best = {0, ret, 0};
	struct sk_place tried = *search->place;
	struct sk_search beside = *search;

	beside.place = &tried;
	*ret = tried;
	for (uint32_t i = 0; i < choice->count; i++) {
		uint32_t slot = sk_node_find(search->core, choice->rows[i].node);

		if (!slot || slot == but || (best.node && choice->rows[i].rank <= best.score) ||
		    !sk_search_try(&beside, slot))
			continue;
		best.node = slot;
		best.score = choice->rows[i].rank;
		*ret = tried;
	}
	return best;
}

/* Take the node with the highest rank on which the task fits. */
static bool policy_ranked(const struct sk_search *search, const struct sk_choice *choice)
{
	struct sk_place taken, other;
	struct sk_compared best = ranked_but(search, choice, 0, &taken);

	if (!best.node)
		return false;
	*search->place = taken;
	search->place->candidates = choice->count;
	sk_search_take(search, best.node, SK_AS_PREFERRED);
	best.place = search->place;
	sk_evidence_keep(search->core, &search->core->jobs[search->job], SK_PLACEMENT_SCORED, best,
			 ranked_but(search, choice, best.node, &other));
	return true;
}

/* Heed what a function outside said; where it said nothing in time, the policy is BEST. */
static bool policy_scored(struct sk_search *search, uint32_t slot)
{
	const struct sk_choice *choice = sk_choice_find(search->core, &search->core->jobs[slot]);

	search->how = SK_PLACEMENT_BEST;
	if (!choice || !choice->reason)
		return choice && policy_ranked(search, choice);
	if (!policy_built_in(search, slot))
		return false;
	search->place->reason = choice->reason;
	return true;
}

bool sk_policy_choose(const struct sk_core *core, uint32_t slot, uint64_t now_ns, uint64_t seed,
		      struct sk_place *place)
{
	struct sk_search search = {core,   slot, sk_policy_placement(core, &core->jobs[slot]),
				   now_ns, seed, place};

	if (search.how == SK_PLACEMENT_CUSTOM)
		return false;
	if (search.how == SK_PLACEMENT_SCORED)
		return policy_scored(&search, slot);
	return policy_built_in(&search, slot);
}
