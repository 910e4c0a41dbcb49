/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The ranks of a job that wait for each other: their calls, matched into operations.
 *
 * A process is a rank. It enters calls on a communicator, which its own handle names. The n-th call
 * of each member on one communicator is one operation. The member that entered it last waited for
 * nobody; each other one waited from its entry to the entry of the last, or to its own return if
 * that came before.
 *
 * Probes are attached while programs run, so the first calls of members may be missing. In most
 * operations no member returns before all have entered. Calls that cannot be of one operation for
 * that reason are dropped until they can, and from then on the communicator is aligned. It is
 * aligned from the start where the start of every member was seen. Nothing is attributed before.
 *
 * A call that waits for messages is a wait as a whole, for nobody who is known, but for the time in
 * which an operation that its process has begun (MPI_Iallreduce) lacks a member: that is for it.
 *
 * A call that only begins an operation (NCCL's) waits for nobody. A thread that waits for its
 * device while an operation which its process has begun lacks a member, and does not return before
 * that member has come, waits for it meanwhile.
 *
 * A communicator with ranks on other hosts has fewer members here than its size. Nothing is matched
 * in it, because clocks of hosts differ by more than an operation takes; what its members here have
 * done can be read, so that whoever knows those of all hosts can judge.
 *
 * Records come in the order in which calls were made. Times are CLOCK_MONOTONIC ns of one host.
 * Invariant: a thread's waits never overlap, and each lies within one of its calls.
 * Memory: the caller's fixed block; plain data. Threads: one.
 */
#ifndef SK_TRACE_PEERS_PEERS_H
#define SK_TRACE_PEERS_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "records/collective.h"

enum {
	SK_PEERS_RANKS = 256,
	SK_PEERS_PROCESSES = 256,
	SK_PEERS_INDEX = 1024, /* a power of two; at most a quarter of it is used */
	SK_PEERS_GROUPS = 256,
	SK_PEERS_STREAMS = 1024,
	SK_PEERS_OPEN = 2048, /* a power of two; at most half of it is used */
	SK_PEERS_DEEP = 32,   /* calls of a member that wait for those of others */
	SK_PEERS_CALLS = 128, /* kinds of calls */
	SK_PEERS_NONE = 0xffff,
};

/** The kinds of calls. */
enum sk_trace_peers_kind {
	SK_PEERS_OTHER,
	SK_PEERS_START,	  /* the process joins the others; its first call on no communicator */
	SK_PEERS_ALL,	  /* nobody returns before all have entered */
	SK_PEERS_SOME,	  /* some may return before others enter */
	SK_PEERS_MAKES,	  /* as ALL, and leaves a new communicator */
	SK_PEERS_JOINS,	  /* as ALL, on a communicator that a unique id names */
	SK_PEERS_MESSAGE, /* waits for a message */
	SK_PEERS_LATER,	  /* returns at once; what it began goes on in the process's device */
	SK_PEERS_DEVICE,  /* waits for the process's device, and so for what LATER calls began */
	SK_PEERS_BEGINS,  /* returns at once; calls that wait for messages wait for what it began */
};

enum sk_trace_peers_loss {
	SK_PEERS_LOST_HANDLE, /* calls on communicators whose making was not seen: as messages */
	SK_PEERS_LOST_CALL,   /* calls beyond the tables */
	SK_PEERS_LOST_RETURN, /* calls whose return was not seen */
	SK_PEERS_LOST_ENTRY,  /* returns whose entry was not seen */
	SK_PEERS_UNMATCHED,   /* calls that could be no part of an operation of all members */
	SK_PEERS_UNALIGNED,   /* operations of some before the communicator was aligned */
	SK_PEERS_LOST_WAIT,   /* waits that found no room for their span */
	SK_PEERS_LOSSES,
};

/** One rank of the job, whichever process it is now; of all its communicators. */
struct sk_trace_peers_rank {
	uint32_t pid; /* the latest; 0: the rank was never seen */
	uint32_t gone;
	uint64_t calls;
	uint64_t inside_ns; /* in calls that returned */
	uint64_t wait_ns;   /* for other ranks, messages included */
	uint64_t message_ns;
	uint64_t last;	    /* operations that it entered last */
	uint64_t caused_ns; /* what others waited in these, added up */
	uint64_t queued_ns; /* for a CPU, between its calls */
	uint64_t own_ns;    /* the rest of the time between them, and of waits for its device */
	uint64_t messages;  /* calls that waited for nobody who is known */
	uint64_t seen_ns;   /* its first record */
	uint64_t until_ns;  /* its newest record */
};

struct sk_trace_peers_process {
	uint32_t pid; /* 0: the row is free */
	uint16_t rank;
	uint16_t streams; /* its first, or SK_PEERS_NONE */
	uint8_t from_start;
	uint8_t gone;
	uint8_t loose;	     /* no launcher says its rank, so its communicator does */
	uint8_t elsewhere;   /* it has begun operations that ranks of other hosts may lack */
	uint16_t in_device;  /* threads of it that wait for its device, */
	uint16_t in_message; /* and for a message */
	uint16_t unused;
	uint32_t tid;	    /* the thread that left a call last, */
	uint32_t queued_us; /* how long it had waited for a CPU by then, */
	uint64_t left_ns;   /* and when that was */
};

struct sk_trace_peers_call {
	uint64_t enter_ns;
	uint64_t leave_ns; /* 0: it goes on */
	uint64_t told_ns;  /* its wait is told up to here */
	uint32_t tid;
	uint16_t call;
	uint16_t unused;
};

/** The calls of one process on one communicator. A call's number is its serial plus `shift`. */
struct sk_trace_peers_stream {
	uint64_t handle;
	uint64_t serial; /* of the first call that waits: as many are gone */
	int64_t shift;
	uint64_t last;
	uint64_t caused_ns;
	uint64_t wait_ns;
	uint16_t process;
	uint16_t rank;
	uint16_t group;
	uint16_t next;	    /* of the process */
	uint16_t neighbour; /* of the group */
	uint16_t head;
	uint16_t used;
	uint8_t inside; /* a call of it has not returned */
	uint8_t gone;	/* its process has ended */
	uint8_t busy;	/* the row is in use */
	struct sk_trace_peers_call calls[SK_PEERS_DEEP];
};

enum sk_trace_peers_origin {
	SK_PEERS_FREE,
	SK_PEERS_WORLD,	 /* all processes that were started together */
	SK_PEERS_MADE,	 /* of another communicator */
	SK_PEERS_UNIQUE, /* of a unique id */
};

/** One communicator. */
struct sk_trace_peers_group {
	uint64_t key;
	uint64_t settled; /* operations that all members have entered */
	uint64_t made_number;
	uint64_t parent_number;
	uint64_t wait_ns;
	uint64_t last_ns;    /* entry of the last member into the newest of them */
	uint64_t split_key;  /* of the call over hosts that made it, which has it on all; 0: none */
	uint32_t split_size; /* ranks in that call */
	uint32_t colour;     /* what those that are in it together gave to that call */
	uint32_t size;	     /* 0: not known yet */
	uint32_t members;
	uint32_t missing; /* members without a call that waits */
	uint32_t inside;  /* members with a call that has not returned */
	uint32_t made_returned;
	uint32_t gone; /* members whose process has ended */
	uint16_t parent;
	uint16_t first;
	uint16_t last_call;
	uint8_t origin; /* enum sk_trace_peers_origin */
	uint8_t aligned;
};

/** The call that a thread is in. */
struct sk_trace_peers_open {
	uint32_t tid; /* 0: free */
	uint16_t process;
	uint16_t stream; /* SK_PEERS_NONE: none */
	uint16_t call;
	uint16_t unused;
	uint32_t number; /* the colour */
	uint64_t serial;
	uint64_t enter_ns;
	uint64_t told_ns;
	uint64_t peers_ns; /* of a wait for the device or a message: for peers that are known */
};

/** One rank, on a communicator that has ranks on other hosts. */
struct sk_trace_peers_member {
	uint64_t entered;  /* calls on it */
	uint64_t since_ns; /* when it began to wait in the newest; 0: it does not wait */
	uint32_t pid;
	uint16_t rank;
	uint16_t call;	     /* the newest, or SK_PEERS_NONE */
	uint32_t from_start; /* all of its calls are counted */
	uint32_t unused;
};

/** A time in which a thread waited for others. */
struct sk_trace_peers_wait {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t tid;
	uint32_t pid;
};

/** An operation that does not go on. Ranks are in ascending order. */
struct sk_trace_peers_stuck {
	uint16_t group;
	uint16_t call;
	uint32_t unused;
	uint64_t number;   /* from 1, counted since the communicator was first seen */
	uint64_t since_ns; /* the first of `waiting` entered; with none missing: the last one */
	uint32_t waiting_used;
	uint32_t missing_used;
	uint16_t waiting[SK_PEERS_RANKS];
	uint16_t missing[SK_PEERS_RANKS];
	uint16_t doing[SK_PEERS_RANKS]; /* call in which each of `missing` is, or SK_PEERS_NONE */
	uint64_t doing_ns[SK_PEERS_RANKS]; /* since when */
};

struct sk_trace_peers_operation {
	uint64_t count; /* of all members */
	uint64_t wait_ns;
};

struct sk_trace_peers {
	uint8_t kinds[SK_PEERS_CALLS];
	uint64_t losses[SK_PEERS_LOSSES];
	uint64_t shown_ns; /* waits are told up to here */
	uint32_t open_used;
	uint16_t index[SK_PEERS_INDEX]; /* by pid: the row of a living process, and 1; 0: free */
	struct sk_trace_peers_operation operations[SK_PEERS_CALLS];
	struct sk_trace_peers_rank ranks[SK_PEERS_RANKS];
	struct sk_trace_peers_process processes[SK_PEERS_PROCESSES];
	struct sk_trace_peers_group groups[SK_PEERS_GROUPS];
	struct sk_trace_peers_stream streams[SK_PEERS_STREAMS];
	struct sk_trace_peers_open open[SK_PEERS_OPEN];
	struct sk_trace_peers_wait *waits; /* the caller's room for spans */
	size_t waits_used;
	size_t waits_room;
};

/** Start with nobody known. `kinds`: what each call is, by its number. */
void sk_trace_peers_init(struct sk_trace_peers *peers, const uint8_t *kinds, size_t count);

/** A process is rank `rank` of the `size` that `key` names; `handle` is what it calls all of them.
 * SK_PEERS_NONE: no launcher says its rank, so it has the one in its first communicator of a unique
 * id, and 0 until then. Returns 0, or -ENOSPC beyond the tables. A second call for it changes
 * nothing. */
int sk_trace_peers_join(struct sk_trace_peers *peers, uint32_t pid, uint32_t rank, uint64_t key,
			uint32_t size, uint64_t handle);

/** A process has made no call before those that are added from now on. */
void sk_trace_peers_start(struct sk_trace_peers *peers, uint32_t pid);

/** A process has ended. Members that wait for it go on doing so. */
void sk_trace_peers_leave(struct sk_trace_peers *peers, uint32_t pid);

/** A process's calls are not seen any more: what it was in is unknown. */
void sk_trace_peers_blind(struct sk_trace_peers *peers, uint32_t pid);

/** Take in records of its processes, in order, and tell the waits that are known to have ended. The
 * records may be those of several jobs; returns how many were of this one. */
size_t sk_trace_peers_add(struct sk_trace_peers *peers, const struct sk_collective *records,
			  size_t count);

/** Tell up to `to_ns` the waits that go on; every record before it has been added. */
void sk_trace_peers_show(struct sk_trace_peers *peers, uint64_t to_ns);

/** Find the operations that have not gone on for `after_ns`; returns how many, at most `room`. */
size_t sk_trace_peers_find_stuck(const struct sk_trace_peers *peers, uint64_t now_ns,
				 uint64_t after_ns, struct sk_trace_peers_stuck *ret, size_t room);

/** Return whether a communicator has ranks that no process here is, or may have them: of one that a
 * call over hosts made, nobody here knows the others. */
bool sk_trace_peers_is_spread(const struct sk_trace_peers_group *group);

/** Find what the living members here of such a communicator have done; returns how many, at most
 * `room`. */
size_t sk_trace_peers_find_members(const struct sk_trace_peers *peers, unsigned group,
				   struct sk_trace_peers_member *ret, size_t room);

#endif
