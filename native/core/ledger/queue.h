/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of queues: limits, guarantees, current use and recent use. Invariants: the use of a
 * queue is the sum over its placed tasks and the queues below it. Jobs are only in leaves. No limit
 * was exceeded when a task was placed, but a limit may be lowered below the use later.
 */
#ifndef SK_CORE_LEDGER_QUEUE_H
#define SK_CORE_LEDGER_QUEUE_H

#include "core/ledger/pending.h"
#include "core/ledger/why.h"

#define SK_HALF_LIFE_NS (24ull * 3600 * 1000000000) /* half-life of recorded use */

/* The slot, or 0; queue 0 has SK_QUEUE_DEFAULT. */
uint32_t sk_queue_find(const struct sk_core *core, uint32_t id);
/* The queue in use at or after this slot, or 0. */
uint32_t sk_queue_at(const struct sk_core *core, uint32_t slot);
/* Create a leaf; 0 if the limit of queues is reached. */
uint32_t sk_queue_create(struct sk_core *core, uint32_t id, uint32_t parent);
/* Create a queue in a given free slot, when a state is restored. */
void sk_queue_create_at(struct sk_core *core, uint32_t slot, uint32_t id, uint32_t parent);
/* Drop a queue that has no jobs and no children. */
void sk_queue_drop(struct sk_core *core, uint32_t slot);
/* Create the root and queue 0 in an empty state. */
void sk_queue_first(struct sk_core *core);
/* True if `slot` is `above` or below it. */
bool sk_queue_within(const struct sk_core *core, uint32_t slot, uint32_t above);
/* The position of this model's quota, or `quotas_n`. */
uint32_t sk_quota_find(const struct sk_queue *queue, uint64_t model);
/* Milli of a model (0: of all) in use by the tasks of the queue and those below, summed task by
 * task. */
uint64_t sk_queue_in_use(const struct sk_core *core, uint32_t slot, uint64_t model);

/* Charge a task that was taken or given back. */
void sk_queue_charge(struct sk_core *core, const struct sk_task *task, bool give);
/* Returns SK_REASON_NONE, or SK_OVER_LIMIT if these shares would exceed a limit; the figures are
 * those of the lowest queue concerned, `why->job` is its id. */
uint16_t sk_queue_admits(const struct sk_core *core, uint32_t queue, uint32_t node,
			 const struct sk_share *shares, uint32_t shares_n, struct sk_why *why);

/* Record used device time, of which half is forgotten every SK_HALF_LIFE_NS. */
void sk_queue_use(struct sk_core *core, uint32_t queue, uint64_t device_ns, uint64_t now_ns);
/* The recorded device time that is left now. */
uint64_t sk_queue_usage(const struct sk_queue *queue, uint64_t now_ns);

#endif
