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

#include "core/command.h"
#include "core/digest.h"
#include "core/memory.h"
#include "core/saved.h"
#include "core/state.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s (seed %llu step %u)\n", __FILE__, __LINE__,     \
				#condition, (unsigned long long)seed_given, step_now);             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static const struct sk_limits limits = {.nodes = 3,
					.devices = 24,
					.jobs = 12,
					.finished = 4,
					.tasks = 16,
					.node_tasks = 8,
					.keys = 3};

static uint64_t seed_given, random_state;
static uint32_t step_now, torn_accepted;

static uint64_t chance(uint64_t below)
{
	random_state += 0x9e3779b97f4a7c15u;
	return sk_mix(random_state) % below;
}

struct batch {
	uint8_t *bytes;
	size_t size;
};

static void *exactly(const void *bytes, size_t size)
{
	void *copy = malloc(size ? size : 1);

	if (size)
		memcpy(copy, bytes, size);
	return copy;
}

static void add(struct batch *batch, void *record, enum sk_kind kind, size_t size)
{
	struct sk_header *header = record;

	header->size = (uint16_t)size;
	header->kind = (uint16_t)kind;
	batch->bytes = realloc(batch->bytes, batch->size + size);
	memcpy(batch->bytes + batch->size, record, size);
	batch->size += size;
}

static void add_node(struct batch *batch)
{
	struct sk_node_up up = {.node = chance(5),
				.boot = 1 + chance(12) / 10,
				.incarnation = 1 + chance(3),
				.memory_bytes = 1000,
				.cpu_milli = 8000,
				.devices = (uint16_t)chance(17)};
	struct sk_node_down down = {.header.flags = (uint32_t)chance(4), .node = chance(5)};

	if (chance(5))
		add(batch, &up, SK_NODE_UP, sizeof up);
	else
		add(batch, &down, SK_NODE_DOWN, sizeof down);
}

static void add_device(struct batch *batch)
{
	struct sk_device_set set = {.node = 1 + chance(4),
				    .index = (uint16_t)chance(17),
				    .capacity_milli = chance(6) ? 1000 : (uint16_t)chance(1002),
				    .available = chance(9) != 0};

	add(batch, &set, SK_DEVICE_SET, sizeof set);
}

static void add_submit(struct batch *batch)
{
	static const uint32_t gpus[] = {0, 1, 300, 500, 999, 1000, 2000, 8000, 16000, 1500};
	struct sk_submit submit = {.client = chance(2),
				   .key = {chance(6)},
				   .spec_hash = chance(2),
				   .memory_bytes = chance(4) ? 0 : chance(1200),
				   .gpu_milli = gpus[chance(10)],
				   .cpu_milli = chance(3) ? 0 : (uint32_t)chance(5000),
				   .priority = (int16_t)(chance(300) - 150),
				   .tasks = (uint16_t)(chance(3) ? 1 : chance(9))};

	add(batch, &submit, SK_SUBMIT, sizeof submit);
}

static void add_outcome(struct batch *batch, const struct sk_core *core)
{
	uint64_t job = core->next_job > 12 ? core->next_job - chance(12) : 1 + chance(12);
	uint32_t slot = sk_job_find(core, job);
	uint32_t task = slot ? core->jobs[slot].tasks_first : 0;
	struct sk_outcome outcome = {
		.job = job,
		.node = task ? core->nodes[core->tasks[task].node].id : 1,
		.attempt = chance(9) ? 1 : 2,
		.task = task ? core->tasks[task].task : (uint16_t)chance(3),
		.state = (uint16_t)(chance(3) ? SK_SUCCEEDED + chance(5) : SK_RUNNING)};

	add(batch, &outcome, SK_OUTCOME, sizeof outcome);
}

static void add_end(struct batch *batch, const struct sk_core *core)
{
	uint64_t first = core->live.first ? core->jobs[core->live.first].id : 1;
	struct sk_cancel cancel = {.job = chance(4) ? first : 1 + chance(core->next_job + 1)};
	struct sk_forget forget = {.job = 1 + chance(core->next_job + 1)};

	if (chance(2))
		add(batch, &cancel, SK_CANCEL, sizeof cancel);
	else
		add(batch, &forget, SK_FORGET, sizeof forget);
}

static void add_request(struct batch *batch, const struct sk_core *core)
{
	uint64_t what = chance(20);

	if (what < 4)
		add_node(batch);
	else if (what < 8)
		add_device(batch);
	else if (what < 13)
		add_submit(batch);
	else if (what < 18)
		add_outcome(batch, core);
	else
		add_end(batch, core);
}

