// SPDX-License-Identifier: Apache-2.0
// A job for the fault tests: `worker FOLDER INDEX BYTES MILLISECONDS CODE` adds one line to
// FOLDER/INDEX.runs, writes BYTES of a pattern that depends on INDEX at an even pace to stdout, and
// exits with CODE. Whoever reads the output can tell a lost, doubled or foreign byte.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4096 };

static void note_run(const char *folder, const char *index)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s.runs", folder, index);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || write(fd, "run\n", 4) != 4)
		exit(111);
	close(fd);
}

static void write_all(const unsigned char *bytes, size_t count)
{
	while (count > 0) {
		ssize_t written = write(1, bytes, count);
		if (written <= 0)
			exit(112);
		bytes += written;
		count -= (size_t)written;
	}
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 113;
	note_run(argv[1], argv[2]);
	unsigned index = (unsigned)atoi(argv[2]);
	size_t bytes = (size_t)atol(argv[3]);
	size_t chunks = (bytes + CHUNK - 1) / CHUNK;
	long pause_us = chunks ? atol(argv[4]) * 1000 / (long)chunks : 0;
	unsigned char chunk[CHUNK];
	for (size_t at = 0; at < bytes; at += CHUNK) {
		size_t count = bytes - at < CHUNK ? bytes - at : CHUNK;
		for (size_t i = 0; i < count; i++)
			chunk[i] = (unsigned char)((at + i) * 31 + index * 7 + ((at + i) >> 12));
		write_all(chunk, count);
		usleep((useconds_t)pause_us);
	}
	return atoi(argv[5]);
}
