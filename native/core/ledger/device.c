/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of one device. One function writes a device and keeps all that is derived from devices.
 */
#include "core/ledger/device.h"
#include "core/state/index.h"
#include "core/state/journal.h"

uint32_t sk_device_with_free(const struct sk_core *core, uint32_t node, uint32_t milli,
			     uint32_t from)
{
	for (uint32_t index = from; index < core->nodes[node].devices; index++)
		if (sk_device_free(sk_device_at(core, node, index)) == milli)
			return index;
	return SK_NODE_DEVICES_MAX;
}

static bool part(uint32_t free)
{
	return free > 0 && free < SK_MILLI;
}

uint32_t sk_device_class(const struct sk_core *core, const struct sk_index *index, uint32_t node,
			 uint32_t least)
{
	const struct sk_node *at = &core->nodes[node];
	uint32_t class = UINT32_MAX;

	if (index == &core->free_whole)
		return at->up && at->devices_free >= least ? at->devices_free : class;
	for (uint32_t i = 0; at->up && i < at->devices; i++) {
		uint32_t free = sk_device_free(sk_device_at(core, node, i));

		if (free >= least && part(free) && free < class)
			class = free;
	}
	return class;
}

/* Move an indexed node to the class of its new devices_free. */
static void devices_free_set(struct sk_core *core, uint32_t node, uint16_t count)
{
	struct sk_node *at = &core->nodes[node];

	if (at->up) {
		sk_index_remove(core, &core->free_whole, at->devices_free, node);
		sk_index_add(core, &core->free_whole, count, node);
	}
	SK_SET(core, at->devices_free, count);
}

static void devices_whole_set(struct sk_core *core, uint32_t node, uint16_t count)
{
	struct sk_node *at = &core->nodes[node];

	SK_ADD(core, core->nodes_with[at->devices_whole], -1u);
	SK_ADD(core, core->nodes_with[count], 1);
	SK_SET(core, at->devices_whole, count);
}

void sk_device_put(struct sk_core *core, uint32_t node, uint32_t index, struct sk_device device)
{
	struct sk_device *at = sk_device_at(core, node, index);
	struct sk_node *owner = &core->nodes[node];
	uint32_t before = sk_device_free(at), after = sk_device_free(&device);
	int whole = (device.capacity == SK_MILLI) - (at->capacity == SK_MILLI);
	int free = (after == SK_MILLI) - (before == SK_MILLI);

	sk_journal_note(core, at, sizeof *at);
	sk_journal_note(core, &owner->devices_free, sizeof owner->devices_free);
	*at = device;
	if (whole)
		devices_whole_set(core, node, (uint16_t)(owner->devices_whole + whole));
	if (free)
		devices_free_set(core, node, (uint16_t)(owner->devices_free + free));
	if (before == after || !owner->up)
		return;
	if (part(before) && sk_device_with_free(core, node, before, 0) == SK_NODE_DEVICES_MAX)
		sk_index_remove(core, &core->free_part, before, node);
	if (part(after))
		sk_index_add(core, &core->free_part, after, node);
}

static void families_set(struct sk_core *core, uint32_t node, uint32_t families)
{
	uint32_t before = core->nodes[node].families;

	for (uint32_t left = before ^ families; left; left &= left - 1) {
		uint32_t family = (uint32_t)__builtin_ctz(left);

		SK_ADD(core, core->nodes_of[family], families >> family & 1 ? 1u : -1u);
	}
	SK_SET(core, core->nodes[node].families, families);
}

void sk_devices_sum(struct sk_core *core, uint32_t node)
{
	uint64_t models = 0, traits = 0;
	uint32_t families = 0;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);

		models |= device->model ? (uint64_t)1 << (device->model - 1) : 0;
		traits |= (uint64_t)(device->capacity || device->traits) << device->traits;
		families |= device->capacity ? 1u << device->family : 0;
	}
	if (traits != core->nodes[node].traits)
		SK_SET(core, core->nodes[node].traits, traits);
	if (models != core->nodes[node].models)
		SK_SET(core, core->nodes[node].models, models);
	if (families != core->nodes[node].families)
		families_set(core, node, families);
}

void sk_device_forget(struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, node, index);

	if (device->reason != SK_DEVICE_GONE || device->available || device->used)
		return;
	sk_device_put(core, node, index, (struct sk_device){.reason = SK_DEVICE_GONE});
	sk_devices_sum(core, node);
}

void sk_devices_index(struct sk_core *core, uint32_t node)
{
	sk_index_add(core, &core->free_whole, core->nodes[node].devices_free, node);
	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		uint32_t free = sk_device_free(sk_device_at(core, node, index));

		if (part(free))
			sk_index_add(core, &core->free_part, free, node);
	}
}

void sk_devices_unindex(struct sk_core *core, uint32_t node)
{
	sk_index_remove(core, &core->free_whole, core->nodes[node].devices_free, node);
	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		uint32_t free = sk_device_free(sk_device_at(core, node, index));

		if (part(free))
			sk_index_remove(core, &core->free_part, free, node);
	}
}
