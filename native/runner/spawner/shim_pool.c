/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/spawner/shim_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/site/clock.h"
#include "runner/site/folder.h"
#include "runner/gate/gate.h"
#include "runner/journal/file_lock.h"
#include "runner/shim/shim.h"
#include "runner/site/log.h"
#include "runner/cgroup/tree.h"

enum {
	START_OVERDUE_S = 60, /* a start that takes longer is ended */
	PIPE_BYTES = 65536,   /* what a pipe holds by default */
	STOP_OVERDUE_S = 1,   /* the same limit after a stop was requested */
	BURST_OVER_S =
		10, /* without a start for so long, shims beyond the idle ones are dismissed */
	LEAVE_AT_ONCE = 16, /* shims dismissed on one tick */
};

/* --- shims --------------------------------------------------------------------------------- */

int sk_runner_pool_watch(struct sk_runner_pool *pool, uint32_t slot, pid_t pid, int launch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = slot};
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return -errno;
	if (epoll_ctl(pool->epoll, EPOLL_CTL_ADD, fd, &event)) {
		close(fd);
		return -errno;
	}
	pool->shim[slot] = (struct sk_runner_shim_handle){fd, launch};
	pool->adopted += launch < 0;
	return 0;
}

static int fork_shim(struct sk_runner_pool *pool, uint32_t slot)
{
	int ends[2], error, lock = sk_runner_file_lock_take(pool->lock_path, slot);
	pid_t pid;

	if (lock < 0)
		return lock;
	if (pipe2(ends, O_CLOEXEC)) {
		close(lock);
		return -errno;
	}
	pid = fork();
	if (pid == 0) {
		dup3(ends[0], SK_FD_LAUNCH, O_CLOEXEC);
		dup3(lock, SK_FD_LOCK, O_CLOEXEC);
		sk_runner_shim_main(pool->site, pool->table, slot);
	}
	error = pid < 0 ? -errno : 0;
	close(ends[0]);
	close(lock);
	if (!error) {
		atomic_store_explicit(&pool->table->slot[slot].shim, (uint32_t)pid,
				      memory_order_release);
		error = sk_runner_pool_watch(pool, slot, pid, ends[1]);
	}
	if (error) /* a shim that is not watched sees the end of its pipe and leaves */
		close(ends[1]);
	return error;
}

static void signal_shim(const struct sk_runner_pool *pool, uint32_t slot, int signal)
{
	if (pool->shim[slot].pidfd >= 0)
		syscall(SYS_pidfd_send_signal, pool->shim[slot].pidfd, signal, NULL, 0);
}

void sk_runner_pool_unwatch(struct sk_runner_pool *pool, uint32_t slot)
{
	struct sk_runner_shim_handle *shim = &pool->shim[slot];

	if (shim->pidfd >= 0) {
		/* A child is collected here, or its pid stays taken; an adopted shim is no child.
		 */
		waitid(P_PIDFD, (id_t)shim->pidfd, NULL, WEXITED | WNOHANG);
		close(shim->pidfd);
		pool->adopted -= shim->launch < 0;
	}
	if (shim->launch >= 0)
		close(shim->launch);
	*shim = (struct sk_runner_shim_handle){-1, -1};
}

/** Fork a shim for a bare slot; returns the slot or negative errno. */
static int acquire_bare(struct sk_runner_pool *pool)
{
	int error = -EBUSY;

	/* A shim of the last spawner that is about to exit may still hold the lock. */
	for (uint32_t i = pool->bare.count; i-- > 0;) {
		uint32_t slot = pool->bare.slot[i];

		error = fork_shim(pool, slot);
		if (error == -EAGAIN && sk_runner_file_lock_is_held(pool->lock_path, slot))
			continue;
		if (error)
			return error;
		sk_runner_list_remove(&pool->bare, slot);
		return (int)slot;
	}
	return error;
}

/** Return a free slot with a living shim; negative errno if there is none. */
static int acquire(struct sk_runner_pool *pool)
{
	uint32_t slot;

	if (pool->index.used >= pool->jobs_max)
		return -EBUSY;
	if (!pool->idle.count)
		return acquire_bare(pool);
	slot = pool->idle.slot[pool->idle.count - 1];
	sk_runner_list_remove(&pool->idle, slot);
	return (int)slot;
}

