// SPDX-License-Identifier: Apache-2.0
// Ranks that meet in one way, round after round; one of them has more to do, in one way.
//
// usage: rank_ways MEETING EXTRA ITERATIONS ROUNDS RANK
//
// Each rank computes ITERATIONS in a round. RANK does as much again, half as much, or waits as
// long: `work`, `half`, `sleep`, `child`, or `starve`, which gives it one CPU and the least weight
// there.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MANY = 1 << 16 };

static int rank, ranks;
static volatile double sum;
static double one = 1, all, few[4], sent[MANY], got[MANY];
static MPI_Comm ring, made;
static MPI_Win window;

static void compute(long iterations)
{
	for (long i = 0; i < iterations; i++)
		sum += (double)i;
}

static void nap_ms(long ms)
{
	struct timespec time = {0, ms * 1000000};

	nanosleep(&time, NULL);
}

static void in_child(void)
{
	pid_t child = fork();

	if (!child) {
		nap_ms(5);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void extra(const char *way, long iterations)
{
	if (!strcmp(way, "work"))
		compute(iterations);
	else if (!strcmp(way, "half"))
		compute(iterations / 2);
	else if (!strcmp(way, "sleep"))
		nap_ms(5);
	else if (!strcmp(way, "child"))
		in_child();
}

static void starve(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(0, sizeof(set), &set) || nice(15) < 0)
		MPI_Abort(MPI_COMM_WORLD, 3);
}

static void halo(void)
{
	int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	MPI_Request asked[4];

	MPI_Irecv(&few[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &asked[0]);
	MPI_Irecv(&few[1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &asked[1]);
	MPI_Isend(&one, 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &asked[2]);
	MPI_Isend(&one, 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &asked[3]);
	MPI_Waitall(4, asked, MPI_STATUSES_IGNORE);
}

/* A token goes round and each rank works on it before it hands it on, so one works at a time. */
static void chain(void)
{
	MPI_Send(&one, 1, MPI_DOUBLE, (rank + 1) % ranks, 0, MPI_COMM_WORLD);
	if (!rank)
		MPI_Recv(&all, 1, MPI_DOUBLE, ranks - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange(void)
{
	int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;

	MPI_Sendrecv(sent, MANY, MPI_DOUBLE, right, 1, got, MANY, MPI_DOUBLE, left, 1,
		     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void allreduce(void)
{
	MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

/* The root is the last rank. */
static void bcast(void)
{
	MPI_Bcast(sent, MANY, MPI_DOUBLE, ranks - 1, MPI_COMM_WORLD);
}

static void later(void)
{
	MPI_Request asked;

	MPI_Iallreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &asked);
	MPI_Wait(&asked, MPI_STATUS_IGNORE);
}

static void asking(void)
{
	MPI_Request asked;
	int done = 0;

	MPI_Ibarrier(MPI_COMM_WORLD, &asked);
	while (!done)
		MPI_Test(&asked, &done, MPI_STATUS_IGNORE);
}

static void fence(void)
{
	MPI_Win_fence(0, window);
}

static void neighbours(void)
{
	MPI_Neighbor_allgather(&one, 1, MPI_DOUBLE, few, 1, MPI_DOUBLE, ring);
}

static void strange(void)
{
	MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, made);
}

static const struct {
	const char *name;
	void (*meet)(void);
} MEETINGS[] = {{"barrier", barrier},	    {"allreduce", allreduce}, {"bcast", bcast},
		{"later", later},	    {"asking", asking},	      {"halo", halo},
		{"chain", chain},	    {"exchange", exchange},   {"fence", fence},
		{"neighbours", neighbours}, {"strange", strange}};

static void prepare(void)
{
	int all_of[1] = {ranks}, round[1] = {1};
	MPI_Group group;

	MPI_Cart_create(MPI_COMM_WORLD, 1, all_of, round, 0, &ring);
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	MPI_Comm_create(MPI_COMM_WORLD, group, &made);
	MPI_Win_create(few, sizeof(few), sizeof(few[0]), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
}

int main(int argc, char **argv)
{
	void (*meet)(void) = NULL;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (size_t i = 0; argc > 5 && i < sizeof(MEETINGS) / sizeof(MEETINGS[0]); i++)
		if (!strcmp(argv[1], MEETINGS[i].name))
			meet = MEETINGS[i].meet;
	if (!meet)
		MPI_Abort(MPI_COMM_WORLD, 2);
	prepare();
	if (rank == atoi(argv[5]) && !strcmp(argv[2], "starve"))
		starve();
	for (long i = atol(argv[4]); i; i--) {
		if (meet == chain && rank)
			MPI_Recv(&all, 1, MPI_DOUBLE, rank - 1, 0, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		compute(atol(argv[3]));
		if (rank == atoi(argv[5]))
			extra(argv[2], atol(argv[3]));
		meet();
	}
	MPI_Win_free(&window);
	MPI_Finalize();
	return 0;
}
