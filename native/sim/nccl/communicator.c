/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators of the simulated NCCL: a file of shared memory, made by the rank that comes first
 * and unlinked when all have it, so that nothing is left of ranks that end or are killed later.
 */
#include "sim/nccl/nccl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) const char stoker_sim_driver[] = "SIM nccl";

#define NAME "/stoker-sim-nccl-"

enum { COMMUNICATORS = 4096, RANDOM = 16 };

static struct sk_nccl_comm comms[COMMUNICATORS]; /* a place is used once */
static uint32_t comms_used;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

void sk_nccl_nap(void)
{
	const struct timespec nap = {.tv_nsec = SK_NCCL_NAP_NS};

	nanosleep(&nap, NULL);
}

SK_NCCL ncclGetUniqueId(struct sk_nccl_id *ret)
{
	unsigned char bytes[RANDOM];
	int used;

	if (!ret)
		return SK_NCCL_ARGUMENT;
	if (getrandom(bytes, sizeof(bytes), 0) != RANDOM)
		return SK_NCCL_SYSTEM;
	memset(ret, 0, sizeof(*ret));
	used = snprintf(ret->text, sizeof(ret->text), NAME);
	for (int i = 0; i < RANDOM; i++)
		used += snprintf(ret->text + used, sizeof(ret->text) - (size_t)used, "%02x",
				 bytes[i]);
	return SK_NCCL_SUCCESS;
}

static size_t bytes_of(uint32_t ranks)
{
	return sizeof(struct sk_nccl_shared) +
	       ((size_t)ranks + 2 * (size_t)ranks * ranks) * sizeof(struct sk_nccl_party);
}

static bool is_id(const struct sk_nccl_id *id)
{
	return memchr(id->text, 0, sizeof(id->text)) && !strncmp(id->text, NAME, strlen(NAME)) &&
	       !strchr(id->text + 1, '/');
}

/* Map the file of an id. Memory of a new file is zero, which is nobody's count. */
static struct sk_nccl_shared *map(const struct sk_nccl_id *id, uint32_t ranks)
{
	int file = shm_open(id->text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;

	if (file >= 0 && !ftruncate(file, (off_t)bytes_of(ranks)))
		at = mmap(NULL, bytes_of(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (file >= 0)
		close(file);
	return at == MAP_FAILED ? NULL : at;
}

static bool agrees(struct sk_nccl_shared *shared, uint32_t ranks)
{
	uint32_t found = 0;

	return atomic_compare_exchange_strong(&shared->ranks, &found, ranks) || found == ranks;
}

int sk_nccl_join(struct sk_nccl_comm **ret, uint32_t ranks, const struct sk_nccl_id *id,
		 uint32_t rank)
{
	struct sk_nccl_shared *shared;
	struct sk_nccl_comm *comm;

	if (!ret || !ranks || ranks > SK_NCCL_RANKS || rank >= ranks || !is_id(id))
		return SK_NCCL_ARGUMENT;
	shared = map(id, ranks);
	if (!shared)
		return SK_NCCL_SYSTEM;
	if (!agrees(shared, ranks))
		return SK_NCCL_USAGE;
	pthread_mutex_lock(&opening);
	comm = comms_used < COMMUNICATORS ? &comms[comms_used++] : NULL;
	pthread_mutex_unlock(&opening);
	if (!comm)
		return SK_NCCL_SYSTEM;
	comm->shared = shared;
	comm->rank = rank;
	comm->ranks = ranks;
	if (atomic_fetch_add(&shared->joined, 1) + 1 == ranks)
		shm_unlink(id->text);
	*ret = comm;
	return SK_NCCL_SUCCESS;
}

void sk_nccl_wait_joined(struct sk_nccl_comm *comm)
{
	while (atomic_load(&comm->shared->joined) < comm->ranks)
		sk_nccl_nap();
}

bool sk_nccl_is_comm(const struct sk_nccl_comm *comm)
{
	return (uintptr_t)comm - (uintptr_t)comms < sizeof(comms) &&
	       ((uintptr_t)comm - (uintptr_t)comms) % sizeof(comms[0]) == 0 && comm->shared &&
	       !atomic_load(&comm->over);
}

SK_NCCL ncclCommInitRank(struct sk_nccl_comm **ret, int ranks, struct sk_nccl_id id, int rank)
{
	int result = ranks > 0 && rank >= 0
			     ? sk_nccl_join(ret, (uint32_t)ranks, &id, (uint32_t)rank)
			     : SK_NCCL_ARGUMENT;

	return result ? result : sk_nccl_put_join(*ret);
}

SK_NCCL ncclCommInitRankConfig(struct sk_nccl_comm **ret, int ranks, struct sk_nccl_id id, int rank,
			       void *config)
{
	int result = ranks > 0 && rank >= 0
			     ? sk_nccl_join(ret, (uint32_t)ranks, &id, (uint32_t)rank)
			     : SK_NCCL_ARGUMENT;

	return result ? result : sk_nccl_put_join(*ret);
}

static int end(struct sk_nccl_comm *comm)
{
	if (!sk_nccl_is_comm(comm))
		return SK_NCCL_ARGUMENT;
	atomic_store(&comm->over, true);
	return SK_NCCL_SUCCESS;
}

SK_NCCL ncclCommDestroy(struct sk_nccl_comm *comm)
{
	return end(comm);
}

SK_NCCL ncclCommAbort(struct sk_nccl_comm *comm)
{
	return end(comm);
}

SK_NCCL ncclCommFinalize(struct sk_nccl_comm *comm)
{
	return sk_nccl_is_comm(comm) ? SK_NCCL_SUCCESS : SK_NCCL_ARGUMENT;
}

SK_NCCL ncclCommCount(const struct sk_nccl_comm *comm, int *ret)
{
	if (!sk_nccl_is_comm(comm) || !ret)
		return SK_NCCL_ARGUMENT;
	*ret = (int)comm->ranks;
	return SK_NCCL_SUCCESS;
}

SK_NCCL ncclCommUserRank(const struct sk_nccl_comm *comm, int *ret)
{
	if (!sk_nccl_is_comm(comm) || !ret)
		return SK_NCCL_ARGUMENT;
	*ret = (int)comm->rank;
	return SK_NCCL_SUCCESS;
}

SK_NCCL ncclCommGetAsyncError(const struct sk_nccl_comm *comm, int *ret)
{
	if (!sk_nccl_is_comm(comm) || !ret)
		return SK_NCCL_ARGUMENT;
	*ret = SK_NCCL_SUCCESS;
	return SK_NCCL_SUCCESS;
}
