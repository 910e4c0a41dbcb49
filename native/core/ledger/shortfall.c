/* SPDX-License-Identifier: Apache-2.0
 *
 * The free amounts of a node are copied. The amounts of tasks that end until the time in question
 * are added, and devices that the job does not accept are left out. So one function answers for the
 * present and for later.
 */
#include "core/ledger/shortfall.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/job.h"
#include "core/ledger/level.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"

/* Free amounts of one node at some time; only devices that the job accepts count. */
struct sk_room {
	uint64_t cpu;
	uint64_t memory;
	uint64_t places;
	uint32_t devices;
	uint32_t milli[SK_NODE_DEVICES_MAX];
	uint64_t device_memory[SK_NODE_DEVICES_MAX];
	uint32_t group[SK_NODE_DEVICES_MAX]; /* of devices that a task needs together; 0: none */
	uint16_t link[SK_NODE_DEVICES_MAX];
	uint8_t family[SK_NODE_DEVICES_MAX];
	uint32_t families; /* families of devices that the job accepts, each a bit */
	uint8_t together;  /* as the job's wish has it */
};

#define SK_ANY_FAMILY UINT8_MAX

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void room_release(const struct sk_core *core, const struct sk_task *task,
			 struct sk_room *room)
{
	const struct sk_request *request = &core->jobs[task->job].request;

	room->places++;
	room->cpu += request->cpu_milli;
	room->memory += request->memory_bytes;
	for (uint32_t i = 0; i < task->shares_n; i++) {
		uint32_t index = task->shares[i].index;

		if (!sk_device_at(core, task->node, index)->available)
			continue;
		room->milli[index] += task->shares[i].milli;
		room->device_memory[index] += request->device_memory_bytes;
	}
}

static bool accepts(const struct sk_job *job, const struct sk_device *device,
		    struct sk_blocked blocked)
{
	if (blocked.all || blocked.families >> device->family & 1 ||
	    !sk_fit_wish(&job->wish, device))
		return false;
	return !device->model || !(blocked.models >> (device->model - 1) & 1);
}

static void room_at(const struct sk_core *core, uint32_t slot, uint32_t node, uint64_t at_ns,
		    struct sk_blocked blocked, struct sk_room *room)
{
	const struct sk_node *at = &core->nodes[node];
	uint64_t named;

	room->places = core->limits.node_tasks - lower(at->tasks_count, core->limits.node_tasks);
	room->cpu = sk_node_cpu_free(at);
	room->memory = sk_node_memory_free(at);
	room->devices = at->devices;
	for (uint32_t index = 0; index < at->devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);

		room->milli[index] = sk_device_free(device);
		room->device_memory[index] = sk_device_memory_free(device);
		room->link[index] = device->link;
		room->group[index] = sk_device_group(device, core->jobs[slot].wish.together);
		room->family[index] = device->family;
	}
	room->families = 0;
	room->together = core->jobs[slot].wish.together;
	named = sk_wish_named(core, &core->jobs[slot].request, &core->jobs[slot].wish, node);
	if (at_ns > core->now_ns)
		for (uint32_t task = at->tasks.first; task; task = core->tasks[task].on_node.next)
			if (sk_job_end_ns(core, core->tasks[task].job) <= at_ns)
				room_release(core, &core->tasks[task], room);
	for (uint32_t index = 0; index < at->devices; index++)
		if (!(named >> index & 1) ||
		    !accepts(&core->jobs[slot], sk_device_at(core, node, index), blocked))
			room->milli[index] = 0;
		else
			room->families |= 1u << room->family[index];
}

static uint64_t share_tasks(const struct sk_request *request, const struct sk_room *room,
			    uint32_t index, bool memory)
{
	uint64_t tasks = room->milli[index] / request->gpu_milli;

	if (memory && request->device_memory_bytes)
		tasks = lower(tasks, room->device_memory[index] / request->device_memory_bytes);
	return tasks;
}

