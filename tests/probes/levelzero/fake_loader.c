/* SPDX-License-Identifier: Apache-2.0 */
/* A SIMULATED Level Zero loader: devices that are nothing but a clock, command lists, events, and
 * the tracing layer with its callbacks, as far as the tracer and program.c use them.
 *
 * It keeps the rules that a tracer may rely on: callbacks get pointers to the arguments, calls from
 * inside of a callback have no callbacks, an event stays signaled until it is reset, only events of
 * pools with the flag have stamps, and stamps are the low bits of the device's counter. It prints
 * what it did as the truth, in CLOCK_MONOTONIC.
 *
 * Environment: FAKE_HZ (12500000), FAKE_BITS (32), FAKE_TICKS (counter at the start),
 * FAKE_DRIFT_PPB, and ZE_ENABLE_TRACING_LAYER, without which there are no tracers.
 */
#include "fake_layer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	NOT_READY = 1,
	DEVICES = 2,
	TRUTHS = 1 << 19,
	LIST_MAX = 4096,
};

EXPORTED const int stoker_simulated = 1;

struct device {
	unsigned number;
	uint64_t busy_until;
};

struct pool {
	uint32_t flags;
};

struct event {
	struct pool *pool;
	uint64_t start_ns, end_ns; /* 0: not signaled, nor going to be */
};

struct kernel {
	unsigned number;
	char name[32];
};

struct command {
	unsigned kernel; /* 100: a copy, 101: a fill */
	uint64_t ns, bytes;
	struct event *event;
};

struct list {
	struct device *device;
	bool immediate;
	unsigned count;
	struct command commands[LIST_MAX];
};

struct truth {
	uint64_t called_ns, start_ns, end_ns, bytes;
	uint32_t tid, kernel, device, stamped;
};

static struct {
	struct device devices[DEVICES];
	pthread_mutex_t lock;
	uint64_t origin_ns, hz, ticks;
	int64_t drift_ppb;
	uint32_t bits;
	struct truth *truths;
	uint64_t truth_count;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t ticks_at(uint64_t ns)
{
	__int128 since = (__int128)(int64_t)(ns - fake.origin_ns);

	since += since * fake.drift_ppb / 1000000000;
	return fake.ticks + (uint64_t)(int64_t)(since * (__int128)fake.hz / 1000000000);
}

__attribute__((unused)) static uint64_t cut(uint64_t ticks, uint32_t bits)
{
	return bits >= 64 ? ticks : ticks & ((UINT64_C(1) << bits) - 1);
}

/* ---- drivers, devices, contexts ---- */

static int64_t number(const char *name, int64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoll(text, NULL, 10) : otherwise;
}

EXPORTED int zeInit(uint32_t flags)
{
	if (fake.origin_ns)
		return 0;
	fake.hz = (uint64_t)number("FAKE_HZ", 12500000);
	fake.bits = (uint32_t)number("FAKE_BITS", 32);
	fake.ticks = (uint64_t)number("FAKE_TICKS", 123456789);
	fake.drift_ppb = number("FAKE_DRIFT_PPB", 0);
	fake.truths = calloc(TRUTHS, sizeof(*fake.truths));
	for (unsigned i = 0; i < DEVICES; i++)
		fake.devices[i].number = i;
	fake.origin_ns = now_ns();
	return 0;
}

EXPORTED sk_levelzero_handle fake_device(unsigned which)
{
	return (sk_levelzero_handle)&fake.devices[which];
}

EXPORTED sk_levelzero_handle fake_context(void)
{
	return (sk_levelzero_handle)calloc(1, 8);
}

EXPORTED int zeDeviceGetProperties(sk_levelzero_handle device,
				   struct sk_levelzero_device_properties *ret)
{
	const char *named = getenv("FAKE_LEVELZERO_UUID"); /* 32 hexadecimal digits */

