/* SPDX-License-Identifier: Apache-2.0 */
/* A program on the simulated Level Zero: its threads launch in a known way, and at the end it
 * prints the truth about every launch, a line each.
 *
 *     program HOW THREADS LAUNCHES KERNEL_NS PAUSE_US
 *
 * HOW is `immediate` (no events), `events` (each launch has the program's event, which is waited
 * for and reset), `plain` (events of a pool that processes share, without stamps) or `list` (8
 * launches, a copy and a fill, executed again and again).
 */
#include "levelzero/abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int zeInit(uint32_t flags);
sk_levelzero_handle fake_device(unsigned which);
sk_levelzero_handle fake_context(void);
sk_levelzero_handle fake_kernel(unsigned which);
void fake_wait(unsigned device);
void fake_tell(void);
int zeCommandListCreate(sk_levelzero_handle context, sk_levelzero_handle device, const void *desc,
			sk_levelzero_handle *list);
int zeCommandListCreateImmediate(sk_levelzero_handle context, sk_levelzero_handle device,
				 const void *desc, sk_levelzero_handle *list);
int zeCommandListDestroy(sk_levelzero_handle list);
int zeContextDestroy(sk_levelzero_handle context);
int zeKernelDestroy(sk_levelzero_handle kernel);
int zeCommandListAppendLaunchKernel(sk_levelzero_handle list, sk_levelzero_handle kernel,
				    const void *groups, sk_levelzero_handle signal, uint32_t count,
				    sk_levelzero_handle *waits);
struct groups {
	uint32_t x, y, z;
};
int zeCommandListAppendLaunchKernelWithParameters(sk_levelzero_handle list,
						  sk_levelzero_handle kernel, const void *groups,
						  const void *next, sk_levelzero_handle signal,
						  uint32_t count, sk_levelzero_handle *waits);
int zeCommandListAppendLaunchKernelWithArguments(sk_levelzero_handle list,
						 sk_levelzero_handle kernel, struct groups groups,
						 struct groups sizes, void **arguments,
						 const void *next, sk_levelzero_handle signal,
						 uint32_t count, sk_levelzero_handle *waits);
int zeCommandListAppendMemoryCopy(sk_levelzero_handle list, void *to, const void *from,
				  size_t bytes, sk_levelzero_handle signal, uint32_t count,
				  sk_levelzero_handle *waits);
int zeCommandListAppendMemoryFill(sk_levelzero_handle list, void *to, const void *pattern,
				  size_t pattern_bytes, size_t bytes, sk_levelzero_handle signal,
				  uint32_t count, sk_levelzero_handle *waits);
int zeCommandQueueExecuteCommandLists(sk_levelzero_handle queue, uint32_t count,
				      sk_levelzero_handle *lists, sk_levelzero_handle fence);
int zeEventPoolCreate(sk_levelzero_handle context, const struct sk_levelzero_pool_desc *desc,
		      uint32_t count, sk_levelzero_handle *devices, sk_levelzero_handle *pool);
int zeEventCreate(sk_levelzero_handle pool, const struct sk_levelzero_event_desc *desc,
		  sk_levelzero_handle *event);
int zeEventDestroy(sk_levelzero_handle event);
int zeEventHostReset(sk_levelzero_handle event);
int zeEventHostSynchronize(sk_levelzero_handle event, uint64_t timeout);

enum { IN_A_LIST = 8 };

static struct {
	const char *how;
	unsigned long threads, launches, kernel_ns, pause_us;
	sk_levelzero_handle context;
} asked;

static void check(int result)
{
	if (result) {
		fprintf(stderr, "a call failed: %x\n", (unsigned)result);
		exit(3);
	}
}

static void pause_now(void)
{
	if (asked.pause_us)
		usleep((useconds_t)asked.pause_us);
}

/* Launch in each of the ways that there are. */
static int launch_one(sk_levelzero_handle list, sk_levelzero_handle kernel, unsigned long way)
{
	const struct groups groups = {(uint32_t)asked.kernel_ns, 1, 1};
#ifndef FAKE_OLDER
	const struct groups one = {1, 1, 1};

	if (way % 4 == 1)
		return zeCommandListAppendLaunchKernelWithParameters(list, kernel, &groups, NULL,
								     NULL, 0, NULL);
	if (way % 4 == 3)
		return zeCommandListAppendLaunchKernelWithArguments(list, kernel, groups, one, NULL,
								    NULL, NULL, 0, NULL);
#endif
	return zeCommandListAppendLaunchKernel(list, kernel, &groups, NULL, 0, NULL);
}

