/* SPDX-License-Identifier: Apache-2.0
 *
 * What each command does to the state. Relied on by propose.c (on trial) and apply.c (for good), so
 * that both validate by the same lines. Invariant: a function that returns a reason has changed
 * nothing.
 */
#ifndef SK_CORE_COMMAND_COMMAND_H
#define SK_CORE_COMMAND_COMMAND_H

#include "core/ledger/effect.h"
#include "core/ledger/why.h"

/* SK_REASON_NONE, or why nothing was changed, with its figures. For PLACE the record is the first
 * of a whole group. */
uint16_t sk_command_do(const struct sk_act *act, const struct sk_header *command,
		       struct sk_why *why);

/* Most effects this command can have now, at least 1. */
uint64_t sk_command_effects_max(const struct sk_core *core, const struct sk_header *command);
/* Most journal bytes this command can note now, but for releasing those that waited for its job,
 * which is left out on trial where there is no room. */
uint64_t sk_command_journal_max(const struct sk_core *core, const struct sk_header *command);

#endif
