/* SPDX-License-Identifier: Apache-2.0
 *
 * The order in which queues and their jobs are served; see order.h. Each pick is one pass over the
 * waiting queues: a queue is compared with the best so far at the level where their paths from the
 * root part.
 */
#include "core/decide/order.h"
#include "core/ledger/queue.h"
#include "core/policy/hints.h"
#include "core/policy/feasible.h"
#include "core/policy/policy.h"

#define SK_SHARE_ONE (1ull << 30)
/* The decayed sum that a device in use all the time leaves: SK_HALF_LIFE_NS / ln 2. */
#define SK_USAGE_FULL_US 124648851532ull

static uint64_t ratio(uint64_t part, uint64_t whole)
{
	__extension__ typedef unsigned __int128 wide;
	uint64_t least = part < whole ? part : whole;

	return whole ? (uint64_t)((wide)least * SK_SHARE_ONE / whole) : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint64_t sk_queue_share(const struct sk_core *core, uint32_t slot, uint64_t now_ns)
{
	const struct sk_queue *queue = &core->queues[slot];
	uint64_t held = ratio(queue->used_milli, core->devices_count * SK_MILLI);
	uint64_t used_us = queue->usage_ns ? sk_queue_usage(queue, now_ns) / 1000 : 0;

	held = larger(held, ratio(queue->cpu_used, core->cpu_all));
	held = larger(held, ratio(queue->memory_used, core->memory_all));
	return held + ratio(used_us, core->devices_count * SK_USAGE_FULL_US);
}

static bool queue_covers(const struct sk_core *core, uint32_t slot, const struct sk_job *job)
{
	const struct sk_queue *queue = &core->queues[slot];
	uint64_t asked = (uint64_t)job->request.gpu_milli * job->request.tasks;

	for (uint32_t i = 0; asked && i < queue->quotas_n; i++) {
		const struct sk_quota *quota = &queue->quotas[i];
		bool named = !quota->model;

		for (uint32_t at = 0; job->wish.models && !named && at < core->models_n; at++)
			named = job->wish.models >> at & 1 && core->models[at] == quota->model;
		if ((named || !job->wish.models) &&
		    sk_time_add(quota->used_milli, asked) <= quota->guaranteed_milli)
			return true;
	}
	return false;
}

uint32_t sk_covered_depth(const struct sk_core *core, const struct sk_job *job)
{
	for (uint32_t slot = job->queue; slot != SK_QUEUE_ROOT; slot = core->queues[slot].parent)
		if (queue_covers(core, slot, job))
			return core->queues[slot].depth;
	return 0;
}

static bool is_fair(const struct sk_core *core, uint32_t slot)
{
	return sk_pending_by_user(core, core->jobs[slot].queue);
}

void sk_order_round(const struct sk_core *core)
{
	core->hints->rounds++;
}

void sk_line_tried(const struct sk_core *core, uint32_t slot)
{
	if (is_fair(core, slot))
		core->hints->tried[slot] = core->hints->rounds;
}

static bool was_tried(const struct sk_core *core, uint32_t slot)
{
	return is_fair(core, slot) && core->hints->tried[slot] == core->hints->rounds;
}

/* The first job of this one's line that was not tried. */
static uint32_t line_untried(const struct sk_core *core, const struct sk_job *job)
{
	return sk_line_settle(core, sk_pending_first(core, job->queue, sk_queue_kind(job)));
}

uint32_t sk_line_behind(const struct sk_core *core, uint32_t head)
{
	return is_fair(core, head) ? line_untried(core, &core->jobs[head])
				   : sk_line_settle(core, sk_pending_next(core, head));
}

uint32_t sk_line_on(const struct sk_core *core, uint32_t slot, uint32_t next)
{
	const struct sk_job *job = &core->jobs[slot];

	return job->state == SK_PENDING || !is_fair(core, slot) ? next : line_untried(core, job);
}

void sk_line_started(const struct sk_core *core, struct sk_line *line, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];
	struct sk_line *lines = line - sk_queue_kind(job);

	line->job = line_untried(core, job);
	for (int kind = 0; kind < SK_QUEUE_KINDS; kind++)
		if (&lines[kind] != line && lines[kind].job)
			lines[kind].job = sk_line_settle(
				core, sk_pending_first(core, job->queue, (enum sk_queue_kind)kind));
}

uint32_t sk_line_settle(const struct sk_core *core, uint32_t slot)
{
	for (uint32_t i = 0; slot && i < SK_LINE_TRIES_MAX; i++) {
		if (!was_tried(core, slot) && !sk_policy_lacks_choice(core, &core->jobs[slot]))
			return slot;
		slot = sk_pending_next(core, slot);
	}
	return 0;
}

static bool in_line(const struct sk_job *job, const struct sk_job *other)
{
	return other->id && other->state == SK_PENDING && !other->hold &&
	       other->queue == job->queue && sk_queue_kind(other) == sk_queue_kind(job);
}

