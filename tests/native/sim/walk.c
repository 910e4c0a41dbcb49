/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller that means ill: every function of one simulated driver library, in any order, with
 * nothing where something belongs, buffers of exactly the size that was told, structures of random
 * bytes and versions, handles that are old, foreign or none.
 *
 * Compiled by test_walk.py with the library's own sources, under sanitizers; the table of functions
 * (`rows.h`) is made there from their definitions. Two processes with two threads each walk on one
 * node. Invariant: what may be read or written of each argument is a heap block of just that size,
 * so the first byte beyond it ends the program.
 */
#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind {
	NUMBER,	 /* any */
	SHORT,	 /* from 0 to 2: waits, and handles that are numbers */
	SIZE,	 /* bytes of memory: little, or more than there is */
	COUNT,	 /* so many elements, or bytes, are in each BLOCK */
	COUNTED, /* the same, told through a pointer */
	OBJECT,	 /* `bytes` of anything */
	ZEROS,	 /* the same, with pointers inside: nothing but a version */
	BLOCK,	 /* `bytes` for each that is counted */
	ENOUGH,	 /* `bytes`, whatever is counted */
	TEXT,	 /* to be read */
	HANDLE,	 /* of a pool, or anything */
	OWNED,	 /* of a pool, or nothing: an object of the library's heap */
	RETURN,	 /* a place for one handle, which goes into the pool */
	RETURNS, /* places for all that are counted */
	CALL,	 /* a function */
};

struct parameter {
	enum kind kind;
	uint32_t bytes, pool;
};

struct row {
	const char *name;
	uint64_t (*at)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
		       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
	bool begins, ends; /* is called first of all; takes its OWNED away */
	uint32_t count;
	struct parameter parameter[12];
};

#include "rows.h"

enum { ROWS = sizeof(rows) / sizeof(rows[0]), POOLS = 24, POOL = 64, ARGUMENTS = 12 };

struct walker {
	uint64_t state;
	uint64_t rounds;
	uint64_t answered; /* calls that returned 0 */
	struct {
		uint64_t handle[POOL];
		uint32_t count;
	} pool[POOLS];
};

static uint64_t dice(struct walker *of, uint64_t below)
{
	of->state = of->state * 6364136223846793005u + 1442695040888963407u;
	return (of->state >> 33) % below;
}

static uint64_t any_number(struct walker *of)
{
	/* Some are MIG's profiles, limits in mW and numbers just past a card's ports. */
	static const uint64_t edges[] = {0,	     1,		 2,	    3,	       5,
					 7,	     8,		 9,	    14,	       18,
					 19,	     300000,	 1u << 20,  INT32_MAX, UINT32_MAX,
					 1ull << 32, 1ull << 63, UINT64_MAX};

	return dice(of, 4) ? edges[dice(of, sizeof(edges) / sizeof(edges[0]))]
			   : dice(of, UINT32_MAX) << 16;
}

/* Random bytes, or small numbers, ones, or nothing; often a version before, as NVML makes them. */
static void fill(struct walker *of, uint8_t *at, uint64_t bytes, bool zeros)
{
	uint64_t below = dice(of, 2) ? 256 : dice(of, 2) ? 3 : 1;
	uint32_t version =
		dice(of, 2) ? (uint32_t)(bytes | (1 + dice(of, 3)) << 24) : (uint32_t)dice(of, 4);

	for (uint64_t i = 0; i < bytes; i++)
		at[i] = zeros || (below < 256 && i % 4) ? 0
			: below == 1			? 1
							: (uint8_t)dice(of, below);
	if (bytes >= 4 && dice(of, 2))
		memcpy(at, &version, sizeof(version));
}

/* No bytes: they belong to nobody. */
static void *block(struct walker *of, uint64_t bytes, bool zeros)
{
	uint8_t *made = bytes ? malloc(bytes) : NULL;

	assert(made || !bytes);
	fill(of, made, bytes, zeros);
	return made;
}

static uint64_t of_pool(struct walker *of, uint32_t pool)
{
	uint32_t count = of->pool[pool].count;

	return count ? of->pool[pool].handle[dice(of, count)] : 0;
}

static uint64_t any_handle(struct walker *of, uint32_t pool)
{
	switch (dice(of, 12)) {
	case 0:
		return 0;
	case 1:
		return any_number(of);
	case 2: /* beside one */
		return of_pool(of, pool) + dice(of, 16);
	case 3:
		return of_pool(of, (uint32_t)dice(of, POOLS));
	default:
		return of_pool(of, pool);
	}
}

static void learn(struct walker *of, uint32_t pool, uint64_t handle)
{
	uint32_t *count = &of->pool[pool].count;
	uint32_t at = *count < POOL ? (*count)++ : (uint32_t)dice(of, POOL);

	of->pool[pool].handle[at] = handle;
}

static void forget(struct walker *of, uint32_t pool, uint64_t handle)
{
	for (uint32_t i = of->pool[pool].count; i-- > 0;)
		if (of->pool[pool].handle[i] == handle)
			of->pool[pool].handle[i] = of->pool[pool].handle[--of->pool[pool].count];
}

/* A COUNTED may be a size_t: the upper half is nothing. */
static void *counted(uint64_t count)
{
	uint64_t *made = malloc(sizeof(*made));

	assert(made);
	*made = count;
	return made;
}

