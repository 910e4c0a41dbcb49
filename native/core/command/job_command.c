/* SPDX-License-Identifier: Apache-2.0
 *
 * PLACE, OUTCOME, CANCEL and FORGET: the life of jobs as commands, behind their submit.
 */
#include <string.h>

#include "core/command/job_command.h"
#include "core/ledger/fair.h"
#include "core/ledger/fit.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/job_life.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/speed.h"
#include "core/ledger/task.h"
#include "core/policy/conditions.h"
#include "core/policy/feasible.h"
#include "core/state/journal.h"

uint16_t sk_place_task(const struct sk_act *act, uint32_t job, const struct sk_place *place,
		       struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t node = sk_node_find(core, place->node);
	uint16_t reason;

	if (!node)
		return SK_UNKNOWN_NODE;
	reason = sk_task_room(core, job, node, act->now_ns, why);
	if (!reason)
		reason = sk_task_shares_ok(core, &core->jobs[job], node, place, why);
	if (!reason)
		sk_task_take(core, job, node, place);
	return reason;
}

static void start_tell(const struct sk_act *act, const struct sk_place *place)
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

	sk_journal_note(core, &job->place_ns, SK_JOB_COURSE - offsetof(struct sk_job, place_ns));
	job->attempt = first->attempt;
	job->place_ns = act->now_ns;
	job->latency_ns = first->latency_ns;
	memcpy(job->observations, first->observations, sizeof job->observations);
	job->node = first->node;
	job->place_reason = first->reason;
	job->candidates = first->candidates;
	job->not_before_ns = 0;
	job->ready = 0;
	job->exit_code = 0; /* outcome of the attempt before */
	job->signal = 0;
	job->flags = 0;
	if (job->request.conditions[0].property)
		job->preferred = sk_conditions_preferred(core, job);
	SK_ADD(core, core->counters.placed, job->request.tasks);
	if (sk_pending_by_user(core, job->queue))
		sk_fair_started(core, slot);
	sk_job_move(act, slot, SK_STARTING, SK_PLACED, first->node);
	for (uint32_t i = 0; i < job->request.tasks; i++)
		start_tell(act, &first[i]);
}

static uint16_t place_ok(const struct sk_core *core, uint32_t slot, const struct sk_place *first,
			 struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];

	if (!slot)
		return SK_UNKNOWN_JOB;
	if (job->state != SK_PENDING)
		return SK_NOT_PENDING;
	if (first->attempt != job->attempt + 1)
		return sk_because(why, SK_WRONG_ATTEMPT, first->attempt, job->attempt);
	if (first->tasks != job->request.tasks)
		return sk_because(why, SK_BAD_TASKS, first->tasks, job->request.tasks);
	if (job->hold)
		return sk_because(why, SK_HELD, job->hold, 0);
	return SK_REASON_NONE;
}

/* All tasks are placed or none: the first ones are reverted if a later one does not fit. */
uint16_t sk_place_do(const struct sk_act *act, const struct sk_place *group, struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, group->job);
	uint16_t reason = place_ok(core, slot, group, why);
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

static uint16_t outcome_ok(const struct sk_core *core, uint32_t slot,
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
	if (command->task >= job->request.tasks)
		return sk_because(why, SK_BAD_TASKS, command->task, job->request.tasks);
	task = sk_task_find(core, slot, command->task);
	if (!task) /* it has ended, and the job may wait for its next attempt already */
		return job->attempt ? SK_DUPLICATE_OUTCOME : SK_WRONG_ATTEMPT;
	if (core->nodes[core->tasks[task].node].id != command->node)
		return SK_NOT_OWNER;
	if (!sk_state_final(command->state) && command->state != SK_STARTING &&
	    core->tasks[task].state == SK_RUNNING)
		return SK_DUPLICATE_OUTCOME; /* what runs has begun */
	/* A task that is alone waits for nobody. */
	if (command->state == SK_STARTING && (job->request.tasks == 1 || core->tasks[task].ready))
		return SK_DUPLICATE_OUTCOME;
	return SK_REASON_NONE;
}

/* The last task of a gang to become ready releases all of them, unless they are being stopped. A
 * task that runs was ready, whether that was heard or not. */
static void task_ready(const struct sk_act *act, uint32_t slot, uint32_t task)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];

	if (job->request.tasks == 1 || core->tasks[task].ready)
		return;
	SK_SET(core, core->tasks[task].ready, 1);
	SK_ADD(core, job->ready, 1);
	if (sk_job_released(job) && job->state == SK_STARTING)
		sk_job_release(act, slot);
}

static void task_running(const struct sk_act *act, uint32_t slot, const struct sk_outcome *command)
{
	struct sk_core *core = act->core;
	uint32_t task = sk_task_find(core, slot, command->task);

	task_ready(act, slot, task);
	SK_SET(core, core->tasks[task].state, SK_RUNNING);
	SK_SET(core, core->jobs[slot].unlaunched, 0);
	if (core->jobs[slot].state == SK_STARTING)
		sk_job_move(act, slot, SK_RUNNING, command->reason ? command->reason : SK_REPORTED,
			    command->node);
}

