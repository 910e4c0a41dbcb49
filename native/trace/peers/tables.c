/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of processes, communicators and open calls; see peers.h. Open addressing, never more
 * than half full, so a search is short and ends at a free row. */
#include "trace/peers/peers_parts.h"

#include <errno.h>
#include <string.h>

static unsigned mixed(uint32_t id)
{
	return (unsigned)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 40);
}

/* Return the place of a process in the index, or the free place where it would be. */
static unsigned place_of(const struct sk_trace_peers *peers, uint32_t pid)
{
	unsigned at = mixed(pid) % SK_PEERS_INDEX;

	while (peers->index[at] && peers->processes[peers->index[at] - 1].pid != pid)
		at = (at + 1) % SK_PEERS_INDEX;
	return at;
}

unsigned sk_trace_peers_find_process(const struct sk_trace_peers *peers, uint32_t pid)
{
	unsigned row = peers->index[place_of(peers, pid)];

	return row ? row - 1 : SK_PEERS_NONE;
}

/* Take a process out of the index; later ones of the same chain move up. */
void sk_trace_peers_remove(struct sk_trace_peers *peers, uint32_t pid)
{
	unsigned hole = place_of(peers, pid);

	for (unsigned at = (hole + 1) % SK_PEERS_INDEX; peers->index[at];
	     at = (at + 1) % SK_PEERS_INDEX) {
		unsigned home = mixed(peers->processes[peers->index[at] - 1].pid) % SK_PEERS_INDEX;

		if ((at - home) % SK_PEERS_INDEX < (at - hole) % SK_PEERS_INDEX)
			continue;
		peers->index[hole] = peers->index[at];
		hole = at;
	}
	peers->index[hole] = 0;
}

unsigned sk_trace_peers_find_open(const struct sk_trace_peers *peers, uint32_t tid)
{
	for (unsigned at = mixed(tid) % SK_PEERS_OPEN; peers->open[at].tid;
	     at = (at + 1) % SK_PEERS_OPEN)
		if (peers->open[at].tid == tid)
			return at;
	return SK_PEERS_NONE;
}

struct sk_trace_peers_open *sk_trace_peers_enter(struct sk_trace_peers *peers, uint32_t tid)
{
	unsigned at = mixed(tid) % SK_PEERS_OPEN;

	if (peers->open_used >= SK_PEERS_OPEN / 2) {
		peers->losses[SK_PEERS_LOST_CALL]++;
		return NULL;
	}
	while (peers->open[at].tid)
		at = (at + 1) % SK_PEERS_OPEN;
	peers->open_used++;
	peers->open[at] = (struct sk_trace_peers_open){.tid = tid, .stream = SK_PEERS_NONE};
	return &peers->open[at];
}

/* Move later rows of the same chain up, so that no search ends too early. */
void sk_trace_peers_close(struct sk_trace_peers *peers, unsigned row)
{
	unsigned hole = row;

	struct sk_trace_peers_process *process = &peers->processes[peers->open[row].process];

	process->in_device -= peers->kinds[peers->open[row].call] == SK_PEERS_DEVICE;
	process->in_message -= peers->kinds[peers->open[row].call] == SK_PEERS_MESSAGE;
	peers->open_used--;
	for (unsigned at = (row + 1) % SK_PEERS_OPEN; peers->open[at].tid;
	     at = (at + 1) % SK_PEERS_OPEN) {
		unsigned home = mixed(peers->open[at].tid) % SK_PEERS_OPEN;

		if ((at - home) % SK_PEERS_OPEN < (at - hole) % SK_PEERS_OPEN)
			continue;
		peers->open[hole] = peers->open[at];
		hole = at;
	}
	peers->open[hole].tid = 0;
}

unsigned sk_trace_peers_find_stream(const struct sk_trace_peers *peers, unsigned process,
				    uint64_t handle)
{
	for (unsigned at = peers->processes[process].streams; at != SK_PEERS_NONE;
	     at = peers->streams[at].next)
		if (peers->streams[at].handle == handle)
			return at;
	return SK_PEERS_NONE;
}

/* Return whether nobody can call on a communicator any more: its members have ended. */
static bool is_over(const struct sk_trace_peers_group *group)
{
	return group->origin && group->members && group->gone >= group->members;
}

/* Free the rows of a communicator, whose sums are in its ranks. */
static void retire(struct sk_trace_peers *peers, unsigned group)
{
	for (unsigned at = peers->groups[group].first; at != SK_PEERS_NONE;
	     at = peers->streams[at].neighbour)
		peers->streams[at].busy = 0;
	peers->groups[group].origin = SK_PEERS_FREE;
}

