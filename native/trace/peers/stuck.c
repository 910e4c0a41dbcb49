/* SPDX-License-Identifier: Apache-2.0 */
/* Operations that do not go on: who is in them, and who has not come; see peers.h. */
#include "trace/peers/peers_parts.h"

#include <string.h>

/* Insert into an ascending list; the same place in `doing` is freed as well. */
static unsigned insert(uint16_t *ranks, uint32_t *used, uint16_t rank)
{
	unsigned at = *used;

	for (; at && ranks[at - 1] > rank; at--)
		ranks[at] = ranks[at - 1];
	ranks[at] = rank;
	++*used;
	return at;
}

/* Find what a member's process is in: the call that it entered first. */
static const struct sk_trace_peers_open *doing(const struct sk_trace_peers *peers,
					       const struct sk_trace_peers_stream *stream)
{
	const struct sk_trace_peers_open *found = NULL;

	for (unsigned row = 0; row < SK_PEERS_OPEN && !stream->gone; row++)
		if (peers->open[row].tid && peers->open[row].process == stream->process &&
		    (!found || peers->open[row].enter_ns < found->enter_ns))
			found = &peers->open[row];
	return found;
}

static void add_missing(const struct sk_trace_peers *peers,
			const struct sk_trace_peers_stream *stream,
			struct sk_trace_peers_stuck *ret)
{
	const struct sk_trace_peers_open *open = doing(peers, stream);
	uint32_t used = ret->missing_used;
	unsigned at = insert(ret->missing, &ret->missing_used, stream->rank);

	memmove(&ret->doing[at + 1], &ret->doing[at], (used - at) * sizeof(ret->doing[0]));
	memmove(&ret->doing_ns[at + 1], &ret->doing_ns[at], (used - at) * sizeof(ret->doing_ns[0]));
	ret->doing[at] = open ? open->call : SK_PEERS_NONE;
	ret->doing_ns[at] = open ? open->enter_ns : 0;
}

static void sort_members(const struct sk_trace_peers *peers,
			 const struct sk_trace_peers_group *group, struct sk_trace_peers_stuck *ret)
{
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour) {
		const struct sk_trace_peers_stream *stream = &peers->streams[at];
		const struct sk_trace_peers_call *newest =
			&stream->calls[(stream->head + stream->used + SK_PEERS_DEEP - 1U) %
				       SK_PEERS_DEEP];

		if (!stream->used) {
			add_missing(peers, stream, ret);
			continue;
		}
		if (newest->leave_ns)
			continue;
		insert(ret->waiting, &ret->waiting_used, stream->rank);
		ret->call = newest->call;
		ret->number = stream->serial + (uint64_t)stream->shift + 1;
		if (!ret->since_ns || newest->enter_ns < ret->since_ns)
			ret->since_ns = newest->enter_ns;
	}
}

/* All members have entered and none has returned. */
static void all_inside(const struct sk_trace_peers *peers, const struct sk_trace_peers_group *group,
		       struct sk_trace_peers_stuck *ret)
{
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour) {
		const struct sk_trace_peers_stream *stream = &peers->streams[at];

		insert(ret->waiting, &ret->waiting_used, stream->rank);
		ret->number = stream->serial + (uint64_t)stream->shift;
	}
	ret->call = group->last_call;
	ret->since_ns = group->last_ns;
}

static bool is_stuck(const struct sk_trace_peers *peers, unsigned g, uint64_t before_ns,
		     struct sk_trace_peers_stuck *ret)
{
	const struct sk_trace_peers_group *group = &peers->groups[g];

	if (!group->origin || !group->aligned || !sk_trace_peers_whole(group) || group->size < 2)
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->group = (uint16_t)g;
	if (group->inside == group->members && group->missing == group->members)
		all_inside(peers, group, ret);
	else if (group->missing)
		sort_members(peers, group, ret);
	return ret->waiting_used && ret->since_ns <= before_ns;
}

size_t sk_trace_peers_find_stuck(const struct sk_trace_peers *peers, uint64_t now_ns,
				 uint64_t after_ns, struct sk_trace_peers_stuck *ret, size_t room)
{
	size_t found = 0;

	for (unsigned g = 0; g < SK_PEERS_GROUPS && found < room && now_ns > after_ns; g++)
		found += is_stuck(peers, g, now_ns - after_ns, &ret[found]);
	return found;
}
