/* SPDX-License-Identifier: Apache-2.0
 *
 * SUBMIT and SUBMIT_ARRAY: the beginning of jobs as commands, and RANGE_END: the end of what some
 * of them wait for. Numbers that an array keeps get their jobs later.
 */
#include "core/command/submit_command.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/job_life.h"
#include "core/ledger/key.h"
#include "core/ledger/queue.h"
#include "core/ledger/traits.h"
#include "core/policy/conditions.h"
#include "core/policy/workload.h"

static uint16_t options_ok(const struct sk_request *request, struct sk_why *why)
{
	uint32_t options = request->options;
	bool apart = options & SK_SPREAD_TASKS && options & SK_PACK_TASKS;
	bool torn = options & SK_ATTRACT && options & SK_REPEL;

	if (options & ~SK_OPTIONS || apart || torn)
		return sk_because(why, SK_BAD_OPTIONS, options, SK_OPTIONS);
	if (options & (SK_ATTRACT | SK_REPEL) && !request->group)
		return sk_because(why, SK_BAD_OPTIONS, options, 0);
	if (!request->kinds || request->kinds & ~SK_DEVICE_KINDS)
		return sk_because(why, SK_BAD_DEVICE_KIND, request->kinds, 0);
	if (request->placement >= SK_PLACEMENT_END)
		return sk_because(why, SK_BAD_PLACEMENT, request->placement, SK_PLACEMENT_END - 1);
	if (request->conditions[0].property && sk_conditions_bad(request))
		return sk_because(why, SK_BAD_CONDITION, sk_conditions_bad(request), 0);
	if (request->retries > SK_RETRIES_MAX)
		return sk_because(why, SK_BAD_RETRIES, request->retries, SK_RETRIES_MAX);
	if (request->backoff_s > SK_BACKOFF_MAX_S)
		return sk_because(why, SK_BAD_RETRIES, request->backoff_s, SK_BACKOFF_MAX_S);
	return SK_REASON_NONE;
}

uint16_t sk_submit_ok(const struct sk_submit *submit, struct sk_why *why)
{
	uint32_t gpu = submit->request.gpu_milli;

	if (submit->request.priority < SK_PRIORITY_MIN ||
	    submit->request.priority > SK_PRIORITY_MAX)
		return SK_BAD_PRIORITY;
	if (gpu > SK_MILLI && gpu % SK_MILLI)
		return sk_because(why, SK_BAD_GPU_MILLI, gpu, 0);
	if (gpu > SK_MILLI * SK_TASK_DEVICES_MAX)
		return sk_because(why, SK_TOO_MANY_DEVICES, gpu / SK_MILLI, SK_TASK_DEVICES_MAX);
	if (!submit->request.tasks || submit->request.tasks > SK_TASKS_MAX)
		return sk_because(why, SK_BAD_TASKS, submit->request.tasks, SK_TASKS_MAX);
	if (submit->request.per_node && submit->request.tasks % submit->request.per_node)
		return sk_because(why, SK_BAD_TASKS, submit->request.tasks,
				  submit->request.per_node);
	return options_ok(&submit->request, why);
}

/* A job that ended otherwise than wanted is refused, so that nothing waits for what cannot come.
 * Whoever counts a range knows that of it, and the core does not. */
static uint16_t after_ok(const struct sk_core *core, const struct sk_request *request, uint32_t n,
			 struct sk_why *why)
{
	uint32_t slot = sk_job_find(core, request->after[n]);
	const struct sk_job *before = &core->jobs[slot];

	for (uint32_t other = 0; other < n; other++)
		if (request->after[other] == request->after[n])
			return SK_BAD_AFTER;
	if (request->after[n] & SK_AFTER_RANGE)
		return SK_REASON_NONE;
	if (!slot || (sk_state_final(before->state) && !sk_after_met(request, n, before->state)))
		return SK_BAD_AFTER;
	if (before->afters_n == SK_AFTERS_MAX)
		return sk_because(why, SK_AFTERS_FULL, 1, SK_AFTERS_MAX);
	return SK_REASON_NONE;
}

static uint16_t afters_ok(const struct sk_core *core, const struct sk_request *request,
			  struct sk_why *why)
{
	for (uint32_t n = 0; n < SK_JOB_AFTERS_MAX && request->after[n]; n++) {
		uint16_t reason = after_ok(core, request, n, why);

		why->job = reason ? request->after[n] : 0;
		if (reason)
			return reason;
	}
	return SK_REASON_NONE;
}

/* Returns SK_REASON_NONE, or why a queue, model or job that the request names is unusable. */
static uint16_t names_ok(const struct sk_core *core, const struct sk_request *request,
			 struct sk_why *why)
{
	uint32_t queue = sk_queue_find(core, request->queue);

