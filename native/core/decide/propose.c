/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the core that the leader alone runs: the requests are carried out on trial, waiting
 * jobs are placed, the commands to commit are written, and everything is reverted. The requests
 * come first, then the waiting jobs as order.h sorts them, then those that may start behind a
 * blocked one. The order of a queue decides whether a job that does not fit holds up those behind
 * it. Jobs with and without devices never wait for each other.
 */
#include <errno.h>
#include <string.h>

#include "core/command/batch.h"
#include "core/command/command.h"
#include "core/command/submit_command.h"
#include "core/decide/backfill.h"
#include "core/decide/order.h"
#include "core/decide/preempt.h"
#include "core/decide/trial.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/key.h"
#include "core/policy/feasible.h"
#include "core/policy/policy.h"
#include "core/state/journal.h"

#define SK_DOOMED_AT_ONCE 64u
#define SK_PREEMPT_TRIES_MAX 4u /* jobs of one queue and kind for which room is sought */

static void reject(struct sk_trial *trial, uint32_t request, const struct sk_header *header,
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

/* Check what propose requires beyond apply: that the job could run at all. A repeated key is
 * checked first. */
static uint16_t trial_allows(const struct sk_trial *trial, const union sk_command_record *record,
			     struct sk_why *why)
{
	const struct sk_core *core = trial->act.core;
	const struct sk_submit *submit = (const void *)record;
	bool array = record->header.kind == SK_SUBMIT_ARRAY;
	uint64_t journal = sk_command_journal_max(core, &record->header);

	*why = (struct sk_why){0};
	if (!sk_journal_room(core, journal))
		return SK_BATCH_FULL;
	if ((!array && record->header.kind != SK_SUBMIT) ||
	    sk_key_find(core, submit->client, submit->key))
		return SK_REASON_NONE; /* an array's command begins like a submit */
	if (array && record->array.first)
		return SK_REASON_NONE; /* taken before; it may have to wait for a node to return */
	if (sk_submit_ok(submit, why))
		return SK_REASON_NONE; /* the command itself gives the reason */
	return sk_feasible_reason(core, &submit->request, why);
}

/* Try a placement chosen outside, for a job that leaves the choice to the outside. */
static void try_prefer(struct sk_trial *trial, uint32_t request, union sk_command_record *record)
{
	struct sk_core *core = trial->act.core;
	struct sk_place *places = record->places;
	uint32_t slot = sk_job_find(core, places[0].job), tasks = places[0].tasks;
	uint64_t mark = sk_journal_mark(core);
	struct sk_why why = {.job = places[0].job};
	uint16_t reason = SK_REASON_NONE;

	if (slot && sk_policy_placement(core, &core->jobs[slot]) != SK_PLACEMENT_CUSTOM)
		reason = SK_NOT_CUSTOM;
	if (!reason && !sk_trial_room(trial, tasks))
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
		reject(trial, request, &record->header, reason, &why);
		return;
	}
	sk_trial_emit(trial, places, tasks * sizeof places[0]);
	trial->places += tasks;
}

static void try_request(struct sk_trial *trial, uint32_t request, union sk_command_record *record)
{
	struct sk_why why;
	uint16_t reason = trial_allows(trial, record, &why);
	uint64_t mark = sk_journal_mark(trial->act.core);

	if (record->header.kind == SK_PREFER) {
		try_prefer(trial, request, record);
		return;
	}
	if (record->header.kind != SK_TERM)
		record->header.term = trial->act.core->term;
	if (reason == SK_REASON_NONE)
		reason = sk_command_do(&trial->act, &record->header, &why);
	if (reason) {
		sk_journal_undo(trial->act.core, mark);
		reject(trial, request, &record->header, reason, &why);
	} else {
		sk_trial_emit(trial, record, record->header.size);
	}
}

/* Cancel jobs that can never start, because one that they follow ended otherwise than wanted. */
static void cancel_doomed(struct sk_trial *trial)
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
		sk_trial_emit(trial, &cancel, sizeof cancel);
	}
	trial->out->more |= core->doomed.first != 0;
}

/* Go on after a job that does not fit: room may be made for it, and the order of the queue decides
 * about those behind it. */
static void pass_over(struct sk_trial *trial, struct sk_line *line, uint32_t next)
{
	bool blocks = sk_line_blocks(trial->act.core, line->job);

	sk_line_tried(trial->act.core, line->job);
	if (line->tries++ < SK_PREEMPT_TRIES_MAX)
		sk_preempt_for(trial, line->job);
	line->last = line->job;
	if (blocks)
		line->head = line->job;
	line->job = blocks || line->tries == SK_LINE_TRIES_MAX ? 0 : next;
}

static void place_behind(struct sk_trial *trial, const struct sk_waiting_queues *waiting)
{
	for (uint32_t i = 0; i < waiting->count; i++)
		for (int kind = 0; kind < SK_QUEUE_KINDS; kind++) {
			const struct sk_line *line = &waiting->at[i].line[kind];

			if (line->head || line->tries == SK_LINE_TRIES_MAX)
				sk_backfill(trial, line);
		}
}

static void place_waiting(struct sk_trial *trial)
{
	struct sk_core *core = trial->act.core;
	struct sk_place places[SK_TASKS_MAX];
	struct sk_waiting_queues waiting;
	struct sk_line *line;
	uint32_t slot;

	sk_order_begin(core, &waiting);
	while ((slot = sk_order_next(core, &waiting, trial->act.now_ns, &line))) {
		uint32_t next = sk_line_settle(core, sk_pending_next(core, slot));

		if (!sk_trial_room(trial, core->jobs[slot].request.tasks)) {
			trial->out->more = true;
			return;
		}
		if (sk_trial_take(trial, slot, trial->act.now_ns, places)) {
			sk_trial_start(trial, slot, places);
			line->job = next;
			if (sk_pending_by_user(core, core->jobs[slot].queue))
				sk_line_started(core, line, slot);
		} else {
			pass_over(trial, line, next);
		}
	}
	place_behind(trial, &waiting);
}

int sk_core_propose(struct sk_core *core, const void *requests, size_t size, uint64_t now_ns,
		    uint64_t seed, struct sk_proposal *proposal)
{
	struct sk_trial trial = {
		.act = {.core = core, .now_ns = now_ns},
		.out = proposal,
		.seed = seed,
		.first_new = core->next_job,
	};
	union sk_command_record record;
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
		try_request(&trial, (uint32_t)request, &record);
	}
	cancel_doomed(&trial);
	sk_order_round(core);
	place_waiting(&trial);
	sk_order_round(core);
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
