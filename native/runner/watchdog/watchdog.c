/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker-watchdog: freezes the jobs of a node whose lease has run out, and has the cards' limits
 * restored when the agent's power lease has.
 *
 *     stoker-watchdog --lease PATH [--cgroup NAME] [--fence-kill-s SECONDS]
 *                     [--restore PROGRAM --power-record PATH]
 *
 * --lease PATH     the agent's lease file (agent/state/lease.py); made if there is none
 * --cgroup NAME    freezes <cgroup2 mount>/NAME/jobs/fenced; without it only reports
 * --fence-kill-s   kill jobs that were frozen for so long; without it they stay frozen
 * --restore        stoker-restore, run with --power-record when the power lease runs out, and again
 *                  every 2 s until it has restored everything
 *
 * A process of its own, because an agent that is stopped or dead cannot fence. It keeps no state:
 * all is in the lease file and the cgroup, so it may be killed and started again at any time.
 * SIGTERM ends it and leaves jobs as they are. Log: JSON lines on standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/site/clock.h"
#include "runner/watchdog/lease.h"
#include "runner/site/log.h"
#include "runner/site/site.h"

static const struct option LONG[] = {
	{"lease", required_argument, NULL, 'l'},	{"cgroup", required_argument, NULL, 'c'},
	{"fence-kill-s", required_argument, NULL, 'f'}, {"restore", required_argument, NULL, 'r'},
	{"power-record", required_argument, NULL, 'p'}, {NULL, 0, NULL, 0},
};

enum { RESTORE_AGAIN_S = 2, RESTORE_MOST_S = 20 };

/* The program that restores cards' limits, and its run if there is one. */
struct restorer {
	const char *program, *record, *lease;
	pid_t pid;
	uint64_t begun_ns, expiry_ns;
};

static const char FREEZE[] = SK_FENCED "/cgroup.freeze", KILL[] = SK_FENCED "/cgroup.kill";
static const char EXPIRED[] = "the lease ran out: jobs are frozen";
static const char BEGUN[] = "no lease yet: jobs are frozen";
static const char PAUSED[] = "the machine may have been paused: jobs are frozen";
static const char BOOT_ID[] = "/proc/sys/kernel/random/boot_id";

extern char **environ;
static volatile sig_atomic_t leaving;

static void on_signal(int number)
{
	leaving = 1;
}

/** Read the kernel's id of this boot; zeros if there is none. */
static void read_boot(uint64_t ret[2])
{
	char text[64];
	unsigned char raw[16] = {0};
	const char *at = text;

	if (sk_runner_file_read(AT_FDCWD, BOOT_ID, text, sizeof(text)) <= 0)
		text[0] = 0;
	for (int i = 0; i < 16 && *at; i++) {
		unsigned int byte;

		at += *at == '-';
		if (sscanf(at, "%2x", &byte) != 1)
			break;
		raw[i] = (unsigned char)byte;
		at += 2;
	}
	memcpy(ret, raw, sizeof(raw));
}

static struct sk_runner_lease *open_lease(const char *path)
{
	uint64_t boot[2];
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct sk_runner_lease *lease = MAP_FAILED;
	struct stat info;

