// SPDX-License-Identifier: Apache-2.0
// The ways of waiting, each for about the asked time: what they really took is measured around
// them.
#define _GNU_SOURCE
#include "waits.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, FRESH = 256 << 20, FILE_BYTES = 64 << 20, BLOCK = 1 << 16 };

static struct {
	int ask[2]; /* to the child: how long to keep us waiting */
	int answer[2];
	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	double other_ms; /* what the other thread is to sleep; 0: it has */
	char *fresh;	 /* pages never touched from `fresh_at` on */
	size_t fresh_at;
	int file; /* of FILE_BYTES, on a disk */
	char *mapped;
	char *block; /* aligned, of BLOCK */
	size_t file_at;
} have = {.lock = PTHREAD_MUTEX_INITIALIZER,
	  .asked = PTHREAD_COND_INITIALIZER,
	  .answered = PTHREAD_COND_INITIALIZER,
	  .file = -1};

static void spin(double ms)
{
	uint64_t until = now_ns() + (uint64_t)(ms * 1e6);

	while (now_ns() < until)
		;
}

/* CPU time, whatever the clock says meanwhile: a starved thread takes longer. */
static void work(double ms)
{
	uint64_t until = cpu_ns() + (uint64_t)(ms * 1e6);

	while (cpu_ns() < until)
		;
}

static void rest(double ms)
{
	struct timespec time = {(time_t)(ms / 1e3), (long)(ms * 1e6) % 1000000000};

	nanosleep(&time, NULL);
}

static void on_pipe(double ms)
{
	char one;

	must(write(have.ask[1], &ms, sizeof(ms)) != sizeof(ms), "ask the child");
	must(read(have.answer[0], &one, 1) != 1, "the child's answer");
}

static void on_poll(double ms)
{
	struct pollfd nothing = {.fd = have.answer[0], .events = POLLIN};

	must(poll(&nothing, 1, (int)(ms + 0.5)), "poll");
}

static void on_lock(double ms)
{
	pthread_mutex_lock(&have.lock);
	have.other_ms = ms;
	pthread_cond_signal(&have.asked);
	while (have.other_ms > 0)
		pthread_cond_wait(&have.answered, &have.lock);
	pthread_mutex_unlock(&have.lock);
}

/* Fresh pages are read, so each costs a fault and no memory: the page of zeroes is mapped. */
static void fault(double ms)
{
	uint64_t until = now_ns() + (uint64_t)(ms * 1e6);

	do {
		for (int i = 0; i < 64; i++, have.fresh_at += PAGE) {
			must(have.fresh_at >= FRESH, "no fresh page left");
			(void)*(volatile char *)(have.fresh + have.fresh_at);
		}
	} while (now_ns() < until);
}

/* Called between rounds, and measured as a phase of its own. */
static void forget(double unused)
{
	(void)unused;
	madvise(have.fresh, have.fresh_at, MADV_DONTNEED);
	have.fresh_at = 0;
	if (have.file < 0)
		return;
	madvise(have.mapped, FILE_BYTES, MADV_DONTNEED);
	posix_fadvise(have.file, 0, 0, POSIX_FADV_DONTNEED);
	have.file_at = 0;
}

/* Pages of a file that is not in memory, each read from the disk when it is touched. */
static void major(double ms)
{
	uint64_t until = now_ns() + (uint64_t)(ms * 1e6);

	do {
		must(have.file_at >= FILE_BYTES, "no page of the file left");
		(void)*(volatile char *)(have.mapped + have.file_at);
		have.file_at += 16 * PAGE; /* further than one fault maps */
	} while (now_ns() < until);
}

static void disk(double ms)
{
	uint64_t until = now_ns() + (uint64_t)(ms * 1e6);

	do {
		off_t at = (off_t)((have.file_at += BLOCK) % FILE_BYTES);

		must(pread(have.file, have.block, BLOCK, at) != BLOCK, "read");
	} while (now_ns() < until);
}

static void (*const WAYS_CALLS[])(double) = {spin,    work,    rest,	      on_pipe,
					     on_poll, on_lock, fault,	      forget,
					     major,   disk,    device_kernel, device_copy};
static const char *const WAYS[] = {"spin",  "work",   "sleep", "pipe", "poll",	 "lock",
				   "fault", "forget", "major", "disk", "kernel", "copy"};

void (*way_named(const char *name))(double amount)
{
	for (size_t i = 0; i < sizeof(WAYS) / sizeof(WAYS[0]); i++)
		if (!strcmp(WAYS[i], name))
			return WAYS_CALLS[i];
	return NULL;
}

/* The child answers after as long as it is asked to, until its parent is gone. */
static void feed(void)
{
	double ms;

	close(have.ask[1]);
	while (read(have.ask[0], &ms, sizeof(ms)) == sizeof(ms)) {
		rest(ms);
		if (write(have.answer[1], "", 1) != 1)
			break;
	}
	_exit(0);
}

static void *other_thread(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&have.lock);
	for (;;) {
		while (!(have.other_ms > 0))
			pthread_cond_wait(&have.asked, &have.lock);
		double ms = have.other_ms;

		pthread_mutex_unlock(&have.lock);
		rest(ms);
		pthread_mutex_lock(&have.lock);
		have.other_ms = 0;
		pthread_cond_signal(&have.answered);
	}
	return NULL;
}

/* A file without a name, read past the page cache, and mapped without reading ahead. */
static void open_file(const char *folder)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/waits-XXXXXX", folder);
	int cached = mkstemp(path);

	must(cached < 0, "file");
	have.file = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	must(have.file < 0, "file past the page cache");
	unlink(path);
	must(posix_memalign((void **)&have.block, PAGE, BLOCK), "block");
	memset(have.block, 1, BLOCK);
	for (size_t at = 0; at < FILE_BYTES; at += BLOCK)
		must(write(have.file, have.block, BLOCK) != BLOCK, "write");
	must(fsync(have.file), "fsync");
	have.mapped = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, cached, 0);
	must(have.mapped == MAP_FAILED, "map the file");
	madvise(have.mapped, FILE_BYTES, MADV_RANDOM);
}

void ways_prepare(const char *folder)
{
	pthread_t thread;

	must(pipe(have.ask) || pipe(have.answer), "pipe");
	pid_t child = fork();

	must(child < 0, "fork");
	if (!child)
		feed();
	must(pthread_create(&thread, NULL, other_thread, NULL), "thread");
	have.fresh = mmap(NULL, FRESH, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must(have.fresh == MAP_FAILED, "memory");
	madvise(have.fresh, FRESH, MADV_NOHUGEPAGE);
	if (*folder)
		open_file(folder);
}
