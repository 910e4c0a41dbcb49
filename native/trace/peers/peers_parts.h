/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The functions that the files of this folder share; other code uses peers.h.
 */
#ifndef SK_TRACE_PEERS_PEERS_PARTS_H
#define SK_TRACE_PEERS_PEERS_PARTS_H

#include "trace/peers/peers.h"

/** Return the row of a process, or SK_PEERS_NONE. */
unsigned sk_trace_peers_find_process(const struct sk_trace_peers *peers, uint32_t pid);

/** Find a process no more; its row stays until another needs it. */
void sk_trace_peers_remove(struct sk_trace_peers *peers, uint32_t pid);

/** Return the row of what a thread is in, or SK_PEERS_NONE. */
unsigned sk_trace_peers_find_open(const struct sk_trace_peers *peers, uint32_t tid);

/** Note that a thread has entered a call; returns NULL, counted, without room. */
struct sk_trace_peers_open *sk_trace_peers_enter(struct sk_trace_peers *peers, uint32_t tid);

/** Forget what a thread is in. Rows of others may move. */
void sk_trace_peers_close(struct sk_trace_peers *peers, unsigned row);

/** Return the stream of a process on a handle, or SK_PEERS_NONE. */
unsigned sk_trace_peers_find_stream(const struct sk_trace_peers *peers, unsigned process,
				    uint64_t handle);

/** Return the communicator of a key, made if it is new; SK_PEERS_NONE without room. */
unsigned sk_trace_peers_find_group(struct sk_trace_peers *peers, uint64_t key, uint8_t origin);

/** Make a process a member under this handle; a communicator of the same handle is over. Returns
 * the stream, or SK_PEERS_NONE without room. */
unsigned sk_trace_peers_member(struct sk_trace_peers *peers, unsigned process, unsigned group,
			       uint64_t handle);

/** Append a call to a stream and match; returns its serial. */
uint64_t sk_trace_peers_push(struct sk_trace_peers *peers, unsigned stream,
			     const struct sk_trace_peers_call *call);

/** Match what can be matched in a communicator. */
void sk_trace_peers_settle(struct sk_trace_peers *peers, unsigned group);

/** Tell up to `to` the waits of a process's threads in calls of this kind, for what began at
 * `from`; returns the longest of them since then. */
uint64_t sk_trace_peers_tell_begun(struct sk_trace_peers *peers, unsigned process, uint8_t kind,
				   uint64_t from, uint64_t to);

/** Tell a wait of a rank's thread, if it is longer than nothing. */
void sk_trace_peers_tell(struct sk_trace_peers *peers, unsigned rank, uint32_t tid, uint64_t from,
			 uint64_t to);

static inline struct sk_trace_peers_call *sk_trace_peers_at(struct sk_trace_peers_stream *stream,
							    unsigned place)
{
	return &stream->calls[(stream->head + place) % SK_PEERS_DEEP];
}

/** Return the kind of the calls that wait for what a call of this kind has begun, or
 * SK_PEERS_OTHER. */
static inline uint8_t sk_trace_peers_waited_in(uint8_t kind)
{
	if (kind == SK_PEERS_LATER)
		return SK_PEERS_DEVICE;
	return kind == SK_PEERS_BEGINS ? SK_PEERS_MESSAGE : SK_PEERS_OTHER;
}

/** Return how many threads of a process are in calls of such a kind. */
static inline unsigned sk_trace_peers_inside(const struct sk_trace_peers_process *process,
					     uint8_t kind)
{
	if (kind == SK_PEERS_DEVICE)
		return process->in_device;
	return kind == SK_PEERS_MESSAGE ? process->in_message : 0;
}

/** Return whether all members of a communicator are known and its calls can be counted alike. */
static inline bool sk_trace_peers_whole(const struct sk_trace_peers_group *group)
{
	return group->size && group->members == group->size;
}

#endif