static void make_spares(struct sk_runner_pool *pool)
{
	while (pool->idle.count < SK_SPARE_SHIMS &&
	       pool->index.used + pool->idle.count < pool->jobs_max) {
		int slot = acquire_bare(pool);

		if (slot < 0)
			return;
		sk_runner_list_add(&pool->idle, (uint32_t)slot);
	}
}

/* --- ends that no shim can record ---------------------------------------------------------- */

void sk_runner_pool_end(struct sk_runner_pool *pool, uint32_t slot, enum sk_runner_cause cause,
			const char *text)
{
	struct sk_runner_ended ended = {.cause = (uint16_t)cause,
					.t_ns = sk_runner_clock_ns(CLOCK_REALTIME)};

	ended.text_bytes = (uint32_t)strlen(text);
	memcpy(ended.text, text, ended.text_bytes + 1);
	sk_runner_slot_end(pool->table, slot, &ended);
	pool->rung = true;
}

/** End the processes of a job whose shim is dead; true when no process is left. */
static bool reap_lost_job(struct sk_runner_pool *pool, uint32_t slot)
{
	struct sk_runner_slot *record = &pool->table->slot[slot];
	enum sk_runner_slot_state state = sk_runner_slot_state(record);
	bool began = state != SK_SLOT_TAKEN;
	struct sk_runner_tree tree;

	if (state == SK_SLOT_ENDED) /* the shim recorded the end before this look */
		return true;
	sk_runner_tree_find(&tree, pool->site, &record->taken.key, (pid_t)record->started.pid);
	if (began)
		sk_runner_tree_kill(&tree);
	if (sk_runner_tree_remove(&tree)) {
		if (tree.dir >= 0)
			close(tree.dir);
		return false;
	}
	if (pool->site->gate && tree.id)
		sk_runner_gate_revoke_all(tree.id);
	for (int i = 0; i < SK_CONTROLLERS; i++) {
		char path[SK_SITE_PATH + SK_TASK_NAME + 1];

		if (pool->site->controller[i].where != SK_V1)
			continue;
		snprintf(path, sizeof(path), "%s/%s", pool->site->controller[i].group, tree.name);
		rmdir(path);
	}
	if (began)
		sk_runner_pool_end(pool, slot, SK_CAUSE_LOST, "shim killed");
	else
		sk_runner_pool_end(pool, slot, SK_CAUSE_NEVER_STARTED,
				   "its shim ended before the start");
	return true;
}

void sk_runner_pool_shim_gone(struct sk_runner_pool *pool, uint32_t slot)
{
	enum sk_runner_slot_state state = sk_runner_slot_state(&pool->table->slot[slot]);

	sk_runner_pool_unwatch(pool, slot);
	pool->rung = true;
	if (state == SK_SLOT_FREE) {
		sk_runner_list_remove(&pool->idle, slot);
		sk_runner_list_add(&pool->bare, slot);
	} else if (state != SK_SLOT_ENDED) {
		const struct sk_runner_key *key = &pool->table->slot[slot].taken.key;

		sk_runner_log("warning", "shim died",
			      "job %" PRIu64 " attempt %" PRIu32 " task %" PRIu32, key->job,
			      key->attempt, key->task);
		sk_runner_list_add(&pool->dying, slot);
	}
}

/* --- requests -------------------------------------------------------------------------------- */

/** Close its pipe: the shim exits when it has read the pipe and has ended its job. */
static void dismiss(struct sk_runner_shim_handle *shim, uint32_t *adopted)
{
	if (shim->launch < 0)
		return;
	close(shim->launch);
	shim->launch = -1;
	(*adopted)++;
}

static int hand_over(struct sk_runner_pool *pool, uint32_t slot,
		     const struct sk_runner_launch *launch)
{
	const char *at = (const char *)launch;
	size_t left = launch->size;

	/* The empty pipe takes the whole launch, so this write never waits for a shim. */
	if (left > PIPE_BYTES && fcntl(pool->shim[slot].launch, F_SETPIPE_SZ, SK_LAUNCH_MAX) < 0)
		return -errno;
	while (left) {
		ssize_t wrote = write(pool->shim[slot].launch, at, left);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return -errno;
		at += wrote;
		left -= (size_t)wrote;
	}
	return 0;
}

