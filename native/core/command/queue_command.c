/* SPDX-License-Identifier: Apache-2.0
 *
 * QUEUE_SET and QUOTA_SET: the tree of queues and their quotas.
 */
#include "core/command/queue_command.h"
#include "core/ledger/fair.h"
#include "core/ledger/fit.h"
#include "core/ledger/queue.h"
#include "core/state/journal.h"

static uint16_t queue_drop_do(struct sk_core *core, uint32_t slot, uint32_t id, struct sk_why *why)
{
	const struct sk_queue *queue = &core->queues[slot];

	if (!slot)
		return sk_because(why, SK_UNKNOWN_QUEUE, id, 0);
	if (slot == SK_QUEUE_DEFAULT || queue->children || queue->live)
		return sk_because(why, SK_QUEUE_IN_USE, queue->children, queue->live);
	sk_queue_drop(core, slot);
	return SK_REASON_NONE;
}

static uint16_t queue_fields_ok(const struct sk_queue_set *command, struct sk_why *why)
{
	if (!command->weight)
		return SK_BAD_WEIGHT;
	if (!command->order || command->order >= SK_ORDER_END)
		return sk_because(why, SK_BAD_ORDER, command->order, SK_ORDER_END - 1);
	if (command->placement >= SK_PLACEMENT_END)
		return sk_because(why, SK_BAD_PLACEMENT, command->placement, SK_PLACEMENT_END - 1);
	if (command->queue && command->parent == command->queue)
		return SK_QUEUE_CYCLE;
	return SK_REASON_NONE;
}

/* The slot of the parent, which may be the root, or 0. */
static uint32_t queue_parent(const struct sk_core *core, const struct sk_queue_set *command)
{
	return command->parent ? sk_queue_find(core, command->parent) : SK_QUEUE_ROOT;
}

static uint16_t queue_new_ok(const struct sk_core *core, uint32_t parent, struct sk_why *why)
{
	if (core->queues[parent].live)
		return sk_because(why, SK_QUEUE_IN_USE, 0, core->queues[parent].live);
	if (core->queues[parent].depth >= SK_QUEUE_DEPTH_MAX)
		return sk_because(why, SK_QUEUE_TOO_DEEP, core->queues[parent].depth + 1u,
				  SK_QUEUE_DEPTH_MAX);
	if (core->queues_n == core->limits.queues + 2)
		return sk_because(why, SK_QUEUES_FULL, 1, core->limits.queues);
	return SK_REASON_NONE;
}

/* True if an order comes or goes that keeps accounts of users. */
static bool regroups(uint16_t before, uint16_t after)
{
	return before != after && (before == SK_ORDER_FAIR || after == SK_ORDER_FAIR);
}

/* The live jobs of a queue and their placed tasks. */
static uint64_t regrouped(const struct sk_core *core, uint32_t queue)
{
	uint64_t count = 0;

	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next)
		if (core->jobs[slot].queue == queue)
			count += 1u + core->jobs[slot].tasks_live;
	return count;
}

/* A queue stays where it is; its order may change if that moves no job, or few. */
static uint16_t queue_change_ok(const struct sk_core *core, uint32_t slot, uint32_t parent,
				const struct sk_queue_set *command, struct sk_why *why)
{
	const struct sk_queue *queue = &core->queues[slot];

	if (queue->parent != parent)
		return sk_because(why, SK_QUEUE_IN_USE, queue->children, queue->live);
	if (regroups(queue->order, command->order)) {
		if (queue->live > SK_REGROUP_MAX || regrouped(core, slot) > SK_REGROUP_MAX)
			return sk_because(why, SK_QUEUE_IN_USE, queue->children, queue->live);
	} else if (queue->pending_all && !queue->children &&
		   !sk_pending_same_levels(queue->order, command->order)) {
		return sk_because(why, SK_QUEUE_IN_USE, 0, queue->pending_all);
	}
	if (queue->weight == command->weight && queue->order == command->order &&
	    queue->placement == command->placement)
		return SK_UNCHANGED;
	return SK_REASON_NONE;
}

static void charge_all(struct sk_core *core, uint32_t slot, bool give)
{
	for (uint32_t at = core->jobs[slot].tasks_first; at; at = core->tasks[at].job_next)
		sk_fair_charge(core, &core->tasks[at], give);
}

static void order_leave(struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];

	if (job->state == SK_PENDING && !job->hold)
		sk_pending_remove(core, slot);
	if (!sk_pending_by_user(core, job->queue))
		return;
	charge_all(core, slot, true);
	sk_account_close(core, slot);
}

