/* SPDX-License-Identifier: Apache-2.0
 *
 * Seeded streams of sound, unsound and torn batches and snapshots against the core, built with
 * address and undefined-behaviour sanitizers by test_core_fuzz.py. Every buffer is its own exact
 * allocation, so that one byte too far is seen. `stoker_core_fuzz SEED STEPS`; exit 0 is good.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/command/batch.h"
#include "core/command/command.h"
#include "core/snapshot/saved.h"
#include "core/state/digest.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"
#include "core/state/state.h"
#include "stream.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (seed %llu step %u)\n", __FILE__, __LINE__,     \
				#condition, (unsigned long long)seed_given, step_now);             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const struct sk_limits limits = STREAM_LIMITS;

static uint64_t seed_given;
static struct stream stream;
static uint32_t step_now, torn_accepted;

static uint64_t chance(uint64_t below)
{
	return stream_chance(&stream, below);
}

static void *exactly(const void *bytes, size_t size)
{
	void *copy = malloc(size ? size : 1);

	if (size)
		memcpy(copy, bytes, size);
	return copy;
}

static uint32_t records_in(const struct batch *batch, size_t until)
{
	struct sk_header header;
	uint32_t count = 0;

	for (size_t at = 0; at < until; at += header.size, count++)
		memcpy(&header, batch->bytes + at, sizeof header);
	return count;
}

/* The most that releasing all jobs which wait for others may record. */
static uint64_t release_bound(const struct sk_core *core)
{
	uint64_t held = 0;

	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next)
		held += core->jobs[slot].hold == SK_HOLD_AFTER;
	return held * SK_JOURNAL_AFTER;
}

/* Try each request alone: it records no more than is reserved for it, and leaves no trace. */
static void measure(struct sk_core *core, const struct batch *batch)
{
	struct sk_act act = {.core = core, .now_ns = stream.now_ns};
	uint64_t before = sk_core_memory_digest(core), bound;
	union sk_command_record record;
	struct sk_why why;

	for (size_t at = 0; at < batch->size;) {
		at += sk_batch_read(batch->bytes + at, &record);
		if (record.header.kind != SK_TERM)
			record.header.term = core->term;
		bound = sk_command_journal_max(core, &record.header) + release_bound(core);
		if (record.header.kind == SK_PREFER) {
			bound += record.places[0].tasks *
				 (SK_JOURNAL_TASK + SK_TASK_DEVICES_MAX * SK_JOURNAL_SHARE);
			record.header.kind = SK_PLACE;
		}
		sk_journal_begin(core);
		core->journal.used_max = 0;
		sk_command_do(&act, &record.header, &why);
		CHECK(core->journal.used_max <= bound);
		sk_journal_end(core, false);
		CHECK(sk_core_memory_digest(core) == before);
	}
}

/* Copy the commands of the proposal into an exact buffer; the state must be unchanged. */
static struct batch propose(struct sk_core *core, const struct batch *requests, int *error)
{
	size_t capacity = requests->size + SK_DECISIONS_BYTES_MAX;
	struct sk_proposal proposal = {
		.commands = malloc(capacity),
		.commands_capacity = capacity,
		.rejected = calloc(SK_BATCH_REQUESTS_MAX, sizeof(struct sk_rejected)),
		.rejected_capacity = SK_BATCH_REQUESTS_MAX};
	uint64_t before = sk_core_memory_digest(core);
	struct batch commands = {0};

	*error = sk_core_propose(core, requests->bytes, requests->size, stream.now_ns, chance(99),
				 &proposal);
	CHECK(sk_core_memory_digest(core) == before);
	CHECK(!core->journal.on && !core->journal.used);
	commands.bytes = exactly(proposal.commands, proposal.commands_size);
	commands.size = proposal.commands_size;
	free(proposal.commands);
	free(proposal.rejected);
	return commands;
}

#define SMALL (SK_TASKS_MAX + 3)

