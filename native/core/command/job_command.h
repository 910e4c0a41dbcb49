/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands about jobs. Invariant: a function that returns a reason has changed nothing.
 */
#ifndef SK_CORE_COMMAND_JOB_COMMAND_H
#define SK_CORE_COMMAND_JOB_COMMAND_H

#include "core/ledger/effect.h"
#include "core/ledger/why.h"

/* Place one task of the job; room and shares are checked here. */
uint16_t sk_place_task(const struct sk_act *act, uint32_t job, const struct sk_place *place,
		       struct sk_why *why);
/* Start the job: all tasks of the gang have their places. */
void sk_place_finish(const struct sk_act *act, uint32_t job, const struct sk_place *first);
uint16_t sk_place_do(const struct sk_act *act, const struct sk_place *group, struct sk_why *why);
uint16_t sk_outcome_do(const struct sk_act *act, const struct sk_outcome *command,
		       struct sk_why *why);
uint16_t sk_cancel_do(const struct sk_act *act, const struct sk_cancel *command,
		      struct sk_why *why);
uint16_t sk_forget_do(const struct sk_act *act, const struct sk_forget *command,
		      struct sk_why *why);
uint16_t sk_usage_do(const struct sk_act *act, const struct sk_usage *command, struct sk_why *why);
uint16_t sk_give_up_do(const struct sk_act *act, const struct sk_give_up *command,
		       struct sk_why *why);
uint16_t sk_preempt_do(const struct sk_act *act, const struct sk_preempt *command,
		       struct sk_why *why);

#endif