static void launch_now(sk_levelzero_handle list, sk_levelzero_handle kernels[2])
{
	char bytes[64];

	for (unsigned long i = 0; i < asked.launches; i++) {
		check(launch_one(list, kernels[i % 3 == 2], i));
		pause_now();
	}
	check(zeCommandListAppendMemoryCopy(list, bytes, bytes, sizeof(bytes), NULL, 0, NULL));
	check(zeCommandListAppendMemoryFill(list, bytes, bytes, 1, 17, NULL, 0, NULL));
}

static void launch_with_events(sk_levelzero_handle list, sk_levelzero_handle kernels[2],
			       uint32_t flags)
{
	const struct sk_levelzero_pool_desc desc = {
		.type = SK_LEVELZERO_EVENT_POOL_DESC, .flags = flags, .count = 4};
	const struct sk_levelzero_event_desc first = {.type = SK_LEVELZERO_EVENT_DESC};
	uint32_t groups[3] = {(uint32_t)asked.kernel_ns, 1, 1};
	sk_levelzero_handle pool, event;

	check(zeEventPoolCreate(asked.context, &desc, 0, NULL, &pool));
	check(zeEventCreate(pool, &first, &event));
	for (unsigned long i = 0; i < asked.launches; i++) {
		check(zeCommandListAppendLaunchKernel(list, kernels[i % 3 == 2], groups, event, 0,
						      NULL));
		check(zeEventHostSynchronize(event, UINT64_MAX));
		check(zeEventHostReset(event));
		pause_now();
	}
	check(zeEventDestroy(event));
}

static void launch_a_list(unsigned device, sk_levelzero_handle kernels[2])
{
	uint32_t groups[3] = {(uint32_t)asked.kernel_ns, 1, 1};
	char bytes[64];
	sk_levelzero_handle list;

	check(zeCommandListCreate(asked.context, fake_device(device), NULL, &list));
	for (int i = 0; i < IN_A_LIST; i++)
		check(zeCommandListAppendLaunchKernel(list, kernels[i % 2], groups, NULL, 0, NULL));
	check(zeCommandListAppendMemoryCopy(list, bytes, bytes, 32, NULL, 0, NULL));
	check(zeCommandListAppendMemoryFill(list, bytes, bytes, 1, 16, NULL, 0, NULL));
	for (unsigned long i = 0; i < asked.launches; i++) {
		check(zeCommandQueueExecuteCommandLists((sk_levelzero_handle)&asked, 1, &list,
							NULL));
		fake_wait(device);
		pause_now();
	}
	check(zeCommandListDestroy(list));
}

static void *work(void *number)
{
	unsigned device = (unsigned)((uintptr_t)number % 2);
	sk_levelzero_handle list, kernels[2] = {fake_kernel(0), fake_kernel(1)};

	check(zeCommandListCreateImmediate(asked.context, fake_device(device), NULL, &list));
	if (!strcmp(asked.how, "list"))
		launch_a_list(device, kernels);
	else if (!strcmp(asked.how, "events"))
		launch_with_events(list, kernels, SK_LEVELZERO_POOL_HOST_VISIBLE);
	else if (!strcmp(asked.how, "plain"))
		launch_with_events(list, kernels,
				   SK_LEVELZERO_POOL_HOST_VISIBLE | SK_LEVELZERO_POOL_IPC);
	else
		launch_now(list, kernels);
	fake_wait(device);
	check(zeCommandListDestroy(list));
	for (int i = 0; i < 2; i++)
		check(zeKernelDestroy(kernels[i]));
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[128];

	if (count < 6)
		return 2;
	asked.how = words[1];
	asked.threads = strtoul(words[2], NULL, 10);
	asked.launches = strtoul(words[3], NULL, 10);
	asked.kernel_ns = strtoul(words[4], NULL, 10);
	asked.pause_us = strtoul(words[5], NULL, 10);
	check(zeInit(0));
	asked.context = fake_context();
	for (uintptr_t i = 0; i < asked.threads; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (uintptr_t i = 0; i < asked.threads; i++)
		pthread_join(threads[i], NULL);
	usleep(150000); /* time for a tick, which a program that goes on has */
	check(zeContextDestroy(asked.context));
	fake_tell();
	return 0;
}
