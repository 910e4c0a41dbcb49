/* SPDX-License-Identifier: Apache-2.0
 *
 * Feasibility: whether a request could run at all on the known nodes. Invariant: both answers
 * depend on what nodes have, never on what is free, and write nothing.
 */
#ifndef SK_CORE_POLICY_FEASIBLE_H
#define SK_CORE_POLICY_FEASIBLE_H

#include "core/ledger/why.h"
#include "core/state/state.h"

/* True if the request could not run on the nodes and devices that are available now, even if they
 * were unused. */
bool sk_feasible_hopeless(const struct sk_core *core, const struct sk_request *request);

/* Returns SK_REASON_NONE, or why the request could not run even if every node were empty and
 * available. */
uint16_t sk_feasible_reason(const struct sk_core *core, const struct sk_request *request,
			    struct sk_why *why);

#endif