	if (!queue)
		return sk_because(why, SK_UNKNOWN_QUEUE, request->queue, 0);
	if (core->queues[queue].children)
		return sk_because(why, SK_QUEUE_NOT_LEAF, request->queue,
				  core->queues[queue].children);
	for (uint32_t i = 0; i < SK_JOB_MODELS_MAX && request->models[i]; i++)
		if (!sk_model_find(core, request->models[i]))
			return sk_because(why, SK_NO_NODE_HAS_MODEL, request->models[i], 0);
	return afters_ok(core, request, why);
}

/* Returns SK_REASON_NONE, or why `count` jobs that ask this are not taken. */
static uint16_t jobs_ok(const struct sk_core *core, const struct sk_submit *command, uint32_t count,
			struct sk_why *why)
{
	uint32_t key = sk_key_find(core, command->client, command->key);
	uint16_t reason;

	if (key) {
		why->job = core->keys[key].job;
		return core->keys[key].spec_hash == command->spec_hash ? SK_DUPLICATE
								       : SK_KEY_REUSED;
	}
	reason = sk_submit_ok(command, why);
	if (!reason)
		reason = names_ok(core, &command->request, why);
	if (reason)
		return reason;
	if (count > core->limits.jobs - core->live_count)
		return sk_because(why, SK_JOBS_FULL, count, core->limits.jobs);
	return SK_REASON_NONE;
}

static void job_make(const struct sk_act *act, const struct sk_submit *command, uint64_t number)
{
	uint32_t slot = sk_job_create(act, command, number);

	if (!act->core->journal.on)
		sk_workload_count(act->core, &act->core->jobs[slot]);
}

uint16_t sk_submit_do(const struct sk_act *act, const struct sk_submit *command, struct sk_why *why)
{
	uint64_t number = act->core->next_job;
	uint16_t reason = jobs_ok(act->core, command, 1, why);

	if (reason)
		return reason;
	sk_job_numbers(act->core, 1);
	job_make(act, command, number);
	why->job = number;
	sk_key_add(act->core, command, number, act->now_ns);
	return SK_REASON_NONE;
}

/* Returns SK_REASON_NONE, or why jobs of kept numbers cannot be made: a number was never given out,
 * or has its job. A job that was forgotten is not known here, so whoever asks keeps count. */
static uint16_t numbers_ok(const struct sk_core *core, const struct sk_submit_array *command,
			   struct sk_why *why)
{
	if (command->first >= core->next_job || command->jobs > core->next_job - command->first) {
		why->job = command->first;
		return SK_UNKNOWN_JOB;
	}
	for (uint32_t n = 0; n < command->jobs; n++) {
		if (!sk_job_find(core, command->first + n))
			continue;
		why->job = command->first + n;
		return SK_NOT_PENDING;
	}
	return SK_REASON_NONE;
}

uint16_t sk_submit_array_do(const struct sk_act *act, const struct sk_submit_array *command,
			    struct sk_why *why)
{
	const struct sk_submit *each = (const void *)command;
	uint64_t first = command->first ? command->first : act->core->next_job;
	uint16_t reason = jobs_ok(act->core, each, command->jobs, why);

	if (!reason && command->first)
		reason = numbers_ok(act->core, command, why);
	if (reason)
		return reason;
	if (!command->first)
		sk_job_numbers(act->core, (uint64_t)command->jobs + command->behind);
	for (uint32_t n = 0; n < command->jobs; n++)
		job_make(act, each, first + n);
	why->job = first;
	sk_key_add(act->core, each, first, act->now_ns);
	return SK_REASON_NONE;
}

/* The place of a range in the list of jobs that this one follows and waits for; SK_JOB_AFTERS_MAX
 * if it waits for no such range. */
static uint32_t range_place(const struct sk_job *job, uint64_t after)
{
	uint32_t n = 0;

	while (n < SK_JOB_AFTERS_MAX && !(job->waits >> n & 1 && job->request.after[n] == after))
		n++;
	return n;
}

uint16_t sk_range_end_do(const struct sk_act *act, const struct sk_range_end *command,
			 struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_job_find(core, command->job);
	uint32_t n = range_place(&core->jobs[slot], command->after);

	why->job = command->job;
	if (!slot)
		return SK_UNKNOWN_JOB;
	if (n == SK_JOB_AFTERS_MAX || !(command->after & SK_AFTER_RANGE))
		return SK_NOT_PENDING;
	sk_hold_range_end(core, slot, n, !(command->header.flags & SK_RANGE_UNMET));
	return SK_REASON_NONE;
}