	ret->device_type = SK_LEVELZERO_TYPE_GPU;
	ret->timer_hz = fake.hz;
	ret->timestamp_bits = 64;
	ret->kernel_timestamp_bits = fake.bits;
	memset(ret->uuid, 0x11, sizeof(ret->uuid));
	ret->uuid[15] = (uint8_t)((struct device *)device)->number;
	for (unsigned i = 0; named && i < sizeof(ret->uuid) && named[2 * i]; i++)
		sscanf(&named[2 * i], "%2hhx", &ret->uuid[i]);
	strcpy(ret->name, "SIM Data Center GPU Max");
	return 0;
}

EXPORTED int zeDeviceGetGlobalTimestamps(sk_levelzero_handle device, uint64_t *host, uint64_t *ret)
{
	*host = now_ns();
	*ret = ticks_at(*host);
	return 0;
}

/* ---- events ---- */

static int pool_create(void *data)
{
	const struct sk_levelzero_pool_create_call *call = data;
	struct pool *pool = calloc(1, sizeof(*pool));

	pool->flags = (*call->desc)->flags;
	**call->pool = (sk_levelzero_handle)pool;
	return 0;
}

EXPORTED int zeEventPoolCreate(sk_levelzero_handle context,
			       const struct sk_levelzero_pool_desc *desc, uint32_t count,
			       sk_levelzero_handle *devices, sk_levelzero_handle *pool)
{
	struct sk_levelzero_pool_create_call call = {&context, &desc, &count, &devices, &pool};

	return traced(IN_EventPoolCreate, &call, pool_create);
}

static int free_one(void *data)
{
	free(*((struct sk_levelzero_one_call *)data)->handle);
	return 0;
}

static int keep_one(void *data)
{
	return 0;
}

#define ONE(function, api, body)                                                                   \
	EXPORTED int function(sk_levelzero_handle handle);                                         \
	EXPORTED int function(sk_levelzero_handle handle)                                          \
	{                                                                                          \
		struct sk_levelzero_one_call call = {&handle};                                     \
		return traced(api, &call, body);                                                   \
	}

static int event_create(void *data)
{
	const struct sk_levelzero_event_create_call *call = data;
	struct event *event = calloc(1, sizeof(*event));

	event->pool = (struct pool *)*call->pool;
	**call->event = (sk_levelzero_handle)event;
	return 0;
}

EXPORTED int zeEventCreate(sk_levelzero_handle pool, const struct sk_levelzero_event_desc *desc,
			   sk_levelzero_handle *event)
{
	struct sk_levelzero_event_create_call call = {&pool, &desc, &event};

	return traced(IN_EventCreate, &call, event_create);
}

static int event_reset(void *data)
{
	struct event *event = (struct event *)*((struct sk_levelzero_one_call *)data)->handle;

	event->start_ns = event->end_ns = 0;
	return 0;
}

static int list_reset(void *data)
{
	((struct list *)*((struct sk_levelzero_one_call *)data)->handle)->count = 0;
	return 0;
}

ONE(zeEventPoolDestroy, IN_EventPoolDestroy, free_one)
ONE(zeEventDestroy, IN_EventDestroy, free_one)
ONE(zeEventHostReset, IN_EventHostReset, event_reset)
ONE(zeKernelDestroy, IN_KernelDestroy, free_one)
ONE(zeContextDestroy, IN_ContextDestroy, keep_one)
ONE(zeCommandListDestroy, IN_CommandListDestroy, free_one)
ONE(zeCommandListReset, IN_CommandListReset, list_reset)

EXPORTED int zeEventQueryStatus(sk_levelzero_handle handle)
{
	const struct event *event = (const struct event *)handle;

	return event->end_ns && event->end_ns <= now_ns() ? 0 : NOT_READY;
}

#ifndef FAKE_WITHOUT_STAMPS
EXPORTED int zeEventQueryKernelTimestamp(sk_levelzero_handle handle,
					 struct sk_levelzero_stamps *ret)
{
	const struct event *event = (const struct event *)handle;