	if (fd >= 0 && fstat(fd, &info) == 0 &&
	    (info.st_size == sizeof(*lease) ||
	     (info.st_size == 0 && ftruncate(fd, sizeof(*lease)) == 0)))
		lease = mmap(NULL, sizeof(*lease), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (lease == MAP_FAILED)
		return NULL;
	if (lease->magic == 0) {
		lease->version = SK_LEASE_VERSION;
		atomic_store(&lease->expiry_check, ~(uint64_t)0);
		lease->magic = SK_LEASE_MAGIC;
	}
	if (lease->magic != SK_LEASE_MAGIC || lease->version != SK_LEASE_VERSION)
		return NULL;
	read_boot(boot);
	sk_runner_lease_bind(lease, boot);
	return lease;
}

/** Write to a file of the fenced group of jobs and set the flag that says whether it worked. */
static bool act(struct sk_runner_lease *lease, const char *file, const char *value,
		const char *event)
{
	uint64_t flags = atomic_load(&lease->flags);
	int error = flags & SK_LEASE_NO_CGROUP ? -ENOENT
					       : sk_runner_file_write(SK_FD_JOBS, file, value);
	uint64_t next =
		error ? flags | SK_LEASE_FREEZE_FAILED : flags & ~(uint64_t)SK_LEASE_FREEZE_FAILED;

	if (error && next != flags)
		sk_runner_log("error", event, "%s cannot be written: %s", file, strerror(-error));
	else if (!error)
		sk_runner_log("warning", event, "freeze %" PRIu64,
			      atomic_load(&lease->freeze_epoch));
	atomic_store(&lease->flags, next);
	return error == 0;
}

/** A freeze is recorded before it is made: if the watchdog is killed in between, the next one makes
 * it, and no freeze lacks the record by which it is undone. The epoch is written first, so that an
 * earlier thaw cannot undo this freeze. */
static void record(struct sk_runner_lease *lease, uint64_t now)
{
	atomic_fetch_add(&lease->freeze_epoch, 1);
	atomic_store(&lease->frozen_since_ns, now);
}

static void freeze(struct sk_runner_lease *lease, uint64_t now, const char *event)
{
	record(lease, now);
	act(lease, FREEZE, "1", event);
}

static void look(struct sk_runner_lease *lease, uint64_t now, uint64_t fence_kill_ns)
{
	atomic_store(&lease->seen_ns, now);
	switch (sk_runner_lease_decide(lease, now, fence_kill_ns)) {
	case SK_LEASE_FREEZE:
		freeze(lease, now, atomic_load(&lease->expiry_ns) ? EXPIRED : BEGUN);
		return;
	case SK_LEASE_THAW:
		if (act(lease, FREEZE, "0", "jobs go on") ||
		    (atomic_load(&lease->flags) & SK_LEASE_NO_CGROUP))
			atomic_store(&lease->frozen_since_ns, 0);
		return;
	case SK_LEASE_KILL:
		act(lease, KILL, "1", "frozen for too long: jobs are killed");
		return;
	case SK_LEASE_RECORD:
	case SK_LEASE_NOTHING:
		break;
	}
	/* A refused freeze is tried again while it is due. */
	if (atomic_load(&lease->frozen_since_ns) &&
	    (atomic_load(&lease->flags) & (SK_LEASE_FREEZE_FAILED | SK_LEASE_NO_CGROUP)) ==
		    SK_LEASE_FREEZE_FAILED)
		act(lease, FREEZE, "1", EXPIRED);
}

/** Reconcile record and cgroup: the last watchdog may have been killed between the two, and the
 * agent freezes jobs without a record while there is no watchdog. */
static void take_up(struct sk_runner_lease *lease, uint64_t now)
{
	char text[8] = "";
	bool frozen = !(atomic_load(&lease->flags) & SK_LEASE_NO_CGROUP) &&
		      sk_runner_file_read(SK_FD_JOBS, FREEZE, text, sizeof(text)) > 0 &&
		      text[0] == '1';

	switch (sk_runner_lease_take_up(lease, now, frozen)) {
	case SK_LEASE_RECORD:
		record(lease, now);
		sk_runner_log("warning", "jobs were frozen without a record",
			      "the agent may thaw them");
		return;
	case SK_LEASE_FREEZE:
		act(lease, FREEZE, "1", EXPIRED);
		return;
	default:
		return;
	}
}

/** Look again after a gap, as that between two watchdogs: whatever may have happened in it. */
static void look_after_gap(struct sk_runner_lease *lease, uint64_t now, uint64_t before)
{
	if (sk_runner_since(now, before) <= SK_LEASE_GAP_MS * SK_MS)
		return;
	take_up(lease, now);
	if (sk_runner_lease_valid(lease, now) &&
	    sk_runner_lease_after_gap(lease, now, before) == SK_LEASE_FREEZE)
		freeze(lease, now, PAUSED);
}

static void restore_begin(struct restorer *restorer, uint64_t now, uint64_t expiry)
{
	char *argv[] = {(char *)restorer->program, "--record", (char *)restorer->record, "--lease",
			(char *)restorer->lease,   NULL};
	int error = posix_spawn(&restorer->pid, restorer->program, NULL, NULL, argv, environ);

	restorer->begun_ns = now;
	restorer->expiry_ns = expiry;
	if (error) {
		restorer->pid = 0;
		sk_runner_log("error", "limits of cards are not restored", "%s: %s",
			      restorer->program, strerror(error));
		return;
	}
	sk_runner_log("warning", "the power lease ran out: limits of cards are restored", "pid %d",
		      (int)restorer->pid);
}

/* A driver may hang: kill the restorer then, and start it again. */
static void restore_follow(struct restorer *restorer, struct sk_runner_lease *lease, uint64_t now)
{
	int status = -1;

	if (waitpid(restorer->pid, &status, WNOHANG) == 0) {
		if (sk_runner_since(now, restorer->begun_ns) > RESTORE_MOST_S * SK_SECOND)
			kill(restorer->pid, SIGKILL);
		return;
	}
	restorer->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		atomic_store(&lease->power_done_ns, restorer->expiry_ns);
	else
		sk_runner_log("error", "limits of cards are not restored", "status %d", status);
}

static void look_at_power(struct restorer *restorer, struct sk_runner_lease *lease, uint64_t now)
{
	uint64_t expiry = sk_runner_lease_power_expiry(lease);

	if (restorer->pid) {
		restore_follow(restorer, lease, now);
		return;
	}
	if (!restorer->program || !expiry || now < expiry ||
	    atomic_load(&lease->power_done_ns) == expiry)
		return;
	if (!restorer->begun_ns ||
	    sk_runner_since(now, restorer->begun_ns) > RESTORE_AGAIN_S * SK_SECOND)
		restore_begin(restorer, now, expiry);
}

static int watch(struct sk_runner_lease *lease, struct restorer *restorer, uint64_t fence_kill_ns)
{
	struct sigaction action = {.sa_handler = on_signal};
	uint64_t before = atomic_load(&lease->seen_ns);

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGCHLD, SIG_DFL); /* the end of a restorer could not be read while it is ignored */
	atomic_store(&lease->pid, (uint64_t)getpid());
	take_up(lease, sk_runner_clock_ns(CLOCK_BOOTTIME));
	while (!leaving) {
		uint64_t now = sk_runner_clock_ns(CLOCK_BOOTTIME);
		struct timespec left;

		look_after_gap(lease, now, before);
		look(lease, now, fence_kill_ns);
		before = now;
		look_at_power(restorer, lease, now);
		left = sk_runner_timespec(sk_runner_lease_pause(lease, now));
		nanosleep(&left, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sk_runner_site_wish wish = {0};
	struct restorer restorer = {0};
	const char *path = NULL;
	static struct sk_runner_site site;
	struct sk_runner_lease *lease;
	double fence_kill_s = 0;
	bool bad = false;
	int letter;

	while ((letter = getopt_long(argc, argv, "", LONG, NULL)) >= 0) {
		if (letter == 'l')
			path = optarg;
		else if (letter == 'c')
			wish.name = optarg[0] ? optarg : NULL;
		else if (letter == 'f')
			fence_kill_s = strtod(optarg, NULL);
		else if (letter == 'r')
			restorer.program = optarg;
		else if (letter == 'p')
			restorer.record = optarg;
		else
			bad = true;
	}
	if (bad || !path || optind < argc || fence_kill_s < 0 ||
	    !restorer.program != !restorer.record) {
		fprintf(stderr, "usage: stoker-watchdog --lease PATH [--cgroup NAME] "
				"[--fence-kill-s SECONDS] "
				"[--restore PROGRAM --power-record PATH]\n");
		return 2;
	}
	/* Reserve the descriptor numbers of the jobs cgroup. */
	for (int fd = 3; fd < SK_FD_FIRST; fd++)
		dup3(STDERR_FILENO, fd, O_CLOEXEC);
	sk_runner_site_open(&site, &wish);
	lease = open_lease(path);
	if (!lease) {
		sk_runner_log("error", "no lease file", "%s: %s", path,
			      errno ? strerror(errno) : "it has another layout");
		return 1;
	}
	atomic_store(&lease->flags, site.cgroups ? 0 : SK_LEASE_NO_CGROUP);
	sk_runner_log("info", "ready", "%s; cgroup: %s", path, site.cgroup_why);
	restorer.lease = path;
	return watch(lease, &restorer, (uint64_t)(fence_kill_s * 1e9));
}
