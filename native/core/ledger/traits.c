/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions are compiled into masks when a job comes and when new traits come, which is seldom.
 * Decisions read the masks alone.
 */
#include <string.h>

#include "core/ledger/node.h"
#include "core/ledger/traits.h"
#include "core/state/journal.h"

uint32_t sk_model_find(const struct sk_core *core, uint64_t model)
{
	for (uint32_t i = 0; i < core->models_n; i++)
		if (core->models[i] == model)
			return i + 1;
	return 0;
}

uint32_t sk_model_add(struct sk_core *core, uint64_t model)
{
	uint32_t at = sk_model_find(core, model);

	if (at || core->models_n == SK_MODELS_MAX)
		return at;
	SK_SET(core, core->models[core->models_n], model);
	SK_ADD(core, core->models_n, 1);
	return core->models_n;
}

uint64_t sk_model_mask(const struct sk_core *core, const struct sk_request *request)
{
	uint64_t mask = 0;

	for (uint32_t i = 0; i < SK_JOB_MODELS_MAX && request->models[i]; i++) {
		uint32_t at = sk_model_find(core, request->models[i]);

		mask |= at ? (uint64_t)1 << (at - 1) : 0;
	}
	return mask;
}

struct sk_wish sk_wish_of(const struct sk_core *core, const struct sk_request *request)
{
	struct sk_wish wish;

	wish.models = request->models[0] ? sk_model_mask(core, request) : 0;
	wish.traits = UINT64_MAX;
	wish.memory_least = 0;
	wish.families = sk_families_of(request->kinds);
	wish.available = 0;
	wish.together = request->options & SK_SAME_LINK ? SK_LINKED_TASK : 0;
	wish.named = 0;
	wish.levels = 0;
	wish.near = 0;
	wish.zero = 0;
	if (request->conditions[0].property)
		sk_wish_narrow(core, request, 0, &wish);
	return wish;
}

static bool same(const struct sk_traits *a, const struct sk_traits *b)
{
	return a->arch == b->arch && a->profile == b->profile && a->driver == b->driver &&
	       a->compute == b->compute && a->link_gbps == b->link_gbps &&
	       a->near_cpus == b->near_cpus;
}

uint32_t sk_traits_find(const struct sk_core *core, const struct sk_traits *traits)
{
	for (uint32_t at = 1; at <= core->traits_n; at++)
		if (same(&core->traits[at], traits))
			return at;
	return 0;
}

/* The traits that devices of known nodes have, each a bit. */
static uint64_t traits_used(const struct sk_core *core)
{
	uint64_t used = 1;

	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1))
		used |= core->nodes[slot].traits;
	return used;
}

bool sk_traits_room(const struct sk_core *core)
{
	return core->traits_n < SK_TRAITS_MAX || ~traits_used(core);
}

uint32_t sk_traits_add(struct sk_core *core, const struct sk_traits *traits)
{
	uint32_t at = core->traits_n < SK_TRAITS_MAX
			      ? ++core->traits_n
			      : (uint32_t)__builtin_ctzll(~traits_used(core));

	core->traits[at] = *traits;
	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next)
		if (core->jobs[slot].request.conditions[0].property)
			core->jobs[slot].wish = sk_wish_of(core, &core->jobs[slot].request);
	return at;
}

static bool compare(uint64_t have, const struct sk_condition *condition)
{
	switch (condition->relation) {
	case SK_RELATION_LEAST:
		return have >= condition->value;
	case SK_RELATION_MOST:
		return have && have <= condition->value;
	default:
		return have == condition->value;
	}
}

static uint64_t trait_of(const struct sk_traits *traits, uint32_t property)
{
	switch (property) {
	case SK_PROPERTY_COMPUTE:
		return traits->compute;
	case SK_PROPERTY_ARCH:
		return traits->arch;
	case SK_PROPERTY_PROFILE:
		return traits->profile;
	case SK_PROPERTY_PARTITION:
		return traits->profile ? 2 : 1;
	case SK_PROPERTY_LINK:
		return traits->link_gbps;
	case SK_PROPERTY_NUMA:
		return traits->near_cpus;
	default:
		return traits->driver;
	}
}

uint64_t sk_condition_have(const struct sk_core *core, const struct sk_condition *condition,
			   const struct sk_device *device)
{
	switch (condition->property) {
	case SK_PROPERTY_VENDOR:
		return device->family % SK_VENDORS_MAX;
	case SK_PROPERTY_MODEL:
		return device->model ? core->models[device->model - 1] : 0;
	case SK_PROPERTY_MEMORY:
		return device->memory_bytes;
	case SK_PROPERTY_LINK:
		return device->link && !core->traits[device->traits].link_gbps
			       ? SK_LINK_ANY
			       : core->traits[device->traits].link_gbps;
	default:
		return trait_of(&core->traits[device->traits], condition->property);
	}
}

bool sk_condition_met(const struct sk_core *core, const struct sk_condition *condition,
		      const struct sk_device *device)
{
	return compare(sk_condition_have(core, condition, device), condition);
}

/* True if the traits decide whether a device meets the condition. */
static bool of_traits(const struct sk_condition *condition)
{
	if (condition->property == SK_PROPERTY_LINK)
		return condition->value > SK_LINK_ANY;
	return condition->property >= SK_PROPERTY_COMPUTE &&
	       condition->property != SK_PROPERTY_DEVICE &&
	       condition->property != SK_PROPERTY_LEVEL;
}

/* True if the traits meet the conditions of this rank: of those that say IS on one field any, of
 * the others each. */