/* What one request may note, and what all places of a batch may. */
static uint64_t journal_bound(const struct sk_core *core, const struct batch *batch)
{
	union {
		struct sk_header header;
		uint8_t bytes[sizeof(struct sk_place)];
	} record;
	uint64_t bound = (SK_JOURNAL_TASK + SK_JOURNAL_SHARE * SK_TASK_DEVICES_MAX) * 16;

	for (size_t at = 0; at < batch->size; at += record.header.size) {
		memcpy(&record.header, batch->bytes + at, sizeof record.header);
		memcpy(&record, batch->bytes + at, record.header.size);
		bound += sk_command_journal_max(core, &record.header);
	}
	return bound;
}

/* The proposal's commands in an exact buffer; the state must be as before. */
static struct batch propose(struct sk_core *core, const struct batch *requests, int *error)
{
	size_t capacity = requests->size + SK_PLACES_BYTES_MAX;
	struct sk_proposal proposal = {
		.commands = malloc(capacity),
		.commands_capacity = capacity,
		.rejected = calloc(SK_BATCH_REQUESTS_MAX, sizeof(struct sk_rejected)),
		.rejected_capacity = SK_BATCH_REQUESTS_MAX};
	uint64_t before = sk_core_memory_digest(core);
	struct batch commands = {0};

	*error = sk_core_propose(core, requests->bytes, requests->size, step_now, chance(99),
				 &proposal);
	CHECK(sk_core_memory_digest(core) == before);
	CHECK(!core->journal.on && !core->journal.used);
	commands.bytes = exactly(proposal.commands, proposal.commands_size);
	commands.size = proposal.commands_size;
	free(proposal.commands);
	free(proposal.rejected);
	return commands;
}

/* In small effect buffers, as few as each command needs. */
static int apply(struct sk_core *core, const struct batch *batch)
{
	uint32_t capacity = SK_TASKS_MAX + 3;
	size_t done = 0, consumed;
	int error;

	do {
		struct sk_effects effects = {malloc(capacity * sizeof(struct sk_effect)), capacity,
					     0, 0};

		error = sk_core_apply(core, batch->bytes + done, batch->size - done, 0, step_now,
				      &effects, &consumed);
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

/* Exact blocks of the usual size are used again, dirty as they are: nothing may rely on cleared
 * memory, and a block of some megabytes is slow to get from a sanitizer. */
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
	if (size > 64u << 20) /* a torn limit may ask for much; the caller says no first */
		return NULL;
	memory = block(size);
	if (sk_core_restore(memory, size, bytes->bytes, bytes->size, &core)) {
		release(memory, size);
		return NULL;
	}
	CHECK(sk_core_check(core) == NULL);
	return core;
}

/* An enemy can compute the digest too. */
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

/* A state that restore accepts must be a state: sound, canonical, and able to go on. */
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
		add_request(&requests, other);
		commands = propose(other, &requests, &error);
		CHECK(error == 0 && apply(other, &commands) == 0 && sk_core_check(other) == NULL);
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

static void sound_step(struct sk_core *core)
{
	struct batch requests = {0}, commands;
	int error;

	for (uint64_t i = chance(6); i; i--)
		add_request(&requests, core);
	core->journal.used_max = 0;
	commands = propose(core, &requests, &error);
	CHECK(error == 0);
	CHECK(core->journal.used_max <= journal_bound(core, &requests));
	if (chance(4) == 0) { /* torn on the way: all of it or nothing, and never unsound */
		uint64_t before = sk_core_memory_digest(core);

		mutate(&commands);
		if (apply(core, &commands) == -EBADMSG)
			CHECK(sk_core_memory_digest(core) == before);
	} else {
		CHECK(apply(core, &commands) == 0);
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
		add_request(&requests, core);
	mutate(&requests);
	commands = propose(core, &requests, &error);
	CHECK(error == 0 || error == -EBADMSG);
	free(requests.bytes);
	free(commands.bytes);
}

static void ask(const struct sk_core *core)
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
	seed_given = random_state = strtoull(argv[1], NULL, 10);
	steps = (uint32_t)strtoul(argv[2], NULL, 10);
	core = fresh();
	for (step_now = 1; step_now <= steps; step_now++) {
		sound_step(core);
		torn_requests(core);
		try_torn_snapshot(core);
		if (chance(8) == 0)
			core = restarted(core);
		if (chance(8) == 0)
			ask(core);
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
