/* SPDX-License-Identifier: Apache-2.0
 *
 * Observations of nodes, devices and power, which the log does not contain. A node whose ratings
 * may depend on one is rated anew.
 */
#include <errno.h>
#include <string.h>

#include "core/ledger/node.h"
#include "core/policy/hints.h"
#include "core/state/changes.h"

int sk_core_observe(struct sk_core *core, uint64_t node, uint64_t observation, uint32_t load_milli)
{
	uint32_t slot = node ? sk_node_find(core, node) : 0;
	struct sk_observed *at = &core->observed[slot];

	if (!slot)
		return -ENOENT;
	if (!at->id != !observation || at->load_milli != load_milli)
		sk_changes_add(core->changes, slot);
	at->id = observation;
	at->load_milli = load_milli;
	return 0;
}

int sk_core_observe_device(struct sk_core *core, uint64_t node, uint32_t index,
			   const struct sk_sample *sample)
{
	uint32_t slot = node ? sk_node_find(core, node) : 0;
	struct sk_sampled *at;

	if (!slot || index >= core->nodes[slot].devices)
		return -ENOENT;
	if (sample->known & ~SK_SAMPLE_ALL)
		return -EINVAL;
	at = &core->hints->samples[(size_t)core->nodes[slot].chunks[index / SK_CHUNK_DEVICES] *
					   SK_CHUNK_DEVICES +
				   index % SK_CHUNK_DEVICES];
	*at = (struct sk_sampled){.sample = *sample, .node = node, .index = index};
	sk_changes_add(core->changes, slot);
	return 0;
}

int sk_core_model_power(struct sk_core *core, uint64_t model, uint32_t idle_mw, uint32_t full_mw)
{
	struct sk_hints *hints = core->hints;
	uint32_t at = 0;

	if (!model || full_mw < idle_mw || !full_mw)
		return -EINVAL;
	while (at < hints->power_n && hints->power[at].model != model)
		at++;
	if (at == SK_MODELS_MAX)
		return -ENOSPC;
	if (at == hints->power_n)
		hints->power_n++;
	hints->power[at] = (struct sk_power){model, idle_mw, full_mw};
	hints->models_n = UINT32_MAX; /* the tables are made anew at the next decision */
	return 0;
}

int sk_core_cpu_power(struct sk_core *core, uint32_t socket_milli, uint32_t idle_mw,
		      uint32_t full_mw)
{
	if (full_mw < idle_mw)
		return -EINVAL;
	core->hints->socket_milli = socket_milli;
	core->hints->socket = (struct sk_power){0, idle_mw, full_mw};
	sk_hints_reset(core->hints);
	return 0;
}
