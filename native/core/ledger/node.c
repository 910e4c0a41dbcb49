/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes join, leave and grow. A removed node gives its device chunks back.
 */
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/node.h"
#include "core/state/index.h"
#include "core/state/journal.h"
#include "core/state/pool.h"
#include "core/state/table.h"

static uint32_t node_words(const struct sk_core *core)
{
	return (core->limits.nodes + 1 + 63) / 64;
}

uint32_t sk_node_find(const struct sk_core *core, uint64_t id)
{
	uint32_t slot = sk_table_first(&core->node_table, sk_mix(id));

	while (slot && core->nodes[slot].id != id)
		slot = core->nodes[slot].hash_next;
	return slot;
}

uint32_t sk_node_next(const struct sk_core *core, uint32_t slot)
{
	slot = sk_bits_next(core->node_slots, node_words(core), slot ? slot : 1);
	return slot <= core->limits.nodes ? slot : 0;
}

/* Slot 0 stands for no node and is never free. */
static uint32_t node_free_slot(const struct sk_core *core)
{
	for (uint32_t word = 0; word < node_words(core); word++) {
		uint64_t used = core->node_slots[word] | (word == 0 ? 1u : 0u);
		uint32_t slot;

		if (!~used)
			continue;
		slot = word * 64 + (uint32_t)__builtin_ctzll(~used);
		return slot <= core->limits.nodes ? slot : 0;
	}
	return 0;
}

static void node_slot_set(struct sk_core *core, uint32_t slot, bool used)
{
	uint64_t *word = &core->node_slots[slot / 64];
	uint64_t bit = (uint64_t)1 << (slot % 64);

	SK_SET(core, *word, used ? *word | bit : *word & ~bit);
	SK_ADD(core, core->nodes_count, used ? 1u : -1u);
	SK_ADD(core, core->nodes_with[0], used ? 1u : -1u);
}

uint32_t sk_node_create(struct sk_core *core, uint64_t id)
{
	uint32_t slot = node_free_slot(core);

	if (slot)
		sk_node_create_at(core, slot, id);
	return slot;
}

void sk_node_create_at(struct sk_core *core, uint32_t slot, uint64_t id)
{
	sk_journal_note(core, &core->nodes[slot], sizeof core->nodes[slot]);
	memset(&core->nodes[slot], 0, sizeof core->nodes[slot]);
	core->nodes[slot].id = id;
	node_slot_set(core, slot, true);
	sk_table_insert(core, &core->node_table, SK_CHAIN(core->nodes, hash_next), sk_mix(id),
			slot);
}

const struct sk_label *sk_node_cost(const struct sk_node *node)
{
	const struct sk_label *cheapest = NULL;

	for (uint32_t i = 0; i < node->labels_n; i++)
		if (node->labels[i].flags & SK_LABEL_COST &&
		    (!cheapest || node->labels[i].value < cheapest->value))
			cheapest = &node->labels[i];
	return cheapest;
}

void sk_node_remove(struct sk_core *core, uint32_t slot)
{
	struct sk_node *node = &core->nodes[slot];
	const struct sk_device nothing = {0};

	for (uint32_t index = 0; index < node->devices; index++)
		sk_device_put(core, slot, index, nothing);
	sk_devices_sum(core, slot);
	for (uint32_t i = 0; i < SK_NODE_CHUNKS; i++)
		if (node->chunks[i])
			sk_pool_give(core, &core->chunk_pool, SK_CHAIN(core->chunks, free_next),
				     node->chunks[i]);
	SK_ADD(core, core->devices_count, -(uint64_t)node->devices);
	SK_ADD(core, core->cpu_all, -(uint64_t)node->cpu);
	SK_ADD(core, core->memory_all, -node->memory);
	sk_table_remove(core, &core->node_table, SK_CHAIN(core->nodes, hash_next), sk_mix(node->id),
			slot);
	node_slot_set(core, slot, false);
	sk_journal_note(core, node, sizeof *node);
	memset(node, 0, sizeof *node);
	sk_journal_note(core, &core->observed[slot], sizeof core->observed[slot]);
	core->observed[slot] = (struct sk_observed){0};
}

void sk_node_set_up(struct sk_core *core, uint32_t slot, bool up, uint16_t reason)
{
	struct sk_node *node = &core->nodes[slot];

	SK_SET(core, node->reason, reason);
	if (node->up == up)
		return;
	if (up)
		sk_devices_index(core, slot);
	else
		sk_devices_unindex(core, slot);
	SK_SET(core, node->up, up);
	SK_ADD(core, core->nodes_up, up ? 1u : -1u);
}

bool sk_node_grow(struct sk_core *core, uint32_t slot, uint16_t devices)
{
	struct sk_node *node = &core->nodes[slot];

	if (devices <= node->devices)
		return true;
	if (core->devices_count + devices - node->devices > core->limits.devices)
		return false;
	for (uint32_t i = 0; i * SK_CHUNK_DEVICES < devices; i++)
		if (!node->chunks[i])
			SK_SET(core, node->chunks[i],
			       sk_pool_take(core, &core->chunk_pool,
					    SK_CHAIN(core->chunks, free_next)));
	SK_ADD(core, core->devices_count, (uint64_t)(devices - node->devices));
	SK_SET(core, node->devices, devices);
	return true;
}