static uint64_t size(struct walker *of)
{
	static const uint64_t sizes[] = {2 << 20,    2 << 20,	 2 << 20,    0,
					 1,	     4096,	 2 << 20,    4 << 20,
					 1ull << 40, 1ull << 63, UINT64_MAX, -(2ull << 20)};

	return sizes[dice(of, sizeof(sizes) / sizeof(sizes[0]))];
}

/* Something that a card of the node says of itself, or nothing of the kind. */
static uint64_t text(struct walker *of)
{
	uint64_t bytes = 1 + dice(of, 20);
	char *made;

	if (dice(of, 3))
		return (uint64_t)(uintptr_t)strdup(texts[dice(of, sizeof(texts) / sizeof(*texts))]);
	made = block(of, bytes, false);
	made[bytes - 1] = 0;
	return (uint64_t)(uintptr_t)made;
}

static void nothing(void *data)
{
	(void)data;
}

static uint64_t argument(struct walker *of, const struct parameter *how, uint64_t count)
{
	bool none = !dice(of, 10);

	switch (how->kind) {
	case NUMBER:
		return dice(of, 2) ? dice(of, 4) : any_number(of);
	case SHORT:
		return dice(of, 3);
	case SIZE:
		return size(of);
	case COUNT:
		return count;
	case HANDLE:
		return any_handle(of, how->pool);
	case OWNED:
		return none ? 0 : of_pool(of, how->pool);
	case CALL:
		return none ? 0 : (uint64_t)(uintptr_t)nothing;
	case TEXT:
		return none ? 0 : text(of);
	case COUNTED:
		return none ? 0 : (uint64_t)(uintptr_t)counted(count);
	case BLOCK:
	case RETURNS:
		return none ? 0 : (uint64_t)(uintptr_t)block(of, how->bytes * count, false);
	case ZEROS:
		return none ? 0 : (uint64_t)(uintptr_t)block(of, how->bytes, true);
	default:
		return none ? 0 : (uint64_t)(uintptr_t)block(of, how->bytes, false);
	}
}

/* Keep the results before their memory goes. */
static void after(struct walker *of, const struct row *row, const uint64_t *given, bool fine,
		  uint64_t count)
{
	uint64_t found = count;

	for (uint32_t i = 0; i < row->count; i++)
		if (row->parameter[i].kind == COUNTED && given[i])
			found = *(uint32_t *)(uintptr_t)given[i];
	for (uint32_t i = 0; i < row->count; i++) {
		const struct parameter *how = &row->parameter[i];
		const uint64_t *back = (const uint64_t *)(uintptr_t)given[i];

		if (how->kind == RETURN && back && fine)
			learn(of, how->pool, *back);
		for (uint64_t k = 0; how->kind == RETURNS && back && fine && k < count; k++)
			if (k < found)
				learn(of, how->pool, back[k]);
		if ((how->kind == OWNED || how->kind == HANDLE) && row->ends)
			forget(of, how->pool, given[i]);
	}
	for (uint32_t i = 0; i < row->count; i++)
		switch (row->parameter[i].kind) {
		case NUMBER:
		case SHORT:
		case SIZE:
		case COUNT:
		case HANDLE:
		case OWNED:
		case CALL:
			break;
		default:
			free((void *)(uintptr_t)given[i]);
		}
}

static void call(struct walker *of, const struct row *row)
{
	static const uint64_t counts[] = {0, 1, 2, 3, 8, 16, 40, 200};
	uint64_t a[ARGUMENTS] = {0}, count = counts[dice(of, 8)], result;

	for (uint32_t i = 0; i < row->count; i++)
		a[i] = argument(of, &row->parameter[i], count);
	result = row->at(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
	of->answered += (uint32_t)result == 0;
	if (getenv("WALK_SAY"))
		fprintf(stderr, "%s %u\n", row->name, (uint32_t)result);
	after(of, row, a, (uint32_t)result == 0, count);
}

static void *walk(void *walker)
{
	struct walker *of = walker;

	for (uint64_t round = 0; round < of->rounds; round++) {
		for (uint32_t i = 0; i < ROWS; i++)
			if (rows[i].begins)
				call(of, &rows[i]);
		for (uint32_t i = 0; i < ROWS; i++)
			call(of, &rows[dice(of, ROWS)]);
		for (uint32_t i = 0; i < ROWS; i++) /* each of them at least once a round */
			call(of, &rows[i]);
	}
	return NULL;
}

static void both(uint64_t seed, uint64_t rounds)
{
	static struct walker walker[2];
	pthread_t thread;

	for (uint64_t i = 0; i < 2; i++)
		walker[i] = (struct walker){.state = seed * 2 + i, .rounds = rounds};
	pthread_create(&thread, NULL, walk, &walker[1]);
	walk(&walker[0]);
	pthread_join(thread, NULL);
	assert(getenv("WALK_DAMAGED") ||
	       (walker[0].answered > ROWS / 16 && walker[1].answered > ROWS / 16));
}

int main(int argc, char **argv)
{
	uint64_t seed, rounds;
	int status = 0;
	pid_t other;

	assert(argc == 3);
	seed = strtoull(argv[1], NULL, 10);
	rounds = strtoull(argv[2], NULL, 10);
	other = fork();
	both(seed * 2 + !other, rounds);
	if (!other)
		return 0;
	assert(waitpid(other, &status, 0) == other && status == 0);
	printf("walked %d functions %d times\n", (int)ROWS, (int)rounds * 2 * 4);
	return 0;
}
