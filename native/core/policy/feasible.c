/* SPDX-License-Identifier: Apache-2.0
 *
 * A request is checked once, at submit, against the limits of its queue and all known nodes, also
 * those that are down. So a job that can never run is refused with figures and does not wait for
 * ever. While no node is known nothing is refused.
 */
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/level.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/why.h"
#include "core/policy/conditions.h"
#include "core/policy/feasible.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* True if devices of a task must be together, on a link or in a NUMA node. */
static bool wants_group(const struct sk_request *request, const struct sk_wish *wish)
{
	return wish->together & SK_LINKED_GANG || (wish->together && request->gpu_milli > SK_MILLI);
}

/* True if tasks may ever use this device, as far as it alone decides. */
static bool device_serves(const struct sk_request *request, const struct sk_wish *wish,
			  const struct sk_device *device)
{
	return sk_fit_wish(wish, device) && (!wish->available || device->available) &&
	       device->memory_bytes >= request->device_memory_bytes &&
	       device->capacity >= smaller(request->gpu_milli, SK_MILLI);
}

/* Whole devices of the node that serve; if `group` is not 0 only those of that group. */
static uint64_t serving(const struct sk_core *core, uint32_t slot, const struct sk_request *request,
			const struct sk_wish *wish, uint32_t group)
{
	uint64_t count = 0, named = sk_wish_named(core, request, wish, slot);

	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);

		count += (!group || sk_device_group(device, wish->together) == group) &&
			 named >> index & 1 && device_serves(request, wish, device);
	}
	return count;
}

static bool group_is_new(const struct sk_core *core, uint32_t slot, uint32_t index,
			 uint32_t together)
{
	uint32_t group = sk_device_group(sk_device_at(core, slot, index), together);

	for (uint32_t before = 0; before < index; before++)
		if (sk_device_group(sk_device_at(core, slot, before), together) == group)
			return false;
	return group != 0;
}

/* The first device of the node with the link of this one. */
static uint32_t link_first(const struct sk_core *core, uint32_t slot, uint32_t index)
{
	uint32_t first = 0;

	while (sk_device_at(core, slot, first)->link != sk_device_at(core, slot, index)->link)
		first++;
	return first;
}

/* Tasks whose devices are together, each its own or all of them on one link; `most` is the most
 * devices of one group. */
static uint64_t grouped_tasks(const struct sk_core *core, uint32_t slot,
			      const struct sk_request *request, const struct sk_wish *wish,
			      uint64_t *most)
{
	uint64_t tasks = 0, of_link[SK_NODE_DEVICES_MAX] = {0};

	*most = 0;
	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		uint32_t group = sk_device_group(sk_device_at(core, slot, index), wish->together);
		uint64_t count = group_is_new(core, slot, index, wish->together)
					 ? serving(core, slot, request, wish, group)
					 : 0;
		uint64_t here = count / (request->gpu_milli / SK_MILLI);
		uint64_t *at = &of_link[link_first(core, slot, index)];

		*at += here;
		tasks = wish->together & SK_LINKED_GANG ? larger(tasks, *at) : tasks + here;
		*most = larger(*most, count);
	}
	return tasks;
}

/* Tasks whose devices fit the accepted devices of the node when all are unused. */
static uint64_t family_capacity(const struct sk_core *core, uint32_t slot,
				const struct sk_request *request, const struct sk_wish *wish)
{
	uint64_t tasks = 0, each, most, named;

	if (wants_group(request, wish))
		return grouped_tasks(core, slot, request, wish, &most);
	if (request->gpu_milli >= SK_MILLI)
		return serving(core, slot, request, wish, 0) / (request->gpu_milli / SK_MILLI);
	named = sk_wish_named(core, request, wish, slot);
	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);

		if (!(named >> index & 1) || !device_serves(request, wish, device))
			continue;
		each = device->capacity / request->gpu_milli;
		if (request->device_memory_bytes)
			each = smaller(each, device->memory_bytes / request->device_memory_bytes);
		tasks += each;
	}
	return tasks;
}

/* Take the next family if the devices of a task must be of one; otherwise all of them. */
static struct sk_wish next_family(const struct sk_request *request, const struct sk_wish *wish,
				  uint32_t *families)
{
	struct sk_wish one = *wish;

	if (sk_fit_one_family(request))
		one.families = *families & -*families;
	*families &= ~one.families;
	return one;
}