/* Apply with effect buffers of this capacity, or of the size that a command needs. */
static int apply(struct sk_core *core, const struct batch *batch, uint32_t capacity)
{
	size_t done = 0, consumed;
	int error;

	do {
		struct sk_effects effects = {malloc(capacity * sizeof(struct sk_effect)), capacity,
					     0, 0};

		error = sk_core_apply(core, batch->bytes + done, batch->size - done,
				      records_in(batch, done), stream.now_ns, &effects, &consumed);
		CHECK(effects.count <= capacity);
		free(effects.records);
		if (error == -ENOBUFS && effects.needed > capacity)
			capacity = effects.needed;
		done += consumed;
	} while (error == -ENOBUFS);
	CHECK(error == -EBADMSG || done == batch->size);
	return error;
}

static void mutate(struct batch *batch)
{
	uint64_t edits = 1 + chance(3);

	while (edits-- && batch->size) {
		size_t at = chance(batch->size);

		switch (chance(4)) {
		case 0:
			batch->bytes[at] ^= (uint8_t)(1u << chance(8));
			break;
		case 1:
			batch->bytes[at] = (uint8_t)chance(256);
			break;
		case 2:
			batch->bytes[at] = chance(2) ? 0 : 255;
			break;
		default:
			batch->size = at;
			break;
		}
	}
	uint8_t *copy = exactly(batch->bytes, batch->size);

	free(batch->bytes);
	batch->bytes = copy;
}

/* Exact blocks of the usual size are reused without clearing: nothing may rely on cleared memory,
 * and a block of some megabytes is slow to get from a sanitizer. */
static void *spare[4];
static unsigned spares;

static void *block(size_t size)
{
	void *memory;

	if (size == sk_core_memsize(&limits) && spares)
		return spare[--spares];
	memory = aligned_alloc(64, size);
	memset(memory, 0xa5, size);
	return memory;
}

static void release(void *memory, size_t size)
{
	if (size == sk_core_memsize(&limits) && spares < 4)
		spare[spares++] = memory;
	else
		free(memory);
}

static struct sk_core *fresh(void)
{
	size_t size = sk_core_memsize(&limits);
	struct sk_core *core;

	CHECK(sk_core_init(block(size), size, &limits, &core) == 0);
	return core;
}

static struct batch snapshot(const struct sk_core *core)
{
	struct batch bytes = {malloc(sk_core_snapshot_size(core)), sk_core_snapshot_size(core)};

	CHECK(sk_core_snapshot(core, bytes.bytes, bytes.size) == 0);
	return bytes;
}

static struct sk_core *restore(const struct batch *bytes)
{
	struct sk_limits wanted;
	struct sk_core *core = NULL;
	void *memory;
	size_t size;

	if (sk_core_snapshot_limits(bytes->bytes, bytes->size, &wanted))
		return NULL;
	size = sk_core_memsize(&wanted);
	if (size > 64u << 20) /* a torn limit may be huge; the caller says no first */
		return NULL;
	memory = block(size);
	if (sk_core_restore(memory, size, bytes->bytes, bytes->size, &core)) {
		release(memory, size);
		return NULL;
	}
	CHECK(sk_core_check(core) == NULL);
	return core;
}

/* An attacker can compute the digest too. */
static void seal(struct batch *bytes)
{
	size_t skip = offsetof(struct sk_saved_head, size);
	uint64_t size = bytes->size, digest;

	if (bytes->size < sizeof(struct sk_saved_head))
		return;
	memcpy(bytes->bytes + skip, &size, sizeof size);
	digest = sk_digest_end(sk_digest(0, bytes->bytes + skip, (bytes->size - skip) & ~7ull));
	memcpy(bytes->bytes + offsetof(struct sk_saved_head, digest), &digest, sizeof digest);
}

/* A state that restore accepts must be sound, canonical, and able to go on. */
static void try_torn_snapshot(const struct sk_core *core)
{
	struct batch bytes = snapshot(core), again, requests = {0}, commands;
	struct sk_core *other;
	int error;

	mutate(&bytes);
	if (chance(4))
		seal(&bytes);
	other = restore(&bytes);
	if (other) {
		torn_accepted++;
		again = snapshot(other);
		CHECK(again.size == bytes.size && !memcmp(again.bytes, bytes.bytes, bytes.size));
		free(again.bytes);
		stream_request(&stream, &requests, other);
		commands = propose(other, &requests, &error);
		CHECK(error == 0 && apply(other, &commands, SMALL) == 0 &&
		      sk_core_check(other) == NULL);
		free(requests.bytes);
		free(commands.bytes);
		release(other, other->size);
	}
	free(bytes.bytes);
}

