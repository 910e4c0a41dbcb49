/* SPDX-License-Identifier: Apache-2.0
 *
 * SUBMIT, PLACE, OUTCOME, CANCEL and FORGET: the life of jobs as commands.
 */
#include <string.h>

#include "core/command.h"
#include "core/journal.h"
#include "core/key.h"
#include "core/node.h"

uint16_t sk_submit_ok(const struct sk_submit *submit, struct sk_why *why)
{
	uint32_t gpu = submit->gpu_milli;

	if (submit->priority < SK_PRIORITY_MIN || submit->priority > SK_PRIORITY_MAX)
		return SK_BAD_PRIORITY;
	if (gpu > SK_MILLI && gpu % SK_MILLI)
		return sk_because(why, SK_BAD_GPU_MILLI, gpu, 0);
	if (gpu > SK_MILLI * SK_TASK_DEVICES_MAX)
		return sk_because(why, SK_TOO_MANY_DEVICES, gpu / SK_MILLI, SK_TASK_DEVICES_MAX);
	if (!submit->tasks || submit->tasks > SK_TASKS_MAX)
		return sk_because(why, SK_BAD_TASKS, submit->tasks, SK_TASKS_MAX);
	return SK_REASON_NONE;
}

uint16_t sk_submit_do(const struct sk_act *act, const struct sk_submit *command, struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t key = sk_key_find(core, command->client, command->key);
	uint16_t reason;
	uint32_t slot;

	if (key) {
		why->job = core->keys[key].job;
		return core->keys[key].spec_hash == command->spec_hash ? SK_DUPLICATE
								       : SK_KEY_REUSED;
	}
	reason = sk_submit_ok(command, why);
	if (reason)
		return reason;
	if (core->live_count == core->limits.jobs)
		return sk_because(why, SK_JOBS_FULL, 1, core->limits.jobs);
	slot = sk_job_create(act, command);
	why->job = core->jobs[slot].id;
	sk_key_add(core, command, why->job);
	return SK_REASON_NONE;
}

uint16_t sk_place_task(const struct sk_act *act, uint32_t job, const struct sk_place *place,
		       struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t node = sk_node_find(core, place->node);
	uint16_t reason;

	if (!node)
		return SK_UNKNOWN_NODE;
	reason = sk_task_room(core, &core->jobs[job], node, why);
	if (!reason)
		reason = sk_task_shares_ok(core, &core->jobs[job], node, place, why);
	if (!reason)
		sk_task_take(core, job, node, place);
	return reason;
}

static void sk_start_tell(const struct sk_act *act, const struct sk_place *place)
{
	struct sk_effect *effect = sk_effect_add(act, SK_EFFECT_START, place->job);

	if (!effect)
		return;
	effect->command += place->task;
	effect->state = SK_STARTING;
	effect->reason = place->reason;
	effect->attempt = place->attempt;
	effect->task = place->task;
	effect->tasks = place->tasks;
	effect->node = place->node;
	effect->latency_ns = place->latency_ns;
	memcpy(effect->observations, place->observations, sizeof effect->observations);
	effect->shares_n = place->shares_n;
	memcpy(effect->shares, place->shares, sizeof effect->shares);
}

void sk_place_finish(const struct sk_act *act, uint32_t slot, const struct sk_place *first)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];

	sk_journal_note(core, job, sizeof *job);
	job->attempt = first->attempt;
	job->place_ns = act->now_ns;
	job->latency_ns = first->latency_ns;
	memcpy(job->observations, first->observations, sizeof job->observations);
	job->node = first->node;
	job->place_reason = first->reason;
	job->candidates = first->candidates;
	SK_ADD(core, core->counters.placed, job->tasks);
	sk_job_move(act, slot, SK_STARTING, SK_PLACED, first->node);
	for (uint32_t i = 0; i < job->tasks; i++)
		sk_start_tell(act, &first[i]);
}

static uint16_t sk_place_ok(const struct sk_core *core, uint32_t slot, const struct sk_place *first,
			    struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];

	if (!slot)
		return SK_UNKNOWN_JOB;
	if (job->state != SK_PENDING)
		return SK_NOT_PENDING;
	if (first->attempt != job->attempt + 1)
		return sk_because(why, SK_WRONG_ATTEMPT, first->attempt, job->attempt);
	if (first->tasks != job->tasks)
		return sk_because(why, SK_BAD_TASKS, first->tasks, job->tasks);
	return SK_REASON_NONE;
}

/* All tasks or none: what the first ones took is taken back if a later one does not fit. */
uint16_t sk_place_do(const struct sk_act *act, const struct sk_place *group, struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, group->job);
	uint16_t reason = sk_place_ok(core, slot, group, why);
	bool outer = core->journal.on;
	uint64_t mark;

	why->job = group->job;
	if (reason)
		return reason;
	if (!outer)
		sk_journal_begin(core);
	mark = sk_journal_mark(core);
	for (uint32_t i = 0; i < group->tasks && !reason; i++)
		reason = sk_place_task(act, slot, &group[i], why);
	if (reason)
		sk_journal_undo(core, mark);
	else
		sk_place_finish(act, slot, group);
	if (!outer)
		sk_journal_end(core, true);
	return reason;
}

