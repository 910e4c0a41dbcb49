/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators with ranks on other hosts: what their members here have done; see peers.h. */
#include "trace/peers/peers_parts.h"

bool sk_trace_peers_is_spread(const struct sk_trace_peers_group *group)
{
	return group->split_key ||
	       ((group->origin == SK_PEERS_WORLD || group->origin == SK_PEERS_UNIQUE) &&
		group->members < group->size);
}

/* Return since when the threads of a process wait in calls of this kind; 0: none does. */
static uint64_t inside_ns(const struct sk_trace_peers *peers, unsigned process, uint8_t kind)
{
	unsigned left = sk_trace_peers_inside(&peers->processes[process], kind);
	uint64_t first = 0;

	for (unsigned row = 0; row < SK_PEERS_OPEN && left; row++) {
		const struct sk_trace_peers_open *open = &peers->open[row];

		if (!open->tid || open->process != process || peers->kinds[open->call] != kind)
			continue;
		left--;
		if (!first || open->enter_ns < first)
			first = open->enter_ns;
	}
	return first;
}

/* Return since when a member waits in its newest call; 0: it does not. */
static uint64_t waits_ns(const struct sk_trace_peers *peers,
			 const struct sk_trace_peers_stream *stream,
			 const struct sk_trace_peers_call *newest)
{
	uint8_t in = sk_trace_peers_waited_in(peers->kinds[newest->call]);
	uint64_t since;

	if (!in)
		return stream->inside && !newest->leave_ns ? newest->enter_ns : 0;
	since = inside_ns(peers, stream->process, in);
	return since && since < newest->enter_ns ? newest->enter_ns : since;
}

static void tell(const struct sk_trace_peers *peers, const struct sk_trace_peers_stream *stream,
		 struct sk_trace_peers_member *ret)
{
	const struct sk_trace_peers_process *process = &peers->processes[stream->process];
	const struct sk_trace_peers_call *newest =
		&stream->calls[(stream->head + stream->used + SK_PEERS_DEEP - 1u) % SK_PEERS_DEEP];

	*ret = (struct sk_trace_peers_member){
		.entered = stream->serial + stream->used,
		.pid = process->pid,
		.rank = process->rank,
		.call = SK_PEERS_NONE,
		.from_start = process->from_start ||
			      peers->groups[stream->group].origin == SK_PEERS_UNIQUE,
	};
	if (!stream->used)
		return;
	ret->call = newest->call;
	ret->since_ns = waits_ns(peers, stream, newest);
}

size_t sk_trace_peers_find_members(const struct sk_trace_peers *peers, unsigned group,
				   struct sk_trace_peers_member *ret, size_t room)
{
	size_t found = 0;

	for (unsigned at = peers->groups[group].first; at != SK_PEERS_NONE && found < room;
	     at = peers->streams[at].neighbour)
		if (!peers->streams[at].gone)
			tell(peers, &peers->streams[at], &ret[found++]);
	return found;
}
