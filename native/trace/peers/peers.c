/* SPDX-License-Identifier: Apache-2.0 */
/* Records of calls taken in, and the waits that follow from them; see peers.h. */
#include "trace/peers/peers_parts.h"

#include <string.h>

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
	uint64_t x = (a ^ (b + UINT64_C(0x9e3779b97f4a7c15) + (a << 6) + (a >> 2)));

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return (x ^ (x >> 27)) | 1;
}

void sk_trace_peers_init(struct sk_trace_peers *peers, const uint8_t *kinds, size_t count)
{
	memset(peers, 0, sizeof(*peers));
	memcpy(peers->kinds, kinds, count < SK_PEERS_CALLS ? count : SK_PEERS_CALLS);
}

void sk_trace_peers_tell(struct sk_trace_peers *peers, unsigned rank, uint32_t tid, uint64_t from,
			 uint64_t to)
{
	if (to <= from)
		return;
	peers->ranks[rank].wait_ns += to - from;
	if (peers->waits_used >= peers->waits_room) {
		peers->losses[SK_PEERS_LOST_WAIT]++;
		return;
	}
	peers->waits[peers->waits_used++] = (struct sk_trace_peers_wait){
		.from_ns = from, .to_ns = to, .tid = tid, .pid = peers->ranks[rank].pid};
}

/* Tell one thread's wait in a call up to `to`. A wait for a message is told as a whole, so what of
 * it is for peers is counted apart from what was told. */
static void tell_open(struct sk_trace_peers *peers, struct sk_trace_peers_open *open, uint64_t from,
		      uint64_t to)
{
	bool whole = peers->kinds[open->call] == SK_PEERS_MESSAGE;
	uint64_t untold = later(open->told_ns, whole ? open->enter_ns : from);
	uint64_t counted = whole ? later(open->enter_ns, from) : untold;

	sk_trace_peers_tell(peers, peers->processes[open->process].rank, open->tid, untold, to);
	if (counted < to)
		open->peers_ns += to - counted;
	open->told_ns = later(open->told_ns, to);
}

uint64_t sk_trace_peers_tell_begun(struct sk_trace_peers *peers, unsigned process, uint8_t kind,
				   uint64_t from, uint64_t to)
{
	unsigned left = sk_trace_peers_inside(&peers->processes[process], kind);
	uint64_t longest = 0;

	for (unsigned row = 0; row < SK_PEERS_OPEN && left; row++) {
		struct sk_trace_peers_open *open = &peers->open[row];
		uint64_t since = later(open->enter_ns, from);

		if (!open->tid || open->process != process || peers->kinds[open->call] != kind)
			continue;
		left--;
		if (since >= to)
			continue;
		tell_open(peers, open, from, to);
		longest = later(longest, to - since);
	}
	return longest;
}

/* Return the call that a thread is in, if it still waits in its stream. */
static struct sk_trace_peers_call *waiting(struct sk_trace_peers *peers,
					   const struct sk_trace_peers_open *open)
{
	struct sk_trace_peers_stream *stream;

	if (open->stream == SK_PEERS_NONE)
		return NULL;
	stream = &peers->streams[open->stream];
	if (open->serial < stream->serial || open->serial - stream->serial >= stream->used)
		return NULL;
	return sk_trace_peers_at(stream, (unsigned)(open->serial - stream->serial));
}

static unsigned rank_of(const struct sk_trace_peers *peers, const struct sk_trace_peers_open *open)
{
	return peers->processes[open->process].rank;
}

static bool is_counted(const struct sk_trace_peers *peers, unsigned stream)
{
	const struct sk_trace_peers_group *group = &peers->groups[peers->streams[stream].group];

	return group->aligned && sk_trace_peers_whole(group);
}

