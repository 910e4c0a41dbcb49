/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks are taken and ended on trial; every step first makes sure that it can be reverted.
 */
#include <string.h>

#include "core/command/job_command.h"
#include "core/decide/trial.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/level.h"
#include "core/ledger/node.h"
#include "core/ledger/task.h"
#include "core/ledger/traits.h"
#include "core/policy/policy.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"

#define SK_LEVELS_ORDERED 3u /* levels by which ranks are ordered, the outermost ones */
#define SK_TRIAL_TASK (SK_JOURNAL_TASK + SK_JOURNAL_SHARE * SK_TASK_DEVICES_MAX)

void sk_trial_emit(struct sk_trial *trial, const void *record, size_t size)
{
	memcpy(trial->out->commands + trial->out->commands_size, record, size);
	trial->out->commands_size += size;
}

bool sk_trial_can(const struct sk_trial *trial, uint64_t tasks)
{
	return sk_journal_room(trial->act.core, tasks * SK_TRIAL_TASK);
}

bool sk_trial_room(const struct sk_trial *trial, uint64_t tasks)
{
	return trial->places + tasks <= SK_BATCH_PLACES_MAX && sk_trial_can(trial, tasks);
}

static void place_fill(const struct sk_core *core, uint32_t slot, uint32_t task,
		       struct sk_place *place)
{
	const struct sk_job *job = &core->jobs[slot];

	memset(place, 0, sizeof *place);
	place->header.size = sizeof *place;
	place->header.kind = SK_PLACE;
	place->header.term = core->term;
	place->job = job->id;
	place->attempt = job->attempt + 1;
	place->task = (uint16_t)task;
	place->tasks = job->request.tasks;
}

_Static_assert(SK_TASKS_MAX <= 64, "the number of a task has six bits in a locality");

/* The first task on a node with the label of this one's, so that domains keep the order in which
 * they were chosen. */
static uint64_t domain_first(const struct sk_core *core, const struct sk_place *places,
			     uint64_t level, uint32_t task)
{
	uint64_t label = sk_level_label(&core->nodes[sk_node_find(core, places[task].node)], level);
	uint32_t first = 0;

	while (sk_level_label(&core->nodes[sk_node_find(core, places[first].node)], level) != label)
		first++;
	return first;
}

/* The domains of a task, the outermost first. A level that a job names later lies within those that
 * it names before. */
static uint64_t domains_of(const struct sk_core *core, const struct sk_place *places,
			   const struct sk_request *request, uint32_t task)
{
	uint64_t key = 0;
	uint32_t levels = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && levels < SK_LEVELS_ORDERED; i++) {
		if (request->conditions[i].property != SK_PROPERTY_LEVEL)
			continue;
		key = key << 6 | domain_first(core, places, request->conditions[i].value, task);
		levels++;
	}
	return key;
}

/* Returns the place of a task among those of its gang: by domains, then by node, both in the order
 * in which they were chosen, then by link group (those of no group come last), then by device. */
static uint64_t locality(const struct sk_core *core, const struct sk_request *request,
			 const struct sk_place *places, uint32_t task)
{
	const struct sk_place *place = &places[task];
	uint64_t link = UINT16_MAX, index = 0, node = 0;

	while (places[node].node != place->node)
		node++;
	node |= domains_of(core, places, request, task) << 6;
	if (place->shares_n) {
		index = place->shares[0].index;
		link = (uint16_t)(sk_device_at(core, sk_node_find(core, place->node),
					       place->shares[0].index)
					  ->link -
				  1);
	}
	return node << 32 | link << 16 | index;
}

/* Number the tasks by locality, so that the ranks of one node and of one link group are adjacent.
 * Which places the tasks have together is chosen before, and stays. */
static void number_by_locality(const struct sk_core *core, const struct sk_request *request,
			       struct sk_place *places)
{
	uint32_t tasks = places[0].tasks;
	uint64_t key[SK_TASKS_MAX];

	for (uint32_t task = 0; task < tasks; task++)
		key[task] = locality(core, request, places, task);
	for (uint32_t task = 1; task < tasks; task++) {
		struct sk_place place = places[task];
		uint64_t at = key[task];
		uint32_t before = task;

		for (; before && key[before - 1] > at; before--) {
			places[before] = places[before - 1];
			key[before] = key[before - 1];
		}
		places[before] = place;
		key[before] = at;
	}
	for (uint32_t task = 0; task < tasks; task++)
		places[task].task = (uint16_t)task;
}

/* Take the places that were tried, under their numbers. */
static bool retake(const struct sk_act *act, uint32_t slot, uint64_t mark,
		   const struct sk_place *places)
{
	struct sk_why why;

	sk_journal_undo(act->core, mark);
	for (uint32_t task = 0; task < places[0].tasks; task++)
		if (sk_place_task(act, slot, &places[task], &why)) {
			sk_journal_undo(act->core, mark);
			return false;
		}
	return true;
}