static unsigned free_group(struct sk_trace_peers *peers)
{
	for (unsigned group = 0; group < SK_PEERS_GROUPS; group++)
		if (!peers->groups[group].origin)
			return group;
	for (unsigned group = 0; group < SK_PEERS_GROUPS; group++)
		if (is_over(&peers->groups[group])) {
			retire(peers, group);
			return group;
		}
	return SK_PEERS_NONE;
}

unsigned sk_trace_peers_find_group(struct sk_trace_peers *peers, uint64_t key, uint8_t origin)
{
	unsigned group;

	for (group = 0; group < SK_PEERS_GROUPS; group++)
		if (peers->groups[group].origin && peers->groups[group].key == key &&
		    !is_over(&peers->groups[group]))
			return group;
	group = free_group(peers);
	if (group == SK_PEERS_NONE) {
		peers->losses[SK_PEERS_LOST_CALL]++;
		return group;
	}
	peers->groups[group] = (struct sk_trace_peers_group){.key = key,
							     .origin = origin,
							     .parent = SK_PEERS_NONE,
							     .first = SK_PEERS_NONE,
							     .aligned = origin != SK_PEERS_WORLD};
	return group;
}

static unsigned free_stream(struct sk_trace_peers *peers)
{
	for (unsigned at = 0; at < SK_PEERS_STREAMS; at++)
		if (!peers->streams[at].busy)
			return at;
	for (unsigned group = 0; group < SK_PEERS_GROUPS; group++)
		if (is_over(&peers->groups[group])) {
			unsigned first = peers->groups[group].first;

			retire(peers, group);
			return first;
		}
	return SK_PEERS_NONE;
}

/* End the communicator that had this handle before: it was freed, and the address is used again. */
static void forget_handle(struct sk_trace_peers *peers, unsigned process, uint64_t handle)
{
	uint16_t *link = &peers->processes[process].streams;

	while (*link != SK_PEERS_NONE && peers->streams[*link].handle != handle)
		link = &peers->streams[*link].next;
	if (!handle || *link == SK_PEERS_NONE)
		return;
	peers->groups[peers->streams[*link].group].gone++;
	*link = peers->streams[*link].next;
}

unsigned sk_trace_peers_member(struct sk_trace_peers *peers, unsigned process, unsigned group,
			       uint64_t handle)
{
	struct sk_trace_peers_group *of = &peers->groups[group];
	struct sk_trace_peers_stream *stream;
	unsigned at;

	forget_handle(peers, process, handle);
	at = free_stream(peers);
	if (at == SK_PEERS_NONE) {
		peers->losses[SK_PEERS_LOST_CALL]++;
		return at;
	}
	stream = &peers->streams[at];
	memset(stream, 0, sizeof(*stream));
	stream->handle = handle;
	stream->process = (uint16_t)process;
	stream->rank = peers->processes[process].rank;
	stream->group = (uint16_t)group;
	stream->busy = 1;
	stream->next = peers->processes[process].streams;
	peers->processes[process].streams = (uint16_t)at;
	stream->neighbour = of->first;
	of->first = (uint16_t)at;
	of->members++;
	of->missing++;
	return at;
}

/* Return a row for a process: a free one, or that of one that ended. */
static unsigned free_process(const struct sk_trace_peers *peers)
{
	for (unsigned at = 0; at < SK_PEERS_PROCESSES; at++)
		if (!peers->processes[at].pid || peers->processes[at].gone)
			return at;
	return SK_PEERS_NONE;
}

int sk_trace_peers_join(struct sk_trace_peers *peers, uint32_t pid, uint32_t rank, uint64_t key,
			uint32_t size, uint64_t handle)
{
	bool loose = rank == SK_PEERS_NONE;
	unsigned process, group;

	rank = loose ? 0 : rank;
	if (!pid || rank >= SK_PEERS_RANKS || size > SK_PEERS_RANKS)
		return -ENOSPC;
	if (sk_trace_peers_find_process(peers, pid) != SK_PEERS_NONE)
		return 0;
	group = size ? sk_trace_peers_find_group(peers, key, SK_PEERS_WORLD) : SK_PEERS_NONE;
	process = free_process(peers);
	if (process == SK_PEERS_NONE)
		return -ENOSPC;
	peers->processes[process] = (struct sk_trace_peers_process){
		.pid = pid, .rank = (uint16_t)rank, .streams = SK_PEERS_NONE, .loose = loose};
	peers->index[place_of(peers, pid)] = (uint16_t)(process + 1);
	peers->ranks[rank].pid = pid;
	peers->ranks[rank].gone = 0;
	if (group == SK_PEERS_NONE || !handle)
		return 0;
	peers->groups[group].size = size;
	return sk_trace_peers_member(peers, process, group, handle) == SK_PEERS_NONE ? -ENOSPC : 0;
}