/* Take a thread out of its call at `at_ns`, and tell the wait that ends with it. */
static void get_out(struct sk_trace_peers *peers, const struct sk_trace_peers_open *open,
		    uint64_t at_ns)
{
	struct sk_trace_peers_call *call = waiting(peers, open);

	if (open->stream != SK_PEERS_NONE && peers->streams[open->stream].inside) {
		peers->streams[open->stream].inside = 0;
		peers->groups[peers->streams[open->stream].group].inside--;
	}
	if (!call)
		return;
	if (sk_trace_peers_waited_in(peers->kinds[call->call]))
		return; /* the operation goes on */
	call->leave_ns = at_ns;
	if (peers->kinds[call->call] != SK_PEERS_SOME || !is_counted(peers, open->stream))
		return;
	sk_trace_peers_tell(peers, rank_of(peers, open), call->tid, call->told_ns, at_ns);
	call->told_ns = later(call->told_ns, at_ns);
}

/* Take the rank that a process has in a communicator for its own, if no launcher says one. */
static void adopt_rank(struct sk_trace_peers *peers, unsigned at, uint32_t rank)
{
	struct sk_trace_peers_process *process = &peers->processes[at];
	struct sk_trace_peers_rank *zero = &peers->ranks[0];

	if (!process->loose || rank >= SK_PEERS_RANKS)
		return;
	process->loose = 0;
	process->rank = (uint16_t)rank;
	if (zero->pid == process->pid && !zero->calls)
		*zero = (struct sk_trace_peers_rank){0};
	peers->ranks[rank].pid = process->pid;
	peers->ranks[rank].gone = 0;
}

static unsigned stream_for(struct sk_trace_peers *peers, unsigned process,
			   const struct sk_collective *record)
{
	uint8_t kind = peers->kinds[record->call];
	unsigned found = SK_PEERS_NONE, group;

	if (kind == SK_PEERS_JOINS) {
		adopt_rank(peers, process, record->number);
		group = sk_trace_peers_find_group(peers, mixed(record->id, 1), SK_PEERS_UNIQUE);
		if (group == SK_PEERS_NONE)
			return SK_PEERS_NONE;
		peers->groups[group].size = record->size <= SK_PEERS_RANKS ? record->size : 0;
		return sk_trace_peers_member(peers, process, group, 0);
	}
	if (kind != SK_PEERS_ALL && kind != SK_PEERS_SOME && kind != SK_PEERS_MAKES &&
	    !sk_trace_peers_waited_in(kind))
		return SK_PEERS_NONE;
	if (record->handle)
		found = sk_trace_peers_find_stream(peers, process, record->handle);
	peers->losses[SK_PEERS_LOST_HANDLE] += found == SK_PEERS_NONE;
	return found;
}

/* Count the time since a thread left the call before: its own, and that in which it had no CPU. */
static void count_own(struct sk_trace_peers *peers, unsigned process,
		      const struct sk_collective *record)
{
	const struct sk_trace_peers_process *of = &peers->processes[process];
	uint64_t passed_ns = record->at_ns - of->left_ns;
	uint64_t queued_ns = (uint64_t)(uint32_t)(record->queued_us - of->queued_us) * 1000;

	if (of->tid != record->tid)
		return;
	if (!record->queued_us || !of->queued_us)
		queued_ns = 0;
	if (queued_ns > passed_ns)
		queued_ns = passed_ns;
	peers->ranks[of->rank].queued_ns += queued_ns;
	peers->ranks[of->rank].own_ns += passed_ns - queued_ns;
}

