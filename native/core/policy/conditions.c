/* SPDX-License-Identifier: Apache-2.0
 *
 * Each count is one pass over all devices, at most one for each condition of a job.
 */
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/level.h"
#include "core/ledger/node.h"
#include "core/ledger/traits.h"
#include "core/policy/conditions.h"

static bool alternatives(const struct sk_condition *a, const struct sk_condition *b)
{
	return a->property == b->property && a->rank == b->rank && a->relation == SK_RELATION_IS &&
	       b->relation == SK_RELATION_IS;
}

/* True if the device meets the condition at this position, or one that is an alternative to it. */
static bool met(const struct sk_core *core, const struct sk_request *request, uint32_t at,
		uint32_t slot, uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, slot, index);
	struct sk_wish named = {.named = 1};

	if (request->conditions[at].property == SK_PROPERTY_DEVICE)
		return sk_wish_named(core, request, &named, slot) >> index & 1;
	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++)
		if ((i == at || alternatives(&request->conditions[i], &request->conditions[at])) &&
		    sk_condition_met(core, &request->conditions[i], device))
			return true;
	return false;
}

static uint64_t nearer(const struct sk_condition *condition, uint64_t nearest, uint64_t have)
{
	if (condition->relation == SK_RELATION_LEAST)
		return have > nearest ? have : nearest;
	return have && (!nearest || have < nearest) ? have : nearest;
}

static bool of_kind(const struct sk_request *request, const struct sk_device *device)
{
	return device->capacity && sk_families_of(request->kinds) >> device->family & 1;
}

struct sk_condition_count sk_conditions_count(const struct sk_core *core,
					      const struct sk_request *request, uint32_t at)
{
	const struct sk_condition *condition = &request->conditions[at];
	struct sk_condition_count count = {0};

	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		if (sk_fit_labels(request, &core->nodes[slot]))
			continue;
		for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
			const struct sk_device *device = sk_device_at(core, slot, index);

			if (!of_kind(request, device))
				continue;
			count.devices++;
			count.met += met(core, request, at, slot, index);
			count.nearest = nearer(condition, count.nearest,
					       sk_condition_have(core, condition, device));
		}
	}
	return count;
}

bool sk_conditions_first(const struct sk_request *request, uint32_t at)
{
	if (request->conditions[at].rank || request->conditions[at].property == SK_PROPERTY_LEVEL)
		return false; /* a level is no property of a device */
	for (uint32_t i = 0; i < at; i++)
		if (alternatives(&request->conditions[i], &request->conditions[at]))
			return false;
	return true;
}

/* Devices that the required conditions and models of this wish allow. */
static uint32_t accepted(const struct sk_core *core, const struct sk_request *request,
			 const struct sk_wish *wish)
{
	uint32_t count = 0;

	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		uint64_t named = sk_wish_named(core, request, wish, slot);

		if (sk_fit_labels(request, &core->nodes[slot]))
			continue;
		for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
			const struct sk_device *device = sk_device_at(core, slot, index);

			count +=
				device->capacity && named >> index & 1 && sk_fit_wish(wish, device);
		}
	}
	return count;
}

/* True if some device of the requested kinds is of a model that the job accepts. */
static bool model_known(const struct sk_core *core, const struct sk_request *request,
			const struct sk_wish *wish)
{
	struct sk_wish model = {.models = wish->models,
				.traits = UINT64_MAX,
				.families = sk_families_of(request->kinds)};

	return accepted(core, request, &model) != 0;
}

uint16_t sk_conditions_lack(const struct sk_core *core, const struct sk_request *request,
			    const struct sk_wish *wish, struct sk_why *why)
{
	struct sk_condition_count count = {0};
	uint32_t required = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		if (!sk_conditions_first(request, i))
			continue;
		required++;
		count = sk_conditions_count(core, request, i);
		if (!count.devices || count.met)
			continue;
		why->job = sk_conditions_name(request, i);
		return sk_because(why, SK_NO_DEVICE_MEETS, request->conditions[i].value,
				  count.nearest);
	}
	if (!required || !count.devices || accepted(core, request, wish))
		return SK_REASON_NONE;
	if (wish->models && !model_known(core, request, wish))
		return SK_REASON_NONE; /* the models alone are why */
	required += wish->models != 0;
	return sk_because(why, SK_NO_DEVICE_MEETS_ALL, required, count.devices);
}

/* True if the devices that the job has on one node share a link. */
static bool node_linked(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	int32_t link = -1;

	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
		for (uint32_t i = 0; i < core->tasks[at].shares_n; i++) {
			int32_t own =
				sk_device_at(core, node, core->tasks[at].shares[i].index)->link;

			if (core->tasks[at].node != node)
				break;
			if (!own || (link >= 0 && own != link))
				return false;
			link = own;
		}
	return true;
}

static bool task_met(const struct sk_core *core, const struct sk_job *job,
		     const struct sk_wish *wish, const struct sk_task *task)
{
	uint64_t named = sk_wish_named(core, &job->request, wish, task->node);

	for (uint32_t i = 0; i < task->shares_n; i++) {
		uint32_t index = task->shares[i].index;

		if (!(named >> index & 1) ||
		    !sk_fit_wish(wish, sk_device_at(core, task->node, index)))
			return false;
	}
	if (!sk_level_same(core, &job->request, wish->levels, core->tasks[job->tasks_first].node,
			   task->node))
		return false;
	return !(wish->together & SK_LINKED) || node_linked(core, job, task->node);
}

static bool rank_met(const struct sk_core *core, const struct sk_job *job, uint32_t rank)
{
	struct sk_wish wish = {.traits = UINT64_MAX, .families = UINT32_MAX};

	if (!sk_wish_narrow(core, &job->request, rank, &wish))
		return false;
	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
		if (!task_met(core, job, &wish, &core->tasks[at]))
			return false;
	return true;
}

uint32_t sk_conditions_preferred(const struct sk_core *core, const struct sk_job *job)
{
	uint32_t ranks = sk_wish_ranks(&job->request), mask = 0;

	for (uint32_t rank = 1; rank <= ranks; rank++)
		mask |= (uint32_t)rank_met(core, job, rank) << (rank - 1);
	return mask;
}