static uint16_t sk_outcome_ok(const struct sk_core *core, uint32_t slot,
			      const struct sk_outcome *command, struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];
	uint32_t task;

	if (!slot)
		return SK_UNKNOWN_JOB;
	if (command->attempt != job->attempt)
		return sk_because(
			why, command->attempt < job->attempt ? SK_STALE_ATTEMPT : SK_WRONG_ATTEMPT,
			command->attempt, job->attempt);
	if (sk_state_final(job->state))
		return SK_ALREADY_ENDED;
	if (command->task >= job->tasks)
		return sk_because(why, SK_BAD_TASKS, command->task, job->tasks);
	task = sk_task_find(core, slot, command->task);
	if (!task)
		return job->state == SK_PENDING ? SK_WRONG_ATTEMPT : SK_DUPLICATE_OUTCOME;
	if (core->nodes[core->tasks[task].node].id != command->node)
		return SK_NOT_OWNER;
	if (command->state == SK_RUNNING && core->tasks[task].state == SK_RUNNING)
		return SK_DUPLICATE_OUTCOME;
	return SK_REASON_NONE;
}

static void sk_task_running(const struct sk_act *act, uint32_t slot,
			    const struct sk_outcome *command)
{
	struct sk_core *core = act->core;
	uint32_t task = sk_task_find(core, slot, command->task);

	SK_SET(core, core->tasks[task].state, SK_RUNNING);
	if (core->jobs[slot].state == SK_STARTING)
		sk_job_move(act, slot, SK_RUNNING, command->reason ? command->reason : SK_REPORTED,
			    command->node);
}

/* A job that was told to stop and did so keeps the reason it was told. */
static uint16_t sk_outcome_reason(const struct sk_job *job, const struct sk_outcome *command)
{
	if (command->reason)
		return command->reason;
	if (job->state == SK_STOPPING && command->state == SK_CANCELLED)
		return job->reason;
	return SK_REPORTED;
}

/* The first task that does not succeed decides what becomes of the job. */
static void sk_job_judge(struct sk_core *core, struct sk_job *job, const struct sk_outcome *command)
{
	if (job->verdict)
		return;
	if (command->state == SK_SUCCEEDED && job->tasks_live)
		return;
	SK_SET(core, job->verdict, (uint8_t)command->state);
	SK_SET(core, job->reason, sk_outcome_reason(job, command));
	SK_SET(core, job->exit_code, command->exit_code);
	SK_SET(core, job->signal, command->signal);
	SK_SET(core, job->flags, command->header.flags);
}

static void sk_task_ended(const struct sk_act *act, uint32_t slot, const struct sk_outcome *command)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];

	sk_task_give(core, sk_task_find(core, slot, command->task));
	sk_job_judge(core, job, command);
	if (!job->tasks_live) {
		sk_job_finish(act, slot, job->verdict, command->node);
	} else if (job->verdict && job->state != SK_STOPPING) {
		sk_job_move(act, slot, SK_STOPPING, job->reason, command->node);
		sk_job_stop_tasks(act, slot, SK_PEER_ENDED);
	}
}

uint16_t sk_outcome_do(const struct sk_act *act, const struct sk_outcome *command,
		       struct sk_why *why)
{
	uint32_t slot = sk_job_find(act->core, command->job);
	uint16_t reason = sk_outcome_ok(act->core, slot, command, why);

	why->job = command->job;
	if (reason)
		return reason;
	if (command->state == SK_RUNNING)
		sk_task_running(act, slot, command);
	else
		sk_task_ended(act, slot, command);
	return SK_REASON_NONE;
}

uint16_t sk_cancel_do(const struct sk_act *act, const struct sk_cancel *command, struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, command->job);
	uint16_t reason = command->reason ? command->reason : SK_CANCEL_REQUESTED;
	struct sk_job *job = &core->jobs[slot];

	why->job = command->job;
	if (!slot)
		return SK_UNKNOWN_JOB;
	if (sk_state_final(job->state))
		return SK_ALREADY_ENDED;
	if (job->state == SK_STOPPING)
		return SK_ALREADY_STOPPING;
	if (job->state == SK_PENDING) {
		SK_SET(core, job->reason, reason);
		sk_job_finish(act, slot, SK_CANCELLED, 0);
		return SK_REASON_NONE;
	}
	sk_job_move(act, slot, SK_STOPPING, reason, 0);
	sk_job_stop_tasks(act, slot, reason);
	return SK_REASON_NONE;
}

uint16_t sk_forget_do(const struct sk_act *act, const struct sk_forget *command, struct sk_why *why)
{
	uint32_t slot = sk_job_find(act->core, command->job);

	why->job = command->job;
	if (!slot)
		return SK_UNKNOWN_JOB;
	if (!sk_state_final(act->core->jobs[slot].state))
		return SK_NOT_ENDED;
	sk_job_forget(act, slot, SK_FORGET_REQUESTED);
	return SK_REASON_NONE;
}
