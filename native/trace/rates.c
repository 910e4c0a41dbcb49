/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker-bench-fold: measures how fast records are drained and folded.
 *
 *     stoker-bench-fold [SECONDS [FOLDER]]
 *
 * Everything measured is the product's own code: a segment as tracers make it, read by
 * trace/fold/reader.c, folded and committed by trace/job/drain.c. Only the records are made up here
 * (64 names, 4 threads, lengths that vary, one copy in 16).
 *
 * For the fold and for the drain alone it prints the best of several rounds by this thread's CPU
 * time, which gives a rate per core. For the ring a second thread publishes while this one drains,
 * first as fast as it can, then at 2.5 million records a second. Invariant: every record is folded
 * or counted as dropped, else the program fails.
 */
#include "trace/job/job_parts.h"
#include "records/ring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RING = SK_SEGMENT_RING_LARGE, NAMES = 64, THREADS = 4, BURST = 2500 };

static const uint64_t SECOND = 1000000000;

struct bench {
	char folder[256];
	char store[300];
	char path[340];
	uint64_t pid; /* a process that lives as long as the segment is read */
	struct sk_segment *segment;
	struct sk_record *cells;
	size_t bytes;
	struct sk_ring ring;
	uint64_t clock_ns; /* start of the next record */
	uint64_t chance;
	struct sk_trace_job *job;
	uint64_t published;
	uint64_t refused;
	uint64_t paced_ns; /* 0: as fast as it can */
	_Atomic int done;
};

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "stoker-bench-fold: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t start_time(void)
{
	char text[1024];
	unsigned long long started = 0;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t got = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[got > 0 ? got : 0] = 0;
	const char *rest = strrchr(text, ')');

	check(rest && sscanf(rest,
			     ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			     "%*d %*d %*d %llu",
			     &started) == 1,
	      "read /proc/self/stat");
	return started;
}

static void fill_header(struct sk_segment *segment, size_t bytes)
{
	segment->header.version = SK_SEGMENT_VERSION;
	segment->header.pid = (uint32_t)getpid();
	segment->header.segment_bytes = bytes;
	segment->header.created_ns = now(CLOCK_MONOTONIC);
	segment->header.mode = SK_MODE_FULL;
	segment->header.tracer = SK_TRACER_OPENCL | SK_TRACER_SIMULATED;
	segment->header.slots = segment->header.slots_used = 1;
	segment->header.names = NAMES + 1;
	segment->header.devices = 1;
	strcpy(segment->devices[0].id, "sim-0");
	segment->devices[0].ready = 1;
	for (int name = 1; name <= NAMES; name++) {
		snprintf(segment->names[name].text, sizeof(segment->names[name].text), "kernel_%d",
			 name);
		segment->names[name].length = 9;
	}
	segment->slots[0].ring_offset = sizeof(*segment);
	segment->slots[0].ring_records = RING;
}

