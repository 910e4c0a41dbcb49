/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A simulated node: cards, their faults and their clock, in one file that all processes of the
 * simulation map.
 *
 * There is no server: a process that calls a driver takes the node's lock, moves the cards to the
 * present and reads or writes them. Invariant: the lock is robust, so a process killed inside of it
 * leaves the cards readable, and a call that hangs, or is slow, holds no lock meanwhile.
 */
#ifndef SK_SIM_NODE_NODE_H
#define SK_SIM_NODE_NODE_H

#include <time.h>

#include "sim/node/record.h"

/** Environment variable with the path of the node. */
#define SK_SIM_VARIABLE "STOKER_SIM_NODE"

/** Make a node of these models at `path`; only its owner may write it. -EEXIST if there is one. */
int sk_sim_node_create(const char *path, const char *profile, const struct sk_sim_model *models,
		       uint32_t count, enum sk_sim_clock clock, uint64_t seed);

/** Map the node at `path`, or at the path in the environment, once in a process; -ENOENT, -EPROTO.
 * A process that may not write the node gets a private copy of its present state, which moves on by
 * itself. */
int sk_sim_node_open(const char *path, struct sk_sim_node **ret);
void sk_sim_node_close(struct sk_sim_node *node);

/** Make a node in the caller's memory, in virtual time, for simulations in one process. -EINVAL. */
int sk_sim_node_init(struct sk_sim_node *node, const struct sk_sim_model *models, uint32_t count,
		     uint64_t seed);

/** Time of one of the machine's clocks. */
uint64_t sk_sim_clock_ns(clockid_t clock);

/** Lock the node and move every card to the present, with the faults of the script. Returns the
 * time. */
uint64_t sk_sim_node_enter(struct sk_sim_node *node);

/** Lock the node and move only this card to the present; UINT32_MAX: none. */
uint64_t sk_sim_node_enter_card(struct sk_sim_node *node, uint32_t card);
void sk_sim_node_leave(struct sk_sim_node *node);

/** Leave the node until it tells something, or a fault of the script is due, or `until_ns` by
 * CLOCK_MONOTONIC, and lock it again with no card moved. It may return for nothing. */
void sk_sim_node_wait(struct sk_sim_node *node, uint64_t until_ns);

/** Move the cards without the lock, which the caller has, or a node of one process does not need.
 */
void sk_sim_node_move(struct sk_sim_node *node, uint64_t to_ns);

/** Advance virtual time. */
void sk_sim_node_advance(struct sk_sim_node *node, uint64_t ns);

enum sk_sim_answer {
	SK_SIM_ANSWER_OK,
	SK_SIM_ANSWER_LOST,
	SK_SIM_ANSWER_REFUSED,	/* permission */
	SK_SIM_ANSWER_RELOADED, /* driver and library mismatch */
	SK_SIM_ANSWER_VERSION,
	SK_SIM_ANSWER_ERROR, /* `error` has the vendor's own code; 0: unknown */
	SK_SIM_ANSWER_UNINITIALIZED,
};

/** Begin a driver's function, without the lock: the call is counted, delayed, hung or failed.
 * `card` is UINT32_MAX for a function of no card. */
enum sk_sim_answer sk_sim_node_call(struct sk_sim_node *node, const char *function, uint32_t card,
				    int64_t *error);

/** Count a call. If it may go on, the node is locked and its card is at the present. */
enum sk_sim_answer sk_sim_node_call_enter(struct sk_sim_node *node, const char *function,
					  uint32_t card, int64_t *error);

/** Count a call of a function that does nothing. */
void sk_sim_node_not_supported(struct sk_sim_node *node, const char *function);

/** Decide a call with the lock held, for a function that sk_sim_node_call has counted. */
void sk_sim_node_note_not_supported(struct sk_sim_node *node, const char *function);

/** Next random number of the script's generator, uniform in [0, 1). */
double sk_sim_node_chance(struct sk_sim_node *node);

#endif
