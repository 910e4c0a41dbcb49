/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whose cost depends on what the job names, not on the size of the state; only group
 * affinity walks the tasks of the node.
 */
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/level.h"
#include "core/ledger/queue.h"
#include "core/state/journal.h"
#include "core/state/pool.h"
#include "core/state/table.h"

const struct sk_label *sk_label_find(const struct sk_node *node, uint64_t label)
{
	for (uint32_t i = 0; i < node->labels_n; i++)
		if (node->labels[i].label == label)
			return &node->labels[i];
	return NULL;
}

static bool tolerates(const struct sk_request *request, uint64_t taint)
{
	for (uint32_t i = 0; i < SK_JOB_LABELS_MAX && request->tolerate[i]; i++)
		if (request->tolerate[i] == taint)
			return true;
	return false;
}

uint16_t sk_fit_labels(const struct sk_request *request, const struct sk_node *node)
{
	for (uint32_t i = 0; i < SK_JOB_LABELS_MAX && request->require[i]; i++)
		if (!sk_label_find(node, request->require[i]))
			return SK_LABEL_MISSING;
	for (uint32_t i = 0; i < SK_JOB_LABELS_MAX && request->avoid[i]; i++)
		if (sk_label_find(node, request->avoid[i]))
			return SK_LABEL_AVOIDED;
	return SK_REASON_NONE;
}

uint16_t sk_fit_lasting(const struct sk_core *core, const struct sk_request *request,
			const struct sk_wish *wish, uint32_t slot)
{
	const struct sk_node *node = &core->nodes[slot];

	if (request->gpu_milli && !(node->families & wish->families))
		return SK_WRONG_KIND;
	if (request->gpu_milli && wish->models && !(node->models & wish->models))
		return SK_WRONG_MODEL;
	if (request->gpu_milli && !(node->traits & wish->traits))
		return SK_CONDITION_NOT_MET;
	return sk_fit_labels(request, node);
}

static uint16_t fit_taints(const struct sk_request *request, const struct sk_node *node)
{
	for (uint32_t i = 0; i < node->labels_n; i++)
		if (node->labels[i].flags & SK_LABEL_TAINT &&
		    !tolerates(request, node->labels[i].label))
			return SK_NOT_TOLERATED;
	return SK_REASON_NONE;
}

uint16_t sk_fit_kind(const struct sk_core *core, const struct sk_request *request,
		     const struct sk_wish *wish, uint32_t slot)
{
	uint16_t reason = sk_fit_lasting(core, request, wish, slot);

	return reason ? reason : fit_taints(request, &core->nodes[slot]);
}

/* Other queues may use a reserved node until its time comes, by jobs that end before. */
static bool fit_reserved(const struct sk_core *core, const struct sk_job *job,
			 const struct sk_node *node, uint64_t now_ns)
{
	uint32_t queue = sk_queue_find(core, node->reserve_queue);

	if (node->reserve_until_ns <= now_ns || sk_queue_within(core, job->queue, queue))
		return true;
	return job->request.estimate_ns && node->reserve_from_ns > now_ns &&
	       job->request.estimate_ns <= node->reserve_from_ns - now_ns;
}

static bool group_on(const struct sk_core *core, const struct sk_node *node, uint64_t group)
{
	for (uint32_t at = node->tasks.first; at; at = core->tasks[at].on_node.next)
		if (core->jobs[core->tasks[at].job].request.group == group)
			return true;
	return false;
}

/* The tasks of a gang fill one node after the other, each with equally many: the next one goes
 * where the last one is until that node has all of its own, then where none of them is. */
static uint16_t fit_blocks(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	uint32_t open = job->tasks_live % job->request.per_node, here = 0;

	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
		here += core->tasks[at].node == node;
	if (here == open)
		return SK_REASON_NONE;
	return open ? SK_GANG_PACKED : SK_GANG_SPREAD;
}

