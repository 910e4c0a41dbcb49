/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Parts that all functions of the simulated libnccl.so.2 share: results, communicators, and the
 * memory in which the ranks of one meet.
 *
 * Numbers are those of nccl.h (NCCL 2.28). A communicator is a file of shared memory that its
 * unique id names. Each rank counts there the operations that it has put into a stream, and when
 * its stream comes to each. An operation begins when the stream of the last rank has come to it.
 * Invariant: a counter has one writer, and what it counts is written before it.
 */
#ifndef SK_SIM_NCCL_NCCL_H
#define SK_SIM_NCCL_NCCL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SK_NCCL __attribute__((visibility("default"))) int

enum sk_nccl_result {
	SK_NCCL_SUCCESS = 0,
	SK_NCCL_CUDA = 1,
	SK_NCCL_SYSTEM = 2,
	SK_NCCL_INTERNAL = 3,
	SK_NCCL_ARGUMENT = 4,
	SK_NCCL_USAGE = 5,
	SK_NCCL_REMOTE = 6,
	SK_NCCL_IN_PROGRESS = 7,
};

enum {
	SK_NCCL_VERSION = 22800,
	SK_NCCL_RANKS = 64,
	SK_NCCL_AHEAD = 256, /* operations that a rank may be ahead of the last one */
	SK_NCCL_NAP_NS = 50000,
};

struct sk_nccl_id {
	char text[128];
};

/** One rank in all operations of a communicator, or one end of the messages of two ranks. */
struct sk_nccl_party {
	_Atomic uint64_t used;			  /* operations so far */
	_Atomic uint64_t ready_ns[SK_NCCL_AHEAD]; /* CLOCK_MONOTONIC: its stream comes to it */
};

struct sk_nccl_shared {
	_Atomic uint32_t ranks; /* of whoever came first */
	_Atomic uint32_t joined;
	struct sk_nccl_party party[]; /* of each rank, then of each pair: sender and receiver */
};

struct sk_nccl_comm {
	struct sk_nccl_shared *shared; /* NULL: free */
	uint32_t rank, ranks;
	_Atomic bool over; /* destroyed or aborted: its operations have ended */
};

/** Become a rank of a communicator; returns at once. */
int sk_nccl_join(struct sk_nccl_comm **ret, uint32_t ranks, const struct sk_nccl_id *id,
		 uint32_t rank);
/** Wait until all its ranks have joined. */
void sk_nccl_wait_joined(struct sk_nccl_comm *comm);
/** Return whether an address that a caller gave is a communicator in use. */
bool sk_nccl_is_comm(const struct sk_nccl_comm *comm);

/** An operation: `parties` parties from `first` on meet in it, and `own` is the caller. */
struct sk_nccl_meeting {
	struct sk_nccl_comm *comm;
	uint32_t first, parties, own;
	uint64_t took_ns; /* from the arrival of the last on */
	void *stream;
};

/** Tell the others that this rank's stream comes to an operation, and put a fence into it. */
int sk_nccl_meet(const struct sk_nccl_meeting *meeting);

/** Begin to collect operations, and start all that were collected since the outermost begin. */
int sk_nccl_group_begin(void);
int sk_nccl_group_end(void);
/** Meet now, or at the end of the group. */
int sk_nccl_put(const struct sk_nccl_meeting *meeting);
/** Wait now, or at the end of the group, until all have joined. */
int sk_nccl_put_join(struct sk_nccl_comm *comm);

void sk_nccl_nap(void);

#endif
