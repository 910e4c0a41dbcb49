/* SPDX-License-Identifier: Apache-2.0
 *
 * Coverage-guided bytes for the three ways into the core: a batch to apply, requests to decide on,
 * a snapshot to restore. For clang's libFuzzer; inputs begin as sound ones made by stream.c,
 * because chance alone does not find a header. The first byte says which way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/snapshot/saved.h"
#include "core/state/digest.h"
#include "stream.h"

static const struct sk_limits limits = STREAM_LIMITS;
static struct sk_core *core;
static uint8_t *image;
static size_t state_size; /* without the undo journal, which is last */
static struct stream stream = {.random = 1, .now_ns = 1};

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool sound)
{
	if (!sound)
		abort();
}

static void apply(const void *bytes, size_t size)
{
	struct sk_effects effects = {.capacity = 1u << 15};
	size_t consumed;

	effects.records = malloc(effects.capacity * sizeof *effects.records);
	sk_core_apply(core, bytes, size, 0, stream.now_ns, &effects, &consumed);
	free(effects.records);
}

/* Decide, and write the commands to the buffer of the caller; returns their size. */
static size_t decide(const uint8_t *bytes, size_t size, uint8_t *commands, size_t capacity)
{
	struct sk_proposal proposal = {
		.commands = commands,
		.commands_capacity = capacity,
		.rejected = malloc(SK_BATCH_REQUESTS_MAX * sizeof(struct sk_rejected)),
		.rejected_capacity = SK_BATCH_REQUESTS_MAX};
	uint64_t before = sk_core_memory_digest(core);

	sk_core_propose(core, bytes, size, stream.now_ns, 1, &proposal);
	must(sk_core_memory_digest(core) == before);
	free(proposal.rejected);
	return proposal.commands_size;
}

/* A state that has a bit of everything; every input starts from it. */
static void prepare(void)
{
	size_t size = sk_core_memsize(&limits);
	void *memory = aligned_alloc(64, size);

	memset(memory, 0, size);
	must(sk_core_init(memory, size, &limits, &core) == 0);
	for (uint32_t step = 0; step < 400; step++) {
		struct batch batch = {0};
		uint8_t *commands = malloc(SK_DECISIONS_BYTES_MAX + 8192);

		stream_request(&stream, &batch, core);
		stream.now_ns += 1000000000;
		apply(commands, decide(batch.bytes, batch.size, commands,
				       batch.size + SK_DECISIONS_BYTES_MAX));
		free(commands);
		free(batch.bytes);
	}
	state_size = (size_t)(core->journal.bytes - (uint8_t *)core);
	image = malloc(state_size);
	memcpy(image, core, state_size);
}

static void restore(uint8_t *bytes, size_t size)
{
	size_t skip = offsetof(struct sk_saved_head, size);
	struct sk_limits wanted;
	struct sk_core *other;
	uint64_t digest, whole = size;

	if (size < sizeof(struct sk_saved_head))
		return;
	memcpy(bytes + skip, &whole, sizeof whole); /* an attacker can do so too */
	digest = sk_digest_end(sk_digest(0, bytes + skip, (size - skip) & ~7ull));
	memcpy(bytes + offsetof(struct sk_saved_head, digest), &digest, sizeof digest);
	if (sk_core_snapshot_limits(bytes, size, &wanted) ||
	    memcmp(&wanted, &limits, sizeof limits))
		return;
	other = aligned_alloc(64, core->size);
	if (!sk_core_restore(other, core->size, bytes, size, &other))
		must(!sk_core_check(other) && sk_core_digest(other) == digest);
	free(other);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	struct stream sound = {.random = seed, .now_ns = stream.now_ns};
	struct batch batch = {0};

	if (!core)
		prepare();
	if (size < 17 || seed % 4 == 0) {
		memcpy(core, image, state_size);
		for (uint32_t i = 0; i < 3; i++)
			stream_request(&sound, &batch, core);
		if (seed % 3 == 2) {
			batch.size = sk_core_snapshot_size(core);
			batch.bytes = realloc(batch.bytes, batch.size);
			must(sk_core_snapshot(core, batch.bytes, batch.size) == 0);
		}
		size = batch.size + 1 <= max ? batch.size + 1 : max;
		data[0] = (uint8_t)(seed % 3);
		memcpy(data + 1, batch.bytes, size - 1);
		free(batch.bytes);
	}
	return LLVMFuzzerMutate(data, size, max);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes, *commands;

	if (!core)
		prepare();
	if (!size)
		return 0;
	memcpy(core, image, state_size);
	bytes = malloc(size);
	commands = malloc(size + SK_DECISIONS_BYTES_MAX);
	memcpy(bytes, data + 1, size - 1);
	if (data[0] % 3 == 0)
		apply(bytes, size - 1);
	else if (data[0] % 3 == 1)
		apply(commands, decide(bytes, size - 1, commands, size + SK_DECISIONS_BYTES_MAX));
	else
		restore(bytes, size - 1);
	must(!sk_core_check(core));
	free(bytes);
	free(commands);
	return 0;
}
