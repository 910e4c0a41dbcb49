// SPDX-License-Identifier: Apache-2.0
// Ranks of the simulated NCCL (SIM) that compute for a known time and put an allreduce into a
// stream, round after round, and wait for their device. Computing is sleeping. At the end rank 0
// prints what really happened, by the ranks' own clocks, as JSON. No launcher says any rank.
//
// usage: ranks [--ranks N] [--rounds N] [--work US] [--slow RANK:PERCENT[:ROUND]]
//              [--absent RANK:ROUND]
//              [--go PATH]   the ranks meet when this file is there
//              [--id PATH]   it is one rank of a gang, whose ranks find the unique id there; only
//                            in the first attempt a rank is slow or absent
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ABSENT_US = 600000000 };
enum { ROUNDS_MAX = 4096, RANKS_MAX = 8, FLOAT32 = 7, SUM = 0, COUNT = 1 << 18, ID_BYTES = 128 };

struct id {
	char bytes[ID_BYTES];
};

static struct {
	long ranks, rounds, work_us, slow_rank, slow_percent, slow_round, absent_rank, absent_round;
	const char *go, *id;
} options = {3, 100, 10000, -1, 0, 0, -1, -1, NULL, NULL};

struct round {
	uint64_t put_ns, wait_ns, back_ns; /* the operation is put, the wait begins and ends */
};

static struct round (*rounds)[ROUNDS_MAX]; /* by rank; all processes share it */
static void *cuda, *nccl;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "ranks: %s: %d\n", what, error);
	exit(1);
}

#define CUDA(name, types, ...) must(((int(*) types)dlsym(cuda, #name))(__VA_ARGS__), #name)
#define NCCL(name, types, ...) must(((int(*) types)dlsym(nccl, #name))(__VA_ARGS__), #name)

static void compute(long us)
{
	struct timespec nap = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&nap, NULL);
}

/* Tell at which time (CLOCK_REALTIME) this rank begins to keep the others waiting. */
static void tell_planted(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	printf("planted %lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	fflush(stdout);
}

static long work_us(int rank, long round)
{
	bool slow = rank == options.slow_rank && round >= options.slow_round;
	bool absent = rank == options.absent_rank && round == options.absent_round;

	if (options.id && (absent || (slow && round == options.slow_round)))
		tell_planted();
	if (absent)
		return ABSENT_US;
	return slow ? options.work_us * (100 + options.slow_percent) / 100 : options.work_us;
}

static void meet(int rank, void *comm)
{
	for (long i = 0; i < options.rounds; i++) {
		struct round *round = &rounds[rank][i];

		compute(work_us(rank, i));
		round->put_ns = now_ns();
		NCCL(ncclAllReduce, (const void *, void *, size_t, int, int, void *, void *), NULL,
		     NULL, COUNT, FLOAT32, SUM, comm, NULL);
		round->wait_ns = now_ns();
		CUDA(cuStreamSynchronize, (void *), NULL);
		round->back_ns = now_ns();
	}
}

static void run(int rank, struct id id)
{
	void *context, *comm;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	nccl = dlopen("libnccl.so.2", RTLD_NOW);
	if (!cuda || !nccl)
		must(1, dlerror());
	CUDA(cuInit, (unsigned), 0);
	CUDA(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
	CUDA(cuCtxSetCurrent, (void *), context);
	while (options.go && access(options.go, F_OK))
		compute(10000);
	NCCL(ncclCommInitRank, (void **, int, struct id, int), &comm, (int)options.ranks, id, rank);
	meet(rank, comm);
	NCCL(ncclCommDestroy, (void *), comm);
}

static struct id new_id(void)
{
	struct id id;

	nccl = dlopen("libnccl.so.2", RTLD_NOW);
	if (!nccl)
		must(1, dlerror());
	NCCL(ncclGetUniqueId, (struct id *), &id);
	return id;
}

static uint64_t last_put(long round)
{
	uint64_t last = 0;

	for (long rank = 0; rank < options.ranks; rank++)
		if (rounds[rank][round].put_ns > last)
			last = rounds[rank][round].put_ns;
	return last;
}

static void print_truth(void)
{
	printf("{\"ranks\": [");
	for (long rank = 0; rank < options.ranks; rank++) {
		uint64_t waited = 0;

		for (long i = 0; i < options.rounds; i++)
			if (last_put(i) > rounds[rank][i].wait_ns)
				waited += last_put(i) - rounds[rank][i].wait_ns;
		printf("%s{\"wait_ns\": %llu}", rank ? ", " : "", (unsigned long long)waited);
	}
	printf("], \"from_ns\": %llu, \"to_ns\": %llu}\n", (unsigned long long)rounds[0][0].put_ns,
	       (unsigned long long)rounds[0][options.rounds - 1].back_ns);
}

static void parse(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--ranks"))
			options.ranks = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--rounds"))
			options.rounds = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--work"))
			options.work_us = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--slow"))
			sscanf(argv[i + 1], "%ld:%ld:%ld", &options.slow_rank,
			       &options.slow_percent, &options.slow_round);
		else if (!strcmp(argv[i], "--absent"))
			sscanf(argv[i + 1], "%ld:%ld", &options.absent_rank, &options.absent_round);
		else if (!strcmp(argv[i], "--go"))
			options.go = argv[i + 1];
		else if (!strcmp(argv[i], "--id"))
			options.id = argv[i + 1];
		else
			must(1, argv[i]);
	}
	must(options.ranks > RANKS_MAX || options.rounds > ROUNDS_MAX, "too many");
}

/* The first rank leaves the id, and the others wait for it. */
static struct id shared_id(int rank, int attempt)
{
	char path[4096], made[4104];
	struct id id = {{0}};
	FILE *file;

	snprintf(path, sizeof(path), "%s.%d", options.id, attempt);
	snprintf(made, sizeof(made), "%s.new", path);
	if (!rank) {
		id = new_id();
		file = fopen(made, "w");
		must(!file || fwrite(&id, sizeof(id), 1, file) != 1 || fclose(file), made);
		must(rename(made, path), path);
		return id;
	}
	while (!(file = fopen(path, "r")))
		compute(10000);
	must(fread(&id, sizeof(id), 1, file) != 1, path);
	fclose(file);
	return id;
}

static int run_one(void)
{
	int rank = atoi(getenv("RANK")), attempt = atoi(getenv("STOKER_ATTEMPT"));

	options.ranks = atol(getenv("WORLD_SIZE"));
	if (attempt > 1)
		options.slow_rank = options.absent_rank = -1;
	run(rank, shared_id(rank, attempt));
	return 0;
}

int main(int argc, char **argv)
{
	struct id id;
	int status, failed = 0;

	parse(argc, argv);
	rounds = mmap(NULL, RANKS_MAX * sizeof(*rounds), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(rounds == MAP_FAILED, "memory");
	if (options.id)
		return run_one();
	id = new_id();
	for (int rank = 0; rank < options.ranks; rank++) {
		if (!fork()) {
			run(rank, id);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	if (!failed)
		print_truth();
	return failed != 0;
}