	if (!(event->pool->flags & SK_LEVELZERO_POOL_TIMESTAMP))
		return BAD_ARGUMENT;
	if (zeEventQueryStatus(handle))
		return NOT_READY;
	ret->global_start = cut(ticks_at(event->start_ns), fake.bits);
	ret->global_end = cut(ticks_at(event->end_ns), fake.bits);
	ret->context_start = ret->global_start;
	ret->context_end = ret->global_end;
	return 0;
}
#endif

EXPORTED int zeEventHostSynchronize(sk_levelzero_handle handle, uint64_t timeout)
{
	while (zeEventQueryStatus(handle))
		usleep(20);
	return 0;
}

/* ---- kernels and lists ---- */

EXPORTED sk_levelzero_handle fake_kernel(unsigned which)
{
	struct kernel *kernel = calloc(1, sizeof(*kernel));

	kernel->number = which;
	snprintf(kernel->name, sizeof(kernel->name), "kernel_%u", which);
	return (sk_levelzero_handle)kernel;
}

EXPORTED int zeKernelGetName(sk_levelzero_handle handle, size_t *size, char *ret)
{
	snprintf(ret, *size, "%s", ((struct kernel *)handle)->name);
	*size = strlen(ret) + 1;
	return 0;
}

static int list_create(void *data, bool immediate)
{
	const struct sk_levelzero_list_create_call *call = data;
	struct list *list = calloc(1, sizeof(*list));

	list->device = (struct device *)*call->device;
	list->immediate = immediate;
	**call->list = (sk_levelzero_handle)list;
	return 0;
}

static int list_create_plain(void *data)
{
	return list_create(data, false);
}

static int list_create_immediate(void *data)
{
	return list_create(data, true);
}

EXPORTED int zeCommandListCreate(sk_levelzero_handle context, sk_levelzero_handle device,
				 const void *desc, sk_levelzero_handle *list)
{
	struct sk_levelzero_list_create_call call = {&context, &device, &desc, &list};

	return traced(IN_CommandListCreate, &call, list_create_plain);
}

EXPORTED int zeCommandListCreateImmediate(sk_levelzero_handle context, sk_levelzero_handle device,
					  const void *desc, sk_levelzero_handle *list)
{
	struct sk_levelzero_list_create_call call = {&context, &device, &desc, &list};

	return traced(IN_CommandListCreateImmediate, &call, list_create_immediate);
}

/* The device takes commands in order, each 2 us after its call at the earliest. */
static void run(struct list *list, const struct command *command, uint64_t called_ns)
{
	struct truth truth = {.called_ns = called_ns,
			      .bytes = command->bytes,
			      .tid = (uint32_t)syscall(SYS_gettid),
			      .kernel = command->kernel,
			      .device = list->device->number,
			      .stamped = command->event &&
					 command->event->pool->flags & SK_LEVELZERO_POOL_TIMESTAMP};

	pthread_mutex_lock(&fake.lock);
	uint64_t from = now_ns() + 2000;

	truth.start_ns = from > list->device->busy_until ? from : list->device->busy_until;
	truth.end_ns = list->device->busy_until = truth.start_ns + command->ns;
	if (command->event) {
		command->event->start_ns = truth.start_ns;
		command->event->end_ns = truth.end_ns;
	}
	if (fake.truth_count < TRUTHS)
		fake.truths[fake.truth_count++] = truth;
	pthread_mutex_unlock(&fake.lock);
}

static int append(struct list *list, struct command command)
{
	if (list->immediate)
		run(list, &command, now_ns());
	else if (list->count == LIST_MAX)
		return BAD_ARGUMENT;
	else
		list->commands[list->count++] = command;
	return 0;
}

/* The number of groups is the length of the kernel in ns. */
static int launch(void *data)
{
	const struct sk_levelzero_launch_call *call = data;
	const uint32_t *groups = *call->groups;

	if (!groups)
		return BAD_ARGUMENT;
	return append((struct list *)*call->list,
		      (struct command){.kernel = ((struct kernel *)*call->kernel)->number,
				       .ns = groups[0],
				       .event = (struct event *)*call->signal});
}

#define LAUNCH(function, api)                                                                      \
	EXPORTED int function(sk_levelzero_handle list, sk_levelzero_handle kernel,                \
			      const void *groups, sk_levelzero_handle signal, uint32_t count,      \
			      sk_levelzero_handle *waits);                                         \
	EXPORTED int function(sk_levelzero_handle list, sk_levelzero_handle kernel,                \
			      const void *groups, sk_levelzero_handle signal, uint32_t count,      \
			      sk_levelzero_handle *waits)                                          \
	{                                                                                          \
		struct sk_levelzero_launch_call call = {&list,	 &kernel, &groups,                 \
							&signal, &count,  &waits};                 \
		return traced(api, &call, launch);                                                 \
	}

LAUNCH(zeCommandListAppendLaunchKernel, IN_CommandListAppendLaunchKernel)
LAUNCH(zeCommandListAppendLaunchCooperativeKernel, IN_CommandListAppendLaunchCooperativeKernel)
LAUNCH(zeCommandListAppendLaunchKernelIndirect, IN_CommandListAppendLaunchKernelIndirect)

#ifndef FAKE_OLDER
static int launch_parameters(void *data)
{
	const struct sk_levelzero_launch_parameters_call *call = data;

	return launch(&(struct sk_levelzero_launch_call){.list = call->list,
							 .kernel = call->kernel,
							 .groups = call->groups,
							 .signal = call->signal});
}

EXPORTED int zeCommandListAppendLaunchKernelWithParameters(
	sk_levelzero_handle list, sk_levelzero_handle kernel, const void *groups, const void *next,
	sk_levelzero_handle signal, uint32_t count, sk_levelzero_handle *waits)
{
	struct sk_levelzero_launch_parameters_call call = {&list,   &kernel, &groups, &next,
							   &signal, &count,  &waits};

	return traced(IN_CommandListAppendLaunchKernelWithParameters, &call, launch_parameters);
}

struct groups {
	uint32_t x, y, z;
};

static int launch_arguments(void *data)
{
	struct sk_levelzero_launch_arguments_call *call = data;

	return launch(&(struct sk_levelzero_launch_call){.list = call->list,
							 .kernel = call->kernel,
							 .groups = &call->groups,
							 .signal = call->signal});
}

EXPORTED int zeCommandListAppendLaunchKernelWithArguments(
	sk_levelzero_handle list, sk_levelzero_handle kernel, struct groups groups,
	struct groups sizes, void **arguments, const void *next, sk_levelzero_handle signal,
	uint32_t count, sk_levelzero_handle *waits)
{
	struct sk_levelzero_launch_arguments_call call = {
		&list, &kernel, &groups, &sizes, &arguments, &next, &signal, &count, &waits};

	return traced(IN_CommandListAppendLaunchKernelWithArguments, &call, launch_arguments);
}
#endif

static int copy(void *data)
{
	const struct sk_levelzero_copy_call *call = data;

	return append((struct list *)*call->list,
		      (struct command){.kernel = 100,
				       .ns = 4000,
				       .bytes = *call->bytes,
				       .event = (struct event *)*call->signal});
}

EXPORTED int zeCommandListAppendMemoryCopy(sk_levelzero_handle list, void *to, const void *from,
					   size_t bytes, sk_levelzero_handle signal, uint32_t count,
					   sk_levelzero_handle *waits)
{
	struct sk_levelzero_copy_call call = {&list, &to, &from, &bytes, &signal, &count, &waits};

	return traced(IN_CommandListAppendMemoryCopy, &call, copy);
}

static int fill(void *data)
{
	const struct sk_levelzero_fill_call *call = data;

	return append((struct list *)*call->list,
		      (struct command){.kernel = 101,
				       .ns = 3000,
				       .bytes = *call->bytes,
				       .event = (struct event *)*call->signal});
}

EXPORTED int zeCommandListAppendMemoryFill(sk_levelzero_handle list, void *to, const void *pattern,
					   size_t pattern_bytes, size_t bytes,
					   sk_levelzero_handle signal, uint32_t count,
					   sk_levelzero_handle *waits)
{
	struct sk_levelzero_fill_call call = {&list,  &to,     &pattern, &pattern_bytes,
					      &bytes, &signal, &count,	 &waits};

	return traced(IN_CommandListAppendMemoryFill, &call, fill);
}

static int execute(void *data)
{
	const struct sk_levelzero_execute_call *call = data;
	uint64_t called = now_ns();

	for (uint32_t i = 0; i < *call->count; i++) {
		struct list *list = (struct list *)(*call->lists)[i];

		for (unsigned j = 0; j < list->count; j++)
			run(list, &list->commands[j], called);
	}
	return 0;
}

EXPORTED int zeCommandQueueExecuteCommandLists(sk_levelzero_handle queue, uint32_t count,
					       sk_levelzero_handle *lists,
					       sk_levelzero_handle fence)
{
	struct sk_levelzero_execute_call call = {&queue, &count, &lists, &fence};

	return traced(IN_CommandQueueExecuteCommandLists, &call, execute);
}

/* ---- for the program ---- */

EXPORTED void fake_wait(unsigned device)
{
	pthread_mutex_lock(&fake.lock);
	uint64_t until = fake.devices[device].busy_until;

	pthread_mutex_unlock(&fake.lock);
	while (until >= now_ns())
		usleep(50);
}

EXPORTED void fake_tell(void)
{
	for (uint64_t i = 0; i < fake.truth_count; i++) {
		const struct truth *t = &fake.truths[i];

		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %u %u %u\n",
		       t->called_ns, t->start_ns, t->end_ns, t->bytes, t->tid, t->kernel, t->device,
		       t->stamped);
	}
}
