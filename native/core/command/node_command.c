/* SPDX-License-Identifier: Apache-2.0
 *
 * NODE_UP, NODE_DOWN, NODE_LABEL, NODE_RESERVE, DEVICE_SET and DEVICE_TRAITS: the nodes, and what
 * their loss means for jobs.
 */
#include <string.h>

#include "core/command/node_command.h"
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/job.h"
#include "core/ledger/job_life.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/task.h"
#include "core/ledger/traits.h"
#include "core/state/journal.h"

static void job_lose(const struct sk_act *act, uint32_t slot, uint32_t node, uint16_t reason)
{
	struct sk_core *core = act->core;
	struct sk_job *job = &core->jobs[slot];
	uint64_t id = core->nodes[node].id;

	for (uint32_t task = job->tasks_first, next; task; task = next) {
		uint64_t held = sk_task_used_ns(&core->tasks[task], job, act->now_ns);

		next = core->tasks[task].job_next;
		if (core->tasks[task].node != node)
			continue;
		SK_SET(core, job->spent_ns, sk_time_add(job->spent_ns, held));
		sk_task_give(core, task);
	}
	if (!job->verdict) {
		SK_SET(core, job->verdict, SK_LOST);
		SK_SET(core, job->reason, reason);
	}
	if (!job->tasks_live) {
		sk_job_end(act, slot, id);
	} else if (job->state != SK_STOPPING) {
		sk_job_move(act, slot, SK_STOPPING, job->reason, id);
		sk_job_stop_tasks(act, slot, SK_PEER_ENDED);
	}
}

/* Commit that nothing runs on this node any more. */
static void node_lose(const struct sk_act *act, uint32_t node, uint16_t reason)
{
	struct sk_core *core = act->core;

	while (core->nodes[node].tasks.first)
		job_lose(act, core->tasks[core->nodes[node].tasks.first].job, node, reason);
}

static bool node_same(const struct sk_node *node, const struct sk_node_up *command)
{
	return node->up && node->boot == command->boot &&
	       node->incarnation == command->incarnation && node->cpu == command->cpu_milli &&
	       node->memory == command->memory_bytes && node->domain == command->domain &&
	       node->devices == command->devices;
}

static uint16_t node_up_ok(const struct sk_core *core, uint32_t slot,
			   const struct sk_node_up *command, struct sk_why *why)
{
	const struct sk_node *node = &core->nodes[slot];
	uint32_t have = slot ? node->devices : 0;

	if (!command->node)
		return SK_UNKNOWN_NODE;
	if (command->devices > SK_NODE_DEVICES_MAX)
		return sk_because(why, SK_BAD_DEVICE_INDEX, command->devices, SK_NODE_DEVICES_MAX);
	if (!slot && core->nodes_count == core->limits.nodes)
		return sk_because(why, SK_NODES_FULL, 1, core->limits.nodes);
	if (command->devices > have &&
	    core->devices_count + command->devices - have > core->limits.devices)
		return sk_because(why, SK_DEVICES_FULL, command->devices, core->limits.devices);
	if (!slot)
		return SK_REASON_NONE;
	if (node_same(node, command))
		return SK_UNCHANGED;
	if (node->boot == command->boot && command->incarnation < node->incarnation)
		return SK_STALE_INCARNATION;
	if (node->boot_before && node->boot_before == command->boot)
		return SK_STALE_INCARNATION; /* sent before the last reboot and received after it */
	return SK_REASON_NONE;
}

static void node_trim(struct sk_core *core, uint32_t slot, uint16_t devices)
{
	for (uint32_t index = devices; index < core->nodes[slot].devices; index++) {
		struct sk_device device = *sk_device_at(core, slot, index);

		device.available = 0;
		device.owner = 0;
		device.reason = SK_DEVICE_GONE;
		sk_device_put(core, slot, index, device);
		sk_device_forget(core, slot, index);
	}
}

static void node_reboot(const struct sk_act *act, uint32_t slot, uint64_t boot)
{
	struct sk_node *node = &act->core->nodes[slot];

	node_lose(act, slot, SK_NODE_REBOOTED);
	SK_SET(act->core, node->boot_before, node->boot);
	SK_SET(act->core, node->boot, boot);
}

uint16_t sk_node_up_do(const struct sk_act *act, const struct sk_node_up *command,
		       struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = command->node ? sk_node_find(core, command->node) : 0;
	uint16_t reason = node_up_ok(core, slot, command, why);
	struct sk_node *node;

	if (reason)
		return reason;
	if (!slot) {
		slot = sk_node_create(core, command->node);
		SK_SET(core, core->nodes[slot].boot, command->boot);
	}
	node = &core->nodes[slot];
	if (node->boot != command->boot)
		node_reboot(act, slot, command->boot);
	SK_SET(core, node->incarnation, command->incarnation);
	SK_ADD(core, core->cpu_all, command->cpu_milli - (uint64_t)node->cpu);
	SK_ADD(core, core->memory_all, command->memory_bytes - node->memory);
	SK_SET(core, node->cpu, command->cpu_milli);
	SK_SET(core, node->memory, command->memory_bytes);
	SK_SET(core, node->domain, command->domain);
	sk_node_grow(core, slot, command->devices);
	node_trim(core, slot, command->devices);
	sk_node_set_up(core, slot, true, 0);
	return SK_REASON_NONE;
}

