/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of the simulated NCCL: a fence in the stream of each rank, passed when the streams of
 * all have come to theirs and the operation's own time has passed since.
 */
#include "sim/nccl/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include "sim/cuda/told.h"

enum { OPERATIONS = 65536, GROUP = 1024, GROUP_JOINS = 64 };

/* A fence looks at one of these. There are more of them than fences, so one is over when its place
 * is used again.
 */
struct operation {
	struct sk_nccl_meeting of;
	uint64_t number;
};

static struct operation operations[OPERATIONS];
static _Atomic uint32_t operations_used;

static struct {
	int (*fence)(void *stream, stoker_sim_cuda_look *look, void *data);
	int (*left)(void *stream, uint64_t *ret);
} cuda;

static __thread struct {
	uint32_t depth, used, joins;
	struct sk_nccl_meeting meeting[GROUP];
	struct sk_nccl_comm *join[GROUP_JOINS];
} group;

static void find_cuda(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);

	if (!driver)
		return;
	*(void **)&cuda.fence = dlsym(driver, "stoker_sim_cuda_fence");
	*(void **)&cuda.left = dlsym(driver, "stoker_sim_cuda_left");
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Return when the last party comes to an operation; 0: not all have told. */
static uint64_t last_ready(const struct sk_nccl_meeting *of, uint64_t number)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < of->parties; i++) {
		struct sk_nccl_party *party = &of->comm->shared->party[of->first + i];

		if (atomic_load(&party->used) <= number)
			return 0;
		last = later(last, atomic_load(&party->ready_ns[number % SK_NCCL_AHEAD]));
	}
	return last;
}

static int64_t look(void *data)
{
	const struct operation *one = data;
	uint64_t start, end, now = now_ns();

	if (atomic_load(&one->of.comm->over))
		return 0;
	start = last_ready(&one->of, one->number);
	if (!start)
		return -1;
	end = start + one->of.took_ns;
	return end > now ? (int64_t)(end - now) : 0;
}

/* A rank that is too far ahead waits, as for NCCL's own full queues. */
static void wait_for_room(const struct sk_nccl_meeting *of, uint64_t number)
{
	for (uint32_t i = 0; i < of->parties; i++)
		while (!atomic_load(&of->comm->over) &&
		       atomic_load(&of->comm->shared->party[of->first + i].used) +
				       SK_NCCL_AHEAD / 2 <=
			       number)
			sk_nccl_nap();
}

static int arrive(const struct sk_nccl_meeting *of, struct operation **ret)
{
	struct sk_nccl_party *own = &of->comm->shared->party[of->own];
	uint64_t number = atomic_load(&own->used), left_ns;

	wait_for_room(of, number);
	if (cuda.left(of->stream, &left_ns))
		return SK_NCCL_CUDA;
	*ret = &operations[atomic_fetch_add(&operations_used, 1) % OPERATIONS];
	**ret = (struct operation){*of, number};
	atomic_store(&own->ready_ns[number % SK_NCCL_AHEAD], now_ns() + left_ns);
	atomic_store(&own->used, number + 1);
	return SK_NCCL_SUCCESS;
}

int sk_nccl_meet(const struct sk_nccl_meeting *of)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct operation *one;
	int result;

	pthread_once(&once, find_cuda);
	if (!cuda.fence || !cuda.left)
		return SK_NCCL_CUDA; /* another libcuda than the simulated one */
	result = arrive(of, &one);
	if (result)
		return result;
	return cuda.fence(of->stream, look, one) ? SK_NCCL_CUDA : SK_NCCL_SUCCESS;
}

int sk_nccl_group_begin(void)
{
	group.depth++;
	return SK_NCCL_SUCCESS;
}

int sk_nccl_group_end(void)
{
	int result = SK_NCCL_SUCCESS;

	if (!group.depth)
		return SK_NCCL_USAGE;
	if (--group.depth)
		return SK_NCCL_SUCCESS;
	for (uint32_t i = 0; i < group.joins; i++)
		sk_nccl_wait_joined(group.join[i]);
	for (uint32_t i = 0; i < group.used && !result; i++)
		result = sk_nccl_meet(&group.meeting[i]);
	group.joins = group.used = 0;
	return result;
}

int sk_nccl_put(const struct sk_nccl_meeting *meeting)
{
	if (!group.depth)
		return sk_nccl_meet(meeting);
	if (group.used == GROUP)
		return SK_NCCL_USAGE;
	group.meeting[group.used++] = *meeting;
	return SK_NCCL_SUCCESS;
}

int sk_nccl_put_join(struct sk_nccl_comm *comm)
{
	if (!group.depth) {
		sk_nccl_wait_joined(comm);
		return SK_NCCL_SUCCESS;
	}
	if (group.joins == GROUP_JOINS)
		return SK_NCCL_USAGE;
	group.join[group.joins++] = comm;
	return SK_NCCL_SUCCESS;
}
