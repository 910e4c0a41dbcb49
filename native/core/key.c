/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys by hash of (client, key) and in order of age.
 */
#include "core/journal.h"
#include "core/key.h"
#include "core/pool.h"
#include "core/table.h"

static uint64_t sk_key_hash(uint64_t client, const uint64_t key[2])
{
	return sk_mix(key[1] ^ sk_mix(key[0] ^ sk_mix(client)));
}

uint32_t sk_key_find(const struct sk_core *core, uint64_t client, const uint64_t key[2])
{
	uint32_t slot;

	if (!key[0] && !key[1])
		return 0;
	slot = sk_table_first(&core->key_table, sk_key_hash(client, key));
	for (; slot; slot = core->keys[slot].hash_next) {
		const struct sk_key *at = &core->keys[slot];

		if (at->client == client && at->key[0] == key[0] && at->key[1] == key[1])
			return slot;
	}
	return 0;
}

static void sk_key_forget_oldest(struct sk_core *core)
{
	uint32_t slot = core->keys_order.first;
	const struct sk_key *key = &core->keys[slot];

	sk_table_remove(core, &core->key_table, SK_CHAIN(core->keys, hash_next),
			sk_key_hash(key->client, key->key), slot);
	sk_list_remove(core, &core->keys_order, SK_CHAIN(core->keys, order), slot);
	sk_pool_give(core, &core->key_pool, SK_CHAIN(core->keys, free_next), slot);
	SK_ADD(core, core->counters.keys_forgotten, 1);
}

void sk_key_add(struct sk_core *core, const struct sk_submit *submit, uint64_t job)
{
	struct sk_key *key;
	uint32_t slot;

	if (!submit->key[0] && !submit->key[1])
		return;
	if (core->key_pool.used == core->limits.keys)
		sk_key_forget_oldest(core);
	slot = sk_pool_take(core, &core->key_pool, SK_CHAIN(core->keys, free_next));
	key = &core->keys[slot];
	key->client = submit->client;
	key->key[0] = submit->key[0];
	key->key[1] = submit->key[1];
	key->spec_hash = submit->spec_hash;
	key->job = job;
	sk_table_insert(core, &core->key_table, SK_CHAIN(core->keys, hash_next),
			sk_key_hash(key->client, key->key), slot);
	sk_list_append(core, &core->keys_order, SK_CHAIN(core->keys, order), slot);
}
