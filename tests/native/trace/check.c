/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring and the reader under sanitizers.
 *
 *     check ring SECONDS     one producer, one consumer: every record whole, in order, once
 *     check killed SEED      a producer killed anywhere: what is published is whole
 *     check fuzz FOLDER SEED ROUNDS   segments of random bytes: no bad access, causes add up
 */
#include "trace/job/job.h"
#include "records/ring.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CELLS = 64 };

struct shared {
	struct sk_slot slot;
	struct sk_record cells[CELLS];
	_Atomic uint64_t dropped;
	_Atomic int done;
};

static struct shared *make_shared(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert(shared != MAP_FAILED);
	shared->slot.ring_records = CELLS;
	return shared;
}

/* Every field of a record is a function of its index. */
static void fill(struct sk_record *record, uint64_t index)
{
	record->queued_ns = index * 3;
	record->start_ns = index * 5;
	record->end_ns = index * 7;
	record->bytes = ~index;
	record->tid = (uint32_t)index;
}

static bool is_whole(const struct sk_record *record, uint64_t index)
{
	return record->queued_ns == index * 3 && record->start_ns == index * 5 &&
	       record->end_ns == index * 7 && record->bytes == ~index &&
	       record->tid == (uint32_t)index && record->sequence == (uint32_t)index;
}

static void produce(struct shared *shared)
{
	struct sk_ring ring;

	sk_ring_init(&ring, &shared->slot, shared->cells);
	while (!shared->done) {
		struct sk_record *record = sk_ring_reserve(&ring);

		if (!record) {
			shared->dropped++;
			continue;
		}
		fill(record, ring.head);
		sk_ring_commit(&ring);
	}
}

static void *produce_thread(void *shared)
{
	produce(shared);
	return NULL;
}

/* Check all that is published, then free it, or not. */
static uint64_t consume(struct shared *shared, bool release)
{
	uint64_t tail = shared->slot.tail;
	uint64_t head = atomic_load_explicit(&shared->slot.head, memory_order_acquire);

	assert(head - tail <= CELLS);
	for (; tail != head; tail++)
		assert(is_whole(&shared->cells[tail % CELLS], tail));
	if (release)
		atomic_store_explicit(&shared->slot.tail, tail, memory_order_release);
	return tail;
}

static void check_ring(double seconds)
{
	struct shared *shared = make_shared();
	struct timespec start, now;
	pthread_t thread;
	uint64_t consumed = 0;

	clock_gettime(CLOCK_MONOTONIC, &start);
	assert(!pthread_create(&thread, NULL, produce_thread, shared));
	do {
		consumed = consume(shared, true);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 <
		 seconds);
	shared->done = 1;
	pthread_join(thread, NULL);
	consumed = consume(shared, true);
	assert(consumed == shared->slot.head);
	printf("consumed %" PRIu64 " dropped %" PRIu64 "\n", consumed, shared->dropped);
	assert(consumed > CELLS);
}

static void check_killed(unsigned seed)
{
	srandom(seed);
	for (int round = 0; round < 40; round++) {
		struct shared *shared = make_shared();
		struct timespec pause = {0, random() % 300000};
		pid_t child = fork();

		if (!child) {
			produce(shared);
			_exit(0);
		}
		nanosleep(&pause, NULL);
		if (round % 2)
			consume(shared, true);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		consume(shared, false);
		munmap(shared, sizeof(*shared));
	}
	puts("killed 40");
}

/* Windows one after the other up to about `now`, of any phase. */
static void fill_windows(struct sk_segment *segment, uint64_t now)
{
	uint64_t windows = (uint64_t)random() % 600, at = now - windows * 100;

	segment->header.created_ns = at;
	for (uint64_t i = 0; i < windows; i++, at += 100)
		segment->window[i % SK_SEGMENT_WINDOWS] =
			(struct sk_window){.from_ns = at,
					   .to_ns = at + 100,
					   .phase = 1 + (uint32_t)random() % 3,
					   .chosen_ns = random() % 2 ? 1000 : 0,
					   .launches = (uint64_t)random() % 50,
					   .sequence = (uint32_t)i};
	segment->header.windows = windows;
	segment->header.window_from_ns = random() % 3 ? at : 0;
	segment->header.answer.mode = (uint32_t)random() % 5;
	segment->header.answer.phase = (uint32_t)random() % 5;
}

/* Mostly what a tracer records, sometimes what it may not. */
static uint8_t any_kind(void)
{
	static const uint8_t KINDS[] = {SK_KIND_READ,  SK_KIND_KERNEL,	   SK_KIND_GRAPH,
					SK_KIND_SYNC,  SK_KIND_USER_EVENT, SK_KIND_OVERHEAD,
					SK_KIND_WRITE, SK_KIND_DEVICE_END, SK_KIND_HELD};

	return random() % 2 ? SK_KIND_KERNEL : KINDS[random() % 9];
}

