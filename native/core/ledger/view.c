/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of the state: copies of what a caller requests, never pointers into it.
 */
#include <errno.h>
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/view.h"

void sk_job_view_fill(const struct sk_job *job, struct sk_job_view *ret)
{
	*ret = (struct sk_job_view){
		.job = job->id,
		.client = job->client,
		.spec_hash = job->spec_hash,
		.submit_ns = job->submit_ns,
		.place_ns = job->place_ns,
		.end_ns = job->end_ns,
		.latency_ns = job->latency_ns,
		.node = job->node,
		.attained_ns = job->attained_ns,
		.charged_ns = job->charged_ns,
		.spent_ns = job->spent_ns,
		.not_before_ns = job->not_before_ns,
		.uid = job->uid,
		.tenant = job->tenant,
		.attempt = job->attempt,
		.flags = job->flags,
		.exit_code = job->exit_code,
		.signal = job->signal,
		.candidates = job->candidates,
		.tasks_live = job->tasks_live,
		.state = job->state,
		.reason = job->reason,
		.place_reason = job->place_reason,
		.retried = job->retried,
		.preemptions = job->preemptions,
		.hold = job->hold,
		.ready = job->ready,
		.preferred = job->preferred,
		.unmet = job->unmet,
		.request = job->request,
	};
	memcpy(ret->observations, job->observations, sizeof ret->observations);
}

int sk_core_job(const struct sk_core *core, uint64_t id, struct sk_job_view *ret)
{
	uint32_t slot = sk_job_find(core, id);

	if (!slot)
		return -ENOENT;
	sk_job_view_fill(&core->jobs[slot], ret);
	return 0;
}

int sk_core_node(const struct sk_core *core, uint64_t id, struct sk_node_view *ret)
{
	const struct sk_node *node = &core->nodes[sk_node_find(core, id)];

	if (!id || node->id != id)
		return -ENOENT;
	*ret = (struct sk_node_view){
		.node = node->id,
		.boot = node->boot,
		.incarnation = node->incarnation,
		.memory_bytes = node->memory,
		.memory_used = node->memory_used,
		.cpu_used = node->cpu_used,
		.domain = node->domain,
		.reserve_from_ns = node->reserve_from_ns,
		.reserve_until_ns = node->reserve_until_ns,
		.reserve_queue = node->reserve_queue,
		.labels = node->labels_n,
		.cpu_milli = node->cpu,
		.tasks = node->tasks_count,
		.up = node->up,
		.reason = node->reason,
		.devices = node->devices,
		.devices_free = node->devices_free,
	};
	return 0;
}

uint32_t sk_core_nodes(const struct sk_core *core, uint64_t *ids, uint32_t capacity)
{
	uint32_t count = 0;

	for (uint32_t slot = sk_node_next(core, 1); slot && count < capacity;
	     slot = sk_node_next(core, slot + 1))
		ids[count++] = core->nodes[slot].id;
	return count;
}

uint32_t sk_core_devices(const struct sk_core *core, uint64_t id, struct sk_device_view *views,
			 uint32_t capacity)
{
	uint32_t slot = id ? sk_node_find(core, id) : 0;
	uint32_t count = slot ? core->nodes[slot].devices : 0;

	if (count > capacity)
		count = capacity;
	for (uint32_t index = 0; index < count; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);
		const struct sk_traits *traits = &core->traits[device->traits];

		views[index] = (struct sk_device_view){
			.memory_bytes = device->memory_bytes,
			.memory_used = device->memory_used,
			.owner = device->owner,
			.model = device->model ? core->models[device->model - 1] : 0,
			.link = device->link,
			.bus = device->bus,
			.numa = device->numa,
			.kind = device->family < SK_VENDORS_MAX ? SK_DEVICE_GPU : SK_DEVICE_CPU,
			.vendor = device->family % SK_VENDORS_MAX,
			.arch = traits->arch,
			.profile = traits->profile,
			.driver = traits->driver,
			.compute = traits->compute,
			.link_gbps = traits->link_gbps,
			.near_cpus = traits->near_cpus,
			.capacity_milli = device->capacity,
			.used_milli = device->used,
			.available = device->available,
			.reason = device->reason,
		};
	}
	return count;
}