static uint16_t node_down_ok(const struct sk_core *core, uint32_t slot,
			     const struct sk_node_down *command, struct sk_why *why)
{
	const struct sk_node *node = &core->nodes[slot];
	uint32_t flags = command->header.flags;

	if (!slot)
		return SK_UNKNOWN_NODE;
	if (flags == SK_NODE_REMOVE && (node->up || node->tasks_count))
		return sk_because(why, SK_NODE_BUSY, 0, node->tasks_count);
	if (flags & SK_NODE_REMOVE)
		return SK_REASON_NONE;
	if (!node->up && node->reason == command->reason &&
	    !(flags & SK_NODE_EVICT && node->tasks_count))
		return SK_UNCHANGED;
	return SK_REASON_NONE;
}

uint16_t sk_node_down_do(const struct sk_act *act, const struct sk_node_down *command,
			 struct sk_why *why)
{
	uint32_t slot = sk_node_find(act->core, command->node);
	uint16_t reason = node_down_ok(act->core, slot, command, why);

	if (reason)
		return reason;
	sk_node_set_up(act->core, slot, false, command->reason);
	if (command->header.flags & SK_NODE_EVICT)
		node_lose(act, slot, SK_NODE_EVICTED);
	if (command->header.flags & SK_NODE_REMOVE)
		sk_node_remove(act->core, slot);
	return SK_REASON_NONE;
}

static bool device_same(const struct sk_device *a, const struct sk_device *b)
{
	return a->memory_bytes == b->memory_bytes && a->owner == b->owner &&
	       a->capacity == b->capacity && a->available == b->available &&
	       a->reason == b->reason && a->link == b->link && a->bus == b->bus &&
	       a->numa == b->numa && a->model == b->model && a->family == b->family;
}

static uint16_t device_set_ok(const struct sk_core *core, uint32_t slot,
			      const struct sk_device_set *command, struct sk_why *why)
{
	const struct sk_node *node = &core->nodes[slot];
	const struct sk_device *device;
	uint32_t model = command->model ? sk_model_find(core, command->model) : 0;

	if (!slot)
		return SK_UNKNOWN_NODE;
	if (command->index >= node->devices)
		return sk_because(why, SK_BAD_DEVICE_INDEX, command->index, node->devices);
	if (command->capacity_milli > SK_MILLI)
		return sk_because(why, SK_BAD_CAPACITY, command->capacity_milli, SK_MILLI);
	if ((command->kind != SK_DEVICE_GPU && command->kind != SK_DEVICE_CPU) ||
	    command->vendor >= SK_VENDORS_MAX)
		return sk_because(why, SK_BAD_DEVICE_KIND, command->kind, command->vendor);
	device = sk_device_at(core, slot, command->index);
	if (command->capacity_milli < device->used)
		return sk_because(why, SK_CAPACITY_IN_USE, command->capacity_milli, device->used);
	if (device->used && (model != device->model || (command->model && !model) ||
			     sk_family(command->kind, command->vendor) != device->family))
		return sk_because(why, SK_CAPACITY_IN_USE, 0, device->used);
	if (command->model && !model && core->models_n == SK_MODELS_MAX)
		return sk_because(why, SK_MODELS_FULL, 1, SK_MODELS_MAX);
	return SK_REASON_NONE;
}

uint16_t sk_device_set_do(const struct sk_act *act, const struct sk_device_set *command,
			  struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_node_find(core, command->node);
	uint16_t reason = device_set_ok(core, slot, command, why);
	struct sk_device device;

	if (reason)
		return reason;
	device = *sk_device_at(core, slot, command->index);
	device.memory_bytes = command->memory_bytes;
	device.owner = command->owner;
	device.capacity = command->capacity_milli;
	device.available = command->available != 0;
	device.family = sk_family(command->kind, command->vendor);
	device.reason = command->reason;
	device.link = command->link;
	device.bus = command->bus;
	device.numa = command->numa;
	device.model = command->model ? (uint8_t)sk_model_add(core, command->model) : 0;
	if (device_same(&device, sk_device_at(core, slot, command->index)))
		return SK_UNCHANGED;
	sk_device_put(core, slot, command->index, device);
	sk_devices_sum(core, slot);
	sk_device_forget(core, slot, command->index);
	return SK_REASON_NONE;
}

