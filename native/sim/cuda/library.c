/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start of the simulated libcuda.so.1, its devices and the gate of every call. A process with a
 * context is a process of the card, with its memory, until it ends or destroys all its contexts.
 */
#include "sim/cuda/library.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/card/request.h"

__attribute__((visibility("default"))) const char stoker_sim_driver[] = "SIM cuda";

/* This driver's data of a process, in `reserved`. */
enum { OF_CUDA = 1, LOADS = 2 };

static struct {
	struct sk_sim_node *node;
	uint32_t count;
	uint8_t index[SK_SIM_CARDS]; /* device -> card of the node */
	uint8_t part[SK_SIM_CARDS];  /* device -> its MIG instance + 1; 0: the whole card */
	pthread_mutex_t opening;     /* held while the node is opened */
	pthread_mutex_t inside;	     /* lets one thread of this process into the node at a time */
	bool helper;		     /* the thread of helper() runs */
	pthread_cond_t changed;
	uint64_t busy_until_ns[SK_SIM_CARDS]; /* 0: no load of this process */
	double idle_load[SK_SIM_CARDS];	      /* the card's load before this process */
	bool joined[SK_SIM_CARDS];
} cuda = {.opening = PTHREAD_MUTEX_INITIALIZER,
	  .inside = PTHREAD_MUTEX_INITIALIZER,
	  .changed = PTHREAD_COND_INITIALIZER};

struct sk_sim_node *sk_cuda_node(void)
{
	return cuda.node;
}

uint32_t sk_cuda_count(void)
{
	return cuda.count;
}

struct sk_sim_card *sk_cuda_card(uint32_t device)
{
	return &cuda.node->card[cuda.index[device]];
}

const struct sk_sim_partition *sk_cuda_part(uint32_t device)
{
	uint8_t part = cuda.part[device];

	return part ? &sk_cuda_card(device)->partition[part - 1] : NULL;
}

static int result_of(enum sk_sim_answer answer, int64_t error)
{
	switch (answer) {
	case SK_SIM_ANSWER_OK:
		return SK_CUDA_SUCCESS;
	case SK_SIM_ANSWER_REFUSED:
		return SK_CUDA_NOT_PERMITTED;
	case SK_SIM_ANSWER_RELOADED:
		return SK_CUDA_SYSTEM_DRIVER_MISMATCH;
	case SK_SIM_ANSWER_VERSION:
		return SK_CUDA_INVALID_VALUE;
	case SK_SIM_ANSWER_ERROR:
		return error ? (int)error : SK_CUDA_UNKNOWN;
	case SK_SIM_ANSWER_UNINITIALIZED:
		return SK_CUDA_NOT_INITIALIZED;
	default: /* a card off the bus is an unknown error for CUDA programs */
		return SK_CUDA_UNKNOWN;
	}
}

static int gate(const char *function, uint32_t index)
{
	int64_t error = 0;
	enum sk_sim_answer answer = sk_sim_node_call(cuda.node, function, index, &error);

	return result_of(answer, error);
}

int sk_cuda_begin(const char *function, uint32_t device)
{
	int result;

	if (!cuda.node)
		return SK_CUDA_NOT_INITIALIZED;
	if (device != UINT32_MAX && device >= cuda.count)
		return SK_CUDA_INVALID_DEVICE;
	result = gate(function, device == UINT32_MAX ? UINT32_MAX : cuda.index[device]);
	if (result)
		return result;
	sk_cuda_resume();
	if (device == UINT32_MAX || sk_cuda_card(device)->now.state != SK_SIM_NEEDS_RESET)
		return result;
	return sk_cuda_end(SK_CUDA_UNKNOWN);
}

int sk_cuda_begin_context(const char *function, struct sk_cuda_context **ret)
{
	*ret = sk_cuda_current();
	if (!cuda.node)
		return SK_CUDA_NOT_INITIALIZED;
	return *ret ? sk_cuda_begin(function, (*ret)->device) : SK_CUDA_INVALID_CONTEXT;
}

int sk_cuda_end(int result)
{
	sk_sim_node_leave(cuda.node);
	pthread_mutex_unlock(&cuda.inside);
	return result;
}

void sk_cuda_pause(void)
{
	sk_cuda_end(0);
}

void sk_cuda_resume(void)
{
	pthread_mutex_lock(&cuda.inside);
	sk_sim_node_enter(cuda.node);
}

static void sleep_for(uint64_t ns)
{
	struct timespec nap = {.tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000)};

	while (nanosleep(&nap, &nap) && errno == EINTR)
		;
}

