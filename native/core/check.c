/* SPDX-License-Identifier: Apache-2.0
 *
 * Every invariant of the ledger, looked at from scratch. Used by restore on bytes from outside and
 * by the tests after every command; a pass over the whole state.
 */
#include "core/device.h"
#include "core/digest.h"
#include "core/index.h"
#include "core/job.h"
#include "core/node.h"
#include "core/queue.h"
#include "core/task.h"

struct sk_sums {
	uint64_t devices;
	uint64_t chunks;
	uint64_t tasks;
	uint64_t classes;
	uint32_t nodes;
	uint32_t up;
	uint32_t with[SK_NODE_DEVICES_MAX + 1];
};

/* What the tasks of a node hold of one device. */
static uint64_t sk_held_milli(const struct sk_core *core, uint32_t node, uint32_t index)
{
	uint64_t held = 0;

	for (uint32_t task = core->nodes[node].tasks.first; task;
	     task = core->tasks[task].on_node.next)
		for (uint32_t i = 0; i < core->tasks[task].shares_n; i++)
			if (core->tasks[task].shares[i].index == index)
				held += core->tasks[task].shares[i].milli;
	return held;
}

static const char *sk_check_devices(const struct sk_core *core, uint32_t slot)
{
	const struct sk_node *node = &core->nodes[slot];
	uint32_t whole = 0, free = 0;

	for (uint32_t index = 0; index < node->devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);
		uint32_t milli = sk_device_free(device);

		if (device->capacity > SK_MILLI || device->used > device->capacity)
			return "a device gives more than it has";
		if (device->used != sk_held_milli(core, slot, index))
			return "a device's use is not the sum of its tasks";
		whole += device->capacity == SK_MILLI;
		free += milli == SK_MILLI;
		if (milli > 0 && milli < SK_MILLI &&
		    sk_index_has(&core->free_part, milli, slot) != node->up)
			return "a partly free device is not indexed as it is";
	}
	if (whole != node->devices_whole || free != node->devices_free)
		return "a node miscounts its devices";
	return NULL;
}

/* Every class that the index has for this node must be true of a device. */
static const char *sk_check_index(const struct sk_core *core, uint32_t slot, struct sk_sums *sums)
{
	const struct sk_node *node = &core->nodes[slot];

	for (uint32_t class = 0; class <= SK_NODE_DEVICES_MAX; class ++)
		if (sk_index_has(&core->free_whole, class, slot) !=
		    (node->up && class == node->devices_free))
			return "a node is indexed under a wrong count of free devices";
	for (uint32_t class = 0; class < SK_MILLI; class ++) {
		if (!sk_index_has(&core->free_part, class, slot))
			continue;
		sums->classes++;
		if (!class || sk_device_with_free(core, slot, class, 0) == SK_NODE_DEVICES_MAX)
			return "a node is indexed under milli that no device has free";
	}
	return NULL;
}

static const char *sk_check_node_tasks(const struct sk_core *core, uint32_t slot,
				       struct sk_sums *sums)
{
	const struct sk_node *node = &core->nodes[slot];
	uint64_t cpu = 0, memory = 0;
	uint32_t count = 0, before = 0;

	for (uint32_t task = node->tasks.first; task; task = core->tasks[task].on_node.next) {
		const struct sk_job *job = &core->jobs[core->tasks[task].job];

		if (core->tasks[task].node != slot || core->tasks[task].on_node.prev != before)
			return "a task is on another node's list";
		if (sk_task_find(core, core->tasks[task].job, core->tasks[task].task) != task)
			return "a task is not on its job's list";
		cpu += job->cpu;
		memory += job->memory;
		before = task;
		count++;
	}
	if (node->tasks.last != before || node->tasks_count != count)
		return "a node miscounts its tasks";
	if (node->cpu_used != cpu || node->memory_used != memory)
		return "a node's reservations are not the sum of its tasks";
	if (count > core->limits.node_tasks)
		return "a node holds more tasks than its limit";
	sums->tasks += count;
	return NULL;
}

static const char *sk_check_node(const struct sk_core *core, uint32_t slot, struct sk_sums *sums)
{
	const struct sk_node *node = &core->nodes[slot];
	const char *broken;

	if (!node->id || sk_node_find(core, node->id) != slot)
		return "a node is not found by its id";
	sums->nodes++;
	sums->up += node->up;
	sums->devices += node->devices;
	sums->chunks += (node->devices + SK_CHUNK_DEVICES - 1) / SK_CHUNK_DEVICES;
	sums->with[node->devices_whole]++;
	broken = sk_check_devices(core, slot);
	if (!broken)
		broken = sk_check_index(core, slot, sums);
	return broken ? broken : sk_check_node_tasks(core, slot, sums);
}

static uint64_t sk_index_sum(const struct sk_index *index)
{
	uint64_t sum = 0;

	for (uint32_t class = 0; class < index->classes; class ++)
		sum += index->counts[class];
	return sum;
}