/* On trial traits that are new to the state are left out: the device then has none, until the
 * command is committed and live jobs know whether they accept them. */
static uint8_t traits_take(struct sk_core *core, const struct sk_traits *traits)
{
	static const struct sk_traits none;
	uint32_t at = sk_traits_find(core, traits);

	if (at || !memcmp(traits, &none, sizeof none))
		return (uint8_t)at;
	if (!core->journal.on)
		return (uint8_t)sk_traits_add(core, traits);
	core->journal.cut = true;
	return 0;
}

uint16_t sk_device_traits_do(const struct sk_act *act, const struct sk_device_traits *command,
			     struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_node_find(core, command->node);
	struct sk_traits traits = {command->arch,    command->profile,	 command->driver,
				   command->compute, command->link_gbps, command->near_cpus};
	struct sk_traits known;
	struct sk_device device;

	if (!slot)
		return SK_UNKNOWN_NODE;
	if (command->index >= core->nodes[slot].devices)
		return sk_because(why, SK_BAD_DEVICE_INDEX, command->index,
				  core->nodes[slot].devices);
	device = *sk_device_at(core, slot, command->index);
	known = core->traits[device.traits];
	if (!memcmp(&known, &traits, sizeof known))
		return SK_UNCHANGED;
	if (!sk_traits_find(core, &traits) && !sk_traits_room(core))
		return sk_because(why, SK_TRAITS_FULL, 1, SK_TRAITS_MAX);
	device.traits = traits_take(core, &traits);
	sk_device_put(core, slot, command->index, device);
	sk_devices_sum(core, slot);
	sk_device_forget(core, slot, command->index);
	return SK_REASON_NONE;
}

static uint16_t label_clear(struct sk_core *core, struct sk_node *node, uint64_t label)
{
	uint32_t at = 0;

	while (at < node->labels_n && node->labels[at].label != label)
		at++;
	if (at == node->labels_n)
		return SK_UNKNOWN_LABEL;
	sk_journal_note(core, node->labels, sizeof node->labels);
	for (; at + 1 < node->labels_n; at++)
		node->labels[at] = node->labels[at + 1];
	node->labels[at] = (struct sk_label){0};
	SK_ADD(core, node->labels_n, -1u);
	return SK_REASON_NONE;
}

/* Labels are sorted, so that equal sets of labels are equal states. */
static void label_insert(struct sk_core *core, struct sk_node *node, struct sk_label label)
{
	uint32_t at = node->labels_n;

	sk_journal_note(core, node->labels, sizeof node->labels);
	for (; at && node->labels[at - 1].label > label.label; at--)
		node->labels[at] = node->labels[at - 1];
	node->labels[at] = label;
	SK_ADD(core, node->labels_n, 1);
}

uint16_t sk_node_label_do(const struct sk_act *act, const struct sk_node_label *command,
			  struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_node_find(core, command->node);
	struct sk_node *node = &core->nodes[slot];
	struct sk_label label = {command->label, command->value, command->header.flags};
	struct sk_label *at;

	if (!slot)
		return SK_UNKNOWN_NODE;
	if (!command->label)
		return SK_UNKNOWN_LABEL;
	if (command->header.flags & SK_LABEL_CLEAR)
		return label_clear(core, node, command->label);
	at = (struct sk_label *)sk_label_find(node, command->label);
	if (at && at->value == label.value && at->flags == label.flags)
		return SK_UNCHANGED;
	if (!at && node->labels_n == SK_NODE_LABELS_MAX)
		return sk_because(why, SK_NODE_LABELS_FULL, 1, SK_NODE_LABELS_MAX);
	if (at)
		SK_SET(core, *at, label);
	else
		label_insert(core, node, label);
	return SK_REASON_NONE;
}

uint16_t sk_node_reserve_do(const struct sk_act *act, const struct sk_node_reserve *command,
			    struct sk_why *why)
{
	struct sk_core *core = act->core;
	uint32_t slot = sk_node_find(core, command->node);
	struct sk_node *node = &core->nodes[slot];

	if (!slot)
		return SK_UNKNOWN_NODE;
	if (!sk_queue_find(core, command->queue))
		return sk_because(why, SK_UNKNOWN_QUEUE, command->queue, 0);
	if (command->until_ns ? command->from_ns >= command->until_ns
			      : command->from_ns || command->queue)
		return sk_because(why, SK_BAD_RESERVATION, command->from_ns, command->until_ns);
	if (node->reserve_from_ns == command->from_ns &&
	    node->reserve_until_ns == command->until_ns && node->reserve_queue == command->queue)
		return SK_UNCHANGED;
	SK_SET(core, node->reserve_from_ns, command->from_ns);
	SK_SET(core, node->reserve_until_ns, command->until_ns);
	SK_SET(core, node->reserve_queue, command->queue);
	return SK_REASON_NONE;
}
