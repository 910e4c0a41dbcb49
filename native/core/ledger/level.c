/* SPDX-License-Identifier: Apache-2.0
 *
 * A domain is known by the first of its nodes. Nodes find theirs by a hash of their labels.
 */
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/level.h"
#include "core/ledger/node.h"
#include "core/state/table.h"

/* ---- labels ---- */

uint64_t sk_level_label(const struct sk_node *node, uint64_t level)
{
	for (uint32_t i = 0; i < node->labels_n; i++)
		if (!node->labels[i].flags && node->labels[i].value == level)
			return node->labels[i].label;
	return 0;
}

/* True if the condition names a level and has one of these ranks. */
static bool names_level(const struct sk_condition *condition, uint32_t ranks)
{
	return condition->property == SK_PROPERTY_LEVEL && ranks >> condition->rank & 1;
}

bool sk_level_same(const struct sk_core *core, const struct sk_request *request, uint32_t ranks,
		   uint32_t node, uint32_t other)
{
	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		uint64_t level = request->conditions[i].value, label;

		if (!names_level(&request->conditions[i], ranks))
			continue;
		label = sk_level_label(&core->nodes[node], level);
		if (!label || sk_level_label(&core->nodes[other], level) != label)
			return false;
	}
	return true;
}

bool sk_level_joins(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	uint32_t near = job->wish.near;

	if (!near)
		near = job->tasks_first ? core->tasks[job->tasks_first].node : node;
	return sk_level_same(core, &job->request, job->wish.levels, near, node);
}

uint64_t sk_level_required(const struct sk_request *request)
{
	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++)
		if (names_level(&request->conditions[i], 1))
			return request->conditions[i].value;
	return 0;
}

/* ---- domains ---- */

static uint64_t labels_hash(const struct sk_core *core, const struct sk_request *request,
			    uint32_t ranks, uint32_t node)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++)
		if (names_level(&request->conditions[i], ranks))
			hash = sk_mix(hash ^ sk_level_label(&core->nodes[node],
							    request->conditions[i].value));
	return hash;
}

static uint64_t free_of(const struct sk_core *core, bool devices, uint32_t node)
{
	const struct sk_node *at = &core->nodes[node];
	uint64_t free = devices || !at->up ? 0 : sk_node_cpu_free(at);

	for (uint32_t index = 0; devices && at->up && index < at->devices; index++)
		free += sk_device_free(sk_device_at(core, node, index));
	return free;
}

void sk_level_domains(const struct sk_core *core, const struct sk_request *request, uint32_t ranks)
{
	struct sk_domains *domains = core->domains;

	memset(domains->buckets, 0, domains->stride * sizeof *domains->buckets);
	domains->count = 0;
	for (uint32_t node = sk_node_next(core, 1); node; node = sk_node_next(core, node + 1)) {
		uint64_t hash = labels_hash(core, request, ranks, node);
		uint32_t *bucket = &domains->buckets[hash % domains->stride], at = *bucket;

		if (!sk_level_same(core, request, ranks, node, node))
			continue;
		while (at && !sk_level_same(core, request, ranks, at, node))
			at = domains->next[at];
		if (!at) {
			at = node;
			domains->next[at] = *bucket;
			*bucket = at;
			domains->nodes[domains->count++] = at;
			domains->room[at] = 0;
		}
		domains->room[at] += free_of(core, request->gpu_milli != 0, node);
	}
}

static bool before(const struct sk_domains *domains, uint32_t a, uint32_t b)
{
	return domains->room[a] != domains->room[b] ? domains->room[a] < domains->room[b] : a < b;
}

uint32_t sk_level_next(const struct sk_core *core, uint32_t domain)
{
	const struct sk_domains *domains = core->domains;
	uint32_t next = 0;

	for (uint32_t i = 0; i < domains->count; i++) {
		uint32_t at = domains->nodes[i];

		if ((!domain || before(domains, domain, at)) &&
		    (!next || before(domains, at, next)))
			next = at;
	}
	return next;
}

uint64_t sk_level_room(const struct sk_core *core, uint32_t domain)
{
	return core->domains->room[domain];
}
