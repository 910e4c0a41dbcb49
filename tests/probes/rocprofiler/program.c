/* SPDX-License-Identifier: Apache-2.0 */
/* A program on the simulated HIP: its threads launch and copy in a known way, and at the end it
 * prints the truth about every launch, a line each.
 *
 *     program THREADS LAUNCHES KERNEL_NS PAUSE_US [COPIES]
 *
 * Each thread launches LAUNCHES kernels, the first kernel twice as often as the second, on the
 * device of its number, and then makes COPIES copies.
 */
#include "fake_sdk.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static struct {
	unsigned long threads, launches, kernel_ns, pause_us, copies;
} asked;

static void *work(void *number)
{
	unsigned device = (unsigned)((uintptr_t)number % FAKE_DEVICES);

	for (unsigned long i = 0; i < asked.launches; i++) {
		fake_launch(i % 3 == 2, device, asked.kernel_ns);
		if (asked.pause_us)
			usleep((useconds_t)asked.pause_us);
	}
	for (unsigned long i = 0; i < asked.copies; i++)
		fake_copy(i % 2 ? 3 : 2, device, 1000 + i, 5000);
	return NULL;
}

static void tell(void)
{
	uint64_t count;
	const struct fake_truth *truth = fake_done(&count);

	for (uint64_t i = 0; i < count; i++)
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u %u %u\n",
		       truth[i].called_ns, truth[i].start_ns, truth[i].end_ns, truth[i].bytes,
		       truth[i].tid, truth[i].kernel, truth[i].device, truth[i].timed);
}

int main(int count, char **words)
{
	pthread_t threads[128];

	if (count < 5)
		return 2;
	asked.threads = strtoul(words[1], NULL, 10);
	asked.launches = strtoul(words[2], NULL, 10);
	asked.kernel_ns = strtoul(words[3], NULL, 10);
	asked.pause_us = strtoul(words[4], NULL, 10);
	asked.copies = count > 5 ? strtoul(words[5], NULL, 10) : 0;
	fake_init();
	for (uintptr_t i = 0; i < asked.threads; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (uintptr_t i = 0; i < asked.threads; i++)
		pthread_join(threads[i], NULL);
	fake_wait();
	tell();
	return 0;
}
