/* SPDX-License-Identifier: Apache-2.0
 *
 * Explanations of a job as data. A waiting job gets what holds it, which jobs are ahead, the
 * shortfalls of nodes with the jobs that use what it needs, and its expected start. Shortfalls are
 * ranked by the number of nodes that have them. A placed job gets where it is, why, and the inputs
 * that mattered. Invariant: nothing here writes. The cost is a few passes over the nodes and a
 * bounded walk of the queue.
 */
#include "core/decide/order.h"
#include "core/explain/eta.h"
#include "core/ledger/limits.h"
#include "core/ledger/shortfall.h"
#include "core/ledger/fair.h"
#include "core/ledger/fit.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/ledger/pending.h"
#include "core/ledger/queue.h"
#include "core/ledger/traits.h"
#include "core/policy/conditions.h"
#include "core/policy/feasible.h"
#include "core/policy/policy.h"

#define SK_EXPLAIN_WALK_MAX 65536u /* jobs ahead are counted up to here */
#define SK_EXPLAIN_USERS 4u
#define SK_EXPLAIN_LIMITS 4u

struct sk_lines {
	struct sk_explain *at;
	uint32_t capacity;
	uint32_t count;
};

/* The facts about a waiting job from which its lines are written. */
struct sk_waiting_job {
	uint32_t slot;
	const struct sk_job *job;
	struct sk_blocked blocked;
	struct sk_explain limits[SK_EXPLAIN_LIMITS];
	uint32_t limits_n;
	struct sk_shortfall shortfall;
	bool fits; /* all tasks at once, now, by itself */
	bool free; /* fits, is not held and nobody is ahead of it in its queue */
};

static void add_line(struct sk_lines *lines, struct sk_explain line)
{
	if (lines->count < lines->capacity)
		lines->at[lines->count++] = line;
}

static void explain_users(const struct sk_core *core, uint64_t node, struct sk_lines *lines)
{
	uint32_t slot = sk_node_find(core, node);
	uint32_t shown = 0;

	for (uint32_t at = core->nodes[slot].tasks.first; at && shown < SK_EXPLAIN_USERS;
	     at = core->tasks[at].on_node.next) {
		const struct sk_task *task = &core->tasks[at];
		uint64_t milli = 0;

		for (uint32_t i = 0; i < task->shares_n; i++)
			milli += task->shares[i].milli;
		if (!milli)
			continue;
		add_line(lines, (struct sk_explain){.reason = SK_HOLDS,
						    .node = node,
						    .job = core->jobs[task->job].id,
						    .have = milli});
		shown++;
	}
}

/* Write shortfalls by the number of nodes that have them, most first. */
static void explain_shortfall(const struct sk_core *core, struct sk_shortfall *shortfall,
			      struct sk_lines *lines)
{
	for (;;) {
		struct sk_explain *most = &shortfall->need[0];

		for (int i = 1; i < SK_NEEDS; i++)
			if (shortfall->need[i].count > most->count)
				most = &shortfall->need[i];
		if (!most->count)
			break;
		add_line(lines, *most);
		if (most == &shortfall->need[SK_NEED_DEVICES])
			explain_users(core, most->node, lines);
		most->count = 0;
	}
	if (shortfall->unavailable.count)
		add_line(lines, shortfall->unavailable);
}

static void explain_hold(const struct sk_job *job, struct sk_lines *lines)
{
	switch (job->hold) {
	case SK_HOLD_TIME:
		add_line(lines, (struct sk_explain){.reason = SK_WAITS_UNTIL,
						    .count = job->retried,
						    .have = job->not_before_ns});
		break;
	case SK_HOLD_AFTER:
		for (uint32_t n = 0; job->waits >> n; n++)
			if (job->waits >> n & 1)
				add_line(lines, (struct sk_explain){.reason = SK_WAITS_FOR_JOB,
								    .job = job->request.after[n]});
		break;
	case SK_HOLD_DOOMED:
		add_line(lines, (struct sk_explain){.reason = SK_AFTER_FAILED,
						    .job = job->request.after[job->unmet - 1]});
		break;
	default:
		break;
	}
}

/* Report jobs that were preempted and still stop on nodes that this job accepts. */
static void explain_room(const struct sk_core *core, const struct sk_job *job,
			 struct sk_lines *lines)
{
	struct sk_explain line = {.reason = SK_ROOM_BEING_MADE};

	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next) {
		const struct sk_job *victim = &core->jobs[slot];
		uint32_t node = victim->tasks_first ? core->tasks[victim->tasks_first].node : 0;

		if (victim->state != SK_STOPPING || victim->verdict != SK_PENDING || !node ||
		    sk_fit_kind(core, &job->request, &job->wish, node))
			continue;
		if (!line.count++) {
			line.job = victim->id;
			line.node = core->nodes[node].id;
		}
	}
	if (line.count)
		add_line(lines, line);
}

