/* SPDX-License-Identifier: Apache-2.0 */
/* The recovery of a spawner: compares the journal with the processes that still live.
 *
 * A slot whose shim holds its lock is adopted unchanged. Without a shim, an attempt that began is
 * ended as `lost`, and one that did not has never started. After a reboot no slot counts as
 * running. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "runner/site/clock.h"
#include "runner/spawner/shim_pool.h"
#include "runner/journal/file_lock.h"
#include "runner/site/log.h"
#include "runner/cgroup/tree.h"

static void read_boot_id(char *ret, size_t size)
{
	if (sk_runner_file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret, size) <= 0)
		snprintf(ret, size, "unknown");
	ret[strcspn(ret, "\n")] = 0;
}

/** End every slot of an earlier boot: none of its jobs runs. */
static void end_all_of_last_boot(struct sk_runner_pool *pool)
{
	char why[SK_TEXT_MAX + 1];

	for (uint32_t slot = 0; slot < SK_SLOTS_MAX; slot++) {
		struct sk_runner_slot *record = &pool->table->slot[slot];
		enum sk_runner_slot_state state = sk_runner_slot_state(record);

		if (sk_runner_slot_check(pool->table, slot, why)) {
			/* The slot was being written when power failed, so its job is unknown; the
			 * agent queries for it. */
			sk_runner_log("warning", "a slot torn by the reboot was dropped", "%s",
				      why);
			memset(record, 0, sizeof(*record));
		} else if (state == SK_SLOT_TAKEN) {
			sk_runner_pool_end(pool, slot, SK_CAUSE_NEVER_STARTED, "node rebooted");
		} else if (state == SK_SLOT_LAUNCHING || state == SK_SLOT_STARTED) {
			sk_runner_pool_end(pool, slot, SK_CAUSE_LOST, "node rebooted");
		}
	}
}

static int check_all(const struct sk_runner_pool *pool, char *ret_why)
{
	for (uint32_t slot = 0; slot < SK_SLOTS_MAX; slot++) {
		int error = sk_runner_slot_check(pool->table, slot, ret_why);

		if (error)
			return error;
	}
	return 0;
}

static void adopt(struct sk_runner_pool *pool, uint32_t slot)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	/* The shim writes its pid right after the fork; the lock already says that it lives. */
	for (int i = 0; i < 2000 && sk_runner_file_lock_is_held(pool->lock_path, slot); i++) {
		uint32_t pid =
			atomic_load_explicit(&pool->table->slot[slot].shim, memory_order_acquire);

		if (pid && !sk_runner_pool_watch(pool, slot, (pid_t)pid, -1) &&
		    sk_runner_file_lock_is_held(pool->lock_path, slot))
			return;
		sk_runner_pool_unwatch(pool, slot);
		nanosleep(&pause, NULL);
	}
	sk_runner_list_add(&pool->dying, slot);
}

static void take_up(struct sk_runner_pool *pool, uint32_t slot, uint64_t now)
{
	enum sk_runner_slot_state state = sk_runner_slot_state(&pool->table->slot[slot]);

	if (state == SK_SLOT_FREE) {
		sk_runner_list_add(&pool->bare, slot);
		return;
	}
	sk_runner_index_add(&pool->index, slot);
	if (state == SK_SLOT_ENDED)
		return;
	if (state != SK_SLOT_STARTED) {
		/* Its starting time is not known, so it gets the whole time again. */
		pool->taken_ns[slot] = now;
		sk_runner_list_add(&pool->starting, slot);
	}
	if (sk_runner_file_lock_is_held(pool->lock_path, slot))
		adopt(pool, slot);
	else
		sk_runner_list_add(&pool->dying, slot);
}

/** End a cgroup and wait until nothing of it runs, so that whoever asks next is not told too early
 * that its devices are free. One that a process in the kernel keeps is left after two seconds. */
static void end_unknown(const struct sk_runner_site *site, const struct sk_runner_key *key)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct sk_runner_tree tree;
	int left = 2000;

	sk_runner_tree_find(&tree, site, key, 0);
	sk_runner_tree_kill(&tree);
	while (sk_runner_tree_remove(&tree) && left--)
		nanosleep(&pause, NULL);
	if (left < 0 && tree.dir >= 0)
		close(tree.dir);
}

/** Remove cgroups below a group of jobs that no slot knows, as nothing accounts for their
 * processes.
 */
static void remove_unknown_in(struct sk_runner_pool *pool, const char *group)
{
	int copy = pool->site->cgroups
			   ? openat(SK_FD_JOBS, group, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			   : -1;
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		struct sk_runner_key key = {0};

		if (entry->d_type != DT_DIR ||
		    sscanf(entry->d_name, "%" SCNu64 ".%" SCNu32 ".%" SCNu32, &key.job,
			   &key.attempt, &key.task) != 3 ||
		    sk_runner_index_find_name(&pool->index, &key) >= 0)
			continue;
		sk_runner_log("warning", "a cgroup that no record knows was ended", "%s",
			      entry->d_name);
		end_unknown(pool->site, &key);
	}
	closedir(stream);
}

static void remove_unknown(struct sk_runner_pool *pool)
{
	remove_unknown_in(pool, SK_FENCED);
	remove_unknown_in(pool, SK_FREE);
}

int sk_runner_pool_open(struct sk_runner_pool *pool, const struct sk_runner_site *site,
			const char *directory, int epoll, uint32_t jobs_max, char *ret_why)
{
	char path[SK_SITE_PATH], boot_id[SK_BOOT_ID];
	uint64_t now = sk_runner_clock_ns(CLOCK_MONOTONIC);
	int error;

	pool->site = site;
	pool->epoll = epoll;
	pool->jobs_max = jobs_max;
	for (uint32_t slot = 0; slot < SK_SLOTS_MAX; slot++)
		pool->shim[slot] = (struct sk_runner_shim_handle){-1, -1};
	snprintf(pool->lock_path, sizeof(pool->lock_path), "%s/keepers.lock", directory);
	snprintf(path, sizeof(path), "%s/journal", directory);
	error = sk_runner_file_lock_make(pool->lock_path);
	snprintf(ret_why, SK_TEXT_MAX, "its folder cannot be written");
	if (error)
		return error;
	error = sk_runner_table_open(path, &pool->table, ret_why);
	if (error)
		return error;
	read_boot_id(boot_id, sizeof(boot_id));
	if (sk_runner_table_same_boot(pool->table, boot_id)) {
		error = check_all(pool, ret_why);
		if (error)
			return error;
	} else {
		end_all_of_last_boot(pool);
		sk_runner_table_stamp(pool->table, boot_id);
	}
	sk_runner_index_init(&pool->index, pool->table);
	/* Descending, so that low slots are used first and few pages of the journal are touched. */
	for (uint32_t slot = SK_SLOTS_MAX; slot-- > 0;)
		take_up(pool, slot, now);
	remove_unknown(pool);
	return 0;
}
