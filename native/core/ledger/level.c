/* SPDX-License-Identifier: Apache-2.0
 *
 * A domain is known by the first of its nodes. Nodes find theirs by a hash of their labels, and
 * each knows the next one of its domain, so that to look at every domain is one pass over the
 * nodes. Domains wait in a heap, that with least room first.
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

/* The hash of what the node's domain is known by; 0: the node lacks a label. Two domains never have
 * one hash but by chance, 1 in 2^64, and then fit.c, which compares the labels themselves, keeps
 * the tasks apart. */
static uint64_t labels_hash(const struct sk_core *core, const struct sk_request *request,
			    uint32_t ranks, uint32_t node)
{
	uint64_t hash = 0, label;

	for (uint32_t i = 0; i < SK_JOB_CONDITIONS_MAX && request->conditions[i].property; i++) {
		if (!names_level(&request->conditions[i], ranks))
			continue;
		label = sk_level_label(&core->nodes[node], request->conditions[i].value);
		if (!label)
			return 0;
		hash = sk_mix(hash ^ label);
	}
	return hash | 1;
}

void sk_level_begin(const struct sk_core *core)
{
	struct sk_domains *domains = core->domains;

	memset(domains->buckets, 0, domains->stride * sizeof *domains->buckets);
	domains->count = 0;
}

static void domain_open(struct sk_domains *domains, uint32_t *bucket, uint32_t node, uint64_t hash)
{
	domains->next[node] = *bucket;
	*bucket = node;
	domains->nodes[domains->count++] = node;
	domains->labels[node] = hash;
	domains->room[node] = 0;
}

uint32_t sk_level_enter(const struct sk_core *core, const struct sk_request *request,
			uint32_t ranks, uint32_t node)
{
	struct sk_domains *domains = core->domains;
	uint64_t hash = labels_hash(core, request, ranks, node);
	uint32_t *bucket = &domains->buckets[hash % domains->stride], at = *bucket;

	if (!hash)
		return 0;
	while (at &&
	       (domains->labels[at] != hash || !sk_level_same(core, request, ranks, at, node)))
		at = domains->next[at];
	if (at)
		domains->member[domains->last[at]] = node;
	else
		domain_open(domains, bucket, at = node, hash);
	domains->last[at] = node;
	domains->member[node] = 0;
	return at;
}

static uint64_t free_of(const struct sk_core *core, bool devices, uint32_t node)
{
	const struct sk_node *at = &core->nodes[node];
	uint64_t free = devices || !at->up ? 0 : sk_node_cpu_free(at);

	for (uint32_t index = 0; devices && at->up && index < at->devices; index++)
		free += sk_device_free(sk_device_at(core, node, index));
	return free;
}

/* ---- the heap ---- */

static bool before(const struct sk_domains *domains, uint32_t a, uint32_t b)
{
	return domains->room[a] != domains->room[b] ? domains->room[a] < domains->room[b] : a < b;
}

static void sink(struct sk_domains *domains, uint32_t at)
{
	uint32_t *heap = domains->nodes, domain = heap[at], child;

	while ((child = 2 * at + 1) < domains->count) {
		child +=
			child + 1 < domains->count && before(domains, heap[child + 1], heap[child]);
		if (!before(domains, heap[child], domain))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = domain;
}

void sk_level_domains(const struct sk_core *core, const struct sk_request *request, uint32_t ranks,
		      uint64_t least)
{
	struct sk_domains *domains = core->domains;
	uint32_t found;

	sk_level_begin(core);
	for (uint32_t node = sk_node_next(core, 1); node; node = sk_node_next(core, node + 1)) {
		uint32_t at = sk_level_enter(core, request, ranks, node);

		if (at)
			domains->room[at] += free_of(core, request->gpu_milli != 0, node);
	}
	found = domains->count;
	domains->count = 0;
	for (uint32_t i = 0; i < found; i++)
		if (domains->room[domains->nodes[i]] >= least)
			domains->nodes[domains->count++] = domains->nodes[i];
	for (uint32_t at = domains->count / 2; at; at--)
		sink(domains, at - 1);
}

uint32_t sk_level_take(const struct sk_core *core)
{
	struct sk_domains *domains = core->domains;
	uint32_t first = domains->count ? domains->nodes[0] : 0;

	if (!first)
		return 0;
	domains->nodes[0] = domains->nodes[--domains->count];
	if (domains->count)
		sink(domains, 0);
	return first;
}

/* ---- nodes of a domain ---- */

uint32_t sk_level_first(const struct sk_core *core, uint32_t domain)
{
	return domain ? domain : sk_node_next(core, 1);
}

uint32_t sk_level_after(const struct sk_core *core, uint32_t domain, uint32_t node)
{
	return domain ? core->domains->member[node] : sk_node_next(core, node + 1);
}