/* Devices of a family that are entirely free; if `group` is not 0 only those of that group. */
static uint64_t whole_free(const struct sk_request *request, const struct sk_room *room,
			   uint8_t family, bool memory, uint32_t group)
{
	uint64_t free = 0;

	for (uint32_t index = 0; index < room->devices; index++)
		free += room->milli[index] == SK_MILLI && (!group || room->group[index] == group) &&
			(family == SK_ANY_FAMILY || room->family[index] == family) &&
			!(memory && room->device_memory[index] < request->device_memory_bytes);
	return free;
}

/* The first device of the node with the link of this one. */
static uint32_t link_first(const struct sk_room *room, uint32_t index)
{
	uint32_t first = 0;

	while (room->link[first] != room->link[index])
		first++;
	return first;
}

/* Tasks whose devices are together, each its own or all of them on one link, and the most free
 * devices that one group has. */
static uint64_t grouped_tasks(const struct sk_request *request, const struct sk_room *room,
			      uint8_t family, uint64_t *most)
{
	uint64_t tasks = 0, of_link[SK_NODE_DEVICES_MAX] = {0};

	*most = 0;
	for (uint32_t index = 0; index < room->devices; index++) {
		bool first = room->group[index] != 0;
		uint64_t free, here, *at = &of_link[link_first(room, index)];

		for (uint32_t before = 0; before < index && first; before++)
			first = room->group[before] != room->group[index];
		free = first ? whole_free(request, room, family, true, room->group[index]) : 0;
		here = free / (request->gpu_milli / SK_MILLI);
		*at += here;
		if (!(room->together & SK_LINKED_GANG))
			tasks += here;
		else if (*at > tasks)
			tasks = *at;
		*most = free > *most ? free : *most;
	}
	return tasks;
}

/* Record a shortfall of a node; the line keeps the node with the smallest one. */
static void add_shortfall(struct sk_shortfall *shortfall, enum sk_need need, struct sk_explain line)
{
	struct sk_explain *at = shortfall ? &shortfall->need[need] : NULL;
	uint32_t count;

	if (!at)
		return;
	count = at->count + 1;
	if (count == 1 || line.have > at->have)
		*at = line;
	at->count = count;
}

static uint64_t shares_shortfall(const struct sk_request *request, const struct sk_room *room,
				 uint64_t node, struct sk_shortfall *shortfall)
{
	uint64_t tasks = 0, milli = 0, bytes = 0;

	for (uint32_t index = 0; index < room->devices; index++) {
		tasks += share_tasks(request, room, index, true);
		milli = room->milli[index] > milli ? room->milli[index] : milli;
		if (room->milli[index] >= request->gpu_milli && room->device_memory[index] > bytes)
			bytes = room->device_memory[index];
	}
	if (!tasks && milli < request->gpu_milli)
		add_shortfall(shortfall, SK_NEED_DEVICES,
			      (struct sk_explain){SK_NEEDS_SHARE, (uint16_t)request->kinds, 0, node,
						  0, request->gpu_milli, milli});
	else if (!tasks)
		add_shortfall(shortfall, SK_NEED_DEVICE_MEMORY,
			      (struct sk_explain){SK_NEEDS_DEVICE_MEMORY, 0, 0, node, 0,
						  request->device_memory_bytes, bytes});
	return tasks;
}

static uint64_t most_memory(const struct sk_room *room)
{
	uint64_t bytes = 0;

	for (uint32_t index = 0; index < room->devices; index++)
		if (room->milli[index] == SK_MILLI && room->device_memory[index] > bytes)
			bytes = room->device_memory[index];
	return bytes;
}

/* Free devices of the family that has most, and the tasks for which all families have room. */
struct sk_whole {
	uint64_t tasks;
	uint64_t free;
	uint64_t roomy;	  /* with memory enough */
	uint64_t grouped; /* of one link, NUMA node or both */
};

static void whole_add(const struct sk_request *request, const struct sk_room *room, uint8_t family,
		      struct sk_whole *whole)
{
	uint64_t wanted = request->gpu_milli / SK_MILLI;
	uint64_t free = whole_free(request, room, family, false, 0);
	uint64_t roomy = whole_free(request, room, family, true, 0);
	uint64_t grouped = roomy, tasks = roomy / wanted;