static void order_enter(struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];

	if (sk_pending_by_user(core, job->queue)) {
		sk_account_open(core, slot);
		charge_all(core, slot, false);
	}
	if (job->state == SK_PENDING && !job->hold)
		sk_pending_append(core, slot);
}

/* Move the jobs of the queue out of their places by one order and into those by another. */
static void order_set(struct sk_core *core, uint32_t queue, uint16_t order)
{
	bool moves = core->queues[queue].live && regroups(core->queues[queue].order, order);
	uint32_t first = moves ? core->live.first : 0;

	for (uint32_t slot = first; slot; slot = core->jobs[slot].order.next)
		if (core->jobs[slot].queue == queue)
			order_leave(core, slot);
	SK_SET(core, core->queues[queue].order, order);
	for (uint32_t slot = first; slot; slot = core->jobs[slot].order.next)
		if (core->jobs[slot].queue == queue)
			order_enter(core, slot);
}

uint16_t sk_queue_set_do(const struct sk_act *act, const struct sk_queue_set *command,
			 struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_queue_find(core, command->queue);
	uint32_t parent = queue_parent(core, command);
	uint16_t reason;

	if (command->header.flags & SK_QUEUE_REMOVE)
		return queue_drop_do(core, slot, command->queue, why);
	reason = queue_fields_ok(command, why);
	if (reason)
		return reason;
	if (!parent)
		return sk_because(why, SK_UNKNOWN_QUEUE, command->parent, 0);
	reason = slot ? queue_change_ok(core, slot, parent, command, why)
		      : queue_new_ok(core, parent, why);
	if (reason)
		return reason;
	if (!slot)
		slot = sk_queue_create(core, command->queue, parent);
	SK_SET(core, core->queues[slot].weight, command->weight);
	order_set(core, slot, command->order);
	SK_SET(core, core->queues[slot].placement, command->placement);
	return SK_REASON_NONE;
}

static uint16_t quota_drop(struct sk_core *core, struct sk_queue *queue, uint32_t at)
{
	if (at == queue->quotas_n)
		return SK_UNCHANGED;
	sk_journal_note(core, queue->quotas, sizeof queue->quotas);
	for (; at + 1 < queue->quotas_n; at++)
		queue->quotas[at] = queue->quotas[at + 1];
	queue->quotas[at] = (struct sk_quota){0};
	SK_ADD(core, queue->quotas_n, -1u);
	return SK_REASON_NONE;
}

/* Quotas are sorted by model, so that equal quotas are equal states. */
static void quota_insert(struct sk_core *core, uint32_t slot, struct sk_quota quota)
{
	struct sk_queue *queue = &core->queues[slot];
	uint32_t at = queue->quotas_n;

	sk_journal_note(core, queue->quotas, sizeof queue->quotas);
	for (; at && queue->quotas[at - 1].model > quota.model; at--)
		queue->quotas[at] = queue->quotas[at - 1];
	queue->quotas[at] = quota;
	SK_ADD(core, queue->quotas_n, 1);
}

uint16_t sk_quota_set_do(const struct sk_act *act, const struct sk_quota_set *command,
			 struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_queue_find(core, command->queue);
	struct sk_queue *queue = &core->queues[slot];
	uint32_t at = sk_quota_find(queue, command->model);
	bool drop = !command->guaranteed_milli && command->limit_milli == SK_NO_LIMIT;

	if (!slot)
		return sk_because(why, SK_UNKNOWN_QUEUE, command->queue, 0);
	if (command->guaranteed_milli > command->limit_milli)
		return sk_because(why, SK_BAD_QUOTA, command->guaranteed_milli,
				  command->limit_milli);
	if (drop)
		return quota_drop(core, queue, at);
	if (command->model && !sk_model_find(core, command->model))
		return sk_because(why, SK_NO_NODE_HAS_MODEL, command->model, 0);
	if (at == SK_QUEUE_QUOTAS_MAX)
		return sk_because(why, SK_QUOTAS_FULL, 1, SK_QUEUE_QUOTAS_MAX);
	if (at == queue->quotas_n) {
		quota_insert(core, slot,
			     (struct sk_quota){command->model, command->guaranteed_milli,
					       command->limit_milli,
					       sk_queue_in_use(core, slot, command->model)});
		return SK_REASON_NONE;
	}
	if (queue->quotas[at].guaranteed_milli == command->guaranteed_milli &&
	    queue->quotas[at].limit_milli == command->limit_milli)
		return SK_UNCHANGED;
	SK_SET(core, queue->quotas[at].guaranteed_milli, command->guaranteed_milli);
	SK_SET(core, queue->quotas[at].limit_milli, command->limit_milli);
	return SK_REASON_NONE;
}
