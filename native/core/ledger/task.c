/* SPDX-License-Identifier: Apache-2.0
 *
 * A task is taken and given back; each touches the ledger of the node, its devices and two lists.
 */
#include <string.h>

#include "core/ledger/shortfall.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/task.h"
#include "core/state/journal.h"
#include "core/state/list.h"
#include "core/state/pool.h"

/* The first of the tasks that go on one node needs room there for all of them. */
static uint16_t block_room(const struct sk_core *core, uint32_t slot, uint32_t node,
			   struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];
	uint64_t room;

	if (job->tasks_live % job->request.per_node)
		return SK_REASON_NONE;
	room = sk_shortfall_room(core, slot, node, core->now_ns, (struct sk_blocked){0}, NULL);
	return room < job->request.per_node
		       ? sk_because(why, SK_GANG_NODE_SHORT, job->request.per_node, room)
		       : SK_REASON_NONE;
}

uint16_t sk_task_room(const struct sk_core *core, uint32_t slot, uint32_t node, uint64_t now_ns,
		      struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];
	const struct sk_node *at = &core->nodes[node];
	uint16_t reason;

	if (!at->up)
		return SK_NODE_NOT_UP;
	if (core->task_pool.used >= core->limits.tasks)
		return sk_because(why, SK_TASKS_FULL, 1, core->limits.tasks);
	if (at->tasks_count >= core->limits.node_tasks)
		return sk_because(why, SK_NODE_FULL, 1, at->tasks_count);
	if (job->request.cpu_milli > sk_node_cpu_free(at))
		return sk_because(why, SK_CPU_FULL, job->request.cpu_milli, sk_node_cpu_free(at));
	if (job->request.memory_bytes > sk_node_memory_free(at))
		return sk_because(why, SK_MEMORY_FULL, job->request.memory_bytes,
				  sk_node_memory_free(at));
	reason = sk_fit_node(core, slot, node, now_ns);
	return reason || job->request.per_node < 2 ? reason : block_room(core, slot, node, why);
}

static uint16_t share_ok(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 struct sk_share share, struct sk_why *why)
{
	const struct sk_device *device;
	uint16_t reason;

	if (share.index >= core->nodes[node].devices)
		return sk_because(why, SK_BAD_DEVICE_INDEX, share.index, core->nodes[node].devices);
	device = sk_device_at(core, node, share.index);
	if (!device->available)
		return sk_because(why, SK_DEVICE_UNAVAILABLE, share.index, 0);
	if (share.milli > sk_device_free(device))
		return sk_because(why, SK_DEVICE_FULL, share.milli, sk_device_free(device));
	reason = sk_fit_device(job, device);
	if (!reason && job->wish.named &&
	    !(sk_wish_named(core, &job->request, &job->wish, node) >> share.index & 1))
		return SK_CONDITION_NOT_MET;
	if (reason == SK_DEVICE_MEMORY_FULL)
		sk_because(why, reason, job->request.device_memory_bytes,
			   sk_device_memory_free(device));
	return reason;
}

/* True if the devices share a link: those of a task, or those of all tasks of the job on the node.
 */
static bool linked(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		   const struct sk_place *place)
{
	bool gang = job->wish.together & SK_LINKED_GANG;
	uint16_t link = sk_device_at(core, node, place->shares[0].index)->link;

	for (uint32_t i = gang ? 0 : 1; i < place->shares_n; i++)
		if (!link || sk_device_at(core, node, place->shares[i].index)->link != link)
			return false;
	for (uint32_t at = job->tasks_first; gang && at; at = core->tasks[at].job_next)
		if (core->tasks[at].node == node &&
		    sk_device_at(core, node, core->tasks[at].shares[0].index)->link != link)
			return false;
	return true;
}

/* True if the devices of the task are in one NUMA node. */
static bool one_numa(const struct sk_core *core, uint32_t node, const struct sk_place *place)
{
	uint16_t numa = sk_device_at(core, node, place->shares[0].index)->numa;

	for (uint32_t i = 0; i < place->shares_n; i++)
		if (!numa || sk_device_at(core, node, place->shares[i].index)->numa != numa)
			return false;
	return true;
}

/* True if the shares are of one family together with those of the tasks placed before. */
static bool one_family(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		       const struct sk_place *place)
{
	const struct sk_task *first = &core->tasks[job->tasks_first];
	uint8_t family;

	if (!sk_fit_one_family(&job->request))
		return true;
	family = job->tasks_first ? sk_device_at(core, first->node, first->shares[0].index)->family
				  : sk_device_at(core, node, place->shares[0].index)->family;
	for (uint32_t i = 0; i < place->shares_n; i++)
		if (sk_device_at(core, node, place->shares[i].index)->family != family)
			return false;
	return true;
}

