/* SPDX-License-Identifier: Apache-2.0
 *
 * Every charge walks from the leaf to the root, at most SK_QUEUE_DEPTH_MAX steps.
 */
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/fair.h"
#include "core/ledger/queue.h"
#include "core/state/journal.h"
#include "core/state/table.h"

uint32_t sk_queue_find(const struct sk_core *core, uint32_t id)
{
	uint32_t slot = sk_table_first(&core->queue_table, sk_mix(id));

	if (!id)
		return SK_QUEUE_DEFAULT;
	while (slot && core->queues[slot].id != id)
		slot = core->queues[slot].hash_next;
	return slot;
}

uint32_t sk_queue_at(const struct sk_core *core, uint32_t slot)
{
	for (; slot < core->queues_end; slot++)
		if (core->queues[slot].in_use)
			return slot;
	return 0;
}

/* New slots are the lowest free ones, so that they are equal on all replicas. */
static uint32_t queue_free_slot(const struct sk_core *core)
{
	for (uint32_t slot = SK_QUEUE_ROOT; slot <= core->limits.queues + 2; slot++)
		if (!core->queues[slot].in_use)
			return slot;
	return 0;
}

void sk_queue_create_at(struct sk_core *core, uint32_t slot, uint32_t id, uint32_t parent)
{
	struct sk_queue *queue = &core->queues[slot];

	sk_journal_note(core, queue, sizeof *queue);
	memset(queue, 0, sizeof *queue);
	queue->id = id;
	queue->in_use = 1;
	queue->parent = parent;
	queue->depth = parent ? core->queues[parent].depth + 1 : 0;
	queue->weight = 1;
	queue->order = SK_ORDER_FIFO;
	SK_ADD(core, core->queues_n, 1);
	if (slot >= core->queues_end)
		SK_SET(core, core->queues_end, slot + 1);
	if (parent)
		SK_ADD(core, core->queues[parent].children, 1);
	if (id)
		sk_table_insert(core, &core->queue_table, SK_CHAIN(core->queues, hash_next),
				sk_mix(id), slot);
}

uint32_t sk_queue_create(struct sk_core *core, uint32_t id, uint32_t parent)
{
	uint32_t slot = queue_free_slot(core);

	if (slot)
		sk_queue_create_at(core, slot, id, parent);
	return slot;
}

void sk_queue_drop(struct sk_core *core, uint32_t slot)
{
	struct sk_queue *queue = &core->queues[slot];

	SK_ADD(core, core->queues[queue->parent].children, -1u);
	sk_table_remove(core, &core->queue_table, SK_CHAIN(core->queues, hash_next),
			sk_mix(queue->id), slot);
	sk_journal_note(core, queue, sizeof *queue);
	memset(queue, 0, sizeof *queue);
	SK_ADD(core, core->queues_n, -1u);
	while (!core->queues[core->queues_end - 1].in_use)
		SK_ADD(core, core->queues_end, -1u);
}

void sk_queue_first(struct sk_core *core)
{
	sk_queue_create_at(core, SK_QUEUE_ROOT, 0, 0);
	sk_queue_create_at(core, SK_QUEUE_DEFAULT, 0, SK_QUEUE_ROOT);
}

bool sk_queue_within(const struct sk_core *core, uint32_t slot, uint32_t above)
{
	while (slot && slot != above)
		slot = core->queues[slot].parent;
	return slot != 0;
}

uint32_t sk_quota_find(const struct sk_queue *queue, uint64_t model)
{
	uint32_t at = 0;

	while (at < queue->quotas_n && queue->quotas[at].model != model)
		at++;
	return at;
}

/* Milli of these shares on devices of the model (0: on all devices). */
static uint64_t shares_of(const struct sk_core *core, uint32_t node, const struct sk_share *shares,
			  uint32_t shares_n, uint64_t model)
{
	uint64_t milli = 0;

	for (uint32_t i = 0; i < shares_n; i++) {
		uint32_t at = sk_device_at(core, node, shares[i].index)->model;

		if (!model || (at && core->models[at - 1] == model))
			milli += shares[i].milli;
	}
	return milli;
}

