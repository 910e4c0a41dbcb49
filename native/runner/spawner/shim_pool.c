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
	STOP_OVERDUE_S = 1,   /* the same once its stop was asked for */
	BURST_OVER_S = 10,    /* without a start so long, keepers beyond the idle ones leave */
	LEAVE_AT_ONCE = 16,   /* of them on one tick */
};

/* --- keepers --------------------------------------------------------------------------------- */

int sk_fleet_watch(struct sk_fleet *fleet, uint32_t slot, pid_t pid, int launch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = slot};
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return -errno;
	if (epoll_ctl(fleet->epoll, EPOLL_CTL_ADD, fd, &event)) {
		close(fd);
		return -errno;
	}
	fleet->keeper[slot] = (struct sk_keeper_handle){fd, launch};
	fleet->adopted += launch < 0;
	return 0;
}

static int fork_keeper(struct sk_fleet *fleet, uint32_t slot)
{
	int ends[2], error, lock = sk_hold_take(fleet->lock_path, slot);
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
		sk_keeper_main(fleet->site, fleet->table, slot);
	}
	error = pid < 0 ? -errno : 0;
	close(ends[0]);
	close(lock);
	if (!error) {
		atomic_store_explicit(&fleet->table->slot[slot].keeper, (uint32_t)pid,
				      memory_order_release);
		error = sk_fleet_watch(fleet, slot, pid, ends[1]);
	}
	if (error) /* a keeper that is not watched sees the end of its pipe and leaves */
		close(ends[1]);
	return error;
}

static void signal_keeper(const struct sk_fleet *fleet, uint32_t slot, int signal)
{
	if (fleet->keeper[slot].pidfd >= 0)
		syscall(SYS_pidfd_send_signal, fleet->keeper[slot].pidfd, signal, NULL, 0);
}

void sk_fleet_unwatch(struct sk_fleet *fleet, uint32_t slot)
{
	struct sk_keeper_handle *keeper = &fleet->keeper[slot];

	if (keeper->pidfd >= 0) {
		/* Ours is collected here, or its number stays taken; an adopted one is not ours. */
		waitid(P_PIDFD, (id_t)keeper->pidfd, NULL, WEXITED | WNOHANG);
		close(keeper->pidfd);
		fleet->adopted -= keeper->launch < 0;
	}
	if (keeper->launch >= 0)
		close(keeper->launch);
	*keeper = (struct sk_keeper_handle){-1, -1};
}

/** Fork a keeper for a bare slot; the slot, or negative errno. */
static int acquire_bare(struct sk_fleet *fleet)
{
	int error = -EBUSY;

	/* A lock can still be held by a keeper of the last spawner that is about to leave. */
	for (uint32_t i = fleet->bare.count; i-- > 0;) {
		uint32_t slot = fleet->bare.slot[i];

		error = fork_keeper(fleet, slot);
		if (error == -EAGAIN && sk_hold_is_held(fleet->lock_path, slot))
			continue;
		if (error)
			return error;
		sk_list_remove(&fleet->bare, slot);
		return (int)slot;
	}
	return error;
}

/** A free slot with a living keeper; negative errno if none can be had. */
static int acquire(struct sk_fleet *fleet)
{
	uint32_t slot;

	if (fleet->index.used >= fleet->jobs_max)
		return -EBUSY;
	if (!fleet->idle.count)
		return acquire_bare(fleet);
	slot = fleet->idle.slot[fleet->idle.count - 1];
	sk_list_remove(&fleet->idle, slot);
	return (int)slot;
}

static void make_spares(struct sk_fleet *fleet)
{
	while (fleet->idle.count < SK_SPARE_KEEPERS &&
	       fleet->index.used + fleet->idle.count < fleet->jobs_max) {
		int slot = acquire_bare(fleet);

		if (slot < 0)
			return;
		sk_list_add(&fleet->idle, (uint32_t)slot);
	}
}

/* --- ends that no keeper can record ---------------------------------------------------------- */

void sk_fleet_end(struct sk_fleet *fleet, uint32_t slot, enum sk_cause cause, const char *text)
{
	struct sk_ended ended = {.cause = (uint16_t)cause, .t_ns = sk_clock_ns(CLOCK_REALTIME)};

	ended.text_bytes = (uint32_t)strlen(text);
	memcpy(ended.text, text, ended.text_bytes + 1);
	sk_slot_end(fleet->table, slot, &ended);
	fleet->rung = true;
}