/* A segment as the layer makes it, with some records. */
static void write_segment(const char *path, uint64_t now, unsigned records)
{
	size_t bytes = sizeof(struct sk_segment) + 256 * sizeof(struct sk_record);
	struct sk_segment *segment = aligned_alloc(4096, bytes);
	struct sk_record *cells = (struct sk_record *)(segment + 1);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memset(segment, 0, bytes);
	segment->header.version = SK_SEGMENT_VERSION;
	segment->header.segment_bytes = bytes;
	segment->header.slots = 1 + (uint32_t)random() % SK_SEGMENT_SLOTS;
	segment->header.slots_used = (uint32_t)random() % (segment->header.slots + 1);
	segment->header.names = 3;
	segment->header.devices = 1;
	fill_windows(segment, now);
	snprintf(segment->names[1].text, 16, "alpha %ld", random() % 500);
	segment->names[1].length = segment->names[2].length = 5;
	strcpy(segment->devices[0].id, "pocl-0");
	segment->devices[0].ready = 1;
	for (int slot = 0; slot < 3; slot++) {
		segment->slots[slot].ring_offset = sizeof(*segment);
		segment->slots[slot].ring_records = 256;
		segment->slots[slot].head = records;
		segment->slots[slot].oldest_ns[1] = random() % 2 ? now : 0;
		segment->slots[slot].counters.launches = records;
	}
	for (unsigned i = 0; i < records; i++)
		cells[i] = (struct sk_record){.queued_ns = now,
					      .start_ns = now + (uint64_t)random() % 1000,
					      .end_ns = now + 1000 + (uint64_t)random() % 1000,
					      .kind = any_kind(),
					      .device = random() % 8 ? 0 : SK_NO_DEVICE,
					      .shift = (uint8_t)(random() % 3),
					      .name = 1,
					      .tid = (uint32_t)random() % 5,
					      .sequence = i};
	segment->header.magic = SK_SEGMENT_MAGIC;
	assert(write(fd, segment, bytes) == (ssize_t)bytes);
	close(fd);
	free(segment);
}

static void spoil(const char *path)
{
	int fd = open(path, O_WRONLY), writes = 1 + (int)(random() % 64);
	off_t size = lseek(fd, 0, SEEK_END);

	for (int i = 0; i < writes; i++) {
		uint64_t bytes = (uint64_t)random() << 33 ^ (uint64_t)random() << 2;
		off_t at = random() % 3 ? 8 + random() % (off_t)offsetof(struct sk_segment, names)
					: 8 + random() % (size - 16);

		assert(pwrite(fd, &bytes, 1 + (size_t)random() % 8, at) > 0);
	}
	if (random() % 16 == 0)
		assert(!ftruncate(fd, random() % size));
	close(fd);
}

static void check_totals(struct sk_trace_job *job)
{
	const struct sk_trace_causes *causes = &job->fold.state->causes;
	static struct sk_trace_job_sums sums;
	struct sk_trace_job_causes found;

	assert(sk_trace_causes_check(causes));
	sk_trace_job_sums(job, &sums);
	for (unsigned row = 0; row < job->fold.state->processes_used; row++) {
		struct sk_trace_job_process process;

		sk_trace_job_process(job, row, &process);
	}
	for (unsigned device = 0; device < job->fold.state->devices_used; device++) {
		uint64_t sum = 0;

		sk_trace_job_causes(job, device, &found);
		for (int cause = 0; cause < SK_CAUSES; cause++)
			sum += found.ns[cause];
		assert(sum == causes->frontier_ns - causes->origin_ns);
	}
}

static void check_fuzz(const char *folder, unsigned seed, int rounds)
{
	char path[4096], store[4096];
	struct sk_trace_job_drained drained;
	struct sk_trace_job *job;
	uint64_t now = 1000000000000;

	srandom(seed);
	snprintf(store, sizeof(store), "%s/store", folder);
	assert(!mkdir(store, 0700));
	assert(!sk_trace_job_open(&job, folder, store, SK_MODE_FULL, getuid(), now));
	for (int round = 0; round < rounds; round++, now += 100000) {
		snprintf(path, sizeof(path), "%s/%d-1-%d.seg", folder, 1 << 30, round);
		write_segment(path, now, (unsigned)random() % 256);
		if (round % 16 == 0)
			sk_trace_job_control(job, 1 + (uint32_t)random() % 3, 10000, 1000, now);
		sk_trace_job_drain(job, now, &drained); /* sees it whole, mostly */
		if (!access(path, F_OK))
			spoil(path);
		job->folder_quiet = false;
		sk_trace_job_drain(job, now + 50000, &drained);
		check_totals(job);
		unlink(path);
	}
	assert(!sk_trace_job_finish(job, now, &drained));
	check_totals(job);
	printf("fuzzed %d, folded %" PRIu64 "\n", rounds, job->fold.state->records);
	sk_trace_job_close(job);
}

int main(int argc, char **argv)
{
	assert(argc >= 3);
	if (!strcmp(argv[1], "ring"))
		check_ring(atof(argv[2]));
	else if (!strcmp(argv[1], "killed"))
		check_killed((unsigned)atoi(argv[2]));
	else if (!strcmp(argv[1], "fuzz") && argc == 5)
		check_fuzz(argv[2], (unsigned)atoi(argv[3]), atoi(argv[4]));
	else
		assert(!"a known check");
	return 0;
}