/* A job that was stopped keeps the reason for which it was stopped. */
static uint16_t outcome_reason(const struct sk_job *job, const struct sk_outcome *command)
{
	bool stopped = job->state == SK_STOPPING;

	if (command->state == SK_PENDING && stopped)
		return job->reason;
	if (command->state == SK_PENDING)
		return command->reason == SK_NOT_LAUNCHED ? SK_NOT_LAUNCHED : SK_NOT_BEGUN;
	if (command->reason)
		return command->reason;
	return stopped && command->state == SK_CANCELLED ? job->reason : SK_REPORTED;
}

/* A preempted job that ended by itself before it was stopped has ended. */
static bool ended_anyway(const struct sk_job *job, const struct sk_outcome *command)
{
	return command->state == SK_FAILED || command->state == SK_TIMEOUT ||
	       (command->state == SK_SUCCEEDED && job->request.tasks == 1);
}

/* A job of which a task was not begun waits again, unless it was stopped for good or too many
 * launches have failed. Other tasks of a gang may have run once it was released, so it fails. */
static uint8_t verdict_not_begun(const struct sk_job *job, const struct sk_outcome *command)
{
	bool ran = job->request.tasks > 1 && (sk_job_released(job) || job->state == SK_RUNNING);

	if (job->last)
		return SK_CANCELLED;
	if (command->reason != SK_NOT_LAUNCHED)
		return SK_PENDING;
	return ran || job->unlaunched + 1 >= SK_LAUNCHES_MAX ? SK_FAILED : SK_PENDING;
}

/* The first task that does not succeed decides how the job ends. */
static void job_judge(struct sk_core *core, struct sk_job *job, const struct sk_outcome *command)
{
	if (job->verdict == SK_PENDING ? !ended_anyway(job, command) : job->verdict)
		return;
	if (command->state == SK_SUCCEEDED && job->tasks_live)
		return;
	SK_SET(core, job->verdict,
	       command->state == SK_PENDING ? verdict_not_begun(job, command)
					    : (uint8_t)command->state);
	SK_SET(core, job->reason, outcome_reason(job, command));
	SK_SET(core, job->exit_code, command->exit_code);
	SK_SET(core, job->signal, command->signal);
	SK_SET(core, job->flags, command->header.flags & (SK_HAS_EXIT_CODE | SK_HAS_SIGNAL));
}

static void task_ended(const struct sk_act *act, uint32_t slot, const struct sk_outcome *command)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];
	uint32_t task = sk_task_find(core, slot, command->task);
	uint64_t spent = command->header.flags & SK_HAS_DEVICE_NS
				 ? command->device_ns
				 : sk_task_used_ns(&core->tasks[task], job, act->now_ns);

	SK_SET(core, job->spent_ns, sk_time_add(job->spent_ns, spent));
	sk_speed_measure(act, task, command);
	sk_task_give(core, task);
	job_judge(core, job, command);
	if (!job->tasks_live) {
		sk_job_end(act, slot, command->node);
	} else if (job->verdict && job->state != SK_STOPPING) {
		sk_job_move(act, slot, SK_STOPPING, job->reason, command->node);
		sk_job_stop_tasks(act, slot, SK_PEER_ENDED);
	}
}

uint16_t sk_outcome_do(const struct sk_act *act, const struct sk_outcome *command,
		       struct sk_why *why)
{
	uint32_t slot = sk_job_find(act->core, command->job);
	uint16_t reason = outcome_ok(act->core, slot, command, why);

	why->job = command->job;
	if (reason)
		return reason;
	if (command->state == SK_STARTING)
		task_ready(act, slot, sk_task_find(act->core, slot, command->task));
	else if (command->state == SK_RUNNING)
		task_running(act, slot, command);
	else
		task_ended(act, slot, command);
	return SK_REASON_NONE;
}

/* A job that is cancelled does not wait again, even if it was preempted or would be retried. */
static uint16_t cancel_stopping(const struct sk_act *act, uint32_t slot, uint16_t reason)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];

	if (!sk_job_returns(job))
		return SK_ALREADY_STOPPING;
	SK_SET(core, job->last, 1);
	if (job->verdict == SK_PENDING)
		SK_SET(core, job->verdict, SK_CANCELLED);
	else
		reason = job->reason;
	sk_job_move(act, slot, SK_STOPPING, reason, 0);
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
		return cancel_stopping(act, slot, reason);
	if (job->state == SK_PENDING) {
		SK_SET(core, job->reason, reason);
		sk_job_finish(act, slot, SK_CANCELLED, 0);
		return SK_REASON_NONE;
	}
	SK_SET(core, job->last, 1);
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