static struct sk_core *restarted(struct sk_core *core)
{
	struct batch bytes = snapshot(core), again;
	struct sk_core *other = restore(&bytes);

	CHECK(other && sk_core_digest(other) == sk_core_digest(core));
	again = snapshot(other);
	CHECK(again.size == bytes.size && !memcmp(again.bytes, bytes.bytes, bytes.size));
	free(again.bytes);
	free(bytes.bytes);
	release(core, core->size);
	return other;
}

/* A replica that was restored and applies the batch in one call ends up with the same state. */
static void apply_as_twin(struct sk_core *core, const struct batch *commands)
{
	struct batch bytes = snapshot(core);
	struct sk_core *twin = chance(4) ? NULL : restore(&bytes);

	CHECK(apply(core, commands, SMALL) == 0);
	free(bytes.bytes);
	if (!twin)
		return;
	CHECK(apply(twin, commands, 1u << 15) == 0);
	CHECK(sk_core_digest(twin) == sk_core_digest(core));
	release(twin, twin->size);
}

static void sound_step(struct sk_core *core)
{
	struct batch requests = {0}, commands;
	int error;

	for (uint64_t i = chance(6); i; i--)
		stream_request(&stream, &requests, core);
	measure(core, &requests);
	commands = propose(core, &requests, &error);
	CHECK(error == 0);
	if (chance(5) == 0)
		stream_places(&stream, &commands, core);
	if (chance(4) == 0) { /* torn on the way: all of it or nothing, and never unsound */
		uint64_t before = sk_core_memory_digest(core);

		mutate(&commands);
		if (apply(core, &commands, SMALL) == -EBADMSG)
			CHECK(sk_core_memory_digest(core) == before);
	} else {
		apply_as_twin(core, &commands);
	}
	CHECK(sk_core_check(core) == NULL);
	free(requests.bytes);
	free(commands.bytes);
}

static void torn_requests(struct sk_core *core)
{
	struct batch requests = {0}, commands;
	int error;

	for (uint64_t i = 1 + chance(4); i; i--)
		stream_request(&stream, &requests, core);
	mutate(&requests);
	commands = propose(core, &requests, &error);
	CHECK(error == 0 || error == -EBADMSG);
	free(requests.bytes);
	free(commands.bytes);
}

static void request(const struct sk_core *core)
{
	struct sk_explain lines[SK_EXPLAIN_MAX];
	struct sk_task_view tasks[SK_TASKS_MAX];

	for (uint64_t job = 0; job <= core->next_job; job++) {
		CHECK(sk_core_explain(core, job, lines, SK_EXPLAIN_MAX) <= SK_EXPLAIN_MAX);
		CHECK(sk_core_explain(core, job, lines, 1) <= 1);
		CHECK(sk_core_job_tasks(core, job, tasks, SK_TASKS_MAX) <= SK_TASKS_MAX);
	}
}

int main(int argc, char **argv)
{
	struct sk_core *core;
	uint32_t steps;

	if (argc != 3)
		return 2;
	seed_given = stream.random = strtoull(argv[1], NULL, 10);
	steps = (uint32_t)strtoul(argv[2], NULL, 10);
	core = fresh();
	for (step_now = 1; step_now <= steps; step_now++) {
		stream.now_ns += chance(chance(30) ? 4 : 400) * 1000000000;
		sound_step(core);
		torn_requests(core);
		try_torn_snapshot(core);
		if (chance(8) == 0)
			core = restarted(core);
		if (chance(8) == 0)
			request(core);
	}
	printf("%llu submitted, %llu placed, %llu lost, %u of %u torn snapshots were sound\n",
	       (unsigned long long)core->counters.submitted,
	       (unsigned long long)core->counters.placed,
	       (unsigned long long)core->counters.ended[SK_LOST], torn_accepted, steps);
	CHECK(core->counters.placed > steps / 40 && torn_accepted > steps / 40);
	release(core, core->size);
	while (spares)
		free(spare[--spares]);
	return 0;
}
