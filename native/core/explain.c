/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a job is where it is, as data. A waiting job: who is ahead, what the nodes lack and who holds
 * it, ranked by how many nodes say so. A placed one: where, why, and the inputs that mattered.
 * Reads only; costs a pass over the nodes and, for the place in the queue, a bounded walk.
 */
#include "core/device.h"
#include "core/job.h"
#include "core/node.h"
#include "core/pending.h"

#define SK_EXPLAIN_WALK_MAX 65536u /* jobs ahead are counted up to here */
#define SK_EXPLAIN_HOLDERS 4u

struct sk_lines {
	struct sk_explain *at;
	uint32_t capacity;
	uint32_t count;
};

enum sk_need { SK_NEED_DEVICES, SK_NEED_CPU, SK_NEED_MEMORY, SK_NEED_PLACE, SK_NEEDS };

/* What the up nodes lack, each with the node that lacks least. */
struct sk_lacks {
	struct sk_explain need[SK_NEEDS];
	struct sk_explain unavailable;
	uint64_t places; /* tasks of this kind that fit now */
	uint64_t first;	 /* the node of the first of them */
};

static void sk_line(struct sk_lines *lines, struct sk_explain line)
{
	if (lines->count < lines->capacity)
		lines->at[lines->count++] = line;
}

static void sk_lack(struct sk_explain *need, uint16_t reason, uint64_t node, uint64_t asked,
		    uint64_t have)
{
	if (!need->count || have > need->have) {
		need->node = node;
		need->have = have;
	}
	need->reason = reason;
	need->asked = asked;
	need->count++;
}

/* Tasks that the node's free devices can take now; `ret` is what the nearest miss has. */
static uint64_t sk_devices_take(const struct sk_core *core, uint32_t slot, uint32_t gpu,
				uint64_t *ret)
{
	uint64_t tasks = 0;

	if (gpu >= SK_MILLI) {
		*ret = core->nodes[slot].devices_free;
		return *ret / (gpu / SK_MILLI);
	}
	*ret = 0;
	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		uint32_t free = sk_device_free(sk_device_at(core, slot, index));

		tasks += free / gpu;
		if (free > *ret)
			*ret = free;
	}
	return tasks;
}

static uint64_t sk_lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void sk_node_unavailable(const struct sk_core *core, uint32_t slot, struct sk_lacks *lacks)
{
	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);

		if (device->available)
			continue;
		if (!lacks->unavailable.count++) {
			lacks->unavailable.reason = SK_DEVICES_UNAVAILABLE;
			lacks->unavailable.node = core->nodes[slot].id;
			lacks->unavailable.asked = index;
			lacks->unavailable.have = device->owner;
			lacks->unavailable.detail = device->reason;
		}
	}
}

/* Note what this up node lacks; returns the tasks that fit. */
static uint64_t sk_node_lacks(const struct sk_core *core, const struct sk_job *job, uint32_t slot,
			      struct sk_lacks *lacks)
{
	const struct sk_node *node = &core->nodes[slot];
	uint64_t fit =
		core->limits.node_tasks - sk_lower(node->tasks_count, core->limits.node_tasks);
	uint64_t have;

	if (!fit)
		sk_lack(&lacks->need[SK_NEED_PLACE], SK_NODE_JOBS_FULL, node->id, 1,
			node->tasks_count);
	if (job->ask.cpu_milli) {
		have = sk_node_cpu_free(node);
		if (job->ask.cpu_milli > have)
			sk_lack(&lacks->need[SK_NEED_CPU], SK_NEEDS_CPU, node->id,
				job->ask.cpu_milli, have);
		fit = sk_lower(fit, have / job->ask.cpu_milli);
	}
	if (job->ask.memory_bytes) {
		have = sk_node_memory_free(node);
		if (job->ask.memory_bytes > have)
			sk_lack(&lacks->need[SK_NEED_MEMORY], SK_NEEDS_MEMORY, node->id,
				job->ask.memory_bytes, have);
		fit = sk_lower(fit, have / job->ask.memory_bytes);
	}
	if (job->ask.gpu_milli) {
		bool part = job->ask.gpu_milli < SK_MILLI;
		uint64_t take = sk_devices_take(core, slot, job->ask.gpu_milli, &have);

		if (!take)
			sk_lack(&lacks->need[SK_NEED_DEVICES],
				part ? SK_NEEDS_SHARE : SK_NEEDS_DEVICES, node->id,
				part ? job->ask.gpu_milli : job->ask.gpu_milli / SK_MILLI, have);
		fit = sk_lower(fit, take);
		sk_node_unavailable(core, slot, lacks);
	}
	return fit;
}

static void sk_lacks_all(const struct sk_core *core, const struct sk_job *job,
			 struct sk_lacks *lacks)
{
	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		uint64_t fit = core->nodes[slot].up ? sk_node_lacks(core, job, slot, lacks) : 0;

		if (fit && !lacks->places)
			lacks->first = core->nodes[slot].id;
		lacks->places += fit;
	}
}

