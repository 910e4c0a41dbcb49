/* SPDX-License-Identifier: Apache-2.0
 *
 * The later of two bounds counts. The bound by place is the first end of a running job after which
 * every task has a node that takes it and no limit is exceeded. It is computed for the first job of
 * the queue and for this one. The bound by amount lets the jobs between these two take what they
 * request, in order, as it comes free on any node that takes this job.
 */
#include <string.h>

#include "core/decide/order.h"
#include "core/explain/eta.h"
#include "core/ledger/limits.h"
#include "core/ledger/shortfall.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/ledger/pending.h"

struct sk_end {
	uint64_t at_ns;
	uint64_t amount; /* milli of devices, or of CPU for jobs without devices */
};

/* Sorted by time. */
struct sk_ends {
	struct sk_end at[SK_ETA_ENDS_MAX];
	uint32_t count;
};

static uint64_t amount_of(const struct sk_job *job, bool devices)
{
	return (uint64_t)(devices ? job->request.gpu_milli : job->request.cpu_milli) *
	       job->request.tasks;
}

static void end_add(struct sk_ends *ends, struct sk_end end)
{
	uint32_t low = 0, high = ends->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (ends->at[middle].at_ns <= end.at_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == SK_ETA_ENDS_MAX)
		return;
	if (ends->count < SK_ETA_ENDS_MAX)
		ends->count++;
	memmove(&ends->at[low + 1], &ends->at[low], (ends->count - 1 - low) * sizeof ends->at[0]);
	ends->at[low] = end;
}

static bool takes_kind(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	return core->nodes[node].up && !sk_fit_kind(core, &job->request, &job->wish, node);
}

/* Gather the ends of placed jobs whose first task is on a node that takes this job; unknown ends
 * are left out. */
static void ends_gather(const struct sk_core *core, const struct sk_job *job, bool devices,
			struct sk_ends *ends)
{
	ends->count = 0;
	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next) {
		const struct sk_job *other = &core->jobs[slot];
		uint64_t at_ns = other->tasks_first ? sk_job_end_ns(core, slot) : UINT64_MAX;

		if (at_ns == UINT64_MAX ||
		    !takes_kind(core, job, core->tasks[other->tasks_first].node))
			continue;
		end_add(ends, (struct sk_end){at_ns, amount_of(other, devices)});
	}
}

static uint64_t amount_free(const struct sk_core *core, const struct sk_job *job, bool devices)
{
	uint64_t amount = 0;

	for (uint32_t node = sk_node_next(core, 1); node; node = sk_node_next(core, node + 1)) {
		if (!takes_kind(core, job, node))
			continue;
		if (!devices)
			amount += sk_node_cpu_free(&core->nodes[node]);
		for (uint32_t i = 0; devices && i < core->nodes[node].devices; i++) {
			const struct sk_device *device = sk_device_at(core, node, i);

			amount += sk_fit_wish(&job->wish, device) ? sk_device_free(device) : 0;
		}
	}
	return amount;
}

struct sk_flow {
	struct sk_ends *ends;
	uint32_t next;
	uint64_t free;
	uint64_t at_ns;
};

/* Advance the time until this much is free, which is then taken. */
static bool flow_take(struct sk_flow *flow, uint64_t amount)
{
	while (flow->free < amount) {
		const struct sk_end *end = &flow->ends->at[flow->next];

		if (flow->next == flow->ends->count)
			return false;
		flow->free += end->amount;
		flow->at_ns = end->at_ns > flow->at_ns ? end->at_ns : flow->at_ns;
		flow->next++;
	}
	flow->free -= amount;
	return true;
}

static bool places_at(const struct sk_core *core, uint32_t slot, uint64_t at_ns)
{
	uint64_t tasks = core->jobs[slot].request.tasks;
	uint32_t count;
	struct sk_blocked blocked = sk_limits_block(core, slot, at_ns, NULL, 0, &count);

	return sk_shortfall_all(core, slot, at_ns, blocked, tasks, NULL) >= tasks;
}

/* More fits the more has ended, so the first end that suffices is found by bisection. */
static bool eta_place(const struct sk_core *core, uint32_t slot, const struct sk_ends *ends,
		      uint64_t *at_ns)
{
	uint32_t low = 0, high = ends->count;

	if (places_at(core, slot, *at_ns))
		return true;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (ends->at[middle].at_ns > *at_ns &&
		    places_at(core, slot, ends->at[middle].at_ns))
			high = middle;
		else
			low = middle + 1;
	}
	if (low == ends->count)
		return false;
	*at_ns = ends->at[low].at_ns;
	return true;
}

static bool eta_amount(const struct sk_core *core, uint32_t slot, struct sk_ends *ends,
		       uint64_t *at_ns)
{
	const struct sk_job *job = &core->jobs[slot];
	enum sk_queue_kind kind = sk_queue_kind(job);
	bool devices = kind == SK_QUEUE_DEVICE;
	struct sk_flow flow = {ends, 0, amount_free(core, job, devices), *at_ns};
	uint32_t ahead = 0, at = slot;

	at = sk_line_head(core, slot);
	at = at ? at : slot;
	if (at != slot && !eta_place(core, at, ends, &flow.at_ns))
		return false;
	while (flow.next < ends->count && ends->at[flow.next].at_ns <= flow.at_ns)
		flow.free += ends->at[flow.next++].amount;
	for (; at != slot; at = sk_pending_next(core, at)) {
		const struct sk_job *other = &core->jobs[at];

		if (ahead++ == SK_ETA_AHEAD_MAX || !flow_take(&flow, amount_of(other, devices)))
			return false;
		if (other->request.estimate_ns)
			end_add(ends,
				(struct sk_end){sk_time_add(flow.at_ns, other->request.estimate_ns),
						amount_of(other, devices)});
	}
	if (!flow_take(&flow, amount_of(job, devices)))
		return false;
	*at_ns = flow.at_ns;
	return true;
}

/* The time at which the job is no longer held: the last end of those that it waits for, all of
 * which must have been placed. */
static bool eta_held(const struct sk_core *core, const struct sk_job *job, uint64_t *at_ns)
{
	uint64_t until = job->hold == SK_HOLD_TIME ? job->not_before_ns : core->now_ns;

	for (uint32_t n = 0; job->waits >> n; n++) {
		if (job->waits >> n & 1 && job->request.after[n] & SK_AFTER_RANGE)
			return false; /* the core knows no end of what it does not count */
		uint32_t before =
			job->waits >> n & 1 ? sk_job_find(core, job->request.after[n]) : 0;

		if (before && !core->jobs[before].tasks_first)
			return false;
		if (before && sk_job_end_ns(core, before) > until)
			until = sk_job_end_ns(core, before);
	}
	*at_ns = until > core->now_ns ? until : core->now_ns;
	return until != UINT64_MAX && job->hold != SK_HOLD_DOOMED;
}

bool sk_eta_start(const struct sk_core *core, uint32_t slot, uint64_t *ret)
{
	const struct sk_job *job = &core->jobs[slot];
	struct sk_ends ends;

	if (!eta_held(core, job, ret))
		return false;
	ends_gather(core, job, job->request.gpu_milli != 0, &ends);
	return eta_amount(core, slot, &ends, ret) && eta_place(core, slot, &ends, ret);
}