uint16_t sk_task_shares_ok(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			   const struct sk_place *place, struct sk_why *why)
{
	uint32_t each = job->request.gpu_milli < SK_MILLI ? job->request.gpu_milli : SK_MILLI;
	uint32_t wanted = each ? job->request.gpu_milli / each : 0;
	uint64_t seen = 0;

	if (place->shares_n != wanted)
		return sk_because(why, SK_BAD_SHARES, wanted, place->shares_n);
	for (uint32_t i = 0; i < wanted; i++) {
		uint16_t reason = share_ok(core, job, node, place->shares[i], why);

		if (reason)
			return reason;
		if (place->shares[i].milli != each || seen >> place->shares[i].index & 1)
			return sk_because(why, SK_BAD_SHARES, each, place->shares[i].milli);
		seen |= (uint64_t)1 << place->shares[i].index;
	}
	if (!one_family(core, job, node, place))
		return sk_because(why, SK_VENDORS_MIXED, wanted, 0);
	if (job->wish.together & SK_LINKED && !linked(core, job, node, place))
		return sk_because(why, SK_LINK_BROKEN, wanted, 0);
	if (job->wish.together & SK_ONE_NUMA && !one_numa(core, node, place))
		return sk_because(why, SK_NUMA_SPLIT, wanted, 0);
	return sk_queue_admits(core, job->queue, node, place->shares, place->shares_n, why);
}

static void shares_add(struct sk_core *core, const struct sk_task *task, bool give)
{
	uint64_t memory = core->jobs[task->job].request.device_memory_bytes;

	for (uint32_t i = 0; i < task->shares_n; i++) {
		struct sk_share share = task->shares[i];
		struct sk_device device = *sk_device_at(core, task->node, share.index);

		device.used =
			(uint16_t)(give ? device.used - share.milli : device.used + share.milli);
		device.memory_used += give ? -memory : memory;
		sk_device_put(core, task->node, share.index, device);
	}
}

static void reserve(struct sk_core *core, const struct sk_task *task, bool give)
{
	const struct sk_job *job = &core->jobs[task->job];
	struct sk_node *node = &core->nodes[task->node];

	SK_ADD(core, node->tasks_count, give ? -1u : 1u);
	SK_ADD(core, node->cpu_used,
	       give ? -(uint64_t)job->request.cpu_milli : job->request.cpu_milli);
	SK_ADD(core, node->memory_used,
	       give ? -job->request.memory_bytes : job->request.memory_bytes);
	shares_add(core, task, give);
	sk_queue_charge(core, task, give);
	sk_group_count(core, job, give);
}

uint64_t sk_task_used_ns(const struct sk_task *task, const struct sk_job *job, uint64_t now_ns)
{
	uint64_t wall = now_ns > job->place_ns ? now_ns - job->place_ns : 0;
	uint64_t milli = 0, held;

	for (uint32_t i = 0; i < task->shares_n; i++)
		milli += task->shares[i].milli;
	if (__builtin_mul_overflow(wall / SK_MILLI, milli, &held))
		return UINT64_MAX;
	return sk_time_add(held, wall % SK_MILLI * milli / SK_MILLI);
}

/* The cell that links the task of this number, or the cell where it would be inserted. */
static uint32_t *task_cell(const struct sk_core *core, uint32_t job, uint16_t number)
{
	uint32_t *cell = &core->jobs[job].tasks_first;

	while (*cell && core->tasks[*cell].task < number)
		cell = &core->tasks[*cell].job_next;
	return cell;
}

uint32_t sk_task_find(const struct sk_core *core, uint32_t job, uint16_t number)
{
	uint32_t slot = *task_cell(core, job, number);

	return slot && core->tasks[slot].task == number ? slot : 0;
}

uint32_t sk_task_take(struct sk_core *core, uint32_t job, uint32_t node,
		      const struct sk_place *place)
{
	uint32_t slot = sk_pool_take(core, &core->task_pool, SK_CHAIN(core->tasks, free_next));
	struct sk_task *task = &core->tasks[slot];
	uint32_t *cell = task_cell(core, job, place->task);

	task->job = job;
	task->node = node;
	task->task = place->task;
	task->state = SK_STARTING;
	task->ready = 0;
	task->shares_n = place->shares_n;
	memcpy(task->shares, place->shares, sizeof task->shares);
	task->job_next = *cell;
	SK_SET(core, *cell, slot);
	sk_list_append(core, &core->nodes[node].tasks, SK_CHAIN(core->tasks, on_node), slot);
	SK_ADD(core, core->jobs[job].tasks_live, 1);
	reserve(core, task, false);
	return slot;
}

void sk_task_give(struct sk_core *core, uint32_t slot)
{
	struct sk_task *task = &core->tasks[slot];
	uint32_t *cell = task_cell(core, task->job, task->task);

	reserve(core, task, true);
	for (uint32_t i = 0; i < task->shares_n; i++)
		sk_device_forget(core, task->node, task->shares[i].index);
	SK_SET(core, *cell, task->job_next);
	sk_list_remove(core, &core->nodes[task->node].tasks, SK_CHAIN(core->tasks, on_node), slot);
	SK_ADD(core, core->jobs[task->job].tasks_live, -1);
	sk_pool_give(core, &core->task_pool, SK_CHAIN(core->tasks, free_next), slot);
}
