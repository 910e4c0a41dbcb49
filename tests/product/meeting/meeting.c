// SPDX-License-Identifier: Apache-2.0
// Ranks that compute for a known time and meet in a collective call, round after round. Rank 0
// works on the device as well. Computing is sleeping, so that its length is known on a machine that
// others use. At the end rank 0 prints what really happened, by the ranks' own clocks, as JSON.
//
// usage: meeting [--rounds N] [--work US] [--slow RANK:PERCENT] [--kernel MS] [--call NAME]
//                [--absent RANK:ROUND]   that rank does not come for 60 s in that round
//                [--go FILE]             do not begin before that file is there
#include "../waits/waits.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 4096, RANKS_MAX = 64 };

static struct {
	long rounds, work_us, slow_rank, slow_percent, absent_rank, absent_round;
	double kernel_ms;
	const char *call, *go;
} options = {100, 10000, -1, 0, -1, -1, 0, "allreduce", NULL};

static double stamps[2 * ROUNDS_MAX]; /* entry and return of each round, in ns */
static double *all;

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void compute(long us)
{
	uint64_t until = now_ns() + (uint64_t)us * 1000;
	struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
		;
}

static void pair(const char *text, long *first, long *second)
{
	must(sscanf(text, "%ld:%ld", first, second) != 2, text);
}

static void read_options(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rounds"))
			options.rounds = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--work"))
			options.work_us = atol(argv[i + 1]);
		else if (!strcmp(argv[i], "--slow"))
			pair(argv[i + 1], &options.slow_rank, &options.slow_percent);
		else if (!strcmp(argv[i], "--absent"))
			pair(argv[i + 1], &options.absent_rank, &options.absent_round);
		else if (!strcmp(argv[i], "--kernel"))
			options.kernel_ms = atof(argv[i + 1]);
		else if (!strcmp(argv[i], "--call"))
			options.call = argv[i + 1];
		else if (!strcmp(argv[i], "--go"))
			options.go = argv[i + 1];
		else
			must(1, argv[i]);
	}
	must(options.rounds > ROUNDS_MAX, "too many rounds");
}

static void meet(MPI_Comm comm, int rank, int size)
{
	double mine = rank, sum[RANKS_MAX];
	int to = (rank + 1) % size, from = (rank + size - 1) % size;

	if (!strcmp(options.call, "allreduce") || !strcmp(options.call, "split"))
		MPI_Allreduce(&mine, sum, 1, MPI_DOUBLE, MPI_SUM, comm);
	else if (!strcmp(options.call, "barrier"))
		MPI_Barrier(comm);
	else if (!strcmp(options.call, "allgather"))
		MPI_Allgather(&mine, 1, MPI_DOUBLE, sum, 1, MPI_DOUBLE, comm);
	else if (!strcmp(options.call, "alltoall"))
		MPI_Alltoall(stamps, 1, MPI_DOUBLE, sum, 1, MPI_DOUBLE, comm);
	else if (!strcmp(options.call, "bcast"))
		MPI_Bcast(&mine, 1, MPI_DOUBLE, 0, comm);
	else if (!strcmp(options.call, "sendrecv"))
		MPI_Sendrecv(&mine, 1, MPI_DOUBLE, to, 0, sum, 1, MPI_DOUBLE, from, 0, comm,
			     MPI_STATUS_IGNORE);
	else
		must(1, options.call);
}

static void run(MPI_Comm comm, int rank)
{
	int mine, size;

	MPI_Comm_rank(comm, &mine);
	MPI_Comm_size(comm, &size);
	for (long round = 0; round < options.rounds; round++) {
		bool slow = rank == options.slow_rank;

		if (!rank && options.kernel_ms > 0)
			device_kernel(options.kernel_ms);
		compute(options.work_us +
			(slow ? options.work_us * options.slow_percent / 100 : 0));
		if (rank == options.absent_rank && round == options.absent_round)
			compute(60000000);
		stamps[2 * round] = (double)now_ns();
		meet(comm, mine, size);
		stamps[2 * round + 1] = (double)now_ns();
	}
}

/* Wait until the caller says that all calls of this program are told, so that none is missed; after
 * 60 s go on, and the test will see that some were. */
static void await_probes(void)
{
	uint64_t until = now_ns() + 60000000000;

	while (options.go && access(options.go, F_OK) && now_ns() < until)
		compute(1000);
}

/* Print how long each rank waited for the last one of each round, by the clocks of all. */
static void print_truth(int size, uint64_t from_ns, uint64_t to_ns)
{
	double wait[RANKS_MAX] = {0}, caused[RANKS_MAX] = {0};
	long last[RANKS_MAX] = {0};
	uint64_t launches = 0, kernel_ns = 0, copies = 0, copy_ns = 0;

	for (long round = 0; round < options.rounds; round++) {
		int late = 0;

		for (int rank = 1; rank < size; rank++)
			if (all[(rank * options.rounds + round) * 2] >
			    all[(late * options.rounds + round) * 2])
				late = rank;
		last[late]++;
		for (int rank = 0; rank < size; rank++) {
			double enter = all[(rank * options.rounds + round) * 2];
			double leave = all[(rank * options.rounds + round) * 2 + 1];
			double until = all[(late * options.rounds + round) * 2];

			until = until < leave ? until : leave;
			wait[rank] += until - enter;
			caused[late] += until - enter;
		}
	}
	if (options.kernel_ms > 0)
		device_totals(&launches, &kernel_ns, &copies, &copy_ns);
	printf("{\"from_ns\": %lu, \"to_ns\": %lu, \"kernel_ns\": %lu, \"ranks\": [",
	       (unsigned long)from_ns, (unsigned long)to_ns, (unsigned long)kernel_ns);
	for (int rank = 0; rank < size; rank++)
		printf("%s{\"wait_ns\": %.0f, \"caused_ns\": %.0f, \"last\": %ld}",
		       rank ? ", " : "", wait[rank], caused[rank], last[rank]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	MPI_Comm comm = MPI_COMM_WORLD;
	uint64_t from_ns;
	int rank, size;

	read_options(argc, argv);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &size);
	must(size > RANKS_MAX, "too many ranks");
	await_probes();
	if (!strcmp(options.call, "split"))
		MPI_Comm_split(MPI_COMM_WORLD, rank / 2, 0, &comm);
	if (!rank && options.kernel_ms > 0)
		device_open();
	MPI_Barrier(MPI_COMM_WORLD);
	from_ns = now_ns();
	run(comm, rank);
	uint64_t to_ns = now_ns();

	all = calloc((size_t)(size * options.rounds) * 2, sizeof(*all));
	MPI_Gather(stamps, 2 * (int)options.rounds, MPI_DOUBLE, all, 2 * (int)options.rounds,
		   MPI_DOUBLE, 0, MPI_COMM_WORLD);
	if (!rank)
		print_truth(size, from_ns, to_ns);
	MPI_Finalize();
	return 0;
}