/* `job` of the line is the first one that holds this job up, else the first ahead. */
static struct sk_explain line_ahead(const struct sk_core *core, uint32_t slot, uint32_t head)
{
	uint32_t at =
		sk_pending_first(core, core->jobs[slot].queue, sk_queue_kind(&core->jobs[slot]));
	struct sk_explain line = {.reason = SK_BEHIND, .job = core->jobs[head ? head : at].id};

	if (core->jobs[slot].hold)
		return line;
	for (; at != slot && line.count < SK_EXPLAIN_WALK_MAX; at = sk_pending_next(core, at))
		line.count++;
	return line;
}

/* The share of what the job's user holds in its queue, in thousandths. */
static uint64_t share_milli(const struct sk_core *core, uint32_t slot)
{
	return ((sk_fair_share(core, slot) >> 32) * SK_MILLI + (1u << 29)) >> 30;
}

/* Report that another user is next in the queue, because it holds less there. */
static void explain_user(const struct sk_core *core, uint32_t slot, struct sk_lines *lines)
{
	const struct sk_job *job = &core->jobs[slot];
	uint32_t first = sk_pending_first(core, job->queue, sk_queue_kind(job));

	if (!sk_pending_by_user(core, job->queue) || job->hold || !first ||
	    core->jobs[first].client == job->client || core->jobs[first].level != job->level)
		return;
	add_line(lines,
		 (struct sk_explain){
			 .reason = SK_USER_TURN,
			 .detail = sk_fair_share(core, slot) == sk_fair_share(core, first) ? 1 : 0,
			 .job = core->jobs[first].id,
			 .asked = share_milli(core, slot),
			 .have = share_milli(core, first)});
}

/* Report the job of another queue that goes before this one, though this one could start. */
static void explain_other_queue(const struct sk_core *core, const struct sk_job *job,
				struct sk_lines *lines)
{
	struct sk_waiting_queues waiting;
	struct sk_line *line;
	uint32_t next;

	sk_order_begin(core, &waiting);
	next = sk_order_next(core, &waiting, core->now_ns, &line);
	if (next && core->jobs[next].queue != job->queue &&
	    sk_queue_kind(&core->jobs[next]) == sk_queue_kind(job))
		add_line(lines, (struct sk_explain){.reason = SK_QUEUE_TURN,
						    .job = core->queues[core->jobs[next].queue].id,
						    .asked = core->jobs[next].id});
}

/* Report each required condition that some device does not meet. */
static void explain_conditions(const struct sk_core *core, const struct sk_request *request,
			       struct sk_lines *lines)
{
	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		struct sk_condition_count count = {0};

		if (sk_conditions_first(request, i))
			count = sk_conditions_count(core, request, i);
		if (count.met < count.devices)
			add_line(lines, (struct sk_explain){.reason = SK_NEEDS_CONDITION,
							    .detail = (uint16_t)(i + 1),
							    .count = count.devices - count.met,
							    .job = sk_conditions_name(request, i),
							    .asked = request->conditions[i].value,
							    .have = count.devices});
	}
}

static void explain_nodes(const struct sk_core *core, struct sk_waiting_job *waiting,
			  struct sk_lines *lines)
{
	uint32_t down = core->nodes_count - core->nodes_up;
	uint32_t tasks = waiting->job->request.tasks;

	if (!core->nodes_count)
		add_line(lines, (struct sk_explain){.reason = SK_NO_NODES});
	else if (waiting->shortfall.places < tasks && tasks > 1)
		add_line(lines, (struct sk_explain){.reason = SK_GANG_SHORT,
						    .asked = tasks,
						    .have = waiting->shortfall.places});
	if (waiting->shortfall.places < tasks) {
		explain_shortfall(core, &waiting->shortfall, lines);
		explain_conditions(core, &waiting->job->request, lines);
	}
	if (down)
		add_line(lines, (struct sk_explain){.reason = SK_NODES_DOWN,
						    .count = down,
						    .have = core->nodes_count});
}

static void explain_start(const struct sk_core *core, const struct sk_waiting_job *waiting,
			  struct sk_lines *lines)
{
	uint64_t at_ns;

	if (waiting->free || !core->nodes_up || sk_policy_lacks_choice(core, waiting->job))
		return;
	if (sk_eta_start(core, waiting->slot, &at_ns))
		add_line(lines, (struct sk_explain){.reason = SK_EXPECTED_START, .have = at_ns});
}

/* Report holds, limits and choices made elsewhere, which concern neither nodes nor the order. */
static void explain_rules(const struct sk_core *core, const struct sk_waiting_job *waiting,
			  struct sk_lines *lines)
{
	explain_hold(waiting->job, lines);
	for (uint32_t i = 0; i < waiting->limits_n && !waiting->fits; i++)
		add_line(lines, waiting->limits[i]);
	if (!waiting->fits && !waiting->job->hold)
		explain_room(core, waiting->job, lines);
}

