/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan is made by carrying it out on trial: jobs end in order of their estimates, each blocked
 * job takes what it needs as soon as it is free, and all of it is reverted.
 */
#include <string.h>

#include "core/decide/plan.h"
#include "core/ledger/node.h"
#include "core/ledger/pending.h"
#include "core/state/journal.h"

#define SK_NEVER_NS (UINT64_MAX - 1)	/* before the end of a job that never ends */
#define SK_SOME_DAY_NS (UINT64_MAX - 2) /* end of a job that ends at an unknown time */

void sk_plan_end_add(struct sk_plan_ends *ends, uint64_t at_ns, uint32_t job)
{
	uint32_t at = ends->count;

	if (at_ns >= SK_NEVER_NS)
		return;
	while (at && ends->at[at - 1].at_ns > at_ns)
		at--;
	memmove(&ends->at[at + 1], &ends->at[at], (ends->count - at) * sizeof ends->at[0]);
	ends->at[at] = (struct sk_plan_end){at_ns, job};
	if (++ends->count <= SK_PLAN_ENDS_MAX)
		return;
	ends->count--;
	if (ends->at[SK_PLAN_ENDS_MAX].at_ns < ends->beyond_ns)
		ends->beyond_ns = ends->at[SK_PLAN_ENDS_MAX].at_ns;
}

/* True if the job has overtaken the head: it stands behind it and was placed while the head
 * waited. */
static bool plan_passed(const struct sk_core *core, const struct sk_job *job,
			const struct sk_job *head)
{
	if (job->queue != head->queue || sk_queue_kind(job) != sk_queue_kind(head) ||
	    job->place_ns < head->submit_ns)
		return false;
	if (job->request.priority != head->request.priority)
		return job->request.priority < head->request.priority;
	/* Shares have changed since, so the reason of its start alone says whose turn it was. */
	if (sk_pending_by_user(core, head->queue))
		return job->place_reason == SK_BACKFILLED;
	return job->id > head->id;
}

/* Overdue and stopping jobs may end at any moment: after now, but before everything else. A job
 * without an estimate ends at an unknown time. If it overtook the head, it is assumed never to end,
 * so that overtaking jobs never take more than the head can do without. */
static uint64_t plan_end_of(const struct sk_core *core, const struct sk_job *job,
			    const struct sk_job *head, uint64_t now_ns)
{
	uint64_t never = plan_passed(core, job, head) ? UINT64_MAX : SK_SOME_DAY_NS;
	uint64_t end = job->request.estimate_ns
			       ? sk_time_add(job->place_ns, job->request.estimate_ns)
			       : never;

	if (job->state == SK_STOPPING || end <= now_ns)
		return now_ns + 1;
	return end;
}

static void plan_gather(struct sk_plan *plan)
{
	const struct sk_core *core = plan->trial->act.core;
	uint32_t nodes = 0;

	plan->ends.count = 0;
	plan->ends.beyond_ns = SK_NEVER_NS;
	for (uint32_t node = sk_node_next(core, 1); node; node = sk_node_next(core, node + 1)) {
		if (nodes++ == SK_PLAN_NODES_MAX)
			return;
		for (uint32_t at = core->nodes[node].tasks.first; at;
		     at = core->tasks[at].on_node.next) {
			uint32_t slot = core->tasks[at].job;
			const struct sk_job *job = &core->jobs[slot];

			if (job->tasks_first == at)
				sk_plan_end_add(&plan->ends,
						plan_end_of(core, job, &core->jobs[plan->head],
							    plan->trial->act.now_ns),
						slot);
		}
	}
}

/* End the jobs that end next, all at once; false if no further end is known. */
static bool plan_advance(struct sk_plan *plan, const struct sk_plan_ends *ends, uint32_t *next,
			 uint64_t *at_ns)
{
	if (*next == ends->count)
		return false;
	*at_ns = ends->at[*next].at_ns;
	while (*next < ends->count && ends->at[*next].at_ns == *at_ns)
		if (!sk_trial_end(plan->trial, ends->at[(*next)++].job)) {
			plan->cut = true;
			return false;
		}
	return true;
}

/* Let the job take what it needs as soon as that is free; false if no such time is known. */
static bool plan_start(struct sk_plan *plan, struct sk_plan_ends *ends, uint32_t job,
		       uint64_t *at_ns)
{
	const struct sk_core *core = plan->trial->act.core;
	struct sk_place places[SK_TASKS_MAX];
	uint32_t next = 0;

	for (;;) {
		plan->cut |= !sk_trial_can(plan->trial, core->jobs[job].request.tasks);
		if (plan->cut)
			return false;
		if (sk_trial_take(plan->trial, job, *at_ns, places))
			break;
		if (!plan_advance(plan, ends, &next, at_ns))
			return false;
	}
	ends->count -= next;
	memmove(&ends->at[0], &ends->at[next], ends->count * sizeof ends->at[0]);
	return true;
}

static void plan_rest(const struct sk_plan *plan, struct sk_planned *starts, uint32_t from,
		      uint64_t at_ns)
{
	for (; from < plan->count; from++)
		starts[from] = (struct sk_planned){at_ns, false};
}

/* Compute when each planned job starts, one after the other. */
static void plan_make(struct sk_plan *plan, struct sk_planned *starts)
{
	struct sk_core *core = plan->trial->act.core;
	struct sk_plan_ends ends = plan->ends;
	uint64_t mark = sk_journal_mark(core), now_ns = plan->trial->act.now_ns, at_ns = now_ns;

	plan->cut = false;
	for (uint32_t i = 0; i < plan->count; i++) {
		uint64_t estimate = core->jobs[plan->jobs[i]].request.estimate_ns;

		if (!plan_start(plan, &ends, plan->jobs[i], &at_ns)) {
			plan_rest(plan, starts, i, plan->cut ? now_ns : ends.beyond_ns);
			break;
		}
		starts[i] = (struct sk_planned){at_ns, true};
		sk_plan_end_add(&ends,
				estimate && at_ns < SK_SOME_DAY_NS ? sk_time_add(at_ns, estimate)
								   : SK_SOME_DAY_NS,
				plan->jobs[i]);
	}
	sk_journal_undo(core, mark);
}

bool sk_plan_keeps(struct sk_plan *plan, uint32_t job, uint64_t end_ns)
{
	struct sk_planned starts[SK_PLAN_JOBS_MAX];
	struct sk_plan_ends ends = plan->ends;

	if (!plan->count || end_ns <= plan->starts[0].at_ns)
		return true;
	if (plan->checks++ >= SK_PLAN_CHECKS_MAX)
		return false;
	sk_plan_end_add(&plan->ends, end_ns, job);
	plan_make(plan, starts);
	plan->ends = ends;
	for (uint32_t i = 0; i < plan->count; i++) {
		bool later = !starts[i].known || starts[i].at_ns > plan->starts[i].at_ns;

		if (plan->starts[i].known ? later : end_ns > plan->starts[i].at_ns)
			return false;
	}
	return true;
}

void sk_plan_reserve(struct sk_plan *plan, uint32_t job)
{
	if (plan->count == plan->most)
		return;
	plan->jobs[plan->count++] = job;
	plan->made = false;
}

void sk_plan_ready(struct sk_plan *plan)
{
	if (!plan->count)
		return;
	if (!plan->gathered)
		plan_gather(plan);
	if (!plan->made)
		plan_make(plan, plan->starts);
	plan->gathered = plan->made = true;
}