static uint16_t fit_affinity(const struct sk_core *core, uint32_t slot, uint32_t node)
{
	const struct sk_job *job = &core->jobs[slot];
	uint32_t options = job->request.options;
	bool together;

	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next) {
		if (options & SK_SPREAD_TASKS && core->tasks[at].node == node)
			return SK_GANG_SPREAD;
		if (options & SK_PACK_TASKS && core->tasks[at].node != node)
			return SK_GANG_PACKED;
	}
	if (job->request.per_node && fit_blocks(core, job, node))
		return fit_blocks(core, job, node);
	if (!(options & (SK_ATTRACT | SK_REPEL)))
		return SK_REASON_NONE;
	together = group_on(core, &core->nodes[node], job->request.group);
	if (options & SK_REPEL && together)
		return SK_REPELLED;
	if (options & SK_ATTRACT && !together && sk_group_tasks(core, job->request.group))
		return SK_NOT_ATTRACTED;
	return SK_REASON_NONE;
}

uint16_t sk_fit_node(const struct sk_core *core, uint32_t slot, uint32_t node, uint64_t now_ns)
{
	const struct sk_job *job = &core->jobs[slot];
	uint16_t reason = sk_fit_kind(core, &job->request, &job->wish, node);

	if (reason)
		return reason;
	if (!fit_reserved(core, job, &core->nodes[node], now_ns))
		return SK_NODE_RESERVED;
	if (job->wish.levels && !sk_level_joins(core, job, node))
		return SK_LEVEL_SPLIT;
	return fit_affinity(core, slot, node);
}

bool sk_fit_wish(const struct sk_wish *wish, const struct sk_device *device)
{
	if (!(wish->families >> device->family & wish->traits >> device->traits & 1) ||
	    device->memory_bytes < wish->memory_least)
		return false;
	return !wish->models || (device->model && wish->models >> (device->model - 1) & 1);
}

bool sk_fit_one_family(const struct sk_request *request)
{
	return request->gpu_milli && (request->gpu_milli > SK_MILLI || request->tasks > 1) &&
	       !(request->options & SK_MIX_VENDORS);
}

uint32_t sk_families_known(const struct sk_core *core, uint32_t families)
{
	uint32_t known = 0;

	for (uint32_t left = families; left; left &= left - 1) {
		uint32_t family = (uint32_t)__builtin_ctz(left);

		known |= (uint32_t)(core->nodes_of[family] != 0) << family;
	}
	return known;
}

uint16_t sk_fit_device(const struct sk_job *job, const struct sk_device *device)
{
	if (!(job->wish.families >> device->family & 1))
		return SK_WRONG_KIND;
	if (!(job->wish.traits >> device->traits & 1) ||
	    device->memory_bytes < job->wish.memory_least)
		return SK_CONDITION_NOT_MET;
	if (!sk_fit_wish(&job->wish, device))
		return SK_WRONG_MODEL;
	if (job->request.device_memory_bytes > sk_device_memory_free(device))
		return SK_DEVICE_MEMORY_FULL;
	return SK_REASON_NONE;
}

static uint32_t group_find(const struct sk_core *core, uint64_t group)
{
	uint32_t slot = sk_table_first(&core->group_table, sk_mix(group));

	while (slot && core->groups[slot].id != group)
		slot = core->groups[slot].hash_next;
	return slot;
}

uint32_t sk_group_tasks(const struct sk_core *core, uint64_t group)
{
	uint32_t slot = group_find(core, group);

	return slot ? core->groups[slot].tasks : 0;
}

/* There are never more groups than tasks, so a pool of that size suffices. */
void sk_group_count(struct sk_core *core, const struct sk_job *job, bool give)
{
	uint32_t slot;

	if (!job->request.group)
		return;
	slot = group_find(core, job->request.group);
	if (!slot) {
		slot = sk_pool_take(core, &core->group_pool, SK_CHAIN(core->groups, free_next));
		core->groups[slot].id = job->request.group;
		sk_table_insert(core, &core->group_table, SK_CHAIN(core->groups, hash_next),
				sk_mix(job->request.group), slot);
	}
	SK_ADD(core, core->groups[slot].tasks, give ? -1u : 1u);
	if (core->groups[slot].tasks)
		return;
	sk_table_remove(core, &core->group_table, SK_CHAIN(core->groups, hash_next),
			sk_mix(job->request.group), slot);
	sk_pool_give(core, &core->group_pool, SK_CHAIN(core->groups, free_next), slot);
}
