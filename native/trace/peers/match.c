/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the members of a communicator matched into operations; see peers.h. The first call that
 * waits of each member is a candidate. */
#include "trace/peers/peers_parts.h"

/** One round over the candidates of a communicator. */
struct round {
	uint64_t number;   /* the largest of theirs */
	uint64_t last_ns;  /* entry of the last */
	uint64_t first_ns; /* entry of the first */
	unsigned last;	   /* its stream */
	unsigned first;
	bool same_number;
	bool same_call;
	bool all_wait; /* nobody returns from the operation before all have entered */
};

static uint64_t number_of(const struct sk_trace_peers_stream *stream)
{
	return stream->serial + (uint64_t)stream->shift;
}

static bool holds_all(uint8_t kind)
{
	return kind == SK_PEERS_ALL || kind == SK_PEERS_MAKES || kind == SK_PEERS_JOINS;
}

static void pop(struct sk_trace_peers *peers, struct sk_trace_peers_stream *stream)
{
	stream->head = (uint16_t)((stream->head + 1) % SK_PEERS_DEEP);
	stream->used--;
	stream->serial++;
	peers->groups[stream->group].missing += !stream->used;
}

/* Drop a candidate that is of no operation of all members; the next one takes its number. */
static void drop(struct sk_trace_peers *peers, struct sk_trace_peers_stream *stream)
{
	pop(peers, stream);
	stream->shift--;
	peers->losses[SK_PEERS_UNMATCHED]++;
}

static void look(const struct sk_trace_peers *peers, const struct sk_trace_peers_group *group,
		 struct round *ret)
{
	const struct sk_trace_peers_call *before = NULL;

	*ret = (struct round){.same_number = true, .same_call = true, .first_ns = UINT64_MAX};
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour) {
		const struct sk_trace_peers_stream *stream = &peers->streams[at];
		const struct sk_trace_peers_call *call = &stream->calls[stream->head];
		uint64_t number = number_of(stream);

		ret->same_number &= !before || number == ret->number;
		ret->same_call &= !before || call->call == before->call;
		ret->number = number > ret->number ? number : ret->number;
		if (call->enter_ns >= ret->last_ns) {
			ret->last_ns = call->enter_ns;
			ret->last = at;
		}
		if (call->enter_ns < ret->first_ns) {
			ret->first_ns = call->enter_ns;
			ret->first = at;
		}
		before = call;
	}
	ret->all_wait = before && holds_all(peers->kinds[before->call]);
}

/* Drop candidates whose number others have passed, because calls of these were lost. */
static void drop_older(struct sk_trace_peers *peers, const struct sk_trace_peers_group *group,
		       uint64_t number)
{
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour) {
		struct sk_trace_peers_stream *stream = &peers->streams[at];

		while (stream->used && number_of(stream) < number) {
			pop(peers, stream);
			peers->losses[SK_PEERS_UNMATCHED]++;
		}
	}
}

/* Drop candidates that returned before the last was entered, which no member of one operation does.
 * Returns whether there were any. */
static bool drop_early(struct sk_trace_peers *peers, struct sk_trace_peers_group *group,
		       uint64_t last_ns)
{
	bool any = false;

	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour) {
		struct sk_trace_peers_stream *stream = &peers->streams[at];
		uint64_t leave_ns = stream->calls[stream->head].leave_ns;

		if (!leave_ns || leave_ns >= last_ns)
			continue;
		drop(peers, stream);
		any = true;
	}
	group->aligned &= !any;
	return any;
}

/* Count the calls of all members alike from this operation on. */
static void align(struct sk_trace_peers *peers, struct sk_trace_peers_group *group)
{
	uint64_t most = 0;

	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour)
		if (peers->streams[at].serial > most)
			most = peers->streams[at].serial;
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour)
		peers->streams[at].shift = (int64_t)(most - peers->streams[at].serial);
	group->aligned = 1;
}

/* Return from when on a member may wait for its oldest operation: its call, or the operation before
 * it, whose last member came later. */
static uint64_t begun_ns(const struct sk_trace_peers *peers,
			 const struct sk_trace_peers_stream *stream)
{
	uint64_t before = peers->groups[stream->group].last_ns;
	uint64_t enter = stream->calls[stream->head].enter_ns;

	return enter > before ? enter : before;
}

