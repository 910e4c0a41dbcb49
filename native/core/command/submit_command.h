/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that make jobs, or tell them of what they follow. Invariant: a function that returns a
 * reason has changed nothing.
 */
#ifndef SK_CORE_COMMAND_SUBMIT_COMMAND_H
#define SK_CORE_COMMAND_SUBMIT_COMMAND_H

#include "core/ledger/effect.h"
#include "core/ledger/why.h"

/* Returns SK_REASON_NONE, or the reason why a SUBMIT is invalid in every state. */
uint16_t sk_submit_ok(const struct sk_submit *submit, struct sk_why *why);
uint16_t sk_submit_do(const struct sk_act *act, const struct sk_submit *command,
		      struct sk_why *why);
uint16_t sk_submit_array_do(const struct sk_act *act, const struct sk_submit_array *command,
			    struct sk_why *why);
uint16_t sk_range_end_do(const struct sk_act *act, const struct sk_range_end *command,
			 struct sk_why *why);

#endif
