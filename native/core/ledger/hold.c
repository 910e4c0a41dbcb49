/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap by (time, id) whose elements know their place, the list of the doomed, and for each
 * job the list of the waits for its end. A wait for a range is in no list: its end is told.
 */
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/pending.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"
#include "core/state/list.h"

static bool sooner(const struct sk_core *core, uint32_t a, uint32_t b)
{
	const struct sk_job *left = &core->jobs[a], *right = &core->jobs[b];

	if (left->not_before_ns != right->not_before_ns)
		return left->not_before_ns < right->not_before_ns;
	return left->id < right->id;
}

static void heap_put(struct sk_core *core, uint32_t at, uint32_t slot)
{
	SK_SET(core, core->delayed[at], slot);
	SK_SET(core, core->jobs[slot].delayed_at, at);
}

static void heap_up(struct sk_core *core, uint32_t at, uint32_t slot)
{
	for (; at > 1 && sooner(core, slot, core->delayed[at / 2]); at /= 2)
		heap_put(core, at, core->delayed[at / 2]);
	heap_put(core, at, slot);
}

static void heap_down(struct sk_core *core, uint32_t at, uint32_t slot)
{
	for (uint32_t child = at * 2; child <= core->delayed_n; child = at * 2) {
		if (child < core->delayed_n &&
		    sooner(core, core->delayed[child + 1], core->delayed[child]))
			child++;
		if (!sooner(core, core->delayed[child], slot))
			break;
		heap_put(core, at, core->delayed[child]);
		at = child;
	}
	heap_put(core, at, slot);
}

void sk_hold_time(struct sk_core *core, uint32_t slot)
{
	SK_SET(core, core->jobs[slot].hold, SK_HOLD_TIME);
	SK_ADD(core, core->delayed_n, 1);
	heap_up(core, core->delayed_n, slot);
}

static void heap_remove(struct sk_core *core, uint32_t slot)
{
	uint32_t at = core->jobs[slot].delayed_at, last = core->delayed[core->delayed_n];

	SK_SET(core, core->jobs[slot].delayed_at, 0);
	SK_ADD(core, core->delayed_n, -1u);
	if (last == slot)
		return;
	if (at > 1 && sooner(core, last, core->delayed[at / 2]))
		heap_up(core, at, last);
	else
		heap_down(core, at, last);
}

/* Put a wait into the list of the job that it is for; false if that has ended. */
static bool wait_begin(struct sk_core *core, uint32_t slot, uint32_t n)
{
	uint32_t before = sk_job_find(core, core->jobs[slot].request.after[n]);

	if (!before || sk_state_final(core->jobs[before].state))
		return false;
	SK_ADD(core, core->jobs[before].afters_n, 1);
	sk_list_append(core, &core->jobs[before].afters, SK_CHAIN(core->waits, link),
		       slot * SK_JOB_AFTERS_MAX + n);
	return true;
}

bool sk_hold_after(struct sk_core *core, uint32_t slot)
{
	struct sk_job *job = &core->jobs[slot];
	uint32_t waits = 0;

	for (uint32_t n = 0; n < SK_JOB_AFTERS_MAX && job->request.after[n]; n++) {
		bool range = job->request.after[n] & SK_AFTER_RANGE;

		if (range ? !(job->met >> n & 1) : wait_begin(core, slot, n))
			waits |= 1u << n;
	}
	if (!waits)
		return false;
	SK_SET(core, job->waits, (uint8_t)waits);
	SK_SET(core, job->hold, SK_HOLD_AFTER);
	return true;
}

bool sk_after_met(const struct sk_request *request, uint32_t n, uint32_t state)
{
	if (request->after_any >> n & 1)
		return true;
	return (state == SK_SUCCEEDED) != (request->after_fail >> n & 1);
}