static bool traits_do(const struct sk_traits *traits, const struct sk_request *request,
		      uint32_t rank)
{
	uint32_t named = 0, met = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		const struct sk_condition *condition = &request->conditions[i];
		bool is = condition->relation == SK_RELATION_IS;
		bool holds;

		if (condition->rank != rank || !of_traits(condition))
			continue;
		holds = compare(trait_of(traits, condition->property), condition);
		if (!is && !holds)
			return false;
		named |= (uint32_t)is << condition->property;
		met |= (uint32_t)(is && holds) << condition->property;
	}
	return named == met;
}

static uint64_t traits_mask(const struct sk_core *core, const struct sk_request *request,
			    uint32_t rank)
{
	uint64_t mask = 0;

	for (uint32_t at = 0; at <= core->traits_n; at++)
		mask |= (uint64_t)traits_do(&core->traits[at], request, rank) << at;
	return mask;
}

static uint32_t vendor_families(uint64_t vendor)
{
	return 1u << vendor | 1u << (vendor + SK_VENDORS_MAX);
}

static uint64_t model_bit(const struct sk_core *core, uint64_t model)
{
	uint32_t at = sk_model_find(core, model);

	return at ? (uint64_t)1 << (at - 1) : 0;
}

bool sk_wish_narrow(const struct sk_core *core, const struct sk_request *request, uint32_t rank,
		    struct sk_wish *wish)
{
	uint32_t named = 0, families = 0;
	uint64_t models = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		const struct sk_condition *condition = &request->conditions[i];

		if (condition->rank != rank)
			continue;
		named |= 1u << (of_traits(condition) ? SK_PROPERTY_COMPUTE : condition->property);
		if (condition->property == SK_PROPERTY_LINK)
			wish->together |= request->tasks > 1 ? SK_LINKED_GANG : SK_LINKED_TASK;
		else if (condition->property == SK_PROPERTY_NUMA)
			wish->together |= SK_ONE_NUMA;
		else if (condition->property == SK_PROPERTY_DEVICE)
			wish->named |= (uint8_t)(1u << rank);
		else if (condition->property == SK_PROPERTY_LEVEL)
			wish->levels |= (uint8_t)(1u << rank);
		else if (condition->property == SK_PROPERTY_VENDOR)
			families |= vendor_families(condition->value);
		else if (condition->property == SK_PROPERTY_MODEL)
			models |= model_bit(core, condition->value);
		else if (condition->property == SK_PROPERTY_MEMORY &&
			 condition->value > wish->memory_least)
			wish->memory_least = condition->value;
	}
	if (named >> SK_PROPERTY_VENDOR & 1)
		wish->families &= families;
	if (named >> SK_PROPERTY_COMPUTE & 1)
		wish->traits &= traits_mask(core, request, rank);
	if (!(named >> SK_PROPERTY_MODEL & 1))
		return true;
	wish->models = wish->models ? wish->models & models : models;
	return wish->models != 0;
}

/* The devices of a node that the conditions DEVICE of one rank name. */
static uint64_t devices_of_rank(const struct sk_request *request, uint64_t node, uint32_t rank)
{
	uint64_t mask = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		const struct sk_condition *condition = &request->conditions[i];

		if (condition->property == SK_PROPERTY_DEVICE && condition->rank == rank &&
		    (!condition->value || condition->value == node))
			mask |= (uint64_t)1 << (condition->place - 1);
	}
	return mask;
}

uint64_t sk_wish_named(const struct sk_core *core, const struct sk_request *request,
		       const struct sk_wish *wish, uint32_t node)
{
	uint64_t mask = UINT64_MAX;

	for (uint32_t left = wish->named; left; left &= left - 1)
		mask &= devices_of_rank(request, core->nodes[node].id,
					(uint32_t)__builtin_ctz(left));
	return mask;
}

uint32_t sk_wish_ranks(const struct sk_request *request)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++)
		most = request->conditions[i].rank > most ? request->conditions[i].rank : most;
	return most;
}

/* Names and vendors are equal or not; memory has a least amount; versions have both bounds. Models
 * that are required stand in the list of models. */
static bool condition_ok(const struct sk_condition *condition)
{
	bool device = condition->property == SK_PROPERTY_DEVICE;

	if (condition->property >= SK_PROPERTY_END || !condition->relation ||
	    condition->relation >= SK_RELATION_END || condition->rank > SK_PREFERENCES_MAX ||
	    !(condition->value || device) || !condition->place == device ||
	    condition->place > SK_NODE_DEVICES_MAX)
		return false;
	switch (condition->property) {
	case SK_PROPERTY_VENDOR:
		return condition->relation == SK_RELATION_IS && condition->value < SK_VENDORS_MAX;
	case SK_PROPERTY_MODEL:
		return condition->relation == SK_RELATION_IS && condition->rank;
	case SK_PROPERTY_ARCH:
	case SK_PROPERTY_PROFILE:
		return condition->relation == SK_RELATION_IS;
	case SK_PROPERTY_DEVICE:
	case SK_PROPERTY_LEVEL:
		return condition->relation == SK_RELATION_IS;
	case SK_PROPERTY_PARTITION:
		return condition->relation == SK_RELATION_IS && condition->value <= 2;
	case SK_PROPERTY_LINK:
	case SK_PROPERTY_MEMORY:
		return condition->relation == SK_RELATION_LEAST;
	case SK_PROPERTY_NUMA:
		return condition->relation == SK_RELATION_LEAST && !condition->rank;
	default:
		return true;
	}
}

uint32_t sk_conditions_bad(const struct sk_request *request)
{
	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++)
		if (!condition_ok(&request->conditions[i]) ||
		    (!request->gpu_milli && request->conditions[i].property != SK_PROPERTY_LEVEL) ||
		    (request->conditions[i].property == SK_PROPERTY_LINK &&
		     request->gpu_milli < SK_MILLI))
			return i + 1;
	return 0;
}
