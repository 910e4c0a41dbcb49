/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request could run at all on the nodes that are known. Invariant: both answers look at
 * what nodes have, never at what is free, and write nothing.
 */
#ifndef SK_CORE_POLICY_FEASIBLE_H
#define SK_CORE_POLICY_FEASIBLE_H

#include "core/ledger/why.h"
#include "core/state/state.h"

/* Whether this could not run as nodes and devices are now, even if nothing else did. */
bool sk_feasible_hopeless(const struct sk_core *core, const struct sk_ask *ask);

/* SK_REASON_NONE, or why this could not run even if every node were empty and available. */
uint16_t sk_feasible_reason(const struct sk_core *core, const struct sk_ask *ask,
			    struct sk_why *why);

#endif