static void enter(struct sk_trace_peers *peers, unsigned process,
		  const struct sk_collective *record)
{
	unsigned old = sk_trace_peers_find_open(peers, record->tid);
	struct sk_trace_peers_call call = {.enter_ns = record->at_ns,
					   .told_ns = record->at_ns,
					   .tid = record->tid,
					   .call = record->call};
	struct sk_trace_peers_open *open;

	if (old != SK_PEERS_NONE) {
		peers->losses[SK_PEERS_LOST_RETURN]++;
		get_out(peers, &peers->open[old], record->at_ns);
		sk_trace_peers_close(peers, old);
	}
	open = sk_trace_peers_enter(peers, record->tid);
	if (!open)
		return;
	open->process = (uint16_t)process;
	open->call = record->call;
	open->number = record->number;
	open->enter_ns = open->told_ns = record->at_ns;
	if (peers->kinds[record->call] == SK_PEERS_START)
		peers->processes[process].from_start = 1;
	if (peers->kinds[record->call] == SK_PEERS_DEVICE)
		peers->processes[process].in_device++;
	if (peers->kinds[record->call] == SK_PEERS_MESSAGE)
		peers->processes[process].in_message++;
	open->stream = (uint16_t)stream_for(peers, process, record);
	if (open->stream == SK_PEERS_NONE)
		return;
	if (peers->kinds[record->call] == SK_PEERS_LATER &&
	    sk_trace_peers_is_spread(&peers->groups[peers->streams[open->stream].group]))
		peers->processes[process].elsewhere = 1;
	open->serial = sk_trace_peers_push(peers, open->stream, &call);
}

/* Note a member of the communicator that the call with this number made on `group`. All are known
 * when the call has returned to every member of `group`. */
static void add_made(struct sk_trace_peers *peers, const struct sk_trace_peers_open *open,
		     uint64_t handle)
{
	struct sk_trace_peers_stream *stream = &peers->streams[open->stream];
	struct sk_trace_peers_group *parent = &peers->groups[stream->group];
	uint64_t number = open->serial + (uint64_t)stream->shift + 1;
	unsigned group = sk_trace_peers_find_group(
		peers, mixed(mixed(parent->key, number), open->number), SK_PEERS_MADE);

	if (group == SK_PEERS_NONE)
		return;
	peers->groups[group].parent = stream->group;
	peers->groups[group].parent_number = number;
	sk_trace_peers_member(peers, open->process, group, handle);
	parent->made_returned = parent->made_number == number ? parent->made_returned + 1 : 1;
	parent->made_number = number;
	for (unsigned g = 0; g < SK_PEERS_GROUPS && parent->made_returned == parent->size; g++)
		if (peers->groups[g].origin == SK_PEERS_MADE &&
		    peers->groups[g].parent == stream->group &&
		    peers->groups[g].parent_number == number) {
			peers->groups[g].size = peers->groups[g].members;
			sk_trace_peers_settle(peers, g);
		}
}

/* Note a member of a communicator that a call over hosts made. Calls on all ranks are counted from
 * their start, so this one has the same number on each host, and its number names it. */
static void add_split(struct sk_trace_peers *peers, const struct sk_trace_peers_open *open,
		      uint64_t handle)
{
	const struct sk_trace_peers_group *world =
		&peers->groups[peers->streams[open->stream].group];
	uint64_t key = mixed(world->key, open->serial + 1);
	unsigned group = sk_trace_peers_find_group(peers, mixed(key, open->number), SK_PEERS_MADE);

	if (group == SK_PEERS_NONE)
		return;
	peers->groups[group].split_key = key;
	peers->groups[group].split_size = world->size;
	peers->groups[group].colour = open->number;
	sk_trace_peers_member(peers, open->process, group, handle);
}

/* Note what a call has made that is of all ranks, or of ranks here alone. */
static void note_made(struct sk_trace_peers *peers, const struct sk_trace_peers_open *open,
		      uint64_t handle)
{
	const struct sk_trace_peers_group *parent =
		&peers->groups[peers->streams[open->stream].group];

	if (is_counted(peers, open->stream))
		add_made(peers, open, handle);
	else if (parent->origin == SK_PEERS_WORLD && sk_trace_peers_is_spread(parent) &&
		 peers->processes[open->process].from_start)
		add_split(peers, open, handle);
}

/* Count a wait for the device as the rank's own, less what it waited for others. How much of it was
 * for ranks of other hosts is not known, so none of such a wait is its own. */
