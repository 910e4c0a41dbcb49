/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of queues: who may use how much of what, and who used how much lately. Relied on by
 * task.c (charges), queue_command.c (changes) and the order of jobs. Invariants: what a queue
 * holds is the sum over its placed tasks and the queues below it; jobs are only in leaves; a limit
 * was not passed when a task was placed (it may be lowered later).
 */
#ifndef SK_CORE_LEDGER_QUEUE_H
#define SK_CORE_LEDGER_QUEUE_H

#include "core/ledger/pending.h"
#include "core/ledger/why.h"

#define SK_HALF_LIFE_NS (24ull * 3600 * 1000000000) /* of the memory of past use */

/* The slot, or 0; queue 0 has SK_QUEUE_DEFAULT. */
uint32_t sk_queue_find(const struct sk_core *core, uint32_t id);
/* The queue in use at or after this slot, or 0. */
uint32_t sk_queue_at(const struct sk_core *core, uint32_t slot);
/* A new leaf; 0 where the limit is reached. */
uint32_t sk_queue_create(struct sk_core *core, uint32_t id, uint32_t parent);
/* The same in a given free slot, when a state is read back. */
void sk_queue_create_at(struct sk_core *core, uint32_t slot, uint32_t id, uint32_t parent);
/* It has no jobs and no children. */
void sk_queue_drop(struct sk_core *core, uint32_t slot);
/* The root and queue 0, in a state that has nothing yet. */
void sk_queue_first(struct sk_core *core);
/* Whether `slot` is `above` or below it. */
bool sk_queue_within(const struct sk_core *core, uint32_t slot, uint32_t above);
/* The position of this model's quota, or `quotas_n`. */
uint32_t sk_quota_find(const struct sk_queue *queue, uint64_t model);
/* What the tasks of the queue and those below hold of a model (0: of all), looked at one by one. */
uint64_t sk_queue_in_use(const struct sk_core *core, uint32_t slot, uint64_t model);

/* A task was taken or given back. */
void sk_queue_charge(struct sk_core *core, const struct sk_task *task, bool give);
/* SK_REASON_NONE, or SK_OVER_LIMIT where these shares would pass a limit; the figures are those of
 * the lowest queue concerned, `why->job` its id. */
uint16_t sk_queue_admits(const struct sk_core *core, uint32_t queue, uint32_t node,
			 const struct sk_share *shares, uint32_t shares_n, struct sk_why *why);

/* Device time was used; the memory of it halves every SK_HALF_LIFE_NS. */
void sk_queue_use(struct sk_core *core, uint32_t queue, uint64_t device_ns, uint64_t now_ns);
/* What is left of it now. */
uint64_t sk_queue_usage(const struct sk_queue *queue, uint64_t now_ns);

#endif