static void make_segment(struct bench *bench)
{
	char name[64];

	sk_trace_reader_name((uint32_t)getpid(), start_time(), 0, name);
	snprintf(bench->path, sizeof(bench->path), "%s/%s", bench->folder, name);
	bench->bytes = sizeof(struct sk_segment) + RING * sizeof(struct sk_record);
	int fd = open(bench->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	check(fd >= 0 && !ftruncate(fd, (off_t)bench->bytes), "make a segment");
	bench->segment =
		mmap(NULL, bench->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	check(bench->segment != MAP_FAILED, "map the segment");
	close(fd);
	bench->cells = (struct sk_record *)(bench->segment + 1);
	fill_header(bench->segment, bench->bytes);
	sk_ring_init(&bench->ring, &bench->segment->slots[0], bench->cells);
	atomic_store_explicit(&bench->segment->header.magic, SK_SEGMENT_MAGIC,
			      memory_order_release);
}

static void begin(struct bench *bench, const char *parent)
{
	snprintf(bench->folder, sizeof(bench->folder), "%s/stoker-bench-fold-XXXXXX", parent);
	check(mkdtemp(bench->folder), "make a folder");
	snprintf(bench->store, sizeof(bench->store), "%s/store", bench->folder);
	check(!mkdir(bench->store, 0700), "make a folder");
	make_segment(bench);
	bench->chance = 88172645463325252;
	bench->clock_ns = now(CLOCK_MONOTONIC);
	errno = -sk_trace_job_open(&bench->job, bench->folder, bench->store, SK_MODE_FULL, getuid(),
				   bench->clock_ns);
	check(!errno, "open the trace");
}

/* Remove what was made; the job is closed before. */
static void end(struct bench *bench)
{
	static const char *const FILES[] = {"fold", "events", "spans"};
	char path[400];

	munmap(bench->segment, bench->bytes);
	unlink(bench->path);
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", bench->store, FILES[i]);
		unlink(path);
	}
	rmdir(bench->store);
	rmdir(bench->folder);
}

/* Xorshift, Marsaglia 2003: cheap, so that making records is not what is measured. */
static uint64_t draw(struct bench *bench)
{
	bench->chance ^= bench->chance << 13;
	bench->chance ^= bench->chance >> 7;
	bench->chance ^= bench->chance << 17;
	return bench->chance;
}

static void fill(struct bench *bench, struct sk_record *record)
{
	uint64_t chance = draw(bench), length = 200 + chance % 1000;

	*record = (struct sk_record){
		.queued_ns = bench->clock_ns,
		.start_ns = bench->clock_ns + 20,
		.end_ns = bench->clock_ns + 20 + length,
		.call_ns = 100,
		.tid = 1000 + (uint32_t)(chance >> 20) % THREADS,
		.name = (uint16_t)(1 + (chance >> 30) % NAMES),
		.kind = chance >> 40 & 15 ? SK_KIND_KERNEL : SK_KIND_WRITE,
	};
	bench->clock_ns += length + 50;
}

/* Publish the next record; false if the ring is full. */
static bool publish(struct bench *bench)
{
	struct sk_record *cell = sk_ring_reserve(&bench->ring);
	struct sk_slot_counters *counters = &bench->segment->slots[0].counters;

	if (!cell && !bench->paced_ns)
		return false; /* the caller tries again, so that no record is lost */
	counters->launches = counters->timed = bench->published + bench->refused + 1;
	if (!cell) {
		counters->ring_full = ++bench->refused;
		return false;
	}
	fill(bench, cell);
	sk_ring_commit(&bench->ring);
	bench->published++;
	return true;
}

struct rate {
	uint64_t events;
	uint64_t ns;
};

static double per_second(struct rate rate)
{
	return rate.ns ? (double)rate.events * 1e9 / (double)rate.ns : 0;
}

static void keep_best(struct rate *best, uint64_t events, uint64_t ns)
{
	if (!best->events || per_second((struct rate){events, ns}) > per_second(*best))
		*best = (struct rate){events, ns};
}

static uint64_t drain(struct bench *bench)
{
	struct sk_trace_job_drained drained;

	errno = -sk_trace_job_drain(bench->job, bench->clock_ns + 1, &drained);
	check(!errno, "drain");
	return drained.records;
}

static struct rate measure_fold(struct bench *bench, uint64_t until, bool timeline)
{
	struct rate best = {0};

	bench->job->no_timeline = !timeline;
	do {
		for (int i = 0; i < RING; i++)
			publish(bench);
		uint64_t from = now(CLOCK_THREAD_CPUTIME_ID), folded = drain(bench);

		keep_best(&best, folded, now(CLOCK_THREAD_CPUTIME_ID) - from);
	} while (now(CLOCK_MONOTONIC) < until);
	bench->job->no_timeline = false;
	return best;
}

/* The copy out of the ring alone. */
static struct rate measure_drain(struct bench *bench, uint64_t until)
{
	struct sk_trace_reader *reader = bench->job->readers[0];
	struct sk_trace_job *job = bench->job;
	struct rate best = {0};

	check(!sk_trace_reader_load(reader, job->view), "read the segment");
	do {
		uint64_t from = now(CLOCK_THREAD_CPUTIME_ID), tail = bench->ring.head - RING;

		for (int count = 1; tail != bench->ring.head; tail += (uint64_t)count) {
			count = sk_trace_reader_records(reader, job->view, 0, tail, job->records,
							SK_JOB_BATCH);
			check(count > 0, "copy records");
		}
		keep_best(&best, RING, now(CLOCK_THREAD_CPUTIME_ID) - from);
	} while (now(CLOCK_MONOTONIC) < until);
	return best;
}

static void *produce(void *argument)
{
	struct bench *bench = argument;
	uint64_t due = now(CLOCK_MONOTONIC);

	while (!bench->done) {
		for (int i = 0; i < BURST; i++)
			if (!publish(bench) && !bench->paced_ns)
				i--, sched_yield();
		if (!bench->paced_ns)
			continue;
		due += bench->paced_ns * BURST;
		struct timespec pause = {(time_t)(due / SECOND), (long)(due % SECOND)};

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &pause, NULL);
	}
	return NULL;
}