/** Without its keeper: end its processes; true when it is over. */
static bool bury(struct sk_fleet *fleet, uint32_t slot)
{
	struct sk_slot *record = &fleet->table->slot[slot];
	enum sk_slot_state state = sk_slot_state(record);
	bool began = state != SK_SLOT_TAKEN;
	struct sk_tree tree;

	if (state == SK_SLOT_ENDED) /* its keeper was quicker than our look */
		return true;
	sk_tree_find(&tree, fleet->site, record->taken.job, record->taken.attempt,
		     (pid_t)record->started.pid);
	if (began)
		sk_tree_kill(&tree);
	if (sk_tree_remove(&tree)) {
		if (tree.dir >= 0)
			close(tree.dir);
		return false;
	}
	if (fleet->site->gate && tree.id)
		sk_gate_revoke_all(tree.id);
	for (int i = 0; i < SK_CONTROLLERS; i++) {
		char path[SK_SITE_PATH + SK_JOB_NAME + 1];

		if (fleet->site->controller[i].where != SK_V1)
			continue;
		snprintf(path, sizeof(path), "%s/%s", fleet->site->controller[i].group, tree.name);
		rmdir(path);
	}
	if (began)
		sk_fleet_end(fleet, slot, SK_CAUSE_LOST, "keeper killed");
	else
		sk_fleet_end(fleet, slot, SK_CAUSE_NEVER_STARTED,
			     "its keeper ended before the start");
	return true;
}

void sk_fleet_keeper_gone(struct sk_fleet *fleet, uint32_t slot)
{
	enum sk_slot_state state = sk_slot_state(&fleet->table->slot[slot]);

	sk_fleet_unwatch(fleet, slot);
	fleet->rung = true;
	if (state == SK_SLOT_FREE) {
		sk_list_remove(&fleet->idle, slot);
		sk_list_add(&fleet->bare, slot);
	} else if (state != SK_SLOT_ENDED) {
		sk_log("warning", "keeper died", "job %" PRIu64 " attempt %" PRIu32,
		       fleet->table->slot[slot].taken.job, fleet->table->slot[slot].taken.attempt);
		sk_list_add(&fleet->dying, slot);
	}
}

/* --- requests -------------------------------------------------------------------------------- */

/** Close its pipe: it leaves when it has read what is in it and has ended its job. */
static void dismiss(struct sk_keeper_handle *keeper, uint32_t *adopted)
{
	if (keeper->launch < 0)
		return;
	close(keeper->launch);
	keeper->launch = -1;
	(*adopted)++;
}

static int hand_over(struct sk_fleet *fleet, uint32_t slot, const struct sk_launch *launch)
{
	const char *at = (const char *)launch;
	size_t left = launch->size;

	/* The pipe is empty and has room for all of it: this must never wait for a keeper. */
	if (left > PIPE_BYTES && fcntl(fleet->keeper[slot].launch, F_SETPIPE_SZ, SK_LAUNCH_MAX) < 0)
		return -errno;
	while (left) {
		ssize_t wrote = write(fleet->keeper[slot].launch, at, left);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return -errno;
		at += wrote;
		left -= (size_t)wrote;
	}
	return 0;
}

int sk_fleet_take(struct sk_fleet *fleet, const struct sk_launch_view *launch, uint64_t now,
		  const char **ret_why)
{
	const struct sk_launch *fixed = launch->fixed;
	int slot;

	if (sk_index_find(&fleet->index, fixed->job, fixed->attempt) >= 0)
		return 0;
	*ret_why = "this attempt has ended and was acknowledged";
	if (sk_index_is_forgotten(&fleet->index, fixed->job, fixed->attempt))
		return -EALREADY;
	slot = acquire(fleet);
	*ret_why = slot == -EBUSY
			   ? "as many jobs as this node keeps at once are running or wait for "
			     "their end to be acknowledged"
			   : "no keeper could be started";
	if (slot < 0)
		return slot;
	sk_slot_take(&fleet->table->slot[slot], launch, sk_clock_ns(CLOCK_REALTIME));
	sk_index_add(&fleet->index, (uint32_t)slot);
	sk_list_add(&fleet->starting, (uint32_t)slot);
	fleet->taken_ns[slot] = fleet->last_start_ns = now;
	/* A keeper that died just now is noticed by its descriptor: the job becomes never started.
	 */
	hand_over(fleet, (uint32_t)slot, fixed);
	return 0;
}