static bool trial_gang(struct sk_trial *trial, uint32_t slot, uint64_t at_ns,
		       struct sk_place *places)
{
	struct sk_core *core = trial->act.core;
	struct sk_act act = trial->act;
	uint64_t mark = sk_journal_mark(core);
	uint32_t tasks = core->jobs[slot].request.tasks;
	struct sk_why why;

	act.now_ns = at_ns;
	for (uint32_t task = 0; task < tasks; task++) {
		place_fill(core, slot, task, &places[task]);
		if (!sk_policy_choose(core, slot, at_ns, trial->seed, &places[task]) ||
		    sk_place_task(&act, slot, &places[task], &why)) {
			sk_journal_undo(core, mark);
			return false;
		}
	}
	if (tasks == 1)
		return true;
	number_by_locality(core, &core->jobs[slot].request, places);
	return retake(&act, slot, mark, places);
}

/* A gang whose devices must be of one family tries one family after the other, as a whole. */
static bool trial_families(struct sk_trial *trial, uint32_t slot, uint64_t at_ns,
			   struct sk_place *places)
{
	struct sk_job *job = &trial->act.core->jobs[slot];
	uint32_t families = job->wish.families, known;
	bool taken = false;

	if (job->request.tasks == 1 || !sk_fit_one_family(&job->request))
		return trial_gang(trial, slot, at_ns, places);
	known = sk_families_known(trial->act.core, families);
	for (; known && !taken; known &= known - 1) {
		job->wish.families = known & -known;
		taken = trial_gang(trial, slot, at_ns, places);
	}
	job->wish.families = families;
	return taken;
}

/* A gang that stays within a domain tries one after the other, as a whole: first that with least
 * room, so that large domains stay whole for large gangs. */
static bool trial_domains(struct sk_trial *trial, uint32_t slot, uint64_t at_ns,
			  struct sk_place *places)
{
	struct sk_job *job = &trial->act.core->jobs[slot];
	const struct sk_request *request = &job->request;
	uint64_t each = request->gpu_milli ? request->gpu_milli : request->cpu_milli;
	bool taken = false;

	if (!job->wish.levels)
		return trial_families(trial, slot, at_ns, places);
	sk_level_domains(trial->act.core, request, job->wish.levels, each * request->tasks);
	while (!taken && (job->wish.near = sk_level_take(trial->act.core)))
		taken = trial_families(trial, slot, at_ns, places);
	job->wish.near = 0;
	return taken;
}

/* Accept only what the first `count` preferences allow as well; false if nothing known does. */
static bool wish_prefer(const struct sk_core *core, const struct sk_job *job, uint32_t count,
			struct sk_wish *wish)
{
	for (uint32_t rank = 1; rank <= count; rank++)
		if (!sk_wish_narrow(core, &job->request, rank, wish))
			return false;
	return wish->traits && wish->families;
}

/* Preferences are tried together first; then the last one is given up, and so on. The whole gang
 * keeps to the same ones. */
bool sk_trial_take(struct sk_trial *trial, uint32_t slot, uint64_t at_ns, struct sk_place *places)
{
	struct sk_job *job = &trial->act.core->jobs[slot];
	struct sk_wish whole;
	bool taken = false;
	uint32_t ranks;

	if (!job->request.conditions[0].property)
		return trial_families(trial, slot, at_ns, places);
	whole = job->wish;
	for (ranks = sk_wish_ranks(&job->request); ranks && !taken; ranks--) {
		job->wish = whole;
		taken = wish_prefer(trial->act.core, job, ranks, &job->wish) &&
			trial_domains(trial, slot, at_ns, places);
	}
	job->wish = whole;
	return taken || trial_domains(trial, slot, at_ns, places);
}

bool sk_trial_fits(struct sk_trial *trial, uint32_t slot, uint64_t at_ns)
{
	struct sk_core *core = trial->act.core;
	struct sk_place places[SK_TASKS_MAX];
	uint64_t mark = sk_journal_mark(core);

	if (!sk_trial_can(trial, core->jobs[slot].request.tasks) ||
	    !sk_trial_take(trial, slot, at_ns, places))
		return false;
	sk_journal_undo(core, mark);
	return true;
}

bool sk_trial_end(struct sk_trial *trial, uint32_t slot)
{
	struct sk_core *core = trial->act.core;
	const struct sk_job *job = &core->jobs[slot];

	if (!sk_trial_can(trial, job->tasks_live))
		return false;
	while (job->tasks_first)
		sk_task_give(core, job->tasks_first);
	return true;
}

void sk_trial_start(struct sk_trial *trial, uint32_t slot, const struct sk_place *places)
{
	uint32_t tasks = trial->act.core->jobs[slot].request.tasks;

	sk_place_finish(&trial->act, slot, places);
	sk_trial_emit(trial, places, tasks * sizeof places[0]);
	trial->places += tasks;
}
