/* SPDX-License-Identifier: Apache-2.0
 *
 * stoker_bench_decide SNAPSHOT WORKLOAD SUBMITS FILL_MILLI WARM DECISIONS SEED: the same arrivals
 * as `stoker bench decide`, for a tool that counts the instructions of sk_bench_decision.
 * tui/bench/callgrind.py writes the three files. The output is the number of decisions and of
 * placed jobs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bench/bench_decide.h"

struct file {
	void *bytes;
	size_t size;
};

static struct file read_all(const char *path)
{
	struct file file = {0};
	FILE *from = fopen(path, "rb");
	long size;

	if (!from || fseek(from, 0, SEEK_END) || (size = ftell(from)) < 0)
		return file;
	rewind(from);
	file.bytes = malloc((size_t)size + 1);
	if (file.bytes)
		file.size = fread(file.bytes, 1, (size_t)size, from);
	fclose(from);
	return file;
}

static int restore(struct file snapshot, struct file workload, struct sk_core **ret)
{
	struct sk_limits limits;
	int error = sk_core_snapshot_limits(snapshot.bytes, snapshot.size, &limits);
	size_t size = error ? 0 : (sk_core_memsize(&limits) + 4095) & ~(size_t)4095;
	void *memory = size ? aligned_alloc(4096, size) : NULL;

	if (!memory)
		return error ? error : -ENOMEM;
	error = sk_core_restore(memory, size, snapshot.bytes, snapshot.size, ret);
	if (error)
		return error;
	return sk_core_workload(*ret, workload.bytes,
				(uint32_t)(workload.size / sizeof(struct sk_class)));
}

int main(int argc, char **argv)
{
	struct sk_bench_times times = {0};
	struct sk_bench_plan plan = {0};
	struct file submits;
	struct sk_core *core;
	int error;

	if (argc != 8)
		return 2;
	submits = read_all(argv[3]);
	plan.submits = submits.bytes;
	plan.submits_size = submits.size;
	plan.fill_milli = strtoull(argv[4], NULL, 10);
	plan.warm = (uint32_t)strtoul(argv[5], NULL, 10);
	plan.decisions = (uint32_t)strtoul(argv[6], NULL, 10);
	plan.seed = strtoull(argv[7], NULL, 10);
	times.propose = calloc(plan.decisions + (size_t)1, sizeof *times.propose);
	times.apply = calloc(plan.decisions + (size_t)1, sizeof *times.apply);
	if (!times.propose || !times.apply)
		return 1;
	error = restore(read_all(argv[1]), read_all(argv[2]), &core);
	if (!error)
		error = sk_bench_decide(core, &plan, &times);
	if (error) {
		fprintf(stderr, "stoker_bench_decide: %s\n", strerror(-error));
		return 1;
	}
	printf("%u %u\n", plan.decisions, times.placed);
	return 0;
}
