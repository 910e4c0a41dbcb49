// SPDX-License-Identifier: Apache-2.0
// Ranks of MPI that sleep for 10 ms and add up one number, round after round, until they are ended.
// They meet when the file GO is there. From ROUND on the rank RANK sleeps twice as long, and says
// at which time (CLOCK_REALTIME) that begins. With `split` those with even numbers add up by
// themselves, and the others too; they begin when GO is there, so that their first call is seen.
//
// usage: late_rank GO RANK ROUND [split]
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void nap(long ms)
{
	struct timespec time = {0, ms * 1000000};

	nanosleep(&time, NULL);
}

static void wait_for(const char *path)
{
	while (access(path, F_OK))
		nap(10);
}

static void tell_planted(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	printf("planted %lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	double one = 1, all;
	MPI_Comm comm = MPI_COMM_WORLD;
	long late_from;
	int rank;

	if (argc < 4)
		return 2;
	if (argc > 4)
		wait_for(argv[1]);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	late_from = rank == atoi(argv[2]) ? atol(argv[3]) : -1;
	wait_for(argv[1]);
	if (argc > 4)
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comm);
	for (long round = 0;; round++) {
		if (round == late_from)
			tell_planted();
		nap(late_from >= 0 && round >= late_from ? 20 : 10);
		MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, comm);
	}
}