int sk_fleet_stop(struct sk_fleet *fleet, const struct sk_stop *stop, const char *reason)
{
	int slot = sk_index_find(&fleet->index, stop->job, stop->attempt);
	struct sk_control *control;
	uint32_t size = stop->reason_bytes < SK_REASON_MAX ? stop->reason_bytes : SK_REASON_MAX;

	if (slot < 0)
		return -ENOENT;
	control = &fleet->table->slot[slot].control;
	/* The first reason stands: the keeper may be reading it. */
	if (atomic_load_explicit(&control->stops, memory_order_relaxed) == 0) {
		memcpy(control->reason, reason, size);
		control->reason[size] = 0;
	}
	atomic_store_explicit(&control->grace_ns, stop->grace_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&control->stops, 1, memory_order_release);
	signal_keeper(fleet, (uint32_t)slot, SIGUSR1);
	return 0;
}

static int write_spool(const struct sk_slot *slot, uint64_t offset, const char *bytes, size_t size)
{
	int file, error = 0;
	int folder = sk_folder_open(slot->taken.folder);

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

/** 0 if input may be put there, with what of it is new in `*ret_skip`. */
static int check_feed(const struct sk_slot *slot, const struct sk_stdin *head, uint32_t size,
		      const char **ret_why)
{
	const struct sk_control *control = &slot->control;
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

int sk_fleet_feed(struct sk_fleet *fleet, const struct sk_stdin *head, const char *bytes,
		  uint32_t size, uint64_t *ret, const char **ret_why)
{
	int index = sk_index_find(&fleet->index, head->job, head->attempt), error;
	struct sk_slot *slot;
	uint64_t have;

	*ret_why = "no such job here";
	if (index < 0)
		return -ENOENT;
	slot = &fleet->table->slot[index];
	error = check_feed(slot, head, size, ret_why);
	if (error)
		return error;
	have = atomic_load_explicit(&slot->control.stdin_bytes, memory_order_relaxed);
	*ret_why = "the job has ended";
	if (head->offset + size > have && sk_slot_state(slot) == SK_SLOT_ENDED)
		return -ENOENT;
	if (head->offset + size > have) {
		uint64_t skip = have - head->offset;

		*ret_why = "the input could not be stored";
		error = write_spool(slot, have, bytes + skip, size - skip);
		if (error)
			return error;
		have = head->offset + size;
		/* Paired with the acquire in feed.c: the bytes are in the file. */
		atomic_store_explicit(&slot->control.stdin_bytes, have, memory_order_release);
	}
	if (head->eof && head->offset + size == have)
		atomic_store_explicit(&slot->control.stdin_eof, 1, memory_order_release);
	*ret = have;
	signal_keeper(fleet, (uint32_t)index, SIGUSR1);
	return 0;
}

/** The slot's last use is over: its keeper waits for the next, or leaves. */
static void free_slot(struct sk_fleet *fleet, uint32_t slot)
{
	struct sk_keeper_handle *keeper = &fleet->keeper[slot];

	if (keeper->pidfd < 0) {
		sk_list_add(&fleet->bare, slot);
		return;
	}
	if (keeper->launch >= 0 && fleet->idle.count < SK_BURST_KEEPERS) {
		sk_list_add(&fleet->idle, slot);
		return;
	}
	/* `keeper_gone` then puts the slot among the bare. */
	dismiss(keeper, &fleet->adopted);
}

void sk_fleet_acknowledge(struct sk_fleet *fleet, const struct sk_acknowledge *what)
{
	int slot = sk_index_find(&fleet->index, what->job, what->attempt);

	if (slot < 0)
		return;
	fleet->table->slot[slot].control.announced |= what->bits;
	if (!(what->bits & SK_EVENT_ENDED) ||
	    sk_slot_state(&fleet->table->slot[slot]) != SK_SLOT_ENDED)
		return;
	sk_list_remove(&fleet->starting, (uint32_t)slot);
	sk_index_forget(&fleet->index, (uint32_t)slot);
	free_slot(fleet, (uint32_t)slot);
}

/* --- what happened --------------------------------------------------------------------------- */

static void scan_ended(struct sk_fleet *fleet, sk_fleet_report *started, sk_fleet_report *ended,
		       void *context)
{
	for (uint32_t word = 0; word < SK_SLOTS_MAX / 64; word++) {
		_Atomic uint64_t *bits = &fleet->table->ended[word];
		uint64_t set;

		if (!atomic_load_explicit(bits, memory_order_relaxed))
			continue;
		set = atomic_exchange_explicit(bits, 0, memory_order_acquire);
		for (; set; set &= set - 1) {
			uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(set);

			if (sk_slot_state(&fleet->table->slot[slot]) != SK_SLOT_ENDED)
				continue;
			if (fleet->starting.place[slot] && fleet->table->slot[slot].started.pid)
				started(context, slot);
			sk_list_remove(&fleet->starting, slot);
			ended(context, slot);
		}
	}
}

void sk_fleet_scan(struct sk_fleet *fleet, sk_fleet_report *started, sk_fleet_report *ended,
		   void *context)
{
	fleet->rung = false;
	scan_ended(fleet, started, ended, context);
	for (uint32_t i = fleet->starting.count; i-- > 0;) {
		uint32_t slot = fleet->starting.slot[i];

		if (sk_slot_state(&fleet->table->slot[slot]) != SK_SLOT_STARTED)
			continue;
		sk_list_remove(&fleet->starting, slot);
		started(context, slot);
	}
}

/** A start that hangs, say on a dead file system: its keeper waits for it and cannot act. */
static void look_at_start(struct sk_fleet *fleet, uint32_t slot, uint64_t now)
{
	struct sk_slot *record = &fleet->table->slot[slot];
	uint64_t age = sk_since(now, fleet->taken_ns[slot]);
	bool stop = atomic_load_explicit(&record->control.stops, memory_order_relaxed) > 0;
	struct sk_tree tree;

	if (sk_slot_state(record) != SK_SLOT_LAUNCHING ||
	    age < (stop ? STOP_OVERDUE_S : START_OVERDUE_S) * SK_SECOND)
		return;
	/* Frozen jobs start when they thaw; one that is to be stopped need not wait for that. */
	if (!stop && sk_site_frozen(fleet->site))
		return;
	atomic_store_explicit(&record->control.overdue, 1, memory_order_release);
	sk_tree_find(&tree, fleet->site, record->taken.job, record->taken.attempt, 0);
	if (tree.dir < 0) { /* without a cgroup the child is found below its keeper */
		tree.root = (pid_t)atomic_load_explicit(&record->keeper, memory_order_acquire);
		sk_tree_kill(&tree);
		return;
	}
	sk_tree_kill(&tree);
	close(tree.dir);
}

static bool is_overstaffed(const struct sk_fleet *fleet)
{
	return fleet->idle.count > SK_IDLE_KEEPERS;
}

static void end_burst(struct sk_fleet *fleet, uint64_t now)
{
	if (sk_since(now, fleet->last_start_ns) < BURST_OVER_S * SK_SECOND)
		return;
	for (int i = 0; i < LEAVE_AT_ONCE && is_overstaffed(fleet); i++) {
		uint32_t slot = fleet->idle.slot[fleet->idle.count - 1];

		sk_list_remove(&fleet->idle, slot);
		/* `keeper_gone` then puts the slot among the bare. */
		dismiss(&fleet->keeper[slot], &fleet->adopted);
	}
}

void sk_fleet_tick(struct sk_fleet *fleet, uint64_t now)
{
	for (uint32_t i = fleet->dying.count; i-- > 0;) {
		uint32_t slot = fleet->dying.slot[i];

		if (bury(fleet, slot))
			sk_list_remove(&fleet->dying, slot);
	}
	for (uint32_t i = fleet->starting.count; i-- > 0;)
		if (sk_since(now, fleet->taken_ns[fleet->starting.slot[i]]) > SK_SECOND)
			look_at_start(fleet, fleet->starting.slot[i], now);
	end_burst(fleet, now);
	make_spares(fleet);
}

int sk_fleet_timeout(const struct sk_fleet *fleet, uint64_t now)
{
	uint64_t youngest = 0;

	if (fleet->rung)
		return 0;
	for (uint32_t i = 0; i < fleet->starting.count; i++)
		if (fleet->taken_ns[fleet->starting.slot[i]] > youngest)
			youngest = fleet->taken_ns[fleet->starting.slot[i]];
	/* A start is told after at most 2 ms; those that take long are not worth so many looks. */
	if (fleet->starting.count && sk_since(now, youngest) < 100 * SK_MS)
		return 2;
	if (fleet->dying.count)
		return 10;
	if (fleet->starting.count || fleet->adopted)
		return 50;
	return is_overstaffed(fleet) ? 1000 : -1;
}