	if (room->together & SK_LINKED_GANG || (room->together && wanted > 1))
		tasks = grouped_tasks(request, room, family, &grouped);
	whole->tasks += tasks;
	whole->free = free > whole->free ? free : whole->free;
	whole->roomy = roomy > whole->roomy ? roomy : whole->roomy;
	whole->grouped = grouped > whole->grouped ? grouped : whole->grouped;
}

static uint64_t whole_shortfall(const struct sk_request *request, const struct sk_room *room,
				uint64_t node, struct sk_shortfall *shortfall)
{
	uint64_t wanted = request->gpu_milli / SK_MILLI, all;
	struct sk_whole whole = {0};

	if (!sk_fit_one_family(request))
		whole_add(request, room, SK_ANY_FAMILY, &whole);
	else
		for (uint32_t left = room->families; left; left &= left - 1)
			whole_add(request, room, (uint8_t)__builtin_ctz(left), &whole);
	all = whole_free(request, room, SK_ANY_FAMILY, false, 0);
	if (whole.tasks)
		return whole.tasks;
	if (all >= wanted && whole.free < wanted)
		add_shortfall(shortfall, SK_NEED_ONE_VENDOR,
			      (struct sk_explain){SK_NEEDS_ONE_VENDOR, 0, 0, node, 0, wanted,
						  whole.free});
	else if (whole.free < wanted)
		add_shortfall(shortfall, SK_NEED_DEVICES,
			      (struct sk_explain){SK_NEEDS_DEVICES, (uint16_t)request->kinds, 0,
						  node, 0, wanted, whole.free});
	else if (whole.roomy < wanted)
		add_shortfall(shortfall, SK_NEED_DEVICE_MEMORY,
			      (struct sk_explain){SK_NEEDS_DEVICE_MEMORY, 0, 0, node, 0,
						  request->device_memory_bytes, most_memory(room)});
	else if (room->together & SK_ONE_NUMA)
		add_shortfall(
			shortfall, SK_NEED_NUMA,
			(struct sk_explain){SK_NEEDS_NUMA, 0, 0, node, 0, wanted, whole.grouped});
	else
		add_shortfall(
			shortfall, SK_NEED_LINK,
			(struct sk_explain){SK_NEEDS_LINK, 0, 0, node, 0, wanted, whole.grouped});
	return 0;
}

static void unavailable(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			struct sk_shortfall *shortfall)
{
	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);

		if (device->available || !device->capacity || !sk_fit_wish(&job->wish, device))
			continue;
		if (!shortfall->unavailable.count++)
			shortfall->unavailable = (struct sk_explain){
				SK_DEVICES_UNAVAILABLE,
				device->reason,
				1,
				core->nodes[node].id,
				0,
				index,
				device->owner,
			};
	}
}

/* The label or taint because of which sk_fit_node refused the job. */
static uint64_t label_at_fault(const struct sk_request *request, const struct sk_node *node,
			       uint16_t reason)
{
	if (reason == SK_LABEL_MISSING)
		for (uint32_t i = 0; i < SK_JOB_LABELS_MAX && request->require[i]; i++)
			if (!sk_label_find(node, request->require[i]))
				return request->require[i];
	if (reason == SK_LABEL_AVOIDED)
		for (uint32_t i = 0; i < SK_JOB_LABELS_MAX && request->avoid[i]; i++)
			if (sk_label_find(node, request->avoid[i]))
				return request->avoid[i];
	for (uint32_t i = 0; i < node->labels_n; i++) {
		bool tolerated = !(node->labels[i].flags & SK_LABEL_TAINT);

		for (uint32_t j = 0; j < SK_JOB_LABELS_MAX && !tolerated; j++)
			tolerated = request->tolerate[j] == node->labels[i].label;
		if (!tolerated)
			return node->labels[i].label;
	}
	return 0;
}

