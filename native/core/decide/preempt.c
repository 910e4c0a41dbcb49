/* SPDX-License-Identifier: Apache-2.0
 *
 * The cheapest victims are taken until the job fits; then those that need not go are spared, the
 * most expensive first. A job of one task compares nodes; the victims of a gang may be anywhere.
 */
#include <string.h>

#include "core/command/command.h"
#include "core/decide/preempt.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/task.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"

struct sk_victim {
	uint64_t cost; /* device time since it was placed, which is lost */
	uint32_t job;
};

/* Victims sorted by cost, then id. */
struct sk_victims {
	struct sk_victim at[SK_VICTIMS_MAX];
	uint32_t count;
	uint64_t cost;
};

struct sk_search_room {
	struct sk_trial *trial;
	uint32_t job;
	bool entitled; /* a guarantee covers it */
};

/* The level that a running job would have in its queue if it waited. */
static uint32_t victim_level(const struct sk_core *core, const struct sk_job *job, uint64_t now_ns)
{
	uint64_t ran = now_ns - job->place_ns, held = 0;

	switch (core->queues[job->queue].order) {
	case SK_ORDER_SHORTEST:
		if (!job->request.estimate_ns)
			return SK_LEVELS - 1;
		return sk_pending_time_level(
			job->request.estimate_ns > ran ? job->request.estimate_ns - ran : 0);
	case SK_ORDER_LEAST_ATTAINED:
		for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
			held = sk_time_add(held, sk_task_used_ns(&core->tasks[at], job, now_ns));
		return sk_pending_time_level(sk_time_add(job->attained_ns, held));
	default:
		return (uint32_t)(SK_PRIORITY_MAX - job->request.priority);
	}
}

/* The model of a job's first device; 0: none. */
static uint64_t victim_model(const struct sk_core *core, const struct sk_job *job)
{
	const struct sk_task *task = &core->tasks[job->tasks_first];
	uint32_t model;

	if (!task->shares_n)
		return 0;
	model = sk_device_at(core, task->node, task->shares[0].index)->model;
	return model ? core->models[model - 1] : 0;
}

/* True if no guarantee protects this job, up to the queue that both have in common. */
static bool borrows(const struct sk_core *core, const struct sk_job *victim,
		    const struct sk_job *job)
{
	uint64_t model = victim_model(core, victim);

	for (uint32_t slot = victim->queue; !sk_queue_within(core, job->queue, slot);
	     slot = core->queues[slot].parent) {
		const struct sk_queue *queue = &core->queues[slot];

		for (uint32_t i = 0; i < queue->quotas_n; i++)
			if (queue->quotas[i].guaranteed_milli &&
			    (!queue->quotas[i].model || queue->quotas[i].model == model) &&
			    queue->quotas[i].used_milli <= queue->quotas[i].guaranteed_milli)
				return false;
	}
	return true;
}

static bool may_go(const struct sk_search_room *search, const struct sk_job *victim)
{
	const struct sk_core *core = search->trial->act.core;
	const struct sk_job *job = &core->jobs[search->job];
	uint64_t now_ns = search->trial->act.now_ns;

	if (victim->state != SK_STARTING && victim->state != SK_RUNNING)
		return false;
	if (!(victim->request.options & SK_PREEMPTIBLE) ||
	    victim->preemptions >= SK_PREEMPTIONS_MAX)
		return false;
	if (now_ns <= victim->place_ns ||
	    now_ns - victim->place_ns < victim->request.min_run_s * 1000000000ull)
		return false;
	if (victim->queue != job->queue)
		return search->entitled && victim->request.gpu_milli && borrows(core, victim, job);
	return job->request.options & SK_PREEMPTOR &&
	       victim_level(core, victim, now_ns) > job->level;
}

/* Device time since the job was placed; plain time for a job without devices. */
static uint64_t victim_cost(const struct sk_core *core, const struct sk_job *job, uint64_t now_ns)
{
	uint64_t cost = 0;

	if (!job->request.gpu_milli)
		return now_ns - job->place_ns;
	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
		cost = sk_time_add(cost, sk_task_used_ns(&core->tasks[at], job, now_ns));
	return cost;
}

/* Insert by cost, then id; beyond the limit the most expensive is left out. */
static void victim_add(const struct sk_core *core, struct sk_victims *victims,
		       struct sk_victim victim)
{
	uint32_t at = victims->count;

	for (uint32_t i = 0; i < victims->count; i++)
		if (victims->at[i].job == victim.job)
			return;
	while (at && (victims->at[at - 1].cost > victim.cost ||
		      (victims->at[at - 1].cost == victim.cost &&
		       core->jobs[victims->at[at - 1].job].id > core->jobs[victim.job].id)))
		at--;
	if (at == SK_VICTIMS_MAX)
		return;
	if (victims->count < SK_VICTIMS_MAX)
		victims->count++;
	memmove(&victims->at[at + 1], &victims->at[at],
		(victims->count - 1 - at) * sizeof victims->at[0]);
	victims->at[at] = victim;
}

static bool node_serves(const struct sk_search_room *search, uint32_t node)
{
	const struct sk_core *core = search->trial->act.core;
	const struct sk_job *job = &core->jobs[search->job];

	return core->nodes[node].up && core->nodes[node].tasks_count &&
	       !sk_fit_kind(core, &job->request, &job->wish, node);
}