bool sk_line_has(const struct sk_core *core, uint32_t job, uint32_t other)
{
	return in_line(&core->jobs[job], &core->jobs[other]) &&
	       !sk_policy_lacks_choice(core, &core->jobs[other]);
}

uint32_t sk_line_pick(const struct sk_core *core, uint32_t job, uint64_t random)
{
	uint32_t slots = core->job_pool.fresh - 1;

	for (uint32_t i = 0; i < SK_LINE_PICKS_MAX && i < slots; i++) {
		uint32_t slot = 1 + (uint32_t)((random + i) % slots);

		if (in_line(&core->jobs[job], &core->jobs[slot]))
			return sk_line_settle(core, slot);
	}
	return 0;
}

void sk_order_begin(const struct sk_core *core, struct sk_waiting_queues *waiting)
{
	waiting->count = 0;
	for (uint32_t slot = SK_QUEUE_DEFAULT; slot < core->queues_end; slot++) {
		struct sk_waiting_queue *next = &waiting->at[waiting->count];

		if (!core->queues[slot].pending_all || core->queues[slot].children)
			continue;
		next->queue = slot;
		for (int kind = 0; kind < SK_QUEUE_KINDS; kind++)
			next->line[kind] = (struct sk_line){
				.job = sk_line_settle(
					core,
					sk_pending_first(core, slot, (enum sk_queue_kind)kind))};
		waiting->count++;
	}
}

/* The line of this queue whose job goes first, or NULL. */
static struct sk_line *queue_line(const struct sk_core *core, struct sk_waiting_queue *next)
{
	struct sk_line *host = &next->line[SK_QUEUE_HOST], *device = &next->line[SK_QUEUE_DEVICE];
	const struct sk_job *a = &core->jobs[host->job], *b = &core->jobs[device->job];

	if (!host->job || !device->job)
		return host->job ? host : device->job ? device : NULL;
	if (a->level != b->level)
		return a->level < b->level ? host : device;
	return a->id < b->id ? host : device;
}

struct sk_claim {
	uint32_t queue;
	uint32_t covered; /* depth of the lowest queue whose guarantee covers the job; 0: none */
};

/* Two queues are compared from the root down to one level below their last common queue: first by
 * whether a guarantee at that level or below covers the job, then by the share for the weight. */
static bool claim_before(const struct sk_core *core, struct sk_claim a, struct sk_claim b,
			 uint64_t now_ns)
{
	const struct sk_queue *queues = core->queues;
	uint32_t depth;
	uint64_t left, right;

	while (queues[a.queue].depth > queues[b.queue].depth)
		a.queue = queues[a.queue].parent;
	while (queues[b.queue].depth > queues[a.queue].depth)
		b.queue = queues[b.queue].parent;
	while (queues[a.queue].parent != queues[b.queue].parent) {
		a.queue = queues[a.queue].parent;
		b.queue = queues[b.queue].parent;
	}
	depth = queues[a.queue].depth;
	a.covered = a.covered < depth ? a.covered : depth;
	b.covered = b.covered < depth ? b.covered : depth;
	if (a.covered != b.covered)
		return a.covered > b.covered;
	left = sk_queue_share(core, a.queue, now_ns) * queues[b.queue].weight;
	right = sk_queue_share(core, b.queue, now_ns) * queues[a.queue].weight;
	return left != right ? left < right : a.queue < b.queue;
}

uint32_t sk_order_next(const struct sk_core *core, struct sk_waiting_queues *waiting,
		       uint64_t now_ns, struct sk_line **ret)
{
	struct sk_claim best = {0};

	for (uint32_t i = 0; i < waiting->count; i++) {
		struct sk_line *line = queue_line(core, &waiting->at[i]);
		struct sk_claim claim = {.queue = waiting->at[i].queue};

		if (!line)
			continue;
		if (waiting->count > 1)
			claim.covered = sk_covered_depth(core, &core->jobs[line->job]);
		if (best.queue && !claim_before(core, claim, best, now_ns))
			continue;
		best = claim;
		*ret = line;
	}
	return best.queue ? (*ret)->job : 0;
}

bool sk_line_blocks(const struct sk_core *core, uint32_t job)
{
	uint16_t order = core->queues[core->jobs[job].queue].order;

	return sk_pending_blocks(order) &&
	       (order == SK_ORDER_FIFO || !sk_feasible_hopeless(core, &core->jobs[job].request));
}

uint32_t sk_line_head(const struct sk_core *core, uint32_t job)
{
	uint32_t at =
		sk_pending_first(core, core->jobs[job].queue, sk_queue_kind(&core->jobs[job]));

	if (core->jobs[job].hold || !sk_pending_blocks(core->queues[core->jobs[job].queue].order))
		return 0;
	for (uint32_t i = 0; at != job && i < SK_LINE_TRIES_MAX; i++) {
		at = sk_line_settle(core, at);
		if (at == job || !at || sk_line_blocks(core, at))
			break;
		at = sk_pending_next(core, at);
	}
	return at == job ? 0 : at;
}