static void kept_out(const struct sk_core *core, const struct sk_job *job, uint32_t slot,
		     uint16_t reason, struct sk_shortfall *shortfall)
{
	const struct sk_node *node = &core->nodes[slot];
	const struct sk_request *request = &job->request;
	struct sk_explain line = {.detail = reason, .node = node->id};
	enum sk_need need = SK_NEED_GROUP;

	switch (reason) {
	case SK_WRONG_MODEL:
		need = SK_NEED_MODEL;
		line.reason = SK_NEEDS_MODEL;
		line.asked = request->models[0];
		break;
	case SK_CONDITION_NOT_MET:
		need = SK_NEED_CONDITIONS;
		line.reason = SK_NEEDS_CONDITIONS;
		break;
	case SK_NOT_TOLERATED:
	case SK_LABEL_MISSING:
	case SK_LABEL_AVOIDED:
		need = reason == SK_NOT_TOLERATED ? SK_NEED_TOLERATION : SK_NEED_LABELS;
		line.reason = reason == SK_NOT_TOLERATED ? SK_NEEDS_TOLERATION : SK_NEEDS_LABELS;
		line.asked = label_at_fault(request, node, reason);
		break;
	case SK_LEVEL_SPLIT:
		need = SK_NEED_LEVEL;
		line.reason = SK_NEEDS_LEVEL;
		line.job = sk_level_required(request);
		break;
	case SK_NODE_RESERVED:
		need = SK_NEED_RESERVATION;
		line.reason = SK_NEEDS_RESERVATION;
		line.job = node->reserve_queue;
		line.asked = node->reserve_until_ns;
		break;
	default:
		line.reason = SK_NEEDS_GROUP;
		line.asked = request->group;
	}
	add_shortfall(shortfall, need, line);
}

static uint64_t host_shortfall(const struct sk_core *core, const struct sk_request *request,
			       const struct sk_room *room, uint64_t node,
			       struct sk_shortfall *shortfall)
{
	uint64_t fit = room->places;

	if (!room->places)
		add_shortfall(shortfall, SK_NEED_PLACE,
			      (struct sk_explain){SK_NODE_JOBS_FULL, 0, 0, node, 0, 1,
						  core->limits.node_tasks});
	if (request->cpu_milli > room->cpu)
		add_shortfall(shortfall, SK_NEED_CPU,
			      (struct sk_explain){SK_NEEDS_CPU, 0, 0, node, 0, request->cpu_milli,
						  room->cpu});
	if (request->memory_bytes > room->memory)
		add_shortfall(shortfall, SK_NEED_MEMORY,
			      (struct sk_explain){SK_NEEDS_MEMORY, 0, 0, node, 0,
						  request->memory_bytes, room->memory});
	if (request->cpu_milli)
		fit = lower(fit, room->cpu / request->cpu_milli);
	if (request->memory_bytes)
		fit = lower(fit, room->memory / request->memory_bytes);
	return fit;
}

uint64_t sk_shortfall_node(const struct sk_core *core, uint32_t slot, uint32_t node, uint64_t at_ns,
			   struct sk_blocked blocked, struct sk_shortfall *shortfall)
{
	uint16_t reason = sk_fit_node(core, slot, node, at_ns);

	if (reason == SK_WRONG_KIND)
		return 0; /* this is no shortfall */
	if (reason) {
		kept_out(core, &core->jobs[slot], node, reason, shortfall);
		return 0;
	}
	return sk_shortfall_room(core, slot, node, at_ns, blocked, shortfall);
}

uint64_t sk_shortfall_room(const struct sk_core *core, uint32_t slot, uint32_t node, uint64_t at_ns,
			   struct sk_blocked blocked, struct sk_shortfall *shortfall)
{
	const struct sk_job *job = &core->jobs[slot];
	uint64_t id = core->nodes[node].id, fit;
	struct sk_room room;

	room_at(core, slot, node, at_ns, blocked, &room);
	fit = host_shortfall(core, &job->request, &room, id, shortfall);
	if (!job->request.gpu_milli)
		return fit;
	if (shortfall)
		unavailable(core, job, node, shortfall);
	if (job->request.gpu_milli < SK_MILLI)
		return lower(fit, shares_shortfall(&job->request, &room, id, shortfall));
	return lower(fit, whole_shortfall(&job->request, &room, id, shortfall));
}