int sk_runner_pool_take(struct sk_runner_pool *pool, const struct sk_runner_launch_view *launch,
			uint64_t now, const char **ret_why)
{
	const struct sk_runner_launch *fixed = launch->fixed;
	int slot;

	if (sk_runner_index_find(&pool->index, &fixed->key) >= 0)
		return 0;
	*ret_why = "this attempt has ended and was acknowledged";
	if (sk_runner_index_is_forgotten(&pool->index, &fixed->key))
		return -EALREADY;
	*ret_why = "another attempt of this name has not ended and been acknowledged";
	if (sk_runner_index_find_name(&pool->index, &fixed->key) >= 0)
		return -EBUSY;
	slot = acquire(pool);
	*ret_why = slot == -EBUSY
			   ? "as many jobs as this node keeps at once are running or wait for "
			     "their end to be acknowledged"
			   : "no shim could be started";
	if (slot < 0)
		return slot;
	sk_runner_slot_take(&pool->table->slot[slot], launch, sk_runner_clock_ns(CLOCK_REALTIME));
	sk_runner_index_add(&pool->index, (uint32_t)slot);
	sk_runner_list_add(&pool->starting, (uint32_t)slot);
	pool->taken_ns[slot] = pool->last_start_ns = now;
	pool->told[slot / 64] &= ~((uint64_t)1 << (slot % 64));
	/* If the shim has just died, its pidfd says so and the job becomes never started. */
	hand_over(pool, (uint32_t)slot, fixed);
	return 0;
}

int sk_runner_pool_stop(struct sk_runner_pool *pool, const struct sk_runner_stop *stop,
			const char *reason)
{
	int slot = sk_runner_index_find(&pool->index, &stop->key);
	struct sk_runner_control *control;
	uint32_t size = stop->reason_bytes < SK_REASON_MAX ? stop->reason_bytes : SK_REASON_MAX;

	if (slot < 0)
		return -ENOENT;
	control = &pool->table->slot[slot].control;
	/* The first reason stays: the shim may be reading it. */
	if (atomic_load_explicit(&control->stops, memory_order_relaxed) == 0) {
		memcpy(control->reason, reason, size);
		control->reason[size] = 0;
	}
	atomic_store_explicit(&control->grace_ns, stop->grace_ns, memory_order_relaxed);
	atomic_store_explicit(&control->signal, stop->signal, memory_order_relaxed);
	atomic_fetch_add_explicit(&control->stops, 1, memory_order_release);
	signal_shim(pool, (uint32_t)slot, SIGUSR1);
	return 0;
}

void sk_runner_pool_release(struct sk_runner_pool *pool, const struct sk_runner_key *keys,
			    uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		int slot = sk_runner_index_find(&pool->index, &keys[i]);

		if (slot < 0)
			continue;
		atomic_store_explicit(&pool->table->slot[slot].control.released, 1,
				      memory_order_release);
		signal_shim(pool, (uint32_t)slot, SIGUSR1);
	}
	pool->rung = true;
}

