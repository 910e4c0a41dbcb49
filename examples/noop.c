// SPDX-License-Identifier: Apache-2.0
// Says when its first statement ran, then ends: the job of `stoker bench submit`.
// Linked statically, so that the start of a job is measured and not the dynamic loader.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(void)
{
	struct timespec now;
	char line[48];

	clock_gettime(CLOCK_MONOTONIC, &now);
	int length =
		snprintf(line, sizeof(line), "%lld%09ld\n", (long long)now.tv_sec, now.tv_nsec);
	return write(STDOUT_FILENO, line, (size_t)length) == length ? 0 : 1;
}