static void sk_explain_holders(const struct sk_core *core, uint64_t node, struct sk_lines *lines)
{
	uint32_t slot = sk_node_find(core, node);
	uint32_t shown = 0;

	for (uint32_t at = core->nodes[slot].tasks.first; at && shown < SK_EXPLAIN_HOLDERS;
	     at = core->tasks[at].on_node.next) {
		const struct sk_task *task = &core->tasks[at];
		uint64_t milli = 0;

		for (uint32_t i = 0; i < task->shares_n; i++)
			milli += task->shares[i].milli;
		if (!milli)
			continue;
		sk_line(lines, (struct sk_explain){.reason = SK_HOLDS,
						   .node = node,
						   .job = core->jobs[task->job].id,
						   .have = milli});
		shown++;
	}
}

/* Lacks by how many nodes have them, most first. */
static void sk_explain_lacks(const struct sk_core *core, struct sk_lacks *lacks,
			     struct sk_lines *lines)
{
	for (;;) {
		struct sk_explain *most = &lacks->need[0];

		for (int i = 1; i < SK_NEEDS; i++)
			if (lacks->need[i].count > most->count)
				most = &lacks->need[i];
		if (!most->count)
			return;
		sk_line(lines, *most);
		if (most == &lacks->need[SK_NEED_DEVICES])
			sk_explain_holders(core, most->node, lines);
		most->count = 0;
	}
}

static void sk_explain_behind(const struct sk_core *core, uint32_t slot, struct sk_lines *lines)
{
	uint32_t at =
		sk_pending_first(core, core->jobs[slot].queue, sk_queue_kind(&core->jobs[slot]));
	struct sk_explain line = {.reason = SK_BEHIND, .job = core->jobs[at].id};

	if (core->jobs[slot].hold)
		return;
	for (; at != slot && line.count < SK_EXPLAIN_WALK_MAX; at = sk_pending_next(core, at))
		line.count++;
	if (line.count)
		sk_line(lines, line);
}

static void sk_explain_waiting(const struct sk_core *core, uint32_t slot, struct sk_lines *lines)
{
	const struct sk_job *job = &core->jobs[slot];
	uint32_t down = core->nodes_count - core->nodes_up;
	struct sk_lacks lacks = {0};

	sk_lacks_all(core, job, &lacks);
	sk_explain_behind(core, slot, lines);
	if (!core->nodes_count)
		sk_line(lines, (struct sk_explain){.reason = SK_NO_NODES});
	else if (lacks.places >= job->ask.tasks && !lines->count)
		sk_line(lines, (struct sk_explain){.reason = SK_READY, .node = lacks.first});
	else if (lacks.places < job->ask.tasks && job->ask.tasks > 1)
		sk_line(lines, (struct sk_explain){.reason = SK_GANG_SHORT,
						   .asked = job->ask.tasks,
						   .have = lacks.places});
	if (lacks.places < job->ask.tasks)
		sk_explain_lacks(core, &lacks, lines);
	if (lacks.places < job->ask.tasks && lacks.unavailable.count)
		sk_line(lines, lacks.unavailable);
	if (down)
		sk_line(lines, (struct sk_explain){.reason = SK_NODES_DOWN,
						   .count = down,
						   .have = core->nodes_count});
}

static void sk_explain_placed(const struct sk_job *job, struct sk_lines *lines)
{
	uint64_t waited = job->place_ns > job->submit_ns ? job->place_ns - job->submit_ns : 0;

	sk_line(lines, (struct sk_explain){.reason = SK_PLACED_ON,
					   .detail = job->place_reason,
					   .count = job->candidates,
					   .node = job->node});
	sk_line(lines, (struct sk_explain){.reason = job->place_reason,
					   .count = job->candidates,
					   .node = job->node,
					   .asked = job->ask.gpu_milli});
	sk_line(lines, (struct sk_explain){.reason = SK_WAITED, .have = waited});
	sk_line(lines, (struct sk_explain){.reason = SK_DECIDED_IN, .have = job->latency_ns});
	for (uint32_t i = 0; i < SK_OBSERVATIONS_MAX; i++)
		if (job->observations[i])
			sk_line(lines, (struct sk_explain){.reason = SK_OBSERVED,
							   .have = job->observations[i]});
}

uint32_t sk_core_explain(const struct sk_core *core, uint64_t id, struct sk_explain *at,
			 uint32_t capacity)
{
	struct sk_lines lines = {at, capacity, 0};
	uint32_t slot = sk_job_find(core, id);
	const struct sk_job *job = &core->jobs[slot];

	if (!slot)
		return 0;
	if (sk_state_final(job->state))
		sk_line(&lines, (struct sk_explain){.reason = SK_ENDED, .detail = job->state});
	if (job->state == SK_PENDING)
		sk_explain_waiting(core, slot, &lines);
	else if (job->attempt)
		sk_explain_placed(job, &lines);
	return lines.count;
}