static void count_device(struct sk_trace_peers *peers, const struct sk_trace_peers_open *open,
			 uint64_t at_ns)
{
	struct sk_trace_peers_process *process = &peers->processes[open->process];

	if (!process->elsewhere)
		peers->ranks[process->rank].own_ns += at_ns - open->enter_ns - open->peers_ns;
	if (!process->in_device)
		process->elsewhere = 0;
}

/* Return whether a call is a wait as a whole: for a message, or on a communicator that was not seen
 * to be made. */
static bool is_for_nobody_known(const struct sk_trace_peers *peers,
				const struct sk_trace_peers_open *open)
{
	uint8_t kind = peers->kinds[open->call];

	if (kind == SK_PEERS_ALL || kind == SK_PEERS_SOME || kind == SK_PEERS_MAKES)
		return open->stream == SK_PEERS_NONE;
	return kind == SK_PEERS_MESSAGE;
}

static void count_message(struct sk_trace_peers *peers, const struct sk_trace_peers_open *open,
			  uint64_t at_ns)
{
	struct sk_trace_peers_rank *rank = &peers->ranks[rank_of(peers, open)];
	uint64_t inside = at_ns - open->enter_ns;

	rank->messages++;
	rank->message_ns += inside > open->peers_ns ? inside - open->peers_ns : 0;
	sk_trace_peers_tell(peers, rank_of(peers, open), open->tid, open->told_ns, at_ns);
}

static void leave(struct sk_trace_peers *peers, const struct sk_collective *record)
{
	unsigned row = sk_trace_peers_find_open(peers, record->tid);
	struct sk_trace_peers_open open;
	struct sk_trace_peers_rank *rank;
	uint8_t kind;

	if (row == SK_PEERS_NONE) {
		peers->losses[SK_PEERS_LOST_ENTRY]++;
		return;
	}
	open = peers->open[row];
	kind = peers->kinds[open.call];
	rank = &peers->ranks[rank_of(peers, &open)];
	sk_trace_peers_close(peers, row);
	rank->calls++;
	rank->inside_ns += record->at_ns - open.enter_ns;
	if (is_for_nobody_known(peers, &open))
		count_message(peers, &open, record->at_ns);
	if (kind == SK_PEERS_DEVICE)
		count_device(peers, &open, record->at_ns);
	get_out(peers, &open, record->at_ns);
	if (kind == SK_PEERS_JOINS && open.stream != SK_PEERS_NONE)
		peers->streams[open.stream].handle = record->handle;
	if (kind == SK_PEERS_MAKES && open.stream != SK_PEERS_NONE && record->handle)
		note_made(peers, &open, record->handle);
}

size_t sk_trace_peers_add(struct sk_trace_peers *peers, const struct sk_collective *records,
			  size_t count)
{
	size_t taken = 0;

	for (size_t i = 0; i < count; i++) {
		const struct sk_collective *record = &records[i];
		unsigned process = sk_trace_peers_find_process(peers, record->pid);
		struct sk_trace_peers_rank *rank;

		if (process == SK_PEERS_NONE || record->call >= SK_PEERS_CALLS)
			continue;
		taken++;
		rank = &peers->ranks[peers->processes[process].rank];
		rank->seen_ns = rank->seen_ns ? rank->seen_ns : record->at_ns;
		rank->until_ns = record->at_ns;
		if (record->what == SK_COLLECTIVE_ENTER) {
			count_own(peers, process, record);
			enter(peers, process, record);
			continue;
		}
		leave(peers, record);
		peers->processes[process].tid = record->tid;
		peers->processes[process].queued_us = record->queued_us;
		peers->processes[process].left_ns = record->at_ns;
	}
	return taken;
}

