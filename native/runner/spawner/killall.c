/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/spawner/killall.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runner/spawner/shim_pool.h"
#include "runner/gate/gate.h"
#include "runner/journal/file_lock.h"
#include "runner/site/log.h"
#include "runner/site/own.h"
#include "runner/cgroup/tree.h"

enum { PAUSE_MS = 10, OWN_TRIES = 200, END_TRIES = 300, REAP_TRIES = 500 };

static struct sk_runner_pool pool;

static void pause_briefly(void)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};

	nanosleep(&pause, NULL);
}

/** Signal the shim of a slot; its lock is checked after its process was pinned. */
static void signal_shim(const struct sk_runner_table *table, const char *lock, uint32_t slot,
			int signal)
{
	pid_t pid = (pid_t)atomic_load_explicit(&table->slot[slot].shim, memory_order_acquire);
	int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;

	if (fd < 0)
		return;
	if (sk_runner_file_lock_is_held(lock, slot))
		syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
	close(fd);
}

static void ask_to_stop(struct sk_runner_slot *slot)
{
	struct sk_runner_control *control = &slot->control;

	if (atomic_load_explicit(&control->stops, memory_order_relaxed) == 0)
		snprintf(control->reason, sizeof(control->reason), "the node was taken down");
	atomic_store_explicit(&control->grace_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&control->signal, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&control->stops, 1, memory_order_release);
}

/** Let shims end their jobs and record it; kill the shims that do not. */
static void end_shims(struct sk_runner_table *table, const char *lock)
{
	for (uint32_t slot = 0; slot < SK_SLOTS_MAX; slot++) {
		enum sk_runner_slot_state state = sk_runner_slot_state(&table->slot[slot]);

		if (state == SK_SLOT_FREE || state == SK_SLOT_ENDED)
			continue;
		ask_to_stop(&table->slot[slot]);
		signal_shim(table, lock, slot, SIGUSR1);
	}
	for (int i = 0; i < END_TRIES && sk_runner_file_lock_any(lock) >= 0; i++)
		pause_briefly();
	for (int i = 0; i < SK_SLOTS_MAX; i++) {
		int slot = sk_runner_file_lock_any(lock);

		if (slot < 0)
			return;
		signal_shim(table, lock, (uint32_t)slot, SIGKILL);
		pause_briefly();
	}
}

/** Record ends that no shim recorded and end the processes left in cgroups; false on timeout. */
static bool reap_rest(const struct sk_runner_site *site, const char *journal)
{
	char why[SK_TEXT_MAX + 1];
	int error = sk_runner_pool_open(&pool, site, journal, -1, 0, why);

	if (error) {
		sk_runner_log("error", "the journal cannot be used", "%s", why);
		return false;
	}
	for (int i = 0; i < REAP_TRIES && pool.dying.count; i++) {
		sk_runner_pool_tick(&pool, 0);
		pause_briefly();
	}
	return pool.dying.count == 0;
}

static bool remove_site(const struct sk_runner_site *site)
{
	if (!site->cgroups)
		return true;
	sk_runner_file_write(SK_FD_JOBS, SK_FENCED "/cgroup.freeze", "0");
	sk_runner_file_write(SK_FD_JOBS, "cgroup.kill", "1");
	sk_runner_gate_close();
	for (int i = 0; i < REAP_TRIES; i++) {
		if (sk_runner_site_remove(site) == 0)
			return true;
		pause_briefly();
	}
	sk_runner_log("error", "cgroups are left", "%s", site->jobs);
	return false;
}

int sk_runner_killall_run(struct sk_runner_site *site,
			  const struct sk_runner_spawner_options *options)
{
	char path[SK_SITE_PATH], lock[SK_SITE_PATH], why[SK_TEXT_MAX + 1];
	struct sk_runner_table *table;
	bool clean = true;
	int error = sk_runner_own(options->journal);

	for (int i = 0; i < OWN_TRIES && error == -EBUSY; i++) {
		pause_briefly();
		error = sk_runner_own(options->journal);
	}
	if (error == -EBUSY) {
		sk_runner_log("error", "a spawner still runs", "%s", options->journal);
		return 2;
	}
	snprintf(path, sizeof(path), "%s/journal", options->journal);
	snprintf(lock, sizeof(lock), "%s/keepers.lock", options->journal);
	if (!error && access(path, F_OK) == 0) {
		error = sk_runner_table_open(path, &table, why);
		if (error)
			sk_runner_log("error", "the journal cannot be read", "%s", why);
		else
			end_shims(table, lock);
		clean = reap_rest(site, options->journal);
	}
	return remove_site(site) && clean ? 0 : 1;
}