/* Tasks whose devices fit the node, each within one family if that is required. */
static uint64_t node_capacity_devices(const struct sk_core *core, uint32_t slot,
				      const struct sk_request *request, const struct sk_wish *wish)
{
	uint32_t families = core->nodes[slot].families & wish->families;
	uint64_t tasks = 0;

	while (families) {
		struct sk_wish one = next_family(request, wish, &families);

		tasks += family_capacity(core, slot, request, &one);
	}
	return tasks;
}

/* Tasks of this kind that the empty node has room for. */
static uint64_t node_capacity(const struct sk_core *core, uint32_t slot,
			      const struct sk_request *request, const struct sk_wish *wish)
{
	const struct sk_node *node = &core->nodes[slot];
	uint64_t tasks = core->limits.node_tasks;

	if (sk_fit_lasting(core, request, wish, slot))
		return 0;
	if (wish->available && (!node->up || sk_fit_kind(core, request, wish, slot)))
		return 0;
	if (request->gpu_milli)
		tasks = smaller(tasks, node_capacity_devices(core, slot, request, wish));
	if (request->cpu_milli)
		tasks = smaller(tasks, node->cpu / request->cpu_milli);
	if (request->memory_bytes)
		tasks = smaller(tasks, node->memory / request->memory_bytes);
	return tasks;
}

/* The largest amounts that one node has, among nodes whose labels are accepted. */
struct sk_largest {
	uint64_t nodes;
	uint64_t of_kind;
	uint64_t kinds; /* that some node has */
	uint64_t of_model;
	uint64_t any; /* devices of any capacity and memory */
	uint64_t devices;
	uint64_t mixed; /* such devices of all families together */
	uint64_t milli;
	uint64_t device_memory;
	uint64_t grouped; /* devices of one link, NUMA node or both */
	uint64_t cpu;
	uint64_t memory;
};

static void largest_devices(const struct sk_core *core, uint32_t slot,
			    const struct sk_request *request, const struct sk_wish *wish,
			    struct sk_largest *largest)
{
	uint64_t grouped = 0;

	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);

		if (!device->capacity || !sk_fit_wish(wish, device))
			continue;
		largest->any++;
		largest->milli = larger(largest->milli, device->capacity);
		largest->device_memory = larger(largest->device_memory, device->memory_bytes);
	}
	largest->devices = larger(largest->devices, serving(core, slot, request, wish, 0));
	if (wants_group(request, wish))
		grouped_tasks(core, slot, request, wish, &grouped);
	largest->grouped = larger(largest->grouped, grouped);
}

static uint32_t kinds_of(uint32_t families)
{
	return (families & sk_families_of(SK_DEVICE_GPU) ? SK_DEVICE_GPU : 0) |
	       (families & sk_families_of(SK_DEVICE_CPU) ? SK_DEVICE_CPU : 0);
}

static struct sk_largest largest_of(const struct sk_core *core, const struct sk_request *request,
				    const struct sk_wish *wish)
{
	struct sk_largest largest = {0};

	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		uint32_t families = core->nodes[slot].families & wish->families;

		if (sk_fit_labels(request, &core->nodes[slot]))
			continue;
		largest.nodes++;
		largest.kinds |= kinds_of(core->nodes[slot].families);
		largest.of_kind += families != 0 || !request->gpu_milli;
		if (sk_fit_lasting(core, request, wish, slot))
			continue;
		largest.of_model++;
		largest.cpu = larger(largest.cpu, core->nodes[slot].cpu);
		largest.memory = larger(largest.memory, core->nodes[slot].memory);
		if (request->gpu_milli)
			largest.mixed =
				larger(largest.mixed, serving(core, slot, request, wish, 0));
		while (request->gpu_milli && families) {
			struct sk_wish one = next_family(request, wish, &families);

			largest_devices(core, slot, request, &one, &largest);
		}
	}
	return largest;
}

static uint16_t devices_lack(const struct sk_request *request, const struct sk_wish *wish,
			     const struct sk_largest *largest, struct sk_why *why)
{
	uint64_t asked = request->gpu_milli / SK_MILLI;

	if (largest->any && request->device_memory_bytes > largest->device_memory)
		return sk_because(why, SK_NO_NODE_HAS_DEVICE_MEMORY, request->device_memory_bytes,
				  largest->device_memory);
	if (request->gpu_milli < SK_MILLI)
		return request->gpu_milli > largest->milli
			       ? sk_because(why, SK_NO_DEVICE_HAS_SHARE, request->gpu_milli,
					    largest->milli)
			       : SK_REASON_NONE;
	if (asked > largest->devices) {
		why->job = largest->mixed > largest->devices ? largest->mixed : 0;
		return sk_because(why, SK_NO_NODE_HAS_DEVICES, asked, largest->devices);
	}
	if (wants_group(request, wish) && asked > largest->grouped)
		return sk_because(why,
				  wish->together & SK_ONE_NUMA ? SK_NUMA_SPLIT : SK_LINK_BROKEN,
				  asked, largest->grouped);
	return SK_REASON_NONE;
}

