// SPDX-License-Identifier: Apache-2.0
// A job that waits in a known way between its launches, and prints what it measured of itself.
//
//     waits [--rounds N] [--before MS] [--after MS] [--cpu N] [--nice N] [--file FOLDER] WAY:MS...
//
// Each round does every way for so long, in order, and ends with a short launch that it waits for.
// Ways: spin work sleep pipe poll lock fault forget major disk kernel copy (copy: MB, not ms).
// --before sleeps without having called OpenCL, --after when it is called no more. --cpu and --nice
// are of the launching thread alone. Output: one JSON object; CLOCK_MONOTONIC, sums of all rounds.
#define _GNU_SOURCE
#include "waits.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static struct {
	int rounds;
	double before_ms;
	double after_ms;
	int cpu;
	int nice;
	const char *folder;
	struct phase phases[PHASES];
	int used;
} job = {.rounds = 50, .cpu = -1, .folder = ""};

static void usage(void)
{
	fprintf(stderr, "usage: waits [--rounds N] [--before MS] [--after MS] [--cpu N] [--nice N] "
			"[--file FOLDER] WAY:MS...\n");
	exit(2);
}

static void take_phase(char *word)
{
	char *amount = strchr(word, ':');

	if (!amount || job.used == PHASES)
		usage();
	*amount++ = 0;
	struct phase *phase = &job.phases[job.used++];

	*phase = (struct phase){.name = word, .amount = atof(amount), .wait = way_named(word)};
	if (!phase->wait)
		usage();
}

static void take_options(int argc, char **argv)
{
	static const struct option OPTIONS[] = {{"rounds", 1, NULL, 'r'}, {"before", 1, NULL, 'b'},
						{"after", 1, NULL, 'a'},  {"cpu", 1, NULL, 'c'},
						{"nice", 1, NULL, 'n'},	  {"file", 1, NULL, 'f'},
						{NULL, 0, NULL, 0}};

	for (int option; (option = getopt_long(argc, argv, "", OPTIONS, NULL)) >= 0;) {
		switch (option) {
		case 'r':
			job.rounds = atoi(optarg);
			break;
		case 'b':
			job.before_ms = atof(optarg);
			break;
		case 'a':
			job.after_ms = atof(optarg);
			break;
		case 'c':
			job.cpu = atoi(optarg);
			break;
		case 'n':
			job.nice = atoi(optarg);
			break;
		case 'f':
			job.folder = optarg;
			break;
		default:
			usage();
		}
	}
	for (; optind < argc; optind++)
		take_phase(argv[optind]);
}

/* The threads of the OpenCL driver are there already and stay as they are. */
static void take_place(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (job.cpu >= 0)
		CPU_SET(job.cpu, &set);
	must(job.cpu >= 0 && sched_setaffinity(0, sizeof(set), &set), "affinity");
	must(job.nice && setpriority(PRIO_PROCESS, (id_t)gettid(), job.nice), "priority");
}

static void do_phase(struct phase *phase)
{
	struct truth from, to;

	truth_read(&from);
	phase->wait(phase->amount);
	truth_read(&to);
	truth_add(&phase->sum, &from, &to);
}

static void do_rounds(struct phase *launching)
{
	for (int round = 0; round < job.rounds; round++) {
		for (int i = 0; i < job.used; i++)
			do_phase(&job.phases[i]);
		do_phase(launching);
	}
}

static void prepare(double unused)
{
	(void)unused;
	ways_prepare(job.folder);
}

static void print(const struct phase *preparing, const struct truth *first,
		  const struct truth *last, uint64_t kernel_ns[2], uint64_t copy_ns[2],
		  const struct phase *launching)
{
	uint64_t launches, copies;

	device_totals(&launches, &kernel_ns[1], &copies, &copy_ns[1]);
	printf("{\"from_ns\": %llu, \"to_ns\": %llu, \"launches\": %llu, \"kernel_ns\": %llu, "
	       "\"copies\": %llu, \"copy_ns\": %llu, "
	       "\"opening\": {\"kernel_ns\": %llu, \"copy_ns\": %llu}, ",
	       (unsigned long long)first->wall_ns, (unsigned long long)last->wall_ns,
	       (unsigned long long)launches, (unsigned long long)(kernel_ns[1] - kernel_ns[0]),
	       (unsigned long long)copies, (unsigned long long)(copy_ns[1] - copy_ns[0]),
	       (unsigned long long)kernel_ns[0], (unsigned long long)copy_ns[0]);
	truth_print("start", first);
	printf(", \"phases\": {");
	for (int i = 0; i < job.used; i++) {
		truth_print(job.phases[i].name, &job.phases[i].sum);
		printf(", ");
	}
	truth_print(preparing->name, &preparing->sum);
	printf(", ");
	truth_print(launching->name, &launching->sum);
	printf("}}\n");
	fflush(stdout);
}

static void nap(double ms)
{
	struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};

	if (ms > 0)
		nanosleep(&time, NULL);
}

int main(int argc, char **argv)
{
	struct phase preparing = {.name = "prepare", .wait = prepare};
	struct phase launching = {.name = "launch", .amount = 0.02, .wait = device_kernel};
	struct truth first, last;
	uint64_t kernel_ns[2], copy_ns[2], launches, copies;

	take_options(argc, argv);
	nap(job.before_ms);
	do_phase(&preparing);
	if (job.rounds)
		device_open();
	take_place();
	device_totals(&launches, &kernel_ns[0], &copies, &copy_ns[0]);
	truth_read(&first);
	do_rounds(&launching);
	truth_read(&last);
	print(&preparing, &first, &last, kernel_ns, copy_ns, &launching);
	nap(job.after_ms);
	return 0;
}
