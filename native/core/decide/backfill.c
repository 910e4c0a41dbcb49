/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over the jobs of a line; see backfill.h.
 */
#include "core/decide/backfill.h"
#include "core/decide/plan.h"
#include "core/ledger/job.h"
#include "core/state/journal.h"
#include "core/state/table.h"

/* The jobs of one client that were tried in vain. */
struct sk_client_tries {
	uint64_t client;
	uint32_t count;
};

struct sk_pass {
	struct sk_plan plan;
	struct sk_client_tries clients[SK_CLIENTS_TRIED_MAX + 1]; /* the last is all others' */
	uint32_t clients_n;
	uint32_t tries; /* in vain, in this part of the line */
};

static bool backfill_one(struct sk_pass *pass, uint32_t slot)
{
	struct sk_plan *plan = &pass->plan;
	struct sk_trial *trial = plan->trial;
	struct sk_core *core = trial->act.core;
	const struct sk_job *job = &core->jobs[slot];
	struct sk_place places[SK_TASKS_MAX];
	uint64_t mark = sk_journal_mark(core), now_ns = trial->act.now_ns;
	uint64_t end_ns = job->request.estimate_ns ? sk_time_add(now_ns, job->request.estimate_ns)
						   : UINT64_MAX;

	if (!sk_trial_fits(trial, slot, now_ns))
		return false;
	sk_plan_ready(plan);
	if (!sk_trial_take(trial, slot, now_ns, places))
		return false;
	if (!sk_plan_keeps(plan, slot, end_ns)) {
		sk_journal_undo(core, mark);
		return false;
	}
	for (uint32_t task = 0; plan->head && task < job->request.tasks; task++)
		places[task].reason = SK_BACKFILLED;
	sk_plan_end_add(&plan->ends, end_ns, slot);
	sk_trial_start(trial, slot, places);
	plan->made = false;
	return true;
}

/* Return where the tries of this job's client are counted. Clients that find no place of their own
 * share the last one. */
static struct sk_client_tries *tries_of(struct sk_pass *pass, const struct sk_job *job)
{
	uint32_t at = 0;

	while (at < pass->clients_n && pass->clients[at].client != job->client)
		at++;
	if (at == pass->clients_n && at < SK_CLIENTS_TRIED_MAX)
		pass->clients[pass->clients_n++].client = job->client;
	return &pass->clients[at];
}

/* Try one job; false if there is no room left to place any. */
static bool try_job(struct sk_pass *pass, uint32_t slot)
{
	const struct sk_job *job = &pass->plan.trial->act.core->jobs[slot];

	if (!sk_trial_room(pass->plan.trial, job->request.tasks)) {
		pass->plan.trial->out->more = true;
		return false;
	}
	if (!backfill_one(pass, slot)) {
		pass->tries++;
		sk_line_tried(pass->plan.trial->act.core, slot);
		tries_of(pass, job)->count++;
		sk_plan_reserve(&pass->plan, slot);
	}
	return true;
}

/* Try the jobs of the line from this one on, in their order. Return the first that a bound leaves
 * out, or 0. */
static uint32_t try_first(struct sk_pass *pass, uint32_t slot)
{
	const struct sk_core *core = pass->plan.trial->act.core;

	while (slot && pass->tries < SK_LINE_TRIES_MAX) {
		uint32_t next = sk_line_settle(core, sk_pending_next(core, slot));

		if (!try_job(pass, slot))
			return 0;
		slot = sk_line_on(core, slot, next);
	}
	return slot;
}

/* True if a client had its tries. Of those that share a place nobody knows who had them. */
static bool is_served(const struct sk_pass *pass, const struct sk_client_tries *tries)
{
	return tries < &pass->clients[SK_CLIENTS_TRIED_MAX] && tries->count >= SK_CLIENT_TRIES_FEW;
}

/* Try a job of a client that had few tries, with the bound of this part of the pass. */
static bool try_few(struct sk_pass *pass, uint32_t slot)
{
	const struct sk_core *core = pass->plan.trial->act.core;

	if (is_served(pass, tries_of(pass, &core->jobs[slot])))
		return true;
	return pass->tries < SK_LINE_TRIES_MAX && try_job(pass, slot);
}

static void try_further(struct sk_pass *pass, uint32_t slot)
{
	const struct sk_core *core = pass->plan.trial->act.core;

	pass->tries = 0;
	for (uint32_t i = 0; slot && i < SK_LINE_STEPS_MAX; i++) {
		uint32_t next = sk_line_settle(core, sk_pending_next(core, slot));

		if (!try_few(pass, slot))
			return;
		slot = next;
	}
}

/* Try the jobs of the line that have just come, since no pass before can have tried them. */
static void try_new(struct sk_pass *pass, uint32_t line)
{
	const struct sk_core *core = pass->plan.trial->act.core;

	pass->tries = 0;
	for (uint64_t id = pass->plan.trial->first_new; id < core->next_job; id++) {
		uint32_t slot = sk_job_find(core, id);

		if (slot && sk_line_has(core, line, slot) && !try_few(pass, slot))
			return;
	}
}

void sk_backfill(struct sk_trial *trial, const struct sk_line *line)
{
	const struct sk_core *core = trial->act.core;
	uint16_t order = core->queues[core->jobs[line->last].queue].order;
	struct sk_pass pass = {.plan = {.trial = trial, .head = line->head}};
	uint32_t left = line->last;

	if (order == SK_ORDER_FIFO)
		return;
	if (line->head) {
		pass.plan.most = order == SK_ORDER_CONSERVATIVE ? SK_PLAN_JOBS_MAX : 1;
		sk_plan_reserve(&pass.plan, line->head);
		left = try_first(&pass, sk_line_behind(core, line->head));
	}
	if (!left)
		return;
	try_further(&pass, left);
	try_new(&pass, line->last);
	try_further(&pass, sk_line_pick(core, line->last, sk_mix(trial->seed ^ trial->act.now_ns)));
}
