/* SPDX-License-Identifier: Apache-2.0
 *
 * What each command does to the state. Relied on by propose.c (on trial) and apply.c (for good), so
 * that both validate by the same lines. Invariant: a function that returns a reason has changed
 * nothing.
 */
#ifndef STOKER_CORE_COMMAND_H
#define STOKER_CORE_COMMAND_H

#include "core/ledger/job.h"
#include "core/ledger/task.h"

/* SK_REASON_NONE, or why nothing was changed, with its figures. For PLACE the record is the first
 * of a whole group. */
uint16_t sk_command_do(const struct sk_act *act, const struct sk_header *command,
		       struct sk_why *why);

/* What a SUBMIT must be, apart from the state. */
uint16_t sk_submit_ok(const struct sk_submit *submit, struct sk_why *why);

/* Most effects this command can have now, at least 1. */
uint64_t sk_command_effects_max(const struct sk_core *core, const struct sk_header *command);
/* Most journal bytes this command can note now, but for releasing those that waited for its job,
 * which is left out on trial where there is no room. */
uint64_t sk_command_journal_max(const struct sk_core *core, const struct sk_header *command);

/* One task of the job goes there; room and shares are checked here. */
uint16_t sk_place_task(const struct sk_act *act, uint32_t job, const struct sk_place *place,
		       struct sk_why *why);
/* All tasks of the group have their places: the job starts. */
void sk_place_finish(const struct sk_act *act, uint32_t job, const struct sk_place *first);

/* node_command.c, job_command.c, queue_command.c */
uint16_t sk_node_up_do(const struct sk_act *act, const struct sk_node_up *command,
		       struct sk_why *why);
uint16_t sk_node_down_do(const struct sk_act *act, const struct sk_node_down *command,
			 struct sk_why *why);
uint16_t sk_device_set_do(const struct sk_act *act, const struct sk_device_set *command,
			  struct sk_why *why);
uint16_t sk_submit_do(const struct sk_act *act, const struct sk_submit *command,
		      struct sk_why *why);
uint16_t sk_place_do(const struct sk_act *act, const struct sk_place *group, struct sk_why *why);
uint16_t sk_outcome_do(const struct sk_act *act, const struct sk_outcome *command,
		       struct sk_why *why);
uint16_t sk_cancel_do(const struct sk_act *act, const struct sk_cancel *command,
		      struct sk_why *why);
uint16_t sk_forget_do(const struct sk_act *act, const struct sk_forget *command,
		      struct sk_why *why);

uint16_t sk_usage_do(const struct sk_act *act, const struct sk_usage *command, struct sk_why *why);
uint16_t sk_preempt_do(const struct sk_act *act, const struct sk_preempt *command,
		       struct sk_why *why);
uint16_t sk_node_label_do(const struct sk_act *act, const struct sk_node_label *command,
			  struct sk_why *why);
uint16_t sk_node_reserve_do(const struct sk_act *act, const struct sk_node_reserve *command,
			    struct sk_why *why);
uint16_t sk_queue_set_do(const struct sk_act *act, const struct sk_queue_set *command,
			 struct sk_why *why);
uint16_t sk_quota_set_do(const struct sk_act *act, const struct sk_quota_set *command,
			 struct sk_why *why);

static inline uint16_t sk_because(struct sk_why *why, uint16_t reason, uint64_t asked,
				  uint64_t have)
{
	why->asked = asked;
	why->have = have;
	return reason;
}

#endif
