/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys are found by the hash of (client, key), and listed by age over all clients and for each.
 */
#include "core/ledger/key.h"
#include "core/state/journal.h"
#include "core/state/list.h"
#include "core/state/pool.h"
#include "core/state/table.h"

static uint64_t key_hash(uint64_t client, const uint64_t key[2])
{
	return sk_mix(key[1] ^ sk_mix(key[0] ^ sk_mix(client)));
}

uint32_t sk_key_find(const struct sk_core *core, uint64_t client, const uint64_t key[2])
{
	uint32_t slot;

	if (!key[0] && !key[1])
		return 0;
	slot = sk_table_first(&core->key_table, key_hash(client, key));
	for (; slot; slot = core->keys[slot].hash_next) {
		const struct sk_key *at = &core->keys[slot];

		if (at->client == client && at->key[0] == key[0] && at->key[1] == key[1])
			return slot;
	}
	return 0;
}

static uint32_t owner_find(const struct sk_core *core, uint64_t client)
{
	uint32_t slot = sk_table_first(&core->key_owner_table, sk_mix(client));

	while (slot && core->key_owners[slot].client != client)
		slot = core->key_owners[slot].hash_next;
	return slot;
}

static uint32_t owner_of(struct sk_core *core, uint64_t client)
{
	uint32_t slot = owner_find(core, client);

	if (slot)
		return slot;
	slot = sk_pool_take(core, &core->key_owner_pool, SK_CHAIN(core->key_owners, free_next));
	core->key_owners[slot].client = client;
	sk_table_insert(core, &core->key_owner_table, SK_CHAIN(core->key_owners, hash_next),
			sk_mix(client), slot);
	sk_list_append(core, &core->key_owners_order, SK_CHAIN(core->key_owners, order), slot);
	return slot;
}

static void owner_leave(struct sk_core *core, uint32_t slot)
{
	sk_table_remove(core, &core->key_owner_table, SK_CHAIN(core->key_owners, hash_next),
			sk_mix(core->key_owners[slot].client), slot);
	sk_list_remove(core, &core->key_owners_order, SK_CHAIN(core->key_owners, order), slot);
	sk_pool_give(core, &core->key_owner_pool, SK_CHAIN(core->key_owners, free_next), slot);
}

/* The client whose oldest key makes room for a new one of `client`. Among those with most keys it
 * is the client itself, else the one with the lowest id. This looks at every client that has keys,
 * and only when the table is full. */
static uint32_t owner_heaviest(const struct sk_core *core, uint64_t client)
{
	uint32_t best = core->key_owners_order.first;

	for (uint32_t slot = best; slot; slot = core->key_owners[slot].order.next) {
		const struct sk_key_owner *at = &core->key_owners[slot],
					  *than = &core->key_owners[best];

		if (at->count < than->count)
			continue;
		if (at->count > than->count || at->client == client ||
		    (than->client != client && at->client < than->client))
			best = slot;
	}
	return best;
}

static void key_forget(struct sk_core *core, uint32_t slot, uint64_t now_ns)
{
	const struct sk_key *key = &core->keys[slot];
	struct sk_key_owner *owner = &core->key_owners[key->owner];

	sk_table_remove(core, &core->key_table, SK_CHAIN(core->keys, hash_next),
			key_hash(key->client, key->key), slot);
	sk_list_remove(core, &core->keys_order, SK_CHAIN(core->keys, order), slot);
	sk_list_remove(core, &owner->keys, SK_CHAIN(core->keys, own), slot);
	SK_ADD(core, owner->count, -1u);
	if (now_ns < sk_time_add(key->at_ns, SK_KEY_YOUNG_NS))
		SK_ADD(core, core->counters.keys_forgotten_young, 1);
	if (!owner->count)
		owner_leave(core, key->owner);
	sk_pool_give(core, &core->key_pool, SK_CHAIN(core->keys, free_next), slot);
	SK_ADD(core, core->counters.keys_forgotten, 1);
}

void sk_key_add(struct sk_core *core, const struct sk_submit *submit, uint64_t job, uint64_t now_ns)
{
	struct sk_key *key;
	uint32_t slot, owner;

	if (!submit->key[0] && !submit->key[1])
		return;
	if (core->key_pool.used == core->limits.keys) {
		owner = owner_heaviest(core, submit->client);
		key_forget(core, core->key_owners[owner].keys.first, now_ns);
	}
	owner = owner_of(core, submit->client);
	slot = sk_pool_take(core, &core->key_pool, SK_CHAIN(core->keys, free_next));
	key = &core->keys[slot];
	key->client = submit->client;
	key->key[0] = submit->key[0];
	key->key[1] = submit->key[1];
	key->spec_hash = submit->spec_hash;
	key->job = job;
	key->at_ns = now_ns;
	key->owner = owner;
	sk_table_insert(core, &core->key_table, SK_CHAIN(core->keys, hash_next),
			key_hash(key->client, key->key), slot);
	sk_list_append(core, &core->keys_order, SK_CHAIN(core->keys, order), slot);
	sk_list_append(core, &core->key_owners[owner].keys, SK_CHAIN(core->keys, own), slot);
	SK_ADD(core, core->key_owners[owner].count, 1);
}

/* A client that lost a key had most of them then, so at least an equal share of all, and lost its
 * oldest. */
uint64_t sk_core_key_window(const struct sk_core *core, uint64_t client, const uint64_t key[2])
{
	uint32_t slot = owner_find(core, client);
	const struct sk_key_owner *owner = &core->key_owners[slot];

	if (!slot || !core->counters.keys_forgotten || sk_key_find(core, client, key))
		return 0;
	if ((owner->count + 1ull) * core->key_owner_pool.used < core->limits.keys)
		return 0;
	return core->keys[owner->keys.first].at_ns;
}
