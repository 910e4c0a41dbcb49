// SPDX-License-Identifier: Apache-2.0
/*
 * Calls functions of a shared library as it is told on stdin, one order a line.
 *
 * The tests of the probes over calls use it. Orders: open PATH, close, map PATH (executable,
 * whatever it is), call NAME COUNT, threads NAME COUNT (four of them), deep NAME DEPTH. Each is
 * answered by a line when it is done; the end of stdin is the end.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *library;

struct work {
	int (*function)(int);
	int count;
};

static void *call(void *argument)
{
	const struct work *work = argument;

	for (int i = 0; i < work->count; i++)
		work->function(1);
	return NULL;
}

static int threads(struct work *work)
{
	pthread_t all[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&all[i], NULL, call, work))
			return -1;
	for (int i = 0; i < 4; i++)
		pthread_join(all[i], NULL);
	return 0;
}

static int map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	close(fd);
	return at == MAP_FAILED ? -1 : 0;
}

static int obey(const char *order, const char *name, int count)
{
	struct work work = {.count = count};

	if (!strcmp(order, "open"))
		return (library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) ? 0 : -1;
	if (!strcmp(order, "close"))
		return dlclose(library);
	if (!strcmp(order, "map"))
		return map(name);
	work.function = (int (*)(int))dlsym(library, name);
	if (!work.function)
		return -1;
	if (!strcmp(order, "threads"))
		return threads(&work);
	if (!strcmp(order, "deep"))
		return work.function(count) == count ? 0 : -1;
	call(&work);
	return 0;
}

int main(void)
{
	char line[4096], order[16], name[4000];
	int count = 0;

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%15s %3999s %d", order, name, &count) < 1)
			return 2;
		printf("%s\n", obey(order, name, count) ? "failed" : "done");
		fflush(stdout);
	}
	return 0;
}