void sk_cuda_wait(uint64_t until_ns)
{
	while (cuda.node->now_ns < until_ns) {
		uint64_t ns = until_ns - cuda.node->now_ns;

		if (cuda.node->clock == SK_SIM_VIRTUAL) {
			sk_sim_node_move(cuda.node, until_ns);
			return;
		}
		sk_cuda_pause();
		sleep_for(ns);
		sk_cuda_resume();
	}
}

static struct sk_sim_process *own(uint32_t device)
{
	struct sk_sim_card *card = sk_cuda_card(device);

	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		if (card->process[i].pid == getpid())
			return &card->process[i];
	return NULL;
}

/* Remove processes that were killed, with their memory and load, as a real driver does. */
static void remove_killed(uint32_t device)
{
	struct sk_sim_card *card = sk_cuda_card(device);

	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++) {
		struct sk_sim_process *process = &card->process[i];

		if (!process->pid || !(process->reserved & OF_CUDA) || kill(process->pid, 0) == 0 ||
		    errno != ESRCH)
			continue;
		if (process->reserved & LOADS)
			card->load.compute = 0;
		sk_sim_card_part(card, process->pid);
	}
}

static struct sk_sim_process *joined(uint32_t device)
{
	struct sk_sim_process process = {
		.pid = getpid(), .kind = 1, .share = 1, .reserved = OF_CUDA};
	FILE *name;

	if (own(device))
		return own(device);
	remove_killed(device);
	name = fopen("/proc/self/comm", "re");
	if (name && fgets(process.name, sizeof(process.name), name))
		process.name[strcspn(process.name, "\n")] = 0;
	if (name)
		fclose(name);
	if (sk_sim_card_join(sk_cuda_card(device), &process))
		return NULL;
	cuda.joined[device] = true;
	return own(device);
}

int sk_cuda_charge(uint32_t device, uint64_t bytes)
{
	struct sk_sim_card *card = sk_cuda_card(device);
	struct sk_sim_process *process = joined(device);

	if (!process || bytes > card->model.memory_bytes - card->now.memory_used)
		return SK_CUDA_OUT_OF_MEMORY;
	card->now.memory_used += bytes;
	process->memory_bytes += bytes;
	return SK_CUDA_SUCCESS;
}

void sk_cuda_discharge(uint32_t device, uint64_t bytes)
{
	struct sk_sim_process *process = own(device);

	if (!process || process->memory_bytes < bytes)
		return; /* the card was reset, which removed its processes */
	process->memory_bytes -= bytes;
	sk_cuda_card(device)->now.memory_used -= bytes;
}

/* Remove the load of devices whose last kernel has ended; returns the end of the next one. */
static uint64_t let_go(uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t device = 0; device < cuda.count; device++) {
		if (!cuda.busy_until_ns[device])
			continue;
		if (cuda.busy_until_ns[device] > now_ns) {
			if (cuda.busy_until_ns[device] < next)
				next = cuda.busy_until_ns[device];
			continue;
		}
		cuda.busy_until_ns[device] = 0;
		sk_cuda_card(device)->load.compute = cuda.idle_load[device];
		if (own(device))
			own(device)->reserved &= ~(uint32_t)LOADS;
	}
	return next;
}

/* Thread that removes the load of kernels that end between calls. */
static void *helper(void *unused)
{
	for (;;) {
		uint64_t now, next;

		pthread_mutex_lock(&cuda.inside);
		now = sk_sim_node_enter(cuda.node);
		next = let_go(now);
		sk_sim_node_leave(cuda.node);
		if (next == UINT64_MAX)
			pthread_cond_wait(&cuda.changed, &cuda.inside);
		pthread_mutex_unlock(&cuda.inside);
		if (next != UINT64_MAX)
			sleep_for(next - now);
	}
	return NULL;
}

static void start_helper(void)
{
	pthread_t thread;

	if (cuda.helper || cuda.node->clock == SK_SIM_VIRTUAL)
		return;
	cuda.helper = pthread_create(&thread, NULL, helper, NULL) == 0;
	if (cuda.helper)
		pthread_detach(thread);
}

void sk_cuda_busy(uint32_t device, uint64_t until_ns)
{
	struct sk_sim_card *card = sk_cuda_card(device);

	let_go(cuda.node->now_ns);
	if (!cuda.busy_until_ns[device]) {
		cuda.idle_load[device] = card->load.compute;
		card->load.compute = 1;
		if (own(device))
			own(device)->reserved |= LOADS;
	}
	if (until_ns > cuda.busy_until_ns[device])
		cuda.busy_until_ns[device] = until_ns;
	if (cuda.node->clock == SK_SIM_VIRTUAL) { /* only these calls take time */
		sk_sim_node_move(cuda.node, until_ns);
		let_go(until_ns);
	}
	start_helper();
	pthread_cond_signal(&cuda.changed);
}

