/* SPDX-License-Identifier: Apache-2.0
 *
 * The leader's half: try the requests on the state, place what waits, write down what to commit,
 * and take everything back. Order: all requests first, then the queues by rank; the first job that
 * does not fit blocks every job behind it in its own queue (devices, or none), so nothing
 * overtakes a job that waits for the same kind of thing, be it for a node that is down.
 */
#include <errno.h>
#include <string.h>

#include "core/batch.h"
#include "core/command.h"
#include "core/hold.h"
#include "core/journal.h"
#include "core/key.h"
#include "core/memory.h"
#include "core/policy.h"
#include "core/queue.h"

#define SK_DOOMED_AT_ONCE 64u

struct sk_trial {
	struct sk_act act;
	struct sk_proposal *out;
	uint64_t seed;
	uint32_t places;
	bool blocked[SK_QUEUES_LIMIT_MAX + 3][SK_QUEUE_KINDS];
};

static void sk_reject(struct sk_trial *trial, uint32_t request, const struct sk_header *header,
		      uint16_t reason, const struct sk_why *why)
{
	struct sk_rejected *at = &trial->out->rejected[trial->out->rejected_count++];

	at->request = request;
	at->kind = header->kind;
	at->reason = reason;
	at->job = why->job;
	at->asked = why->asked;
	at->have = why->have;
}

static void sk_emit(struct sk_trial *trial, const void *record, size_t size)
{
	memcpy(trial->out->commands + trial->out->commands_size, record, size);
	trial->out->commands_size += size;
}

/* What propose asks beyond apply: that a job could ever run. A repeated key comes first. */
static uint16_t sk_trial_allows(const struct sk_trial *trial, const union sk_record *record,
				struct sk_why *why)
{
	const struct sk_core *core = trial->act.core;
	const struct sk_submit *submit = (const void *)record;
	uint64_t journal = sk_command_journal_max(core, &record->header);

	*why = (struct sk_why){0};
	if (!sk_journal_room(core, journal))
		return SK_BATCH_FULL;
	if (record->header.kind != SK_SUBMIT || sk_key_find(core, submit->client, submit->key))
		return SK_REASON_NONE;
	if (sk_submit_ok(submit, why))
		return SK_REASON_NONE; /* the command itself says so */
	return sk_policy_feasible(core, submit, why);
}

static bool sk_bound_reached(const struct sk_trial *trial, uint64_t tasks)
{
	uint64_t task = SK_JOURNAL_TASK + SK_JOURNAL_SHARE * SK_TASK_DEVICES_MAX;

	return trial->places + tasks > SK_BATCH_PLACES_MAX ||
	       !sk_journal_room(trial->act.core, tasks * task);
}

/* A placement from outside, for a job that leaves it to outside. */
static void sk_try_prefer(struct sk_trial *trial, uint32_t request, union sk_record *record)
{
	struct sk_core *core = trial->act.core;
	struct sk_place *places = record->places;
	uint32_t slot = sk_job_find(core, places[0].job), tasks = places[0].tasks;
	uint64_t mark = sk_journal_mark(core);
	struct sk_why why = {.job = places[0].job};
	uint16_t reason = SK_REASON_NONE;

	if (slot && sk_policy_placement(core, &core->jobs[slot]) != SK_PLACEMENT_CUSTOM)
		reason = SK_NOT_CUSTOM;
	if (!reason && sk_bound_reached(trial, tasks))
		reason = SK_BATCH_FULL;
	for (uint32_t i = 0; i < tasks; i++) {
		places[i].header.kind = SK_PLACE;
		places[i].header.term = core->term;
		places[i].reason = SK_AS_PREFERRED;
	}
	if (!reason)
		reason = sk_command_do(&trial->act, &record->header, &why);
	if (reason) {
		sk_journal_undo(core, mark);
		record->header.kind = SK_PREFER;
		sk_reject(trial, request, &record->header, reason, &why);
		return;
	}
	sk_emit(trial, places, tasks * sizeof places[0]);
	trial->places += tasks;
}

static void sk_try_request(struct sk_trial *trial, uint32_t request, union sk_record *record)
{
	struct sk_why why;
	uint16_t reason = sk_trial_allows(trial, record, &why);
	uint64_t mark = sk_journal_mark(trial->act.core);

	if (record->header.kind == SK_PREFER) {
		sk_try_prefer(trial, request, record);
		return;
	}
	if (record->header.kind != SK_TERM)
		record->header.term = trial->act.core->term;
	if (reason == SK_REASON_NONE)
		reason = sk_command_do(&trial->act, &record->header, &why);
	if (reason) {
		sk_journal_undo(trial->act.core, mark);
		sk_reject(trial, request, &record->header, reason, &why);
	} else {
		sk_emit(trial, record, record->header.size);
	}
}

static void sk_place_fill(const struct sk_trial *trial, uint32_t slot, uint32_t task,
			  struct sk_place *place)
{
	const struct sk_job *job = &trial->act.core->jobs[slot];

