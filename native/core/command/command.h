/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry to all commands. propose runs them on trial and apply for good, so that both validate
 * by the same lines. Invariant: a function that returns a reason has changed nothing.
 */
#ifndef SK_CORE_COMMAND_COMMAND_H
#define SK_CORE_COMMAND_COMMAND_H

#include "core/ledger/effect.h"
#include "core/ledger/why.h"

/* Returns SK_REASON_NONE, or why nothing was changed, with its figures. For PLACE the record is the
 * first of its whole gang. */
uint16_t sk_command_do(const struct sk_act *act, const struct sk_header *command,
		       struct sk_why *why);

/* The most effects that this command can have now, at least 1. */
uint64_t sk_command_effects_max(const struct sk_core *core, const struct sk_header *command);
/* The most journal bytes that this command can record now. Releasing the jobs that waited for its
 * job is not included: a trial leaves it out if there is no room. */
uint64_t sk_command_journal_max(const struct sk_core *core, const struct sk_header *command);

#endif
