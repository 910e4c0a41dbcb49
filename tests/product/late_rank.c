// SPDX-License-Identifier: Apache-2.0
// Ranks of MPI that sleep for 10 ms and add up one number, round after round, until they are ended.
// They meet when the file GO is there. From ROUND on the rank RANK sleeps twice as long, and says
// at which time (CLOCK_REALTIME) that begins.
//
// usage: late_rank GO RANK ROUND
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
	long late_from;
	int rank;

	if (argc < 4)
		return 2;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	late_from = rank == atoi(argv[2]) ? atol(argv[3]) : -1;
	while (access(argv[1], F_OK))
		nap(10);
	for (long round = 0;; round++) {
		if (round == late_from)
			tell_planted();
		nap(late_from >= 0 && round >= late_from ? 20 : 10);
		MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
}