/* Forget what the threads of a process are in, and that it waits. */
static void forget_calls(struct sk_trace_peers *peers, unsigned process)
{
	for (unsigned row = 0; row < SK_PEERS_OPEN;) {
		struct sk_trace_peers_open open = peers->open[row];

		if (!open.tid || open.process != process) {
			row++;
			continue;
		}
		sk_trace_peers_close(peers, row); /* another one may have moved here */
		get_out(peers, &open, later(open.told_ns, peers->shown_ns));
	}
}

void sk_trace_peers_start(struct sk_trace_peers *peers, uint32_t pid)
{
	unsigned process = sk_trace_peers_find_process(peers, pid);

	if (process != SK_PEERS_NONE)
		peers->processes[process].from_start = 1;
}

void sk_trace_peers_leave(struct sk_trace_peers *peers, uint32_t pid)
{
	unsigned process = sk_trace_peers_find_process(peers, pid);

	if (process == SK_PEERS_NONE)
		return;
	forget_calls(peers, process);
	for (unsigned at = peers->processes[process].streams; at != SK_PEERS_NONE;
	     at = peers->streams[at].next) {
		peers->streams[at].gone = 1;
		peers->groups[peers->streams[at].group].gone++;
	}
	sk_trace_peers_remove(peers, pid);
	peers->processes[process].gone = 1;
	peers->processes[process].streams = SK_PEERS_NONE;
	if (peers->ranks[peers->processes[process].rank].pid == pid)
		peers->ranks[peers->processes[process].rank].gone = 1;
}

void sk_trace_peers_blind(struct sk_trace_peers *peers, uint32_t pid)
{
	unsigned process = sk_trace_peers_find_process(peers, pid);

	if (process == SK_PEERS_NONE)
		return;
	forget_calls(peers, process);
	peers->processes[process].from_start = 0;
	for (unsigned at = peers->processes[process].streams; at != SK_PEERS_NONE;
	     at = peers->streams[at].next)
		peers->groups[peers->streams[at].group].aligned = 0;
}

/* Tell the waits of members that are in a call which some have not entered. */
static void show_group(struct sk_trace_peers *peers, const struct sk_trace_peers_group *group,
		       uint64_t to_ns)
{
	for (unsigned at = group->first; at != SK_PEERS_NONE; at = peers->streams[at].neighbour) {
		struct sk_trace_peers_stream *stream = &peers->streams[at];
		struct sk_trace_peers_call *call;

		if (!stream->used)
			continue;
		call = sk_trace_peers_at(stream, stream->used - 1u);
		if (peers->kinds[call->call] == SK_PEERS_LATER)
			sk_trace_peers_tell_begun(peers, stream->process, SK_PEERS_DEVICE,
						  sk_trace_peers_at(stream, 0)->enter_ns, to_ns);
		if (sk_trace_peers_waited_in(peers->kinds[call->call]))
			continue; /* waits for messages are told below */
		if (call->leave_ns || call->told_ns >= to_ns)
			continue;
		sk_trace_peers_tell(peers, stream->rank, call->tid, call->told_ns, to_ns);
		call->told_ns = to_ns;
	}
}

void sk_trace_peers_show(struct sk_trace_peers *peers, uint64_t to_ns)
{
	for (unsigned g = 0; g < SK_PEERS_GROUPS; g++) {
		const struct sk_trace_peers_group *group = &peers->groups[g];

		if (group->origin && group->aligned && sk_trace_peers_whole(group) &&
		    group->missing)
			show_group(peers, group, to_ns);
	}
	for (unsigned row = 0; row < SK_PEERS_OPEN; row++) {
		struct sk_trace_peers_open *open = &peers->open[row];

		if (!open->tid || !is_for_nobody_known(peers, open) || open->told_ns >= to_ns)
			continue;
		sk_trace_peers_tell(peers, rank_of(peers, open), open->tid, open->told_ns, to_ns);
		open->told_ns = to_ns;
	}
	peers->shown_ns = later(peers->shown_ns, to_ns);
}