__attribute__((destructor)) static void part(void)
{
	if (!cuda.node)
		return;
	sk_sim_node_enter(cuda.node);
	let_go(UINT64_MAX - 1);
	for (uint32_t device = 0; device < cuda.count; device++)
		if (cuda.joined[device])
			sk_sim_card_part(sk_cuda_card(device), getpid());
	sk_sim_node_leave(cuda.node);
}

/* Return the place of a MIG instance of this UUID + 1, or 0. */
static uint8_t part_of(const struct sk_sim_card *card, const char *word)
{
	for (uint8_t i = 0; card->partitioned && i < SK_SIM_PARTITIONS; i++)
		if (card->partition[i].compute && !strcmp(card->partition[i].uuid, word))
			return i + 1;
	return 0;
}

/* Find a card by a word of CUDA_VISIBLE_DEVICES: its number or the beginning of its UUID, or the
 * UUID of one of its MIG instances. */
static int named(const struct sk_sim_node *node, const uint8_t *all, uint32_t count,
		 const char *word, uint8_t *ret_part)
{
	char *end;
	unsigned long number = strtoul(word, &end, 10);

	*ret_part = 0;
	if (*word && !*end)
		return number < count ? all[number] : -1;
	for (uint32_t i = 0; *word && i < count; i++)
		if (!strncmp(node->card[all[i]].model.uuid, word, strlen(word)) ||
		    (*ret_part = part_of(&node->card[all[i]], word)))
			return all[i];
	return -1;
}

/* As in the real driver, words after one that names no card are ignored. */
static uint32_t visible(const struct sk_sim_node *node, const uint8_t *all, uint32_t count,
			const char *told)
{
	char words[1024], *rest = words, *word;
	uint32_t found = 0;
	int index;

	snprintf(words, sizeof(words), "%s", told);
	while ((word = strsep(&rest, ",")) && found < SK_SIM_CARDS) {
		index = named(node, all, count, word, &cuda.part[found]);
		if (index < 0)
			break;
		cuda.index[found++] = (uint8_t)index;
	}
	return found;
}

static uint32_t find_cards(const struct sk_sim_node *node)
{
	const char *told = getenv("CUDA_VISIBLE_DEVICES");
	uint8_t all[SK_SIM_CARDS];
	uint32_t count = 0;

	for (uint32_t index = 0; index < sk_sim_node_cards(node); index++)
		if (node->card[index].model.vendor == SK_SIM_NVIDIA)
			all[count++] = (uint8_t)index;
	if (told)
		return visible(node, all, count, told);
	memcpy(cuda.index, all, count);
	memset(cuda.part, 0, sizeof(cuda.part));
	return count;
}

/* Publish the node to other threads only when it has its cards. */
static int open_node(const char *function)
{
	struct sk_sim_node *node;
	int64_t error = 0;
	int result;

	if (sk_sim_node_open(NULL, &node))
		return SK_CUDA_NO_DEVICE;
	result = result_of(sk_sim_node_call(node, function, UINT32_MAX, &error), error);
	cuda.count = result ? 0 : find_cards(node);
	if (!result && !cuda.count)
		result = SK_CUDA_NO_DEVICE;
	if (result)
		sk_sim_node_close(node);
	else
		cuda.node = node;
	return result;
}

SK_CUDA cuInit(unsigned flags)
{
	int result;

	if (flags)
		return SK_CUDA_INVALID_VALUE;
	pthread_mutex_lock(&cuda.opening);
	result = cuda.node ? gate(__func__, UINT32_MAX) : open_node(__func__);
	pthread_mutex_unlock(&cuda.opening);
	if (result)
		return result;
	sk_cuda_resume();
	for (uint32_t device = 0; device < cuda.count; device++)
		remove_killed(device);
	sk_cuda_end(SK_CUDA_SUCCESS);
	sk_cuda_inject();
	return SK_CUDA_SUCCESS;
}

SK_CUDA cuDriverGetVersion(int *ret)
{
	const uint64_t arguments[] = {(uintptr_t)ret};
	struct sk_cuda_call call;

	sk_cuda_call_begin(&call, SK_CUDA_ID_VERSION, __func__, arguments, NULL);
	if (ret)
		*ret = SK_CUDA_VERSION;
	return sk_cuda_call_end(&call, ret ? SK_CUDA_SUCCESS : SK_CUDA_INVALID_VALUE);
}

int sk_cuda_absent(const char *function)
{
	if (!cuda.node)
		return SK_CUDA_NOT_INITIALIZED;
	sk_sim_node_not_supported(cuda.node, function);
	return SK_CUDA_NOT_SUPPORTED;
}