/* Insert by id, so that the list does not depend on its history. */
void sk_hold_doom(struct sk_core *core, uint32_t slot)
{
	uint32_t before = core->doomed.last;

	while (before && core->jobs[before].id > core->jobs[slot].id)
		before = core->jobs[before].queued.prev;
	SK_SET(core, core->jobs[slot].hold, SK_HOLD_DOOMED);
	sk_list_insert(core, &core->doomed, SK_CHAIN(core->jobs, queued), before, slot);
}

static void wait_end(struct sk_core *core, uint32_t before, uint32_t slot, uint32_t n)
{
	SK_SET(core, core->jobs[slot].waits, (uint8_t)(core->jobs[slot].waits & ~(1u << n)));
	if (core->jobs[slot].request.after[n] & SK_AFTER_RANGE)
		return;
	SK_ADD(core, core->jobs[before].afters_n, -1u);
	sk_list_remove(core, &core->jobs[before].afters, SK_CHAIN(core->waits, link),
		       slot * SK_JOB_AFTERS_MAX + n);
}

static void waits_end(struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];

	for (uint32_t n = 0; job->waits >> n; n++)
		if (job->waits >> n & 1)
			wait_end(core, sk_job_find(core, job->request.after[n]), slot, n);
}

void sk_hold_end(struct sk_core *core, uint32_t slot)
{
	struct sk_job *job = &core->jobs[slot];

	switch (job->hold) {
	case SK_HOLD_TIME:
		heap_remove(core, slot);
		break;
	case SK_HOLD_AFTER:
		waits_end(core, slot);
		break;
	case SK_HOLD_DOOMED:
		sk_list_remove(core, &core->doomed, SK_CHAIN(core->jobs, queued), slot);
		break;
	default:
		sk_pending_remove(core, slot);
	}
	SK_SET(core, job->hold, SK_HOLD_NONE);
}

/* On trial, releasing is left out if it would take the journal room that the rest needs: a job that
 * is not released is not placed, and the proposal says that there is more. */
static bool release_room(struct sk_core *core, uint32_t before)
{
	uint64_t bytes = core->jobs[before].afters_n * SK_JOURNAL_AFTER + core->journal.reserve;

	if (!core->journal.on || !core->jobs[before].afters_n || sk_journal_room(core, bytes))
		return true;
	core->journal.cut = true;
	return false;
}

/* Let a job go on whose wait at this place is over: it is doomed, or queues if that was the last.
 */
static void waited(struct sk_core *core, uint32_t slot, uint32_t n, bool met)
{
	struct sk_job *job = &core->jobs[slot];

	if (!met) {
		waits_end(core, slot);
		SK_SET(core, job->unmet, (uint8_t)(n + 1));
		sk_hold_doom(core, slot);
	} else if (!job->waits) {
		SK_SET(core, job->hold, SK_HOLD_NONE);
		sk_pending_append(core, slot);
	}
}

void sk_hold_release(struct sk_core *core, uint32_t before)
{
	if (!release_room(core, before))
		return;
	for (uint32_t wait; (wait = core->jobs[before].afters.first);) {
		uint32_t slot = wait / SK_JOB_AFTERS_MAX, n = wait % SK_JOB_AFTERS_MAX;

		wait_end(core, before, slot, n);
		waited(core, slot, n,
		       sk_after_met(&core->jobs[slot].request, n, core->jobs[before].state));
	}
}

void sk_hold_range_end(struct sk_core *core, uint32_t slot, uint32_t n, bool met)
{
	struct sk_job *job = &core->jobs[slot];

	wait_end(core, 0, slot, n);
	if (met)
		SK_SET(core, job->met, (uint8_t)(job->met | 1u << n));
	waited(core, slot, n, met);
}

void sk_hold_promote(struct sk_core *core, uint64_t now_ns)
{
	for (uint32_t i = 0; i < SK_PROMOTE_MAX; i++) {
		uint32_t slot = sk_hold_next(core);

		if (!slot || core->jobs[slot].not_before_ns > now_ns)
			return;
		heap_remove(core, slot);
		SK_SET(core, core->jobs[slot].hold, SK_HOLD_NONE);
		sk_pending_append(core, slot);
	}
}
