/* SPDX-License-Identifier: Apache-2.0
 *
 * A quota of one model concerns a job that accepts that model, and all of its tasks if it accepts
 * no other.
 */
#include "core/ledger/limits.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/job.h"
#include "core/ledger/queue.h"

static uint64_t task_milli_of(const struct sk_core *core, const struct sk_task *task,
			      uint64_t model)
{
	uint64_t milli = 0;

	for (uint32_t i = 0; i < task->shares_n; i++) {
		uint32_t at = sk_device_at(core, task->node, task->shares[i].index)->model;

		if (!model || (at && core->models[at - 1] == model))
			milli += task->shares[i].milli;
	}
	return milli;
}

/* Milli of the model (0: of all) that tasks of the queue and those below give back until then. */
static uint64_t released(const struct sk_core *core, uint32_t queue, uint64_t model, uint64_t at_ns)
{
	uint64_t milli = 0;

	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next) {
		const struct sk_job *job = &core->jobs[slot];

		if (!job->tasks_first || !sk_queue_within(core, job->queue, queue) ||
		    sk_job_end_ns(core, slot) > at_ns)
			continue;
		for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
			milli += task_milli_of(core, &core->tasks[at], model);
	}
	return milli;
}

/* The bit of the model of the quota if this job may use such devices; all bits for the quota of all
 * devices. */
static uint64_t concerns(const struct sk_core *core, const struct sk_job *job, uint64_t model)
{
	uint32_t at = sk_model_find(core, model);
	uint64_t bit = at ? (uint64_t)1 << (at - 1) : 0;

	return !model ? UINT64_MAX : !job->wish.models || job->wish.models & bit ? bit : 0;
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	return limit > used ? limit - used : 0;
}

/* Apply one limit with so much left: some or all tasks of the job would exceed it. */
static void limit_block(const struct sk_job *job, uint64_t bits, uint64_t left,
			struct sk_blocked *blocked)
{
	uint64_t tasks = left / job->request.gpu_milli;

	if (bits == UINT64_MAX)
		blocked->all = true;
	else if (!tasks || bits == job->wish.models)
		blocked->models |= bits;
	else if (!blocked->capped || tasks < blocked->cap) {
		blocked->capped = bits;
		blocked->cap = tasks;
	}
}

struct sk_blocked sk_limits_block(const struct sk_core *core, uint32_t slot, uint64_t at_ns,
				  struct sk_explain *lines, uint32_t capacity, uint32_t *count)
{
	const struct sk_job *job = &core->jobs[slot];
	uint64_t milli = (uint64_t)job->request.gpu_milli * job->request.tasks;
	struct sk_blocked blocked = {0};

	*count = 0;
	for (uint32_t queue = job->queue; queue; queue = core->queues[queue].parent)
		for (uint32_t i = 0; i < core->queues[queue].quotas_n; i++) {
			const struct sk_quota *quota = &core->queues[queue].quotas[i];
			uint64_t bits = concerns(core, job, quota->model);
			uint64_t asked = sk_time_add(quota->used_milli, milli);

			if (!milli || !bits || asked <= quota->limit_milli)
				continue;
			if (at_ns > core->now_ns)
				asked -= released(core, queue, quota->model, at_ns);
			if (asked <= quota->limit_milli)
				continue;
			limit_block(job, bits, left_of(quota->limit_milli, asked - milli),
				    &blocked);
			if (*count < capacity)
				lines[(*count)++] =
					(struct sk_explain){SK_QUEUE_AT_LIMIT,
							    (uint16_t)core->queues[queue].depth,
							    0,
							    0,
							    core->queues[queue].id,
							    asked,
							    quota->limit_milli};
		}
	blocked.all |= job->wish.models && !(job->wish.models & ~blocked.models);
	return blocked;
}
