// SPDX-License-Identifier: Apache-2.0
// Measures what the kernel alone needs: posix_spawn and wait of a program, COUNT times, at most
// WINDOW at once. It is the floor under `stoker bench submit`: no isolation, no durability, no
// output kept.
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT_MAX = 1000000, WINDOW_MAX = 64 };

static double monotonic_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int wait_one(void)
{
	int status = 0;

	if (waitpid(-1, &status, 0) < 0)
		return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

static int spawn_all(long count, long window, char **argv)
{
	posix_spawn_file_actions_t actions;
	char *empty[] = {NULL};
	long running = 0;
	int err = 0;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	for (long i = 0; i < count && err == 0; i++) {
		pid_t pid;

		if (running == window) {
			err = wait_one();
			running--;
		}
		if (err == 0)
			err = -posix_spawn(&pid, argv[0], &actions, NULL, argv, empty);
		if (err == 0)
			running++;
	}
	for (; running > 0; running--) {
		int ended = wait_one();

		err = err ? err : ended;
	}
	posix_spawn_file_actions_destroy(&actions);
	return err;
}

int main(int argc, char **argv)
{
	long count = argc > 3 ? strtol(argv[1], NULL, 10) : 0;
	long window = argc > 3 ? strtol(argv[2], NULL, 10) : 0;

	if (count < 1 || count > COUNT_MAX || window < 1 || window > WINDOW_MAX) {
		fprintf(stderr, "usage: stoker-bench-floor COUNT WINDOW PROGRAM [ARGS]\n");
		return 2;
	}
	double from = monotonic_s();
	int err = spawn_all(count, window, argv + 3);

	if (err) {
		fprintf(stderr, "stoker-bench-floor: %s: %s\n", argv[3], strerror(-err));
		return 1;
	}
	printf("%.3f\n", (double)count / (monotonic_s() - from));
	return 0;
}
