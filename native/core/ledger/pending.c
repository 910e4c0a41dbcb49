/* SPDX-License-Identifier: Apache-2.0
 *
 * One list per level and a bitmap of the levels in use, so that the first job is found by the first
 * bit.
 */
#include "core/ledger/fair.h"
#include "core/ledger/job.h"
#include "core/ledger/pending.h"
#include "core/state/index.h"
#include "core/state/journal.h"
#include "core/state/list.h"

#define SK_PENDING_WORDS (SK_LEVELS / 64)

bool sk_pending_same_levels(uint16_t a, uint16_t b)
{
	return a == b || (a < SK_ORDER_SHORTEST && b < SK_ORDER_SHORTEST);
}

/* Four levels to each factor of two: 0 for 0, at most 255. */
uint16_t sk_pending_time_level(uint64_t ns)
{
	uint32_t log;

	if (ns < 4)
		return (uint16_t)ns;
	log = 63 - (uint32_t)__builtin_clzll(ns);
	return (uint16_t)(log * 4 + (ns >> (log - 2) & 3) - 4);
}

uint16_t sk_pending_level(const struct sk_core *core, const struct sk_job *job)
{
	uint64_t estimate = job->request.estimate_ns;

	switch (core->queues[job->queue].order) {
	case SK_ORDER_SHORTEST: /* an unknown time goes last */
		return estimate ? sk_pending_time_level(estimate) : SK_LEVELS - 1;
	case SK_ORDER_LEAST_ATTAINED:
		return sk_pending_time_level(job->attained_ns);
	default:
		return (uint16_t)(SK_PRIORITY_MAX - job->request.priority);
	}
}

static void pending_count(struct sk_core *core, const struct sk_job *job, uint64_t change)
{
	enum sk_queue_kind kind = sk_queue_kind(job);

	SK_ADD(core, sk_pending_of(core, job->queue, kind)->count, change);
	SK_ADD(core, core->queued[kind], change);
	for (uint32_t queue = job->queue; queue; queue = core->queues[queue].parent)
		SK_ADD(core, core->queues[queue].pending_all, change);
}

/* True if these two jobs are queued in the same list. */
static bool beside(const struct sk_core *core, const struct sk_job *job, const struct sk_job *other)
{
	return other->state == SK_PENDING && !other->hold && other->queue == job->queue &&
	       other->level == job->level && sk_queue_kind(other) == sk_queue_kind(job) &&
	       (other->client == job->client || !sk_pending_by_user(core, job->queue));
}

/* The last job of the list with a smaller id, or 0. Jobs that wait again are older than most, and
 * the next jobs of an array follow the one right before them. */
static uint32_t pending_before(const struct sk_core *core, const struct sk_list *list,
			       const struct sk_job *job)
{
	uint32_t at = list->last, next;

	if (!at || core->jobs[at].id < job->id)
		return at;
	next = sk_job_find(core, job->id - 1);
	if (next && beside(core, job, &core->jobs[next]))
		return next;
	while (at && core->jobs[at].id > job->id)
		at = core->jobs[at].queued.prev;
	return at;
}

void sk_pending_append(struct sk_core *core, uint32_t slot)
{
	struct sk_job *job = &core->jobs[slot];
	struct sk_pending *pending = sk_pending_of(core, job->queue, sk_queue_kind(job));
	uint32_t level = sk_pending_level(core, job);
	struct sk_list *list = &pending->levels[level];

	SK_SET(core, job->level, (uint16_t)level);
	if (sk_pending_by_user(core, job->queue))
		list = sk_fair_enter(core, slot);
	sk_list_insert(core, list, SK_CHAIN(core->jobs, queued), pending_before(core, list, job),
		       slot);
	SK_SET(core, pending->used[level / 64],
	       pending->used[level / 64] | (uint64_t)1 << (level % 64));
	pending_count(core, job, 1);
}

void sk_pending_remove(struct sk_core *core, uint32_t slot)
{
	struct sk_job *job = &core->jobs[slot];
	struct sk_pending *pending = sk_pending_of(core, job->queue, sk_queue_kind(job));
	uint32_t level = job->level;
	struct sk_list *list = &pending->levels[level];

	if (sk_pending_by_user(core, job->queue))
		list = sk_fair_line(core, slot);
	sk_list_remove(core, list, SK_CHAIN(core->jobs, queued), slot);
	if (list != &pending->levels[level])
		sk_fair_leave(core, slot);
	if (!pending->levels[level].first)
		SK_SET(core, pending->used[level / 64],
		       pending->used[level / 64] & ~((uint64_t)1 << (level % 64)));
	pending_count(core, job, -1ull);
}

static uint32_t pending_from(const struct sk_core *core, uint32_t queue, enum sk_queue_kind kind,
			     uint32_t level)
{
	const struct sk_pending *pending = sk_pending_of(core, queue, kind);

	level = sk_bits_next(pending->used, SK_PENDING_WORDS, level);
	if (level == SK_LEVELS)
		return 0;
	return sk_pending_by_user(core, queue) ? sk_fair_first(core, &pending->levels[level])
					       : pending->levels[level].first;
}

uint32_t sk_pending_first(const struct sk_core *core, uint32_t queue, enum sk_queue_kind kind)
{
	return pending_from(core, queue, kind, 0);
}

uint32_t sk_pending_next(const struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];
	uint32_t next = job->queued.next;

	if (!next && sk_pending_by_user(core, job->queue))
		next = sk_fair_after(core, slot);
	return next ? next : pending_from(core, job->queue, sk_queue_kind(job), job->level + 1u);
}