uint64_t sk_queue_in_use(const struct sk_core *core, uint32_t slot, uint64_t model)
{
	uint64_t milli = 0;

	for (uint32_t job = core->live.first; job; job = core->jobs[job].order.next) {
		if (!sk_queue_within(core, core->jobs[job].queue, slot))
			continue;
		for (uint32_t at = core->jobs[job].tasks_first; at; at = core->tasks[at].job_next)
			milli += shares_of(core, core->tasks[at].node, core->tasks[at].shares,
					   core->tasks[at].shares_n, model);
	}
	return milli;
}

static void queue_charge_one(struct sk_core *core, struct sk_queue *queue,
			     const struct sk_task *task, bool give)
{
	const struct sk_request *request = &core->jobs[task->job].request;
	uint64_t milli = shares_of(core, task->node, task->shares, task->shares_n, 0);

	SK_ADD(core, queue->used_milli, give ? -milli : milli);
	SK_ADD(core, queue->cpu_used, give ? -(uint64_t)request->cpu_milli : request->cpu_milli);
	SK_ADD(core, queue->memory_used, give ? -request->memory_bytes : request->memory_bytes);
	for (uint32_t i = 0; i < queue->quotas_n; i++) {
		milli = shares_of(core, task->node, task->shares, task->shares_n,
				  queue->quotas[i].model);
		SK_ADD(core, queue->quotas[i].used_milli, give ? -milli : milli);
	}
}

void sk_queue_charge(struct sk_core *core, const struct sk_task *task, bool give)
{
	uint32_t slot = core->jobs[task->job].queue;

	if (sk_pending_by_user(core, slot))
		sk_fair_charge(core, task, give);
	for (; slot; slot = core->queues[slot].parent)
		queue_charge_one(core, &core->queues[slot], task, give);
}

uint16_t sk_queue_admits(const struct sk_core *core, uint32_t slot, uint32_t node,
			 const struct sk_share *shares, uint32_t shares_n, struct sk_why *why)
{
	for (; slot; slot = core->queues[slot].parent) {
		const struct sk_queue *queue = &core->queues[slot];

		for (uint32_t i = 0; i < queue->quotas_n; i++) {
			const struct sk_quota *quota = &queue->quotas[i];
			uint64_t milli = shares_of(core, node, shares, shares_n, quota->model);

			if (!milli || quota->used_milli + milli <= quota->limit_milli)
				continue;
			why->job = queue->id;
			why->asked = quota->used_milli + milli;
			why->have = quota->limit_milli;
			return SK_OVER_LIMIT;
		}
	}
	return SK_REASON_NONE;
}

#define SK_DECAY_STEP_NS (SK_HALF_LIFE_NS / 16)

/* Entry n is 2^32 / 2^(n/16), rounded down. */
static const uint64_t decay[16] = {
	4294967296, 4112874773, 3938502375, 3771522796, 3611622602, 3458501653,
	3311872529, 3171459999, 3037000499, 2908241642, 2784941737, 2666869344,
	2553802833, 2445529971, 2341847523, 2242560871,
};

uint64_t sk_queue_usage(const struct sk_queue *queue, uint64_t now_ns)
{
	uint64_t age = now_ns > queue->usage_at_ns ? now_ns - queue->usage_at_ns : 0;
	uint64_t halves = age / SK_HALF_LIFE_NS;
	uint64_t part = age % SK_HALF_LIFE_NS / SK_DECAY_STEP_NS;
	uint64_t usage = halves < 64 ? queue->usage_ns >> halves : 0;

	return (usage >> 32) * decay[part] + (((usage & UINT32_MAX) * decay[part]) >> 32);
}

/* Only whole steps are taken off, so that frequent use decays as well. */
void sk_queue_use(struct sk_core *core, uint32_t slot, uint64_t device_ns, uint64_t now_ns)
{
	for (; slot; slot = core->queues[slot].parent) {
		struct sk_queue *queue = &core->queues[slot];
		uint64_t usage = sk_queue_usage(queue, now_ns);
		uint64_t age = now_ns > queue->usage_at_ns ? now_ns - queue->usage_at_ns : 0;

		SK_SET(core, queue->usage_at_ns,
		       queue->usage_ns ? queue->usage_at_ns + age - age % SK_DECAY_STEP_NS
				       : now_ns);
		SK_SET(core, queue->usage_ns, sk_time_add(usage, device_ns));
	}
}
