// SPDX-License-Identifier: Apache-2.0
// Ranks that compute and add up one number, round after round; one of them computes more.
//
// usage: slow_rank ITERATIONS ROUNDS RANK PERCENT
#include <mpi.h>
#include <stdlib.h>

static volatile double sum;

static void compute(long iterations)
{
	for (long i = 0; i < iterations; i++)
		sum += (double)i;
}

int main(int argc, char **argv)
{
	double one = 1, all;
	long iterations;
	int rank;

	MPI_Init(&argc, &argv);
	if (argc < 5)
		return 2;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	iterations = atol(argv[1]);
	if (rank == atoi(argv[3]))
		iterations += iterations * atol(argv[4]) / 100;
	MPI_Barrier(MPI_COMM_WORLD);
	for (long i = atol(argv[2]); i; i--) {
		compute(iterations);
		MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return 0;
}
