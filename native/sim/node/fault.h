/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Script of a simulated node: the effects of each fault when it begins, while it lasts and when it
 * ends.
 *
 * Invariant: a fault begins once and ends once, and what it took away it gives back.
 */
#ifndef SK_SIM_NODE_FAULT_H
#define SK_SIM_NODE_FAULT_H

#include "sim/node/record.h"

/** Find the next time of the script and its active faults, after the script has changed. */
void sk_sim_fault_look(struct sk_sim_node *node);

/** Run the script up to the node's present. */
void sk_sim_fault_happen(struct sk_sim_node *node);

/** Return whether a fault of this kind is on for this card and function. `card` may be UINT32_MAX.
 */
const struct sk_sim_fault *sk_sim_fault_on(const struct sk_sim_node *node, uint32_t kind,
					   uint32_t card, const char *function);

/** Add an event to the node's queue. */
void sk_sim_fault_event(struct sk_sim_node *node, uint32_t card, uint32_t kind, uint64_t value);

/** Add to the script; returns its slot. -EINVAL for no such kind or card, -ENOSPC past the limit.
 */
int sk_sim_fault_inject(struct sk_sim_node *node, const struct sk_sim_fault *fault);

/** End every fault of the script now. */
void sk_sim_fault_heal(struct sk_sim_node *node);

/** Name of a kind in scripts: "xid", "ecc", ...; NULL past the last. */
const char *sk_sim_fault_name(uint32_t kind);

#endif
