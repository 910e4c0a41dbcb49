/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A simulated node: cards, their faults and their clock, in one file that every process of the
 * simulation has mapped.
 *
 * There is no server: whoever calls a driver takes the node's lock, moves the cards to the present
 * and reads or writes them. Invariant: the lock is robust, so a process killed inside of it leaves
 * the cards readable, and a call that hangs, or is slow, holds no lock meanwhile.
 */
#ifndef SK_SIM_NODE_NODE_H
#define SK_SIM_NODE_NODE_H

#include "sim/node/record.h"

/** Where the node is found: a path in this variable. */
#define SK_SIM_VARIABLE "STOKER_SIM_NODE"

/** Make a node of these models at `path`; -EEXIST if there is one. Others than
 * its owner may read it alone. */
int sk_sim_node_create(const char *path, const char *profile, const struct sk_sim_model *models,
		       uint32_t count, enum sk_sim_clock clock, uint64_t seed);

/** Map the node at `path`, or where the environment says; -ENOENT, -EPROTO.
 * Once in a process. Who may read it alone has a copy, as it was just now, that
 * goes on by itself: what is done to that one nobody else sees. */
int sk_sim_node_open(const char *path, struct sk_sim_node **ret);
void sk_sim_node_close(struct sk_sim_node *node);

/** In the caller's memory, unshared, in virtual time: for simulations in one process. -EINVAL. */
int sk_sim_node_init(struct sk_sim_node *node, const struct sk_sim_model *models, uint32_t count,
		     uint64_t seed);

/** Lock, and move every card to the present, faults of the script included. Returns the time. */
uint64_t sk_sim_node_enter(struct sk_sim_node *node);

/** Lock the node and move only this card to the present; UINT32_MAX: none. */
uint64_t sk_sim_node_enter_card(struct sk_sim_node *node, uint32_t card);
void sk_sim_node_leave(struct sk_sim_node *node);

/** Move without taking the lock, which the caller has or does not need: a node of one process. */
void sk_sim_node_move(struct sk_sim_node *node, uint64_t to_ns);

/** Virtual time only: let so much pass. */
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

/** Every driver function begins here, without the lock: it is counted, takes its time, may hang,
 * and may fail. `card` is UINT32_MAX where the function is of no card. */
enum sk_sim_answer sk_sim_node_call(struct sk_sim_node *node, const char *function, uint32_t card,
				    int64_t *error);

/** Count a call; the lock is held afterwards if it may go on, and that card is at the present. */
enum sk_sim_answer sk_sim_node_call_enter(struct sk_sim_node *node, const char *function,
					  uint32_t card, int64_t *error);

/** A function that is exported and does nothing: counted. */
void sk_sim_node_not_supported(struct sk_sim_node *node, const char *function);

/** Decide a call inside the lock, for a function that sk_sim_node_call has counted. */
void sk_sim_node_note_not_supported(struct sk_sim_node *node, const char *function);

/** The generator that orders of chance come from: uniform in [0, 1). */
double sk_sim_node_chance(struct sk_sim_node *node);

#endif