static const char *sk_check_nodes(const struct sk_core *core, struct sk_sums *sums)
{
	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		const char *broken = sk_check_node(core, slot, sums);

		if (broken)
			return broken;
	}
	if (sums->nodes != core->nodes_count || sums->up != core->nodes_up)
		return "nodes are miscounted";
	if (sums->devices != core->devices_count || sums->devices > core->limits.devices)
		return "devices are miscounted";
	if (sums->chunks != core->chunk_pool.used || sums->tasks != core->task_pool.used)
		return "a device chunk or a task has no owner";
	if (sk_index_sum(&core->free_whole) != sums->up ||
	    sk_index_sum(&core->free_part) != sums->classes)
		return "an index counts nodes that are not there";
	for (uint32_t count = 0; count <= SK_NODE_DEVICES_MAX; count++)
		if (core->nodes_with[count] != sums->with[count])
			return "nodes by devices are miscounted";
	return NULL;
}

static const char *sk_check_state(const struct sk_core *core, const struct sk_job *job, bool live)
{
	uint32_t tasks = 0;

	for (uint32_t task = job->tasks_first; task; task = core->tasks[task].job_next)
		tasks++;
	if (tasks != job->tasks_live || tasks > job->tasks)
		return "a job miscounts its tasks";
	if (sk_state_final(job->state) == live)
		return "a job is in the wrong list for its state";
	if ((job->state >= SK_STARTING && job->state <= SK_STOPPING) != (tasks > 0))
		return "a job holds tasks in a state that has none, or has none";
	if (live && job->verdict && job->state != SK_STOPPING)
		return "a judged job goes on";
	return NULL;
}

static const char *sk_check_list(const struct sk_core *core, const struct sk_list *list, bool live,
				 uint32_t expected)
{
	uint32_t count = 0, before = 0;

	for (uint32_t slot = list->first; slot; slot = core->jobs[slot].order.next) {
		const struct sk_job *job = &core->jobs[slot];
		const char *broken = sk_check_state(core, job, live);

		if (broken)
			return broken;
		if (job->order.prev != before ||
		    (live && before && core->jobs[before].id >= job->id))
			return "jobs are out of order";
		if (sk_job_find(core, job->id) != slot || job->id >= core->next_job)
			return "a job is not found by its id";
		before = slot;
		if (++count > expected)
			break;
	}
	return list->last == before && count == expected ? NULL : "jobs are miscounted";
}

static const char *sk_check_queues(const struct sk_core *core)
{
	uint64_t queued = 0, pending = 0;

	for (int kind = 0; kind < SK_QUEUE_KINDS; kind++) {
		uint64_t count = 0;
		uint32_t slot = sk_queue_head(core, (enum sk_queue_kind)kind);

		for (; slot; slot = sk_queue_next(core, slot), count++)
			if (core->jobs[slot].state != SK_PENDING ||
			    (int)sk_queue_kind(&core->jobs[slot]) != kind)
				return "a job waits in the wrong queue";
		if (count != core->queues[kind].count)
			return "a queue is miscounted";
		queued += count;
	}
	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next)
		pending += core->jobs[slot].state == SK_PENDING;
	return queued == pending ? NULL : "a pending job is not queued";
}

static const char *sk_check_keys(const struct sk_core *core)
{
	uint32_t count = 0, before = 0;

	for (uint32_t slot = core->keys_order.first; slot; slot = core->keys[slot].order.next) {
		if (core->keys[slot].order.prev != before || core->keys[slot].job >= core->next_job)
			return "keys are out of order";
		before = slot;
		count++;
	}
	return count == core->key_pool.used && count <= core->limits.keys ? NULL
									  : "keys are miscounted";
}

const char *sk_core_check(const struct sk_core *core)
{
	struct sk_sums sums = {0};
	const char *broken = sk_check_nodes(core, &sums);

	if (!broken)
		broken = sk_check_list(core, &core->live, true, core->live_count);
	if (!broken)
		broken = sk_check_list(core, &core->finished, false, core->finished_count);
	if (!broken && core->finished_count > core->limits.finished)
		broken = "more ended jobs than retention";
	if (!broken && core->job_pool.used != core->live_count + core->finished_count)
		broken = "a job is in no list";
	if (!broken)
		broken = sk_check_queues(core);
	return broken ? broken : sk_check_keys(core);
}

uint64_t sk_core_memory_digest(const struct sk_core *core)
{
	size_t head = offsetof(struct sk_core, journal) & ~(size_t)7;
	size_t from = sizeof *core;
	size_t to = (size_t)(core->journal.bytes - (const uint8_t *)core);
	uint64_t digest = sk_digest(0, core, head);

	return sk_digest_end(sk_digest(digest, (const uint8_t *)core + from, to - from));
}
