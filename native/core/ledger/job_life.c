/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a job. Every change of state is one effect.
 */
#include <string.h>

#include "core/ledger/fair.h"
#include "core/ledger/fit.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/job_life.h"
#include "core/ledger/queue.h"
#include "core/state/journal.h"
#include "core/state/list.h"
#include "core/state/pool.h"
#include "core/state/table.h"

static void job_tell(const struct sk_act *act, const struct sk_job *job, uint64_t node)
{
	struct sk_effect *effect = sk_effect_add(act, SK_EFFECT_STATE, job->id);

	if (!effect)
		return;
	effect->state = job->state;
	effect->reason = job->reason;
	effect->attempt = job->attempt;
	effect->node = node;
	effect->exit_code = job->exit_code;
	effect->signal = job->signal;
	effect->flags = job->flags;
	effect->tasks = job->request.tasks;
}

/* `to` is zero. Conditions behind the first one that says nothing need not be filled. */
static void request_copy(struct sk_request *to, const struct sk_request *from)
{
	memcpy(to, from, offsetof(struct sk_request, conditions));
	if (from->conditions[0].property)
		memcpy(to->conditions, from->conditions, sizeof to->conditions);
	memcpy(to->after, from->after, sizeof to->after);
}

static void job_fill(const struct sk_core *core, struct sk_job *job, const struct sk_submit *submit)
{
	job->client = submit->client;
	job->spec_hash = submit->spec_hash;
	job->uid = submit->uid;
	job->tenant = submit->tenant;
	request_copy(&job->request, &submit->request);
	job->queue = sk_queue_find(core, submit->request.queue);
	job->wish = sk_wish_of(core, &submit->request);
}

/* Let a new job wait for others, or queue it at once. */
static void job_enter(struct sk_core *core, uint32_t slot)
{
	if (!core->jobs[slot].request.after[0] || !sk_hold_after(core, slot))
		sk_pending_append(core, slot);
}

void sk_job_numbers(struct sk_core *core, uint64_t count)
{
	SK_ADD(core, core->next_job, count);
	SK_ADD(core, core->counters.submitted, count);
}

/* The last live job with a smaller number, or 0: the one right before it as a rule, where an array
 * goes on. */
static uint32_t live_before(const struct sk_core *core, uint64_t id)
{
	uint32_t at = sk_job_find(core, id - 1);

	if (at && !sk_state_final(core->jobs[at].state))
		return at;
	at = core->live.last;
	while (at && core->jobs[at].id > id)
		at = core->jobs[at].order.prev;
	return at;
}

uint32_t sk_job_create(const struct sk_act *act, const struct sk_submit *submit, uint64_t number)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_pool_take(core, &core->job_pool, SK_CHAIN(core->jobs, free_next));
	struct sk_job *job = &core->jobs[slot];

	job_fill(core, job, submit);
	job->id = number;
	job->submit_ns = act->now_ns;
	job->state = SK_PENDING;
	job->reason = SK_SUBMITTED;
	SK_ADD(core, core->live_count, 1);
	sk_table_insert(core, &core->job_table, SK_CHAIN(core->jobs, hash_next), sk_mix(job->id),
			slot);
	sk_list_insert(core, &core->live, SK_CHAIN(core->jobs, order), live_before(core, number),
		       slot);
	SK_ADD(core, core->queues[job->queue].live, 1);
	if (sk_pending_by_user(core, job->queue))
		sk_account_open(core, slot);
	job_enter(core, slot);
	job_tell(act, job, 0);
	return slot;
}

void sk_job_move(const struct sk_act *act, uint32_t slot, enum sk_state state, uint16_t reason,
		 uint64_t node)
{
	struct sk_job *job = &act->core->jobs[slot];

	if (job->state == SK_PENDING)
		sk_hold_end(act->core, slot);
	SK_SET(act->core, job->state, (uint8_t)state);
	SK_SET(act->core, job->reason, reason);
	job_tell(act, job, node);
}

void sk_job_finish(const struct sk_act *act, uint32_t slot, enum sk_state state, uint64_t node)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];

	if (job->state == SK_PENDING)
		sk_hold_end(core, slot);
	SK_SET(core, job->state, (uint8_t)state);
	SK_SET(core, job->end_ns, act->now_ns);
	SK_ADD(core, core->counters.ended[state], 1);
	sk_list_remove(core, &core->live, SK_CHAIN(core->jobs, order), slot);
	SK_ADD(core, core->live_count, -1u);
	sk_list_append(core, &core->finished, SK_CHAIN(core->jobs, order), slot);
	SK_ADD(core, core->finished_count, 1);
	SK_ADD(core, core->queues[job->queue].live, -1ull);
	if (sk_pending_by_user(core, job->queue))
		sk_account_close(core, slot);
	SK_SET(core, job->queue, 0); /* the queue may be dropped and its slot reused */
	sk_hold_release(core, slot);
	job_tell(act, job, node);
	if (core->finished_count > core->limits.finished)
		sk_job_forget(act, core->finished.first, SK_RETENTION);
}