static uint16_t infeasible(const struct sk_core *core, const struct sk_request *request,
			   const struct sk_wish *wish, struct sk_why *why)
{
	struct sk_largest largest = largest_of(core, request, wish);
	uint16_t reason;

	if (!largest.nodes)
		return sk_because(why, SK_NO_NODE_HAS_LABELS, request->require[0],
				  core->nodes_count);
	reason = request->gpu_milli ? sk_conditions_lack(core, request, wish, why) : SK_REASON_NONE;
	if (reason)
		return reason;
	if (!largest.of_kind)
		return sk_because(why, SK_NO_NODE_HAS_KIND, request->kinds, largest.kinds);
	if (!largest.of_model)
		return sk_because(why, SK_NO_NODE_HAS_MODEL, request->models[0], largest.nodes);
	reason = request->gpu_milli ? devices_lack(request, wish, &largest, why) : SK_REASON_NONE;
	if (reason)
		return reason;
	if (request->cpu_milli > largest.cpu)
		return sk_because(why, SK_NO_NODE_HAS_CPU, request->cpu_milli, largest.cpu);
	if (request->memory_bytes > largest.memory)
		return sk_because(why, SK_NO_NODE_HAS_MEMORY, request->memory_bytes,
				  largest.memory);
	return sk_because(why, SK_NO_NODE_FITS, 0, 0);
}

/* Milli of these models that the queue may ever use; SK_NO_LIMIT if one has no limit. */
static uint64_t queue_ever(const struct sk_core *core, const struct sk_queue *queue,
			   uint64_t models, uint32_t each)
{
	uint64_t milli = 0, all = sk_quota_find(queue, 0);

	for (uint32_t model = 0; model < core->models_n && milli != SK_NO_LIMIT; model++) {
		uint32_t at = sk_quota_find(queue, core->models[model]);
		uint64_t limit = at < queue->quotas_n ? queue->quotas[at].limit_milli : SK_NO_LIMIT;

		if (models >> model & 1)
			milli = limit == SK_NO_LIMIT
					? limit
					: smaller(sk_time_add(milli, limit / each * each),
						  SK_NO_LIMIT - 1);
	}
	if (!models)
		milli = SK_NO_LIMIT;
	return all < queue->quotas_n ? smaller(milli, queue->quotas[all].limit_milli) : milli;
}

/* Returns SK_REASON_NONE, or why the limits of its queue and those above could never admit the
 * whole job. */
static uint16_t limits_allow(const struct sk_core *core, const struct sk_request *request,
			     uint64_t models, struct sk_why *why)
{
	uint64_t asked = (uint64_t)request->gpu_milli * request->tasks;
	uint32_t each = (uint32_t)smaller(request->gpu_milli, SK_MILLI);
	uint32_t queue = asked ? sk_queue_find(core, request->queue) : 0;

	for (; queue; queue = core->queues[queue].parent) {
		uint64_t ever = queue_ever(core, &core->queues[queue], models, each);

		if (asked > ever)
			return sk_because(why, SK_OVER_ANY_LIMIT, asked, ever);
	}
	return SK_REASON_NONE;
}

/* Tasks for which there is room on nodes with room for so many and on one more. */
static uint64_t with_node(const struct sk_core *core, const struct sk_request *request,
			  const struct sk_wish *wish, uint32_t slot, uint64_t tasks)
{
	uint64_t here = node_capacity(core, slot, request, wish);

	if (request->per_node)
		here = here < request->per_node ? 0 : request->per_node;
	if (request->options & SK_PACK_TASKS)
		return larger(tasks, here);
	return tasks + (request->options & (SK_SPREAD_TASKS | SK_REPEL) ? here != 0 : here);
}

/* Tasks that all nodes together have room for, up to the number requested. */
static uint64_t nodes_capacity(const struct sk_core *core, const struct sk_request *request,
			       const struct sk_wish *wish)
{
	uint64_t tasks = 0;

	for (uint32_t slot = sk_node_next(core, 1); slot && tasks < request->tasks;
	     slot = sk_node_next(core, slot + 1))
		tasks = with_node(core, request, wish, slot, tasks);
	return tasks;
}