uint16_t sk_usage_do(const struct sk_act *act, const struct sk_usage *command, struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, command->job);
	struct sk_job *job = &core->jobs[slot];

	why->job = command->job;
	if (!slot)
		return SK_UNKNOWN_JOB;
	if (!job->tasks_live)
		return SK_NOT_RUNNING;
	if (command->attempt != job->attempt)
		return sk_because(why, SK_WRONG_ATTEMPT, command->attempt, job->attempt);
	if (command->device_ns <= job->charged_ns)
		return sk_because(why, SK_STALE_USAGE, command->device_ns, job->charged_ns);
	sk_queue_use(core, job->queue, command->device_ns - job->charged_ns, act->now_ns);
	SK_SET(core, job->charged_ns, command->device_ns);
	return SK_REASON_NONE;
}

static uint16_t give_up_ok(const struct sk_core *core, uint32_t slot,
			   const struct sk_give_up *command, struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];

	if (!slot)
		return SK_UNKNOWN_JOB;
	if (command->attempt != job->attempt)
		return sk_because(
			why, command->attempt < job->attempt ? SK_STALE_ATTEMPT : SK_WRONG_ATTEMPT,
			command->attempt, job->attempt);
	if (job->state == SK_STOPPING)
		return SK_ALREADY_STOPPING;
	if (!job->tasks_live)
		return SK_NOT_RUNNING;
	if (job->request.tasks == 1 || sk_job_released(job) || job->state != SK_STARTING)
		return sk_because(why, SK_ALREADY_RELEASED, job->request.tasks, job->ready);
	return SK_REASON_NONE;
}

uint16_t sk_give_up_do(const struct sk_act *act, const struct sk_give_up *command,
		       struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, command->job);
	uint16_t reason = give_up_ok(core, slot, command, why);

	why->job = command->job;
	if (reason)
		return reason;
	reason = command->reason ? command->reason : SK_NOT_READY;
	SK_SET(core, core->jobs[slot].verdict, SK_FAILED);
	sk_job_move(act, slot, SK_STOPPING, reason, 0);
	sk_job_stop_tasks(act, slot, SK_PEER_ENDED);
	return SK_REASON_NONE;
}

/* True if a node of the job takes no jobs. */
static bool on_node_down(const struct sk_core *core, const struct sk_job *job)
{
	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
		if (!core->nodes[core->tasks[at].node].up)
			return true;
	return false;
}

/* A job is only moved if it may run again and other nodes could run it; else it goes on. */
static uint16_t move_ok(const struct sk_core *core, const struct sk_job *job)
{
	if (!on_node_down(core, job))
		return SK_UNCHANGED;
	if (!job->request.retries && !(job->request.options & SK_PREEMPTIBLE))
		return SK_NOT_PREEMPTIBLE;
	return sk_feasible_hopeless(core, &job->request) ? SK_NO_NODE_FITS : SK_REASON_NONE;
}

static uint16_t preempt_ok(const struct sk_core *core, uint32_t slot,
			   const struct sk_preempt *command, uint64_t now_ns, struct sk_why *why)
{
	const struct sk_job *job = &core->jobs[slot];
	uint64_t ran = now_ns > job->place_ns ? now_ns - job->place_ns : 0;

	if (!slot)
		return SK_UNKNOWN_JOB;
	if (job->state == SK_STOPPING)
		return SK_ALREADY_STOPPING;
	if (!job->tasks_live)
		return SK_NOT_RUNNING;
	if (command->attempt != job->attempt)
		return sk_because(why, SK_WRONG_ATTEMPT, command->attempt, job->attempt);
	if (command->header.flags & SK_PREEMPT_MOVE)
		return move_ok(core, job);
	if (!(job->request.options & SK_PREEMPTIBLE))
		return SK_NOT_PREEMPTIBLE;
	if (ran < job->request.min_run_s * (uint64_t)1000000000)
		return sk_because(why, SK_RUNS_TOO_SHORT, ran, job->request.min_run_s);
	return SK_REASON_NONE;
}

uint16_t sk_preempt_do(const struct sk_act *act, const struct sk_preempt *command,
		       struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, command->job);
	uint16_t reason = preempt_ok(core, slot, command, act->now_ns, why);

	why->job = command->job;
	if (reason)
		return reason;
	reason = command->header.flags & SK_PREEMPT_MOVE ? SK_MOVED : SK_PREEMPTED;
	reason = command->reason ? command->reason : reason;
	SK_SET(core, core->jobs[slot].verdict, SK_PENDING);
	sk_job_move(act, slot, SK_STOPPING, reason, 0);
	sk_job_stop_tasks(act, slot, reason);
	return SK_REASON_NONE;
}

uint16_t sk_core_move_refusal(const struct sk_core *core, uint64_t job)
{
	uint32_t slot = sk_job_find(core, job);
	struct sk_preempt move = {.header.flags = SK_PREEMPT_MOVE,
				  .job = job,
				  .attempt = slot ? core->jobs[slot].attempt : 0};
	struct sk_why why = {0};

	return preempt_ok(core, slot, &move, core->now_ns, &why);
}