void sk_job_account(const struct sk_act *act, uint32_t slot)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];
	uint64_t spent = job->spent_ns > job->charged_ns ? job->spent_ns : job->charged_ns;

	if (spent > job->charged_ns)
		sk_queue_use(core, job->queue, spent - job->charged_ns, act->now_ns);
	SK_SET(core, job->attained_ns, sk_time_add(job->attained_ns, spent));
	SK_SET(core, job->spent_ns, 0);
	SK_SET(core, job->charged_ns, 0);
}

/* The pause doubles from the base with each failure and each launch that failed in a row, plus up
 * to a tenth by a random part of its own, and is five minutes at most. At that limit the random
 * part takes up to a tenth off instead, so that jobs which failed together never all come back
 * together. */
static uint64_t job_pause(const struct sk_job *job)
{
	uint64_t failed = job->retried - job->preemptions + job->unlaunched;
	uint64_t base = job->request.backoff_s ? job->request.backoff_s : 1;
	uint64_t pause = failed < 16 ? base << failed : SK_BACKOFF_MAX_S;
	uint64_t chance = sk_mix(job->id ^ sk_mix(job->attempt)) % 1001;

	if (pause * 11 > SK_BACKOFF_MAX_S * 10)
		return SK_BACKOFF_MAX_S * 100000ull * (10000 - chance);
	return pause * 100000 * (10000 + chance);
}

/* Count an attempt. One that did not fail is counted only while the failures to come can be counted
 * as well. */
static void job_count_again(struct sk_job *job, bool failed)
{
	if (!failed && job->retried >= UINT16_MAX - SK_RETRIES_MAX)
		return;
	job->retried++;
	job->preemptions = (uint16_t)(job->preemptions + !failed);
}

void sk_job_again(const struct sk_act *act, uint32_t slot, uint64_t node)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];
	bool failed = job->verdict != SK_PENDING;
	bool unlaunched = !failed && job->reason == SK_NOT_LAUNCHED;
	bool pause = failed || unlaunched || job->reason == SK_NOT_BEGUN;

	sk_journal_note(core, job, SK_JOB_COURSE);
	job->not_before_ns = pause ? sk_time_add(act->now_ns, job_pause(job)) : 0;
	job->unlaunched = failed ? 0 : job->unlaunched + unlaunched;
	job_count_again(job, failed);
	job->state = SK_PENDING;
	job->verdict = 0;
	if (failed)
		job->reason = SK_RETRIED;
	if (failed)
		SK_ADD(core, core->counters.retried, 1);
	else if (!pause)
		SK_ADD(core, core->counters.preempted, 1);
	if (pause)
		sk_hold_time(core, slot);
	else
		sk_pending_append(core, slot);
	job_tell(act, job, node);
}

void sk_job_end(const struct sk_act *act, uint32_t slot, uint64_t node)
{
	const struct sk_job *job = &act->core->jobs[slot];

	sk_job_account(act, slot);
	if (sk_job_returns(job))
		sk_job_again(act, slot, node);
	else
		sk_job_finish(act, slot, job->verdict, node);
}

void sk_job_forget(const struct sk_act *act, uint32_t slot, uint16_t reason)
{
	struct sk_core *core = act->core;
	const struct sk_job *job = &core->jobs[slot];
	struct sk_effect *effect = sk_effect_add(act, SK_EFFECT_FORGET, job->id);

	if (effect) {
		effect->reason = reason;
		effect->node = job->node;
		effect->attempt = job->attempt;
	}
	sk_list_remove(core, &core->finished, SK_CHAIN(core->jobs, order), slot);
	SK_ADD(core, core->finished_count, -1u);
	SK_ADD(core, core->counters.forgotten, 1);
	sk_table_remove(core, &core->job_table, SK_CHAIN(core->jobs, hash_next), sk_mix(job->id),
			slot);
	sk_pool_give(core, &core->job_pool, SK_CHAIN(core->jobs, free_next), slot);
}

void sk_job_stop_tasks(const struct sk_act *act, uint32_t slot, uint16_t reason)
{
	const struct sk_core *core = act->core;
	const struct sk_job *job = &core->jobs[slot];

	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next) {
		struct sk_effect *effect = sk_effect_add(act, SK_EFFECT_STOP, job->id);

		if (!effect)
			return;
		effect->state = SK_CANCELLED;
		effect->reason = reason;
		effect->attempt = job->attempt;
		effect->task = core->tasks[at].task;
		effect->tasks = job->request.tasks;
		effect->node = core->nodes[core->tasks[at].node].id;
	}
}

void sk_job_release(const struct sk_act *act, uint32_t slot)
{
	const struct sk_core *core = act->core;
	const struct sk_job *job = &core->jobs[slot];

	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next) {
		struct sk_effect *effect = sk_effect_add(act, SK_EFFECT_RELEASE, job->id);

		if (!effect)
			return;
		effect->state = SK_STARTING;
		effect->attempt = job->attempt;
		effect->task = core->tasks[at].task;
		effect->tasks = job->request.tasks;
		effect->node = core->nodes[core->tasks[at].node].id;
	}
}
