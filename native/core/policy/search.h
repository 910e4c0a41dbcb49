/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the place of one task, which all placements share. Invariant: while one domain of
 * nodes is tried, nodes of no other one are looked at, so that all domains together are one pass
 * over the nodes.
 */
#ifndef SK_CORE_POLICY_SEARCH_H
#define SK_CORE_POLICY_SEARCH_H

#include "core/policy/hints.h"

#define SK_SEARCH_SAMPLE SK_OBSERVATIONS_MAX /* nodes compared for a task without devices */

struct sk_search {
	const struct sk_core *core;
	uint32_t job;
	enum sk_placement how;
	uint64_t now_ns;
	uint64_t seed;
	struct sk_place *place;
};

/* A node of the domain that is tried; 0: none, all nodes are looked at. */
static inline uint32_t sk_search_near(const struct sk_search *search)
{
	return search->core->jobs[search->job].wish.near;
}

/* The slot to look at after this one, in the domain or, if it is 0, among all slots that may be in
 * use; 0: there is none. */
static inline uint32_t sk_search_after(const struct sk_core *core, uint32_t near, uint32_t node)
{
	if (near)
		return core->domains->member[node];
	return node + 1 < core->hints->end ? node + 1 : 0;
}

/* The slot to look at first. */
static inline uint32_t sk_search_first(const struct sk_core *core, uint32_t near)
{
	return near ? near : sk_search_after(core, 0, 0);
}

/* True if the task fits the node; its shares are filled in. */
bool sk_search_try(const struct sk_search *search, uint32_t node);

/* Name the node as the place, with the reason of the choice. */
void sk_search_take(const struct sk_search *search, uint32_t node, uint16_t reason);

/* The draw depends on the seed, the job and the task, so that each has its own. */
uint64_t sk_search_chance(const struct sk_search *search);

/* BINPACK: take the first node of the lowest sufficient class of an index; false if there is none.
 * A task without devices goes to the least busy one of a sample. */
bool sk_search_pack(const struct sk_search *search);

#endif