/* Drain while a second thread publishes a record every `paced_ns`, or for 0 as fast as it can. */
static struct rate measure_ring(struct bench *bench, double seconds, uint64_t paced_ns,
				uint64_t *refused)
{
	uint64_t from = now(CLOCK_MONOTONIC), until = from + (uint64_t)(seconds * 1e9);
	uint64_t before = bench->refused;
	struct rate rate = {0};
	pthread_t thread;

	bench->paced_ns = paced_ns;
	bench->done = 0;
	check(!pthread_create(&thread, NULL, produce, bench), "start a thread");
	while (now(CLOCK_MONOTONIC) < until) {
		rate.events += drain(bench);
		rate.ns = now(CLOCK_MONOTONIC) - from;
		if (paced_ns)
			usleep(5000);
	}
	bench->done = 1;
	while (pthread_tryjoin_np(thread, NULL))
		drain(bench); /* a publisher that waits for room gets it */
	drain(bench);
	*refused = bench->refused - before;
	return rate;
}

static void tell(struct bench *bench, double seconds)
{
	uint64_t share = (uint64_t)(seconds * 1e9), ring_refused, paced_refused;
	struct rate fold, kept, copied, ring, paced;
	struct sk_trace_fold_counters sum;

	fold = measure_fold(bench, now(CLOCK_MONOTONIC) + share, false);
	kept = measure_fold(bench, now(CLOCK_MONOTONIC) + share, true);
	copied = measure_drain(bench, now(CLOCK_MONOTONIC) + share);
	ring = measure_ring(bench, seconds, 0, &ring_refused);
	paced = measure_ring(bench, seconds, 400, &paced_refused);
	sk_trace_job_counters(bench->job, &sum);
	uint64_t dropped = sum.loss[SK_LOSS_ring_full] + sum.loss[SK_LOSS_records_damaged];

	printf("{\"fold_events_per_s\": %.0f, \"fold_with_timeline_events_per_s\": %.0f, "
	       "\"drain_events_per_s\": %.0f, \"ring_events_per_s\": %.0f, "
	       "\"ring_paced_events_per_s\": %.0f, \"ring_paced_dropped\": %" PRIu64
	       ", \"made\": %" PRIu64 ", \"folded\": %" PRIu64 ", \"dropped\": %" PRIu64 "}\n",
	       per_second(fold), per_second(kept), per_second(copied), per_second(ring),
	       per_second(paced), paced_refused, sum.made, bench->job->fold.state->records,
	       dropped);
	errno = 0;
	check(sum.made == bench->job->fold.state->records + dropped, "records are unaccounted for");
	check(sk_trace_causes_check(&bench->job->fold.state->causes), "causes do not add up");
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	const char *folder = argc > 2 ? argv[2] : "/dev/shm";
	struct bench *bench = calloc(1, sizeof(*bench));

	check(bench && seconds > 0 && seconds <= 60, "SECONDS is from 0 to 60");
	begin(bench, folder);
	tell(bench, seconds);
	sk_trace_job_close(bench->job);
	end(bench);
	free(bench);
	return 0;
}