/* Report first that no known node could ever run the job, whatever else it waits for. */
static void explain_never(const struct sk_core *core, const struct sk_job *job,
			  struct sk_lines *lines)
{
	struct sk_why why = {0};
	uint16_t reason = sk_feasible_reason(core, &job->request, &why);

	if (reason)
		add_line(lines, (struct sk_explain){.reason = SK_NEVER_AS_IT_IS,
						    .detail = reason,
						    .job = why.job,
						    .asked = why.asked,
						    .have = why.have});
}

static void explain_waiting(const struct sk_core *core, uint32_t slot, struct sk_lines *lines)
{
	struct sk_waiting_job waiting = {.slot = slot, .job = &core->jobs[slot]};
	uint32_t head = sk_line_head(core, slot);
	struct sk_explain ahead = line_ahead(core, slot, head);
	bool custom = sk_policy_lacks_choice(core, waiting.job);

	waiting.blocked = sk_limits_block(core, slot, core->now_ns, waiting.limits,
					  SK_EXPLAIN_LIMITS, &waiting.limits_n);
	/* A device that a limit forbids is no shortfall of a node. */
	sk_shortfall_all(core, slot, core->now_ns, (struct sk_blocked){0}, 0, &waiting.shortfall);
	waiting.fits =
		waiting.shortfall.places >= waiting.job->request.tasks &&
		(!waiting.limits_n ||
		 sk_shortfall_all(core, slot, core->now_ns, waiting.blocked,
				  waiting.job->request.tasks, NULL) >= waiting.job->request.tasks);
	waiting.free = waiting.fits && !waiting.job->hold && !head;
	if (waiting.fits && head)
		ahead.reason = SK_HELD_BY_ORDER;
	ahead.detail = core->queues[waiting.job->queue].order;
	ahead.asked = core->queues[waiting.job->queue].id;
	explain_never(core, waiting.job, lines);
	explain_rules(core, &waiting, lines);
	if (head)
		add_line(lines, ahead);
	explain_user(core, slot, lines);
	if (waiting.free && !custom)
		explain_other_queue(core, waiting.job, lines);
	if (custom && !waiting.job->hold)
		add_line(lines, (struct sk_explain){.reason = SK_NEEDS_CHOICE});
	else if (waiting.free && !lines->count)
		add_line(lines,
			 (struct sk_explain){.reason = SK_READY, .node = waiting.shortfall.first});
	explain_nodes(core, &waiting, lines);
	if (ahead.count && !head)
		add_line(lines, ahead);
	explain_start(core, &waiting, lines);
}

static void explain_preferences(const struct sk_job *job, struct sk_lines *lines)
{
	uint32_t ranks = sk_wish_ranks(&job->request);
	uint32_t missed = ~job->preferred & ((1u << ranks) - 1);

	if (ranks)
		add_line(lines, (struct sk_explain){
					.reason = SK_PREFERENCES_MET,
					.detail = missed ? (uint16_t)__builtin_ctz(missed) + 1u : 0,
					.asked = ranks,
					.have = (uint64_t)__builtin_popcount(job->preferred)});
}

static void explain_placed(const struct sk_core *core, const struct sk_job *job,
			   struct sk_lines *lines)
{
	uint64_t waited = job->place_ns > job->submit_ns ? job->place_ns - job->submit_ns : 0;

	add_line(lines, (struct sk_explain){.reason = SK_PLACED_ON,
					    .detail = job->place_reason,
					    .count = job->candidates,
					    .node = job->node});
	add_line(lines, (struct sk_explain){.reason = job->place_reason,
					    .detail = (uint16_t)sk_policy_placement(core, job),
					    .count = job->candidates,
					    .node = job->node,
					    .asked = job->request.gpu_milli});
	add_line(lines, (struct sk_explain){.reason = SK_WAITED, .have = waited});
	add_line(lines, (struct sk_explain){.reason = SK_DECIDED_IN, .have = job->latency_ns});
	explain_preferences(job, lines);
	for (uint32_t i = 0; i < SK_OBSERVATIONS_MAX; i++)
		if (job->observations[i])
			add_line(lines, (struct sk_explain){.reason = SK_OBSERVED,
							    .have = job->observations[i]});
}

uint32_t sk_core_explain(const struct sk_core *core, uint64_t id, struct sk_explain *at,
			 uint32_t capacity)
{
	struct sk_lines lines = {at, capacity, 0};
	uint32_t slot = sk_job_find(core, id);
	const struct sk_job *job = &core->jobs[slot];

	if (!slot)
		return 0;
	if (sk_state_final(job->state))
		add_line(&lines, (struct sk_explain){.reason = SK_ENDED, .detail = job->state});
	if (job->state == SK_PENDING)
		explain_waiting(core, slot, &lines);
	else if (job->attempt)
		explain_placed(core, job, &lines);
	if (job->preemptions)
		add_line(&lines, (struct sk_explain){.reason = SK_WAS_PREEMPTED,
						     .count = job->preemptions});
	return lines.count;
}
