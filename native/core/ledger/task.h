/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: who holds which shares of which node. Relied on by command.c and policy.c. Invariant: what
 * a device, a CPU ledger or a memory ledger says is used is the sum over the tasks that hold it;
 * a task is taken exactly at its placing and given back exactly at its end or the node's loss.
 */
#ifndef SK_CORE_LEDGER_TASK_H
#define SK_CORE_LEDGER_TASK_H

#include "core/ledger/why.h"
#include "core/state/state.h"

/* SK_REASON_NONE, or why a task of this job is not for this node, or does not fit on its CPU,
 * memory and tasks. */
uint16_t sk_task_room(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t now_ns,
		      struct sk_why *why);
/* SK_REASON_NONE, or why these shares are not what a task may have there now. */
uint16_t sk_task_shares_ok(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			   const struct sk_place *place, struct sk_why *why);

/* Device time by shares and wall time since the job was placed. */
uint64_t sk_task_used_ns(const struct sk_task *task, const struct sk_job *job, uint64_t now_ns);

/* Reserve; all was checked. The job's tasks must be taken in the order of their numbers. */
uint32_t sk_task_take(struct sk_core *core, uint32_t job, uint32_t node,
		      const struct sk_place *place);
void sk_task_give(struct sk_core *core, uint32_t task);
/* The job's task of this number, or 0. */
uint32_t sk_task_find(const struct sk_core *core, uint32_t job, uint16_t number);

#endif