static void victims_on(const struct sk_search_room *search, uint32_t node,
		       struct sk_victims *victims)
{
	const struct sk_core *core = search->trial->act.core;
	uint64_t now_ns = search->trial->act.now_ns;

	for (uint32_t at = core->nodes[node].tasks.first; at; at = core->tasks[at].on_node.next) {
		uint32_t slot = core->tasks[at].job;
		const struct sk_job *job = &core->jobs[slot];

		if (may_go(search, job))
			victim_add(core, victims,
				   (struct sk_victim){victim_cost(core, job, now_ns), slot});
	}
}

/* True if the job fits once the first `count` of these except one have gone. */
static bool victims_suffice(const struct sk_search_room *search, const struct sk_victims *victims,
			    uint32_t count, uint32_t but)
{
	struct sk_core *core = search->trial->act.core;
	uint64_t mark = sk_journal_mark(core);
	bool suffice = true;

	for (uint32_t i = 0; i < count && suffice; i++)
		suffice = i == but || sk_trial_end(search->trial, victims->at[i].job);
	suffice = suffice && sk_trial_fits(search->trial, search->job, search->trial->act.now_ns);
	sk_journal_undo(core, mark);
	return suffice;
}

/* Keep only those that must go; false if all of them are not enough. */
static bool victims_settle(const struct sk_search_room *search, struct sk_victims *victims)
{
	uint32_t low = 1, high = victims->count;

	if (!high || !victims_suffice(search, victims, high, high))
		return false;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (victims_suffice(search, victims, middle, middle))
			high = middle;
		else
			low = middle + 1;
	}
	victims->count = high;
	for (uint32_t i = high; i-- > 0;) {
		if (!victims_suffice(search, victims, victims->count, i))
			continue;
		victims->count--;
		memmove(&victims->at[i], &victims->at[i + 1],
			(victims->count - i) * sizeof victims->at[0]);
	}
	victims->cost = 0;
	for (uint32_t i = 0; i < victims->count; i++)
		victims->cost = sk_time_add(victims->cost, victims->at[i].cost);
	return true;
}

static bool cheaper(const struct sk_victims *a, const struct sk_victims *b)
{
	return a->cost != b->cost ? a->cost < b->cost : a->count < b->count;
}

/* The victims on the cheapest node; for a gang those of all nodes together. */
static void victims_find(const struct sk_search_room *search, struct sk_victims *best)
{
	const struct sk_core *core = search->trial->act.core;
	bool gang = core->jobs[search->job].request.tasks > 1;
	struct sk_victims here = {0};
	uint32_t nodes = 0;

	best->count = 0;
	for (uint32_t node = sk_node_next(core, 1); node && nodes < SK_PREEMPT_NODES_MAX;
	     node = sk_node_next(core, node + 1)) {
		if (!node_serves(search, node))
			continue;
		victims_on(search, node, &here);
		if (gang || !here.count)
			continue;
		nodes++;
		if (victims_settle(search, &here) && (!best->count || cheaper(&here, best)))
			*best = here;
		here.count = 0;
	}
	if (gang && victims_settle(search, &here))
		*best = here;
}

/* A preempted job that still stops counts as free. */
static bool stopping_end(struct sk_trial *trial)
{
	struct sk_core *core = trial->act.core;

	for (uint32_t node = sk_node_next(core, 1); node; node = sk_node_next(core, node + 1))
		for (uint32_t at = core->nodes[node].tasks.first, next; at; at = next) {
			const struct sk_job *job = &core->jobs[core->tasks[at].job];

			next = core->tasks[at].on_node.next;
			if (job->state != SK_STOPPING)
				continue;
			if (!sk_trial_end(trial, core->tasks[at].job))
				return false;
			next = core->nodes[node].tasks.first;
		}
	return true;
}

static void preempt_one(struct sk_trial *trial, uint32_t slot, uint32_t victim)
{
	struct sk_core *core = trial->act.core;
	const struct sk_job *job = &core->jobs[victim];
	struct sk_preempt preempt = {
		.header = {sizeof preempt, SK_PREEMPT, 0, core->term},
		.job = job->id,
		.beneficiary = core->jobs[slot].id,
		.attempt = job->attempt,
		.reason = job->queue == core->jobs[slot].queue ? SK_PREEMPTED : SK_RECLAIMED,
	};
	struct sk_why why;

	if (sk_command_do(&trial->act, &preempt.header, &why))
		return;
	sk_trial_emit(trial, &preempt, sizeof preempt);
	trial->preempts++;
}

void sk_preempt_for(struct sk_trial *trial, uint32_t slot)
{
	struct sk_core *core = trial->act.core;
	const struct sk_job *job = &core->jobs[slot];
	struct sk_search_room search = {trial, slot, sk_covered_depth(core, job) != 0};
	uint64_t mark = sk_journal_mark(core);
	struct sk_victims victims = {0};

	if (!search.entitled && !(job->request.options & SK_PREEMPTOR))
		return;
	if (stopping_end(trial) && !sk_trial_fits(trial, slot, trial->act.now_ns))
		victims_find(&search, &victims);
	sk_journal_undo(core, mark);
	if (trial->preempts + victims.count > SK_PREEMPT_BATCH_MAX ||
	    !sk_journal_room(core, victims.count * SK_JOURNAL_REQUEST))
		return;
	for (uint32_t i = 0; i < victims.count; i++)
		preempt_one(trial, slot, victims.at[i].job);
}
