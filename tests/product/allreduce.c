/* SPDX-License-Identifier: Apache-2.0
 *
 * An MPI program that adds up what its ranks have, checks the sums against what they must be, and
 * says in which task of the gang each rank runs. With an argument it stays until it is ended.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 1000

static void cgroup(char *line, int size)
{
	FILE *file = fopen("/proc/self/cgroup", "r");

	do {
		if (!file || !fgets(line, size, file))
			MPI_Abort(MPI_COMM_WORLD, 3);
	} while (strncmp(line, "0::", 3)); /* the line of cgroup v2, whatever else is mounted */
	line[strcspn(line, "\n")] = 0;
	fclose(file);
}

int main(int argc, char **argv)
{
	long mine[COUNT], sums[COUNT];
	char where[1024];
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 0; i < COUNT; i++)
		mine[i] = (rank + 1L) * i;
	MPI_Allreduce(mine, sums, COUNT, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < COUNT; i++)
		if (sums[i] != (long)i * ranks * (ranks + 1) / 2)
			MPI_Abort(MPI_COMM_WORLD, 4);
	cgroup(where, sizeof where);
	printf("%d %d %ld %d %s %s %s\n", rank, ranks, sums[COUNT - 1], (int)getpid(),
	       getenv("STOKER_RANK"), getenv("STOKER_NODE"), where);
	fflush(stdout);
	MPI_Barrier(MPI_COMM_WORLD);
	if (argc > 1)
		pause();
	MPI_Finalize();
	return 0;
}
