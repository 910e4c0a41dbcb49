/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a request could ever run on the nodes that are known, up or down: asked once at submit,
 * so that what can never run is refused with figures and does not wait for ever. While no node is
 * known nothing is refused.
 */
#include "core/command.h"
#include "core/device.h"
#include "core/fit.h"
#include "core/node.h"
#include "core/policy.h"

static uint64_t sk_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Tasks whose device request fits the node's devices when they are all unused. */
static uint64_t sk_node_holds_devices(const struct sk_core *core, uint32_t slot,
				      const struct sk_ask *ask, uint64_t models)
{
	bool whole = ask->gpu_milli >= SK_MILLI;
	uint64_t tasks = 0;

	if (whole && !models && !ask->device_memory_bytes)
		return core->nodes[slot].devices_whole / (ask->gpu_milli / SK_MILLI);
	for (uint32_t index = 0; index < core->nodes[slot].devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);

		if (sk_fit_model(models, device) &&
		    device->memory_bytes >= ask->device_memory_bytes)
			tasks += whole ? device->capacity == SK_MILLI
				       : device->capacity / ask->gpu_milli;
	}
	return whole ? tasks / (ask->gpu_milli / SK_MILLI) : tasks;
}

/* Tasks of this kind that the node can hold when it is empty. */
static uint64_t sk_node_holds(const struct sk_core *core, uint32_t slot,
			      const struct sk_submit *submit)
{
	const struct sk_node *node = &core->nodes[slot];
	uint64_t tasks = core->limits.node_tasks;
	uint64_t models = sk_model_mask(core, &submit->ask);

	if (sk_fit_kind(core, &submit->ask, models, slot))
		return 0;
	if (submit->ask.gpu_milli)
		tasks = sk_least(tasks, sk_node_holds_devices(core, slot, &submit->ask, models));
	if (submit->ask.cpu_milli)
		tasks = sk_least(tasks, node->cpu / submit->ask.cpu_milli);
	if (submit->ask.memory_bytes)
		tasks = sk_least(tasks, node->memory / submit->ask.memory_bytes);
	return tasks;
}

struct sk_largest {
	uint64_t devices; /* whole ones, or milli of one device where a part is asked for */
	uint64_t cpu;
	uint64_t memory;
};

static uint64_t sk_node_devices(const struct sk_core *core, uint32_t slot, bool part)
{
	uint64_t largest = 0;

	if (!part)
		return core->nodes[slot].devices_whole;
	for (uint32_t index = 0; index < core->nodes[slot].devices; index++)
		if (sk_device_at(core, slot, index)->capacity > largest)
			largest = sk_device_at(core, slot, index)->capacity;
	return largest;
}

static uint64_t sk_most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint16_t sk_infeasible(const struct sk_core *core, const struct sk_submit *submit,
			      struct sk_why *why)
{
	bool part = submit->ask.gpu_milli && submit->ask.gpu_milli < SK_MILLI;
	uint64_t asked = part ? submit->ask.gpu_milli : submit->ask.gpu_milli / SK_MILLI;
	struct sk_largest largest = {0};

	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		largest.devices = sk_most(largest.devices, sk_node_devices(core, slot, part));
		largest.cpu = sk_most(largest.cpu, core->nodes[slot].cpu);
		largest.memory = sk_most(largest.memory, core->nodes[slot].memory);
	}
	if (asked > largest.devices)
		return part ? sk_because(why, SK_NO_DEVICE_HAS_SHARE, asked, largest.devices)
			    : sk_because(why, SK_NO_NODE_HAS_DEVICES, asked, largest.devices);
	if (submit->ask.cpu_milli > largest.cpu)
		return sk_because(why, SK_NO_NODE_HAS_CPU, submit->ask.cpu_milli, largest.cpu);
	if (submit->ask.memory_bytes > largest.memory)
		return sk_because(why, SK_NO_NODE_HAS_MEMORY, submit->ask.memory_bytes,
				  largest.memory);
	return SK_NO_NODE_FITS;
}

uint16_t sk_policy_feasible(const struct sk_core *core, const struct sk_submit *submit,
			    struct sk_why *why)
{
	uint64_t tasks = 0;

	if (!core->nodes_count)
		return SK_REASON_NONE;
	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		tasks += sk_node_holds(core, slot, submit);
		if (tasks >= submit->ask.tasks)
			return SK_REASON_NONE;
	}
	if (!tasks)
		return sk_infeasible(core, submit, why);
	return sk_because(why, SK_GANG_TOO_LARGE, submit->ask.tasks, tasks);
}