/* Tell what a member waited for the operation that the last entered at `last_ns`, and return it. */
static uint64_t settle_member(struct sk_trace_peers *peers, struct sk_trace_peers_stream *stream,
			      uint64_t last_ns)
{
	struct sk_trace_peers_call *call = sk_trace_peers_at(stream, 0);
	uint64_t until = call->leave_ns && call->leave_ns < last_ns ? call->leave_ns : last_ns;
	uint64_t from = call->told_ns, wait = until - call->enter_ns;

	uint8_t in = sk_trace_peers_waited_in(peers->kinds[call->call]);

	if (in)
		wait = sk_trace_peers_tell_begun(peers, stream->process, in,
						 begun_ns(peers, stream), last_ns);
	else
		sk_trace_peers_tell(peers, stream->rank, call->tid, from, until);
	stream->wait_ns += wait;
	pop(peers, stream);
	return wait;
}

static void settle_all(struct sk_trace_peers *peers, struct sk_trace_peers_group *group,
		       const struct round *round)
{
	struct sk_trace_peers_stream *last = &peers->streams[round->last];
	struct sk_trace_peers_rank *rank = &peers->ranks[last->rank];
	unsigned call = last->calls[last->head].call;
	uint64_t waited = 0;

	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour)
		waited += settle_member(peers, &peers->streams[at], round->last_ns);
	if (group->size > 1 && (round->all_wait || waited)) {
		last->last++;
		rank->last++;
	}
	last->caused_ns += waited;
	rank->caused_ns += waited;
	peers->operations[call].count++;
	peers->operations[call].wait_ns += waited;
	group->wait_ns += waited;
	group->settled++;
	group->last_ns = round->last_ns;
	group->last_call = (uint16_t)call;
}

/* Take the candidates off without telling anything of them. */
static void pass_over(struct sk_trace_peers *peers, const struct sk_trace_peers_group *group)
{
	peers->losses[SK_PEERS_UNALIGNED]++;
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour)
		pop(peers, &peers->streams[at]);
}

static bool from_start(const struct sk_trace_peers *peers, const struct sk_trace_peers_group *group)
{
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour)
		if (peers->streams[at].gone || peers->streams[at].shift ||
		    !peers->processes[peers->streams[at].process].from_start)
			return false;
	return true;
}

static void settle_once(struct sk_trace_peers *peers, struct sk_trace_peers_group *group)
{
	struct round round;

	if (!group->aligned && !group->settled && from_start(peers, group))
		group->aligned = 1;
	look(peers, group, &round);
	if (group->aligned && !round.same_number) {
		drop_older(peers, group, round.number);
		return;
	}
	if (!round.same_call) {
		group->aligned = 0;
		drop(peers, &peers->streams[round.first]);
		return;
	}
	if (round.all_wait && drop_early(peers, group, round.last_ns))
		return;
	if (round.all_wait && !group->aligned)
		align(peers, group);
	if (group->aligned)
		settle_all(peers, group, &round);
	else
		pass_over(peers, group);
}

void sk_trace_peers_settle(struct sk_trace_peers *peers, unsigned at)
{
	struct sk_trace_peers_group *group = &peers->groups[at];

	while (sk_trace_peers_whole(group) && !group->missing)
		settle_once(peers, group);
}

uint64_t sk_trace_peers_push(struct sk_trace_peers *peers, unsigned at,
			     const struct sk_trace_peers_call *call)
{
	struct sk_trace_peers_stream *stream = &peers->streams[at];
	uint64_t serial;

	if (stream->used == SK_PEERS_DEEP) {
		pop(peers, stream);
		peers->losses[SK_PEERS_UNMATCHED] +=
			sk_trace_peers_whole(&peers->groups[stream->group]);
	}
	serial = stream->serial + stream->used;
	peers->groups[stream->group].missing -= !stream->used;
	*sk_trace_peers_at(stream, stream->used++) = *call;
	stream->inside = 1;
	peers->groups[stream->group].inside++;
	sk_trace_peers_settle(peers, stream->group);
	return serial;
}
