/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of a simulated node: made under another name, mapped by every process, and copied by a
 * process that may not write it.
 */
#include "sim/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/card/bounds.h"
#include "sim/card/plant.h"
#include "sim/node/fault.h"

#define MAGIC 0x315f4d49535f4b53ull /* SK_SIM_1 */
#define VERSION 2
#define EPOCH_NS 1700000000000000000u /* start of virtual time, a day in November 2023 */

static void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static int models_check(const struct sk_sim_model *models, uint32_t count)
{
	if (!count || count > SK_SIM_CARDS)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		if (sk_sim_model_check(&models[i]))
			return -EINVAL;
	return 0;
}

int sk_sim_node_init(struct sk_sim_node *node, const struct sk_sim_model *models, uint32_t count,
		     uint64_t seed)
{
	int failed = models_check(models, count);

	if (failed)
		return failed;
	memset(node, 0, sizeof(*node));
	lock_init(&node->lock);
	node->clock = SK_SIM_VIRTUAL;
	node->cards = count;
	node->seed = seed;
	node->chance = seed;
	node->version = VERSION;
	node->bytes = sizeof(*node);
	node->epoch_ns = EPOCH_NS;
	sk_sim_fault_look(node);
	node->magic = MAGIC;
	for (uint32_t i = 0; i < count; i++)
		sk_sim_card_init(&node->card[i], &models[i], 0);
	return 0;
}

static int map_fd(int fd, struct sk_sim_node **ret)
{
	void *at = mmap(NULL, sizeof(**ret), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	*ret = at;
	return 0;
}

static int fill(int fd, const char *profile, const struct sk_sim_model *models, uint32_t count,
		enum sk_sim_clock clock, uint64_t seed)
{
	struct sk_sim_node *node = NULL;
	int failed = -posix_fallocate(fd, 0, sizeof(*node)); /* a full disk fails here */

	if (!failed)
		failed = map_fd(fd, &node);
	if (failed)
		return failed;
	failed = sk_sim_node_init(node, models, count, seed);
	node->clock = clock;
	if (clock == SK_SIM_REAL) {
		node->start_ns = sk_sim_clock_ns(CLOCK_MONOTONIC);
		node->epoch_ns = sk_sim_clock_ns(CLOCK_REALTIME);
	}
	snprintf(node->profile, sizeof(node->profile), "%s", profile);
	munmap(node, sizeof(*node));
	return failed;
}

/* Make the file under another name and rename it, so that no process opens an unfinished node. */
int sk_sim_node_create(const char *path, const char *profile, const struct sk_sim_model *models,
		       uint32_t count, enum sk_sim_clock clock, uint64_t seed)
{
	char made[4096];
	int failed, fd, size = snprintf(made, sizeof(made), "%s.XXXXXX", path);

	if (size < 0 || (size_t)size >= sizeof(made))
		return -ENAMETOOLONG;
	fd = mkostemp(made, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	failed = fill(fd, profile, models, count, clock, seed);
	if (!failed && fchmod(fd, 0644))
		failed = -errno;
	if (!failed && link(made, path))
		failed = -errno;
	unlink(made);
	close(fd);
	return failed;
}

/* Copy a node that may not be written. Its lock cannot be taken, so a card may be between two
 * times, as after a process that died. Forked processes share the copy. */
static int copy_fd(int fd, struct sk_sim_node **ret)
{
	const void *from = mmap(NULL, sizeof(**ret), PROT_READ, MAP_SHARED, fd, 0);
	void *at;

	if (from == MAP_FAILED)
		return -errno;
	at = mmap(NULL, sizeof(**ret), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at != MAP_FAILED)
		memcpy(at, from, sizeof(**ret));
	munmap((void *)from, sizeof(**ret));
	if (at == MAP_FAILED)
		return -ENOMEM;
	*ret = at;
	lock_init(&(*ret)->lock);
	return 0;
}

static int map_path(const char *at, struct sk_sim_node **ret)
{
	bool mine = true;
	struct stat found;
	int failed, fd = open(at, O_RDWR | O_CLOEXEC);

	if (fd < 0 && (errno == EACCES || errno == EROFS)) {
		mine = false;
		fd = open(at, O_RDONLY | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	if (fstat(fd, &found))
		failed = -errno;
	else if (found.st_size != sizeof(**ret))
		failed = -EPROTO;
	else
		failed = mine ? map_fd(fd, ret) : copy_fd(fd, ret);
	close(fd);
	return failed;
}

/* Check the lock's kind, since another one would not survive its owner or would end the process. */
static bool is_node(const struct sk_sim_node *node)
{
	pthread_mutex_t made;

	lock_init(&made);
	return node->magic == MAGIC && node->version == VERSION && node->bytes == sizeof(*node) &&
	       node->cards <= SK_SIM_CARDS && node->lock.__data.__kind == made.__data.__kind;
}

static void end_texts(struct sk_sim_node *node)
{
	node->profile[sizeof(node->profile) - 1] = 0;
	for (uint32_t i = 0; i < SK_SIM_FAULTS; i++)
		node->fault[i].call[sizeof(node->fault[i].call) - 1] = 0;
	for (uint32_t i = 0; i < SK_SIM_CALLS; i++)
		node->call[i].name[sizeof(node->call[i].name) - 1] = 0;
	for (uint32_t i = 0; i < SK_SIM_CARDS; i++)
		sk_sim_card_end_texts(&node->card[i]);
}

int sk_sim_node_open(const char *path, struct sk_sim_node **ret)
{
	const char *at = path ? path : getenv(SK_SIM_VARIABLE);
	int failed = at && at[0] ? map_path(at, ret) : -ENOENT;

	if (failed)
		return failed;
	if (is_node(*ret)) {
		end_texts(*ret);
		return 0;
	}
	sk_sim_node_close(*ret);
	return -EPROTO;
}

void sk_sim_node_close(struct sk_sim_node *node)
{
	munmap(node, sizeof(*node));
}