/* The options by which the tasks of a gang are placed, including the affinity of their group. */
static uint32_t gang_options(const struct sk_core *core, const struct sk_request *request)
{
	uint32_t options = request->options & (SK_PACK_TASKS | SK_SPREAD_TASKS);

	if (request->options & SK_REPEL)
		options |= SK_SPREAD_TASKS;
	if (request->options & SK_ATTRACT && !sk_group_tasks(core, request->group))
		options |= SK_PACK_TASKS;
	return options;
}

static uint64_t shortfall_of(const struct sk_core *core, uint32_t slot, uint64_t at_ns,
			     struct sk_blocked blocked, uint64_t enough,
			     struct sk_shortfall *shortfall)
{
	uint32_t per_node = core->jobs[slot].request.per_node;
	uint32_t options = gang_options(core, &core->jobs[slot].request);
	struct sk_blocked rest = blocked;
	uint64_t places = 0, capped = 0, fit;

	rest.models |= blocked.capped;

	for (uint32_t node = sk_level_first(core, blocked.near); node;
	     node = sk_level_after(core, blocked.near, node)) {
		fit = core->nodes[node].up
			      ? sk_shortfall_node(core, slot, node, at_ns, blocked, shortfall)
			      : 0;

		if (fit && blocked.capped) {
			uint64_t without = sk_shortfall_node(core, slot, node, at_ns, rest, NULL);
			uint64_t of_model = lower(fit - without, blocked.cap - capped);

			capped += options & SK_PACK_TASKS ? 0 : of_model;
			fit = without + of_model;
		}
		if (per_node)
			fit = fit < per_node ? 0 : per_node;
		if (shortfall && fit && !shortfall->places)
			shortfall->first = core->nodes[node].id;
		if (options & SK_PACK_TASKS)
			places = fit > places ? fit : places;
		else
			places += options & SK_SPREAD_TASKS ? fit != 0 : fit;
		if (shortfall)
			shortfall->places = places;
		else if (places >= enough)
			break;
	}
	return places;
}

/* A gang whose devices must be of one family has the places of the family that has most. */
static uint64_t shortfall_families(const struct sk_core *core, uint32_t slot, uint64_t at_ns,
				   struct sk_blocked blocked, uint64_t enough,
				   struct sk_shortfall *shortfall)
{
	const struct sk_job *job = &core->jobs[slot];
	uint32_t families = sk_families_known(core, job->wish.families);
	uint64_t most = 0;

	if (job->request.tasks == 1 || !sk_fit_one_family(&job->request) ||
	    !(families & (families - 1)))
		return shortfall_of(core, slot, at_ns, blocked, enough, shortfall);
	for (; families; families &= families - 1) {
		struct sk_shortfall these = {0};
		uint64_t places;

		blocked.families = ~(families & -families);
		places =
			shortfall_of(core, slot, at_ns, blocked, enough, shortfall ? &these : NULL);
		if (shortfall && (places > most || !shortfall->looked))
			*shortfall = these;
		if (shortfall)
			shortfall->looked = true;
		most = places > most ? places : most;
	}
	return most;
}

/* A gang that stays within a domain has the places of the domain that has most. */
uint64_t sk_shortfall_all(const struct sk_core *core, uint32_t slot, uint64_t at_ns,
			  struct sk_blocked blocked, uint64_t enough,
			  struct sk_shortfall *shortfall)
{
	const struct sk_job *job = &core->jobs[slot];
	uint64_t most = 0;

	if (job->wish.levels)
		sk_level_domains(core, &job->request, job->wish.levels, 0);
	if (!job->wish.levels || !core->domains->count)
		return shortfall_families(core, slot, at_ns, blocked, enough, shortfall);
	while ((blocked.near = sk_level_take(core))) {
		struct sk_shortfall these = {0};
		uint64_t places = shortfall_families(core, slot, at_ns, blocked, enough,
						     shortfall ? &these : NULL);

		if (shortfall && (places > most || !shortfall->looked))
			*shortfall = these;
		if (shortfall)
			shortfall->looked = true;
		most = places > most ? places : most;
	}
	return most;
}
