/* SPDX-License-Identifier: Apache-2.0 */
/* The end of page faults: the kernel's software events of handled faults, one per CPU and kind, and
 * the time of a fault outside the programs' view. See fault.bpf.c. */
#define _GNU_SOURCE /* gettid */
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "host_parts.h"

static int open_event(int cpu, uint64_t kind, int program)
{
	struct perf_event_attr what = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(what),
		.config = kind,
		.sample_period = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &what, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, program)) {
		int error = errno;

		close(fd);
		errno = error;
		return -1;
	}
	return fd;
}

int sk_bpf_fault_events_open(struct sk_bpf_host *host, const struct bpf_program *program)
{
	static const uint64_t KINDS[] = {PERF_COUNT_SW_PAGE_FAULTS_MIN,
					 PERF_COUNT_SW_PAGE_FAULTS_MAJ};
	uint32_t cpus = host->fault_event_room / 2;

	for (uint32_t i = 0; i < 2 * cpus; i++) {
		int fd = open_event((int)(i / 2), KINDS[i % 2], bpf_program__fd(program));

		if (fd < 0 && errno == ENODEV)
			continue; /* no such CPU now */
		if (fd < 0) {
			int error = -errno;

			sk_bpf_fault_events_close(host);
			return error;
		}
		host->fault_events[host->fault_event_count++] = fd;
	}
	return 0;
}

void sk_bpf_fault_events_close(struct sk_bpf_host *host)
{
	while (host->fault_event_count)
		close(host->fault_events[--host->fault_event_count]);
}

/* Short rounds, so that interruptions spoil few of them. No page is touched twice: finding it in
 * the tables for the first time is a part of a fault's time. */
enum { PAGES = 128, ROUNDS = 31, ROUNDS_AGAIN = 9, PAGE = 4096 };

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static uint64_t touch(const volatile char *pages)
{
	uint64_t from = cpu_ns();

	for (int i = 0; i < PAGES; i++)
		(void)pages[(size_t)i * PAGE];
	return cpu_ns() - from;
}

static int by_size(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Return the time of one fault in a round in which every page faulted once; 0 for another round. */
static uint64_t round_ns(const struct sk_bpf_fault_meter *meter, const char *pages)
{
	uint64_t inside = *meter->inside_ns, faults = *meter->faults, whole;

	whole = touch(pages);
	inside = *meter->inside_ns - inside;
	faults = *meter->faults - faults;
	return faults == PAGES && whole > inside ? (whole - inside) / PAGES : 0;
}

static uint64_t middle(uint64_t *rounds, int count)
{
	qsort(rounds, (size_t)count, sizeof(*rounds), by_size);
	return rounds[count / 2];
}

struct sk_bpf_fault_outside sk_bpf_fault_measure(const struct sk_bpf_fault_meter *meter, bool again)
{
	const int count = again ? ROUNDS_AGAIN : ROUNDS;
	const size_t round = (size_t)PAGES * PAGE, bytes = (size_t)count * round;
	uint64_t rounds[ROUNDS], gauges[ROUNDS];
	char *pages = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return (struct sk_bpf_fault_outside){0};
	madvise(pages, bytes, MADV_NOHUGEPAGE);
	*meter->tid = (uint32_t)gettid();
	for (int i = 0; i < count; i++) {
		rounds[i] = round_ns(meter, pages + (size_t)i * round);
		gauges[i] = *meter->gauge_ns;
	}
	*meter->tid = 0;
	munmap(pages, bytes);
	return (struct sk_bpf_fault_outside){.ns = middle(rounds, count),
					     .gauge_ns = middle(gauges, count)};
}