static void task_view_fill(const struct sk_core *core, const struct sk_task *task,
			   struct sk_task_view *ret)
{
	const struct sk_job *job = &core->jobs[task->job];

	*ret = (struct sk_task_view){
		.job = job->id,
		.node = core->nodes[task->node].id,
		.attempt = job->attempt,
		.task = task->task,
		.state = task->state,
		.job_state = job->state,
		.shares_n = task->shares_n,
		.ready = task->ready,
		.released = sk_job_released(job),
	};
	memcpy(ret->shares, task->shares, sizeof ret->shares);
}

uint32_t sk_core_node_tasks(const struct sk_core *core, uint64_t id, struct sk_task_view *views,
			    uint32_t capacity)
{
	uint32_t slot = id ? sk_node_find(core, id) : 0;
	uint32_t count = 0;

	for (uint32_t task = core->nodes[slot].tasks.first; task && count < capacity;
	     task = core->tasks[task].on_node.next)
		task_view_fill(core, &core->tasks[task], &views[count++]);
	return count;
}

uint32_t sk_core_job_tasks(const struct sk_core *core, uint64_t id, struct sk_task_view *views,
			   uint32_t capacity)
{
	uint32_t slot = sk_job_find(core, id);
	uint32_t count = 0;

	for (uint32_t task = slot ? core->jobs[slot].tasks_first : 0; task && count < capacity;
	     task = core->tasks[task].job_next)
		task_view_fill(core, &core->tasks[task], &views[count++]);
	return count;
}

uint32_t sk_core_labels(const struct sk_core *core, uint64_t id, struct sk_label_view *views,
			uint32_t capacity)
{
	const struct sk_node *node = &core->nodes[id ? sk_node_find(core, id) : 0];
	uint32_t count = node->labels_n < capacity ? node->labels_n : capacity;

	for (uint32_t i = 0; i < count; i++)
		views[i] = (struct sk_label_view){.label = node->labels[i].label,
						  .value = node->labels[i].value,
						  .flags = (uint32_t)node->labels[i].flags};
	return count;
}

int sk_core_queue(const struct sk_core *core, uint32_t id, uint64_t now_ns,
		  struct sk_queue_view *ret)
{
	uint32_t slot = sk_queue_find(core, id);
	const struct sk_queue *queue = &core->queues[slot];

	if (!slot)
		return -ENOENT;
	*ret = (struct sk_queue_view){
		.used_milli = queue->used_milli,
		.cpu_used = queue->cpu_used,
		.memory_used = queue->memory_used,
		.usage_ns = sk_queue_usage(queue, now_ns),
		.pending = queue->pending_all,
		.live = queue->live,
		.queue = queue->id,
		.parent = core->queues[queue->parent].id,
		.weight = queue->weight,
		.order = queue->order,
		.placement = queue->placement,
		.quotas = queue->quotas_n,
		.depth = queue->depth,
	};
	for (uint32_t i = 0; i < queue->quotas_n; i++)
		ret->quota[i] = (struct sk_quota_view){
			.model = queue->quotas[i].model,
			.guaranteed_milli = queue->quotas[i].guaranteed_milli,
			.limit_milli = queue->quotas[i].limit_milli,
			.used_milli = queue->quotas[i].used_milli,
		};
	return 0;
}

uint32_t sk_core_queues(const struct sk_core *core, uint32_t *ids, uint32_t capacity)
{
	uint32_t count = 0;

	for (uint32_t slot = sk_queue_at(core, SK_QUEUE_DEFAULT); slot && count < capacity;
	     slot = sk_queue_at(core, slot + 1))
		ids[count++] = core->queues[slot].id;
	return count;
}

uint64_t sk_core_due(const struct sk_core *core)
{
	uint32_t slot = sk_hold_next(core);

	return slot ? core->jobs[slot].not_before_ns : 0;
}

uint64_t sk_core_term(const struct sk_core *core)
{
	return core->term;
}

uint64_t sk_core_leader(const struct sk_core *core)
{
	return core->leader;
}

void sk_core_limits(const struct sk_core *core, struct sk_limits *ret)
{
	*ret = core->limits;
}
