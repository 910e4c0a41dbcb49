// SPDX-License-Identifier: Apache-2.0
//
// A job whose behaviour is known to the nanosecond it can be known to. For the host
// probes' tests. `workload into CGROUP VERB ARG` starts VERB in a cgroup, as its first process,
// and ends as it ends; the other verbs are in the table at the end and in pressing.c.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char self[4096];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void doze(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
}

static int into(const char *group, char **argv)
{
	struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	int fd = open(group, O_RDONLY | O_DIRECTORY), status;
	long pid;

	args.cgroup = (uint64_t)fd;
	pid = fd < 0 ? -1 : syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0) {
		perror(group);
		return 99;
	}
	if (!pid) {
		execv(self, argv);
		_exit(98);
	}
	if (waitpid((pid_t)pid, &status, 0) < 0)
		return 97;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int nap(long ms)
{
	doze(ms);
	return 0;
}

static int spin(long ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * 1000000u;

	while (now_ns() < end)
		;
	return 0;
}

/* Two processes that both want CPU 0 for the same time. */
static int contend(long ms)
{
	cpu_set_t one;
	pid_t other;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	other = fork();
	spin(ms);
	if (!other)
		_exit(0);
	return waitpid(other, NULL, 0) < 0;
}

static int children(long count)
{
	for (long i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			execl(self, self, "leave", "0", (char *)NULL);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

static void *brief(void *unused)
{
	return unused;
}

/* Eight at a time, so that few are alive however many there were. */
static int threads(long count)
{
	pthread_t some[8];

	for (long i = 0; i < count; i += 8) {
		for (int j = 0; j < 8; j++)
			if (pthread_create(&some[j], NULL, brief, NULL))
				return 1;
		for (int j = 0; j < 8; j++)
			pthread_join(some[j], NULL);
	}
	return 0;
}

static void *dozer(void *ms)
{
	doze((long)(intptr_t)ms);
	return NULL;
}

/* Sixteen threads that sleep at once. */
static int crowd(long ms)
{
	pthread_t all[16];

	for (int i = 0; i < 16; i++)
		if (pthread_create(&all[i], NULL, dozer, (void *)(intptr_t)ms))
			return 1;
	for (int i = 0; i < 16; i++)
		pthread_join(all[i], NULL);
	return 0;
}

/* Two threads that wake each other through pipes. */
static void *echo(void *ends)
{
	int *fd = ends;
	char byte;

	while (read(fd[0], &byte, 1) == 1 && write(fd[3], &byte, 1) == 1)
		;
	return NULL;
}

static int pingpong(long count)
{
	int fd[4];
	pthread_t other;
	char byte = 0;

	if (pipe(fd) || pipe(fd + 2) || pthread_create(&other, NULL, echo, fd))
		return 1;
	for (long i = 0; i < count; i++)
		if (write(fd[1], &byte, 1) != 1 || read(fd[2], &byte, 1) != 1)
			return 1;
	close(fd[1]);
	return pthread_join(other, NULL);
}

/* The parent of a vfork waits uninterruptibly until the child leaves. */
static int vforked(long ms)
{
	pid_t pid = vfork();

	if (!pid) {
		doze(ms);
		_exit(0);
	}
	return waitpid(pid, NULL, 0) < 0;
}

static void *exec_here(void *unused)
{
	execl(self, self, "nap", "20", (char *)NULL);
	return unused;
}

/* A thread that is not the first one replaces the program. */
static int exec_thread(long unused)
{
	pthread_t thread;

	(void)unused;
	pthread_create(&thread, NULL, exec_here, NULL);
	pause();
	return 1;
}

static int leave(long code)
{
	return (int)code;
}

static int die(long number)
{
	signal((int)number, SIG_DFL);
	raise((int)number);
	return 1;
}

static int fill(long megabytes)
{
	for (long i = 0; i < megabytes; i++) {
		char *some = malloc(1 << 20);

		if (some)
			memset(some, 1, 1 << 20);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*run)(long);
} verbs[] = {
	{"nap", nap},	      {"spin", spin},	{"contend", contend}, {"children", children},
	{"threads", threads}, {"crowd", crowd}, {"vfork", vforked},   {"exec-thread", exec_thread},
	{"leave", leave},     {"die", die},	{"fill", fill},	      {"pingpong", pingpong},
};

int press(const char *verb, long count); /* pressing.c */

int main(int argc, char **argv)
{
	int code;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		return 95;
	if (argc > 4 && !strcmp(argv[1], "into"))
		return into(argv[2], argv + 2);
	for (size_t i = 0; argc == 3 && i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].run(atol(argv[2]));
	if (argc == 3 && (code = press(argv[1], atol(argv[2]))) >= 0)
		return code;
	fprintf(stderr, "workload: unknown verb\n");
	return 96;
}