	memset(place, 0, sizeof *place);
	place->header.size = sizeof *place;
	place->header.kind = SK_PLACE;
	place->header.term = trial->act.core->term;
	place->job = job->id;
	place->attempt = job->attempt + 1;
	place->task = (uint16_t)task;
	place->tasks = job->ask.tasks;
}

/* All tasks of the job at once, or none. */
static bool sk_try_place(struct sk_trial *trial, uint32_t slot)
{
	struct sk_core *core = trial->act.core;
	uint64_t mark = sk_journal_mark(core);
	struct sk_place places[SK_TASKS_MAX];
	uint32_t tasks = core->jobs[slot].ask.tasks;
	struct sk_why why;

	for (uint32_t task = 0; task < tasks; task++) {
		sk_place_fill(trial, slot, task, &places[task]);
		if (!sk_policy_choose(core, slot, trial->act.now_ns, trial->seed, &places[task]) ||
		    sk_place_task(&trial->act, slot, &places[task], &why)) {
			sk_journal_undo(core, mark);
			return false;
		}
	}
	sk_place_finish(&trial->act, slot, places);
	sk_emit(trial, places, tasks * sizeof places[0]);
	trial->places += tasks;
	return true;
}

static bool sk_outranks(const struct sk_core *core, uint32_t a, uint32_t b)
{
	if (core->jobs[a].ask.priority != core->jobs[b].ask.priority)
		return core->jobs[a].ask.priority > core->jobs[b].ask.priority;
	return core->jobs[a].id < core->jobs[b].id;
}

/* The next job in rank among the queues that are not blocked, or 0. */
static uint32_t sk_next_in_rank(const struct sk_trial *trial)
{
	const struct sk_core *core = trial->act.core;
	uint32_t best = 0;

	for (uint32_t queue = sk_queue_at(core, SK_QUEUE_DEFAULT); queue;
	     queue = sk_queue_at(core, queue + 1))
		for (int kind = 0; kind < SK_QUEUE_KINDS; kind++) {
			uint32_t head =
				trial->blocked[queue][kind]
					? 0
					: sk_pending_first(core, queue, (enum sk_queue_kind)kind);

			if (head && (!best || sk_outranks(core, head, best)))
				best = head;
		}
	return best;
}

/* Those that wait for a job which ended badly can never start. */
static void sk_cancel_doomed(struct sk_trial *trial)
{
	struct sk_core *core = trial->act.core;

	for (uint32_t i = 0; i < SK_DOOMED_AT_ONCE && core->doomed.first; i++) {
		struct sk_cancel cancel = {
			.header = {sizeof cancel, SK_CANCEL, 0, core->term},
			.job = core->jobs[core->doomed.first].id,
			.reason = SK_AFTER_FAILED,
		};
		struct sk_why why;

		if (!sk_journal_room(core, sk_command_journal_max(core, &cancel.header)) ||
		    sk_command_do(&trial->act, &cancel.header, &why)) {
			trial->out->more = true;
			return;
		}
		sk_emit(trial, &cancel, sizeof cancel);
	}
	trial->out->more |= core->doomed.first != 0;
}

static void sk_place_waiting(struct sk_trial *trial)
{
	uint32_t slot;

	while ((slot = sk_next_in_rank(trial))) {
		const struct sk_job *job = &trial->act.core->jobs[slot];

		if (sk_bound_reached(trial, job->ask.tasks)) {
			trial->out->more = true;
			return;
		}
		if (!sk_try_place(trial, slot))
			trial->blocked[job->queue][sk_queue_kind(job)] = true;
	}
}

int sk_core_propose(struct sk_core *core, const void *requests, size_t size, uint64_t now_ns,
		    uint64_t seed, struct sk_proposal *proposal)
{
	struct sk_trial trial = {
		.act = {.core = core, .now_ns = now_ns}, .out = proposal, .seed = seed};
	union sk_record record;
	uint32_t count;
	int error = sk_batch_check(requests, size, true, &count);

	if (error)
		return error;
	if (count > SK_BATCH_REQUESTS_MAX)
		return -E2BIG;
	if (proposal->rejected_capacity < count ||
	    proposal->commands_capacity < size + SK_DECISIONS_BYTES_MAX)
		return -ENOBUFS;
	proposal->commands_size = 0;
	proposal->rejected_count = 0;
	proposal->more = false;
	sk_journal_begin(core);
	sk_hold_promote(core, now_ns);
	for (size_t at = 0, request = 0; at < size; request++) {
		at += sk_batch_read((const uint8_t *)requests + at, &record);
		sk_try_request(&trial, (uint32_t)request, &record);
	}
	sk_cancel_doomed(&trial);
	sk_place_waiting(&trial);
	proposal->more |= core->journal.cut;
	sk_journal_end(core, false);
	return 0;
}

void sk_core_stamp(void *commands, size_t size, uint64_t latency_ns)
{
	uint8_t *bytes = commands;
	struct sk_header header;

	for (size_t at = 0; at + sizeof header <= size; at += header.size) {
		memcpy(&header, bytes + at, sizeof header);
		if (header.kind == SK_PLACE)
			memcpy(bytes + at + offsetof(struct sk_place, latency_ns), &latency_ns,
			       sizeof latency_ns);
		if (!header.size)
			return;
	}
}
