/* SPDX-License-Identifier: Apache-2.0
 *
 * One seeded stream of requests, decided and applied, and the digest of the state at many positions
 * of it. test_core_digests.py builds this by several compilers for several machines and compares
 * what they print. `digests SEED STEPS`
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/state/digest.h"
#include "stream.h"

#define EVERY 50u

static const struct sk_limits limits = STREAM_LIMITS;
static struct stream stream;
static uint64_t effects_digest;

static void stop(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static struct sk_core *fresh(void)
{
	size_t size = sk_core_memsize(&limits);
	void *memory = aligned_alloc(64, size);
	struct sk_core *core;

	if (!memory || sk_core_init(memory, size, &limits, &core))
		stop("no memory");
	return core;
}

static void apply(struct sk_core *core, const struct batch *batch)
{
	struct sk_effects effects = {.capacity = 8192};
	size_t consumed;

	effects.records = calloc(effects.capacity, sizeof *effects.records);
	if (sk_core_apply(core, batch->bytes, batch->size, 0, stream.now_ns, &effects, &consumed))
		stop("a batch was not applied");
	effects_digest =
		sk_digest(effects_digest, effects.records, effects.count * sizeof *effects.records);
	free(effects.records);
}

/* Decide on the requests; some places from outside are added. */
static struct batch decide(struct sk_core *core, const struct batch *requests)
{
	size_t capacity = requests->size + SK_DECISIONS_BYTES_MAX;
	struct sk_proposal proposal = {.commands = malloc(capacity),
				       .commands_capacity = capacity,
				       .rejected = calloc(64, sizeof(struct sk_rejected)),
				       .rejected_capacity = 64};
	struct batch commands;

	if (sk_core_propose(core, requests->bytes, requests->size, stream.now_ns,
			    stream_chance(&stream, 1000), &proposal))
		stop("requests were not read");
	effects_digest = sk_digest(effects_digest, proposal.rejected,
				   proposal.rejected_count * sizeof(struct sk_rejected));
	free(proposal.rejected);
	commands = (struct batch){proposal.commands, proposal.commands_size};
	if (stream_chance(&stream, 5) == 0)
		stream_places(&stream, &commands, core);
	return commands;
}

static void one_step(struct sk_core *core)
{
	struct batch requests = {0}, commands;

	stream.now_ns += stream_chance(&stream, stream_chance(&stream, 30) ? 4 : 400) * 1000000000;
	for (uint64_t i = stream_chance(&stream, 6); i; i--)
		stream_request(&stream, &requests, core);
	commands = decide(core, &requests);
	apply(core, &commands);
	free(commands.bytes);
	free(requests.bytes);
}

int main(int argc, char **argv)
{
	struct sk_core *core = fresh();
	uint32_t steps;

	if (argc != 3)
		return 2;
	stream.random = strtoull(argv[1], NULL, 10);
	steps = (uint32_t)strtoul(argv[2], NULL, 10);
	for (uint32_t step = 1; step <= steps; step++) {
		one_step(core);
		if (step % EVERY == 0)
			printf("%u %016llx %016llx\n", step,
			       (unsigned long long)sk_core_digest(core),
			       (unsigned long long)sk_digest_end(effects_digest));
	}
	printf("%llu placed\n", (unsigned long long)core->counters.placed);
	free(core);
	return 0;
}