/* Tasks that the domain with most has room for, up to the number requested: all domains are
 * counted in one pass over the nodes. */
static uint64_t domains_capacity(const struct sk_core *core, const struct sk_request *request,
				 const struct sk_wish *wish)
{
	uint64_t most = 0;

	sk_level_begin(core);
	for (uint32_t slot = sk_node_next(core, 1); slot && most < request->tasks;
	     slot = sk_node_next(core, slot + 1)) {
		uint32_t domain = sk_level_enter(core, request, wish->levels, slot);
		uint64_t *tasks = sk_level_room(core, domain);

		if (!domain)
			continue;
		*tasks = with_node(core, request, wish, slot, *tasks);
		most = larger(most, *tasks);
	}
	return most;
}

/* Tasks that the nodes have room for, all in one domain if that is required. */
static uint64_t near_capacity(const struct sk_core *core, const struct sk_request *request,
			      const struct sk_wish *wish)
{
	return wish->levels ? domains_capacity(core, request, wish)
			    : nodes_capacity(core, request, wish);
}

/* Counts as near_capacity does, with all tasks of a gang in one family if that is required. */
static uint64_t gang_capacity(const struct sk_core *core, const struct sk_request *request,
			      const struct sk_wish *wish)
{
	uint32_t families = sk_families_known(core, wish->families);
	uint64_t most = 0;

	if (request->tasks == 1 || !sk_fit_one_family(request))
		return near_capacity(core, request, wish);
	while (families) {
		struct sk_wish one = next_family(request, wish, &families);

		most = larger(most, near_capacity(core, request, &one));
	}
	return most;
}

/* True if the levels alone are why so few tasks have room. */
static bool levels_lack(const struct sk_core *core, const struct sk_request *request,
			const struct sk_wish *wish)
{
	struct sk_wish anywhere = *wish;

	anywhere.levels = 0;
	return wish->levels && gang_capacity(core, request, &anywhere) >= request->tasks;
}

bool sk_feasible_hopeless(const struct sk_core *core, const struct sk_request *request)
{
	struct sk_wish wish = sk_wish_of(core, request);

	wish.available = 1;
	return gang_capacity(core, request, &wish) < request->tasks;
}

/* Tasks that the nodes have room for if each task may have devices of any vendor; 0: no more than
 * of one vendor. */
static uint64_t mixed_capacity(const struct sk_core *core, const struct sk_request *request,
			       const struct sk_wish *wish, uint64_t tasks)
{
	struct sk_request mixed = *request;
	uint64_t most;

	mixed.options |= SK_MIX_VENDORS;
	most = gang_capacity(core, &mixed, wish);
	return most > tasks ? most : 0;
}

/* The reason why no node has room for the tasks of a gang that go on one node together. */
static uint16_t one_node_reason(const struct sk_core *core, const struct sk_request *request,
				const struct sk_wish *wish, struct sk_why *why)
{
	struct sk_request packed = *request;
	uint64_t most;

	packed.per_node = 0;
	packed.options |= SK_PACK_TASKS;
	most = gang_capacity(core, &packed, wish);
	return most ? sk_because(why, SK_GANG_NODE_SHORT, request->per_node, most)
		    : infeasible(core, request, wish, why);
}

uint16_t sk_feasible_reason(const struct sk_core *core, const struct sk_request *request,
			    struct sk_why *why)
{
	struct sk_wish wish = sk_wish_of(core, request);
	uint64_t tasks;

	if (!core->nodes_count || (request->models[0] && !wish.models))
		return SK_REASON_NONE; /* the command itself refuses models that are not known */
	tasks = gang_capacity(core, request, &wish);
	if (tasks < request->tasks && levels_lack(core, request, &wish)) {
		why->job = sk_level_required(request);
		return sk_because(why, SK_LEVEL_SHORT, request->tasks, tasks);
	}
	if (!tasks && request->per_node > 1)
		return one_node_reason(core, request, &wish, why);
	if (!tasks)
		return infeasible(core, request, &wish, why);
	if (tasks < request->tasks) {
		why->job = mixed_capacity(core, request, &wish, tasks);
		return sk_because(why, SK_GANG_TOO_LARGE, request->tasks, tasks);
	}
	return limits_allow(core, request, wish.models, why);
}
