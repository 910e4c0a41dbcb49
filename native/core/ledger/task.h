/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks: the shares that each one uses on its node. Invariants: the used amounts of devices, CPU
 * and memory are the sums over the tasks that use them. A task is taken when it is placed, and
 * given back when it ends or its node is lost.
 */
#ifndef SK_CORE_LEDGER_TASK_H
#define SK_CORE_LEDGER_TASK_H

#include "core/ledger/why.h"
#include "core/state/state.h"

/* Returns SK_REASON_NONE, or why this node does not accept a task of this job or lacks CPU, memory
 * or task slots for it. */
uint16_t sk_task_room(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t now_ns,
		      struct sk_why *why);
/* Returns SK_REASON_NONE, or why a task may not have these shares there now. */
uint16_t sk_task_shares_ok(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			   const struct sk_place *place, struct sk_why *why);

/* Shares times wall time since the job was placed. */
uint64_t sk_task_used_ns(const struct sk_task *task, const struct sk_job *job, uint64_t now_ns);

/* Reserve what was checked. The tasks of a job are taken in the order of their numbers. */
uint32_t sk_task_take(struct sk_core *core, uint32_t job, uint32_t node,
		      const struct sk_place *place);
void sk_task_give(struct sk_core *core, uint32_t task);
/* The task of this number, or 0. */
uint32_t sk_task_find(const struct sk_core *core, uint32_t job, uint16_t number);

#endif
