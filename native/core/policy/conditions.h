/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a cluster against the conditions of a request, one condition after the other, for
 * refusals and explanations. Invariant: nothing here writes, and no decision reads it.
 */
#ifndef SK_CORE_POLICY_CONDITIONS_H
#define SK_CORE_POLICY_CONDITIONS_H

#include "core/ledger/why.h"
#include "core/state/state.h"

/* Devices of the requested kinds on nodes with the requested labels, and how they compare. */
struct sk_condition_count {
	uint32_t devices;
	uint32_t met;	  /* by this condition or by one of its alternatives */
	uint64_t nearest; /* the highest figure for LEAST, the lowest for MOST; 0: none is known */
};

/* Count for the condition at this position. */
struct sk_condition_count sk_conditions_count(const struct sk_core *core,
					      const struct sk_request *request, uint32_t at);
/* True if the condition is required and the first of its alternatives. */
bool sk_conditions_first(const struct sk_request *request, uint32_t at);
/* Returns SK_REASON_NONE, or that no device of the requested kinds meets a required condition, or
 * all of them together. */
uint16_t sk_conditions_lack(const struct sk_core *core, const struct sk_request *request,
			    const struct sk_wish *wish, struct sk_why *why);
/* The number that names the condition at this position in the figures of a reason: the kinds of
 * devices that are requested, property and relation. */
static inline uint64_t sk_conditions_name(const struct sk_request *request, uint32_t at)
{
	return (uint64_t)request->kinds << 16 | (uint64_t)request->conditions[at].property << 8 |
	       request->conditions[at].relation;
}

/* The preferences that all devices of the placed tasks meet; bit n is preference n + 1. */
uint32_t sk_conditions_preferred(const struct sk_core *core, const struct sk_job *job);

#endif
