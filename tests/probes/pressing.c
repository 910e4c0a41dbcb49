// SPDX-License-Identifier: Apache-2.0
//
// Verbs of the workload that press on one part of the kernel a known number of times,
// for tests of the host probes' figures. A verb that stops itself (SIGSTOP) does so after a first,
// smaller round, so that all its code and tables are there, and after the counted one: what was
// counted between the two stops is the argument and nothing else. WORKLOAD_FILE names a file.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/termios.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096

int press(const char *verb, long count);

static char *fresh_pages(long count)
{
	char *pages = mmap(NULL, (size_t)count * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		exit(90);
	madvise(pages, (size_t)count * PAGE, MADV_NOHUGEPAGE);
	return pages;
}

/* A round that is not counted, and one that is. */
static int rounds(int (*round)(long), long count)
{
	for (int i = 0; i < 2; i++) {
		if (round(i ? count : 1))
			return 91;
		raise(SIGSTOP);
	}
	return 0;
}

static int touch_each(long count)
{
	volatile char *pages = fresh_pages(count);

	for (long i = 0; i < count; i++)
		pages[i * PAGE] = 1;
	return 0;
}

/* The kernel writes to pages that are not there yet. */
static int zero_each(long count)
{
	static int zero = -1;
	char *pages = fresh_pages(count);

	if (zero < 0)
		zero = open("/dev/zero", O_RDONLY);
	return read(zero, pages, (size_t)count * PAGE) != count * PAGE;
}

static int open_file(int flags)
{
	const char *name = getenv("WORKLOAD_FILE");
	int fd = name ? open(name, flags, 0644) : -1;

	if (fd < 0)
		exit(92);
	return fd;
}

/* Blocks that are there already are written again, past the page cache; every other one, so that
 * nobody's request for a block beside it can take this one in. */
static int write_each(long count)
{
	static int fd = -1;
	static char *block;

	if (fd < 0) {
		fd = open_file(O_RDWR | O_DIRECT);
		block = fresh_pages(1);
		memset(block, 7, PAGE);
	}
	for (long i = 0; i < count; i++)
		if (pwrite(fd, block, PAGE, (2 * i + 1) * PAGE) != PAGE)
			return 1;
	return 0;
}

/* Pages of a file that must come from the disk, by faults, in an order nobody reads ahead. */
static int page_in_each(long count)
{
	static int fd = -1;
	volatile char *pages;
	char sum = 0;

	if (fd < 0)
		fd = open_file(O_RDONLY);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	pages = mmap(NULL, (size_t)count * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (pages == MAP_FAILED)
		return 1;
	madvise((void *)pages, (size_t)count * PAGE, MADV_RANDOM);
	for (long i = count; i > 0; i--)
		sum += pages[(i - 1) * PAGE];
	munmap((void *)pages, (size_t)count * PAGE);
	return sum == 127;
}

/* Calls into two devices, a pipe and a file: the last two are none. */
static int call_each(long count)
{
	int null = open("/dev/null", O_RDWR), full = open("/dev/full", O_RDWR), ends[2], unread;
	int self = open("/proc/self/exe", O_RDONLY);

	if (null < 0 || full < 0 || self < 0 || pipe(ends))
		return 93;
	for (long i = 0; i < count; i++) {
		ioctl(null, TCGETS, ends);
		ioctl(ends[0], FIONREAD, &unread);
		ioctl(self, FIONREAD, &unread);
		ioctl(-1, FIONREAD, &unread);
	}
	return ioctl(full, TCGETS, ends) != -1;
}

/* A device that not every program opens, and one that every program does. */
static int open_each(long count)
{
	long opened = 0;

	for (long i = 0; i < count; i++) {
		int loop = open("/dev/loop-control", O_RDWR), null = open("/dev/null", O_WRONLY);

		opened += loop >= 0;
		close(loop);
		close(null);
	}
	return opened == count ? 0 : opened ? 94 : 13;
}

/* Segments sent again in this network, by the kernel's own count (the 12th of /proc/net/snmp). */
static int sent_again(void)
{
	char line[512];
	long count = -1;
	FILE *file = fopen("/proc/net/snmp", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Tcp: %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %*d %ld", &count) ==
		    1)
			break;
	return (int)count;
}

/* A peer that never answers; the exit code is how often it was asked again. */
static int connect_in_vain(long count)
{
	struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), more = (int)count;

	inet_pton(AF_INET, "10.99.0.2", &peer.sin_addr);
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &more, sizeof(more)))
		return 0;
	if (connect(fd, (struct sockaddr *)&peer, sizeof(peer)) == 0 || errno != ETIMEDOUT)
		return 0;
	return sent_again();
}

/* Datagrams to itself: each is received by a softirq that runs while the sender is on the CPU. */
static int send_each(long count)
{
	struct sockaddr_in here = {.sin_family = AF_INET};
	socklen_t size = sizeof(here);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char byte = 0;

	here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&here, size) ||
	    getsockname(fd, (struct sockaddr *)&here, &size))
		return 1;
	for (long i = 0; i < count; i++)
		if (sendto(fd, &byte, 1, 0, (struct sockaddr *)&here, size) != 1 ||
		    recv(fd, &byte, 1, 0) != 1)
			return 1;
	return 0;
}

/* Naps of five milliseconds, between which it waits until somebody lets it go on. */
static int nap_each(long count)
{
	struct timespec nap = {0, 5000000};

	raise(SIGSTOP);
	for (long i = 0; i < count; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	return 0;
}

int press(const char *verb, long count)
{
	static const struct {
		const char *name;
		int (*round)(long);
		int in_rounds;
	} verbs[] = {
		{"touch", touch_each, 1},	 {"zero", zero_each, 1}, {"write", write_each, 1},
		{"page-in", page_in_each, 0},	 {"call", call_each, 0}, {"open", open_each, 0},
		{"connect", connect_in_vain, 0}, {"send", send_each, 0}, {"nap-each", nap_each, 0},
	};

	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(verb, verbs[i].name))
			return verbs[i].in_rounds ? rounds(verbs[i].round, count)
						  : verbs[i].round(count);
	return -1;
}