static int write_spool(const struct sk_runner_slot *slot, uint64_t offset, const char *bytes,
		       size_t size)
{
	int file, error = 0;
	int folder = sk_runner_folder_open(slot->taken.folder);

	if (folder < 0)
		return folder;
	file = openat(folder, "in", O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	close(folder);
	if (file < 0)
		return -errno;
	while (size && !error) {
		ssize_t wrote = pwrite(file, bytes, size, (off_t)offset);

		if (wrote < 0) {
			error = -errno;
		} else {
			bytes += wrote;
			offset += (uint64_t)wrote;
			size -= (size_t)wrote;
		}
	}
	close(file);
	return error;
}

/** Return 0 if the job accepts this input; otherwise `*ret_why` says why it does not. */
static int check_feed(const struct sk_runner_slot *slot, const struct sk_runner_stdin *head,
		      uint32_t size, const char **ret_why)
{
	const struct sk_runner_control *control = &slot->control;
	uint64_t have = atomic_load_explicit(&control->stdin_bytes, memory_order_relaxed);
	bool ended = atomic_load_explicit(&control->stdin_eof, memory_order_relaxed);

	*ret_why = "the job was started without input";
	if (!(slot->taken.flags & SK_LAUNCH_STDIN))
		return -EINVAL;
	*ret_why = "bytes are missing before this offset";
	if (head->offset > have)
		return -EINVAL;
	*ret_why = "the input has ended before";
	if (ended && head->offset + size > have)
		return -EINVAL;
	*ret_why = "the input of one job is at most 1 TiB";
	if (head->offset + size > SK_STDIN_TOTAL_MAX)
		return -ENOSPC;
	return 0;
}

int sk_runner_pool_feed(struct sk_runner_pool *pool, const struct sk_runner_stdin *head,
			const char *bytes, uint32_t size, uint64_t *ret, const char **ret_why)
{
	int index = sk_runner_index_find(&pool->index, &head->key), error;
	struct sk_runner_slot *slot;
	uint64_t have;

	*ret_why = "no such job here";
	if (index < 0)
		return -ENOENT;
	slot = &pool->table->slot[index];
	error = check_feed(slot, head, size, ret_why);
	if (error)
		return error;
	have = atomic_load_explicit(&slot->control.stdin_bytes, memory_order_relaxed);
	*ret_why = "the job has ended";
	if (head->offset + size > have && sk_runner_slot_state(slot) == SK_SLOT_ENDED)
		return -ENOENT;
	if (head->offset + size > have) {
		uint64_t skip = have - head->offset;

		*ret_why = "the input could not be stored";
		error = write_spool(slot, have, bytes + skip, size - skip);
		if (error)
			return error;
		have = head->offset + size;
		/* Pairs with the acquire in feed.c: the bytes are in the file. */
		atomic_store_explicit(&slot->control.stdin_bytes, have, memory_order_release);
	}
	if (head->eof && head->offset + size == have)
		atomic_store_explicit(&slot->control.stdin_eof, 1, memory_order_release);
	*ret = have;
	signal_shim(pool, (uint32_t)index, SIGUSR1);
	return 0;
}

/** Free a slot; its shim waits for the next launch or is dismissed. */
static void free_slot(struct sk_runner_pool *pool, uint32_t slot)
{
	struct sk_runner_shim_handle *shim = &pool->shim[slot];

	if (shim->pidfd < 0) {
		sk_runner_list_add(&pool->bare, slot);
		return;
	}
	if (shim->launch >= 0 && pool->idle.count < SK_BURST_SHIMS) {
		sk_runner_list_add(&pool->idle, slot);
		return;
	}
	/* `shim_gone` then puts the slot into the bare list. */
	dismiss(shim, &pool->adopted);
}

void sk_runner_pool_acknowledge(struct sk_runner_pool *pool,
				const struct sk_runner_acknowledge *what)
{
	int slot = sk_runner_index_find(&pool->index, &what->key);

	if (slot < 0)
		return;
	pool->table->slot[slot].control.announced |= what->bits;
	if (!(what->bits & SK_EVENT_ENDED) ||
	    sk_runner_slot_state(&pool->table->slot[slot]) != SK_SLOT_ENDED)
		return;
	sk_runner_list_remove(&pool->starting, (uint32_t)slot);
	sk_runner_index_forget(&pool->index, (uint32_t)slot);
	free_slot(pool, (uint32_t)slot);
}

/* --- what happened --------------------------------------------------------------------------- */

static void scan_ended(struct sk_runner_pool *pool, const struct sk_runner_pool_reports *reports,
		       void *context)
{
	for (uint32_t word = 0; word < SK_SLOTS_MAX / 64; word++) {
		_Atomic uint64_t *bits = &pool->table->ended[word];
		uint64_t set;

		if (!atomic_load_explicit(bits, memory_order_relaxed))
			continue;
		set = atomic_exchange_explicit(bits, 0, memory_order_acquire);
		for (; set; set &= set - 1) {
			uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(set);

			if (sk_runner_slot_state(&pool->table->slot[slot]) != SK_SLOT_ENDED)
				continue;
			if (pool->starting.place[slot] && pool->table->slot[slot].started.pid)
				reports->started(context, slot);
			sk_runner_list_remove(&pool->starting, slot);
			reports->ended(context, slot);
		}
	}
}

static void scan_ready(struct sk_runner_pool *pool, const struct sk_runner_pool_reports *reports,
		       void *context, uint32_t slot)
{
	uint64_t bit = (uint64_t)1 << (slot % 64);

	if (pool->told[slot / 64] & bit || !sk_runner_slot_waits(&pool->table->slot[slot]))
		return;
	pool->told[slot / 64] |= bit;
	reports->ready(context, slot);
}

void sk_runner_pool_scan(struct sk_runner_pool *pool, const struct sk_runner_pool_reports *reports,
			 void *context)
{
	pool->rung = false;
	scan_ended(pool, reports, context);
	for (uint32_t i = pool->starting.count; i-- > 0;) {
		uint32_t slot = pool->starting.slot[i];

		scan_ready(pool, reports, context, slot);
		if (sk_runner_slot_state(&pool->table->slot[slot]) != SK_SLOT_STARTED)
			continue;
		sk_runner_list_remove(&pool->starting, slot);
		reports->started(context, slot);
	}
}

/** Handle a start that hangs, say on a dead file system: its shim waits for it and cannot act. */
static void look_at_start(struct sk_runner_pool *pool, uint32_t slot, uint64_t now)
{
	struct sk_runner_slot *record = &pool->table->slot[slot];
	uint64_t age = sk_runner_since(now, pool->taken_ns[slot]);
	bool stop = atomic_load_explicit(&record->control.stops, memory_order_relaxed) > 0;
	struct sk_runner_tree tree;

	if (sk_runner_slot_state(record) != SK_SLOT_LAUNCHING ||
	    age < (stop ? STOP_OVERDUE_S : START_OVERDUE_S) * SK_SECOND)
		return;
	sk_runner_tree_find(&tree, pool->site, &record->taken.key, 0);
	/* Frozen jobs start when they thaw, but a stop need not wait for that. */
	if (!stop && sk_runner_tree_frozen(&tree)) {
		close(tree.dir);
		return;
	}
	atomic_store_explicit(&record->control.overdue, 1, memory_order_release);
	if (tree.dir < 0) { /* without a cgroup the child is found below its shim */
		tree.root = (pid_t)atomic_load_explicit(&record->shim, memory_order_acquire);
		sk_runner_tree_kill(&tree);
		return;
	}
	sk_runner_tree_kill(&tree);
	close(tree.dir);
}

static bool is_overstaffed(const struct sk_runner_pool *pool)
{
	return pool->idle.count > SK_IDLE_SHIMS;
}

static void end_burst(struct sk_runner_pool *pool, uint64_t now)
{
	if (sk_runner_since(now, pool->last_start_ns) < BURST_OVER_S * SK_SECOND)
		return;
	for (int i = 0; i < LEAVE_AT_ONCE && is_overstaffed(pool); i++) {
		uint32_t slot = pool->idle.slot[pool->idle.count - 1];

		sk_runner_list_remove(&pool->idle, slot);
		/* `shim_gone` then puts the slot into the bare list. */
		dismiss(&pool->shim[slot], &pool->adopted);
	}
}

void sk_runner_pool_tick(struct sk_runner_pool *pool, uint64_t now)
{
	for (uint32_t i = pool->dying.count; i-- > 0;) {
		uint32_t slot = pool->dying.slot[i];

		if (reap_lost_job(pool, slot))
			sk_runner_list_remove(&pool->dying, slot);
	}
	for (uint32_t i = pool->starting.count; i-- > 0;)
		if (sk_runner_since(now, pool->taken_ns[pool->starting.slot[i]]) > SK_SECOND)
			look_at_start(pool, pool->starting.slot[i], now);
	end_burst(pool, now);
	make_spares(pool);
}

int sk_runner_pool_timeout(const struct sk_runner_pool *pool, uint64_t now)
{
	uint64_t youngest = 0;

	if (pool->rung)
		return 0;
	for (uint32_t i = 0; i < pool->starting.count; i++)
		if (pool->taken_ns[pool->starting.slot[i]] > youngest)
			youngest = pool->taken_ns[pool->starting.slot[i]];
	/* A start is reported within 2 ms; a slow one is polled less often. */
	if (pool->starting.count && sk_runner_since(now, youngest) < 100 * SK_MS)
		return 2;
	if (pool->dying.count)
		return 10;
	if (pool->starting.count || pool->adopted)
		return 50;
	return is_overstaffed(pool) ? 1000 : -1;
}
