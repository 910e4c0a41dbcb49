/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * stoker-restore: restores the power limits and clocks that cards had before stoker's first write.
 *
 *     stoker-restore --record PATH [--lease PATH]
 *
 * --record PATH   the settings (record.h); the file is removed when all of them are restored
 * --lease PATH    do nothing if the agent's power lease in this file is valid
 *
 * The watchdog runs it when the agent no longer renews its power lease, the agent runs it when it
 * starts and when it ends, and an operator may run it. Invariant: it is idempotent, and two of them
 * never write at once. Exit: 0 restored, or nothing to restore; 1 some settings were not restored
 * and the record stays; 2 usage; 3 the record is damaged. Log: JSON lines on standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "power/record.h"
#include "power/setting.h"
#include "runner/site/log.h"
#include "runner/watchdog/lease.h"

static const struct option LONG[] = {
	{"record", required_argument, NULL, 'r'},
	{"lease", required_argument, NULL, 'l'},
	{NULL, 0, NULL, 0},
};

enum { ANSWER_S = 8 }; /* time for one card; the agent and the watchdog wait for 15 s or more */

static int lock_fd;

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Return whether the agent's power lease is valid again. */
static bool renewed(const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct sk_runner_lease *lease = MAP_FAILED;
	struct stat info;
	bool valid = false;

	if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size == sizeof(*lease))
		lease = mmap(NULL, sizeof(*lease), PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (lease != MAP_FAILED) {
		struct timespec pause = {0, 1000000};

		valid = sk_runner_lease_power_expiry(lease) > boot_ns();
		if (!valid) { /* the agent may be in the middle of a store */
			nanosleep(&pause, NULL);
			valid = sk_runner_lease_power_expiry(lease) > boot_ns();
		}
		munmap(lease, sizeof(*lease));
	}
	return valid;
}

/* Wait until no other restorer runs; the file of the lock stays. */
static int lock(const char *record)
{
	char path[4096];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s.lock", record) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX))
		return -errno;
	return fd;
}

/* Return whether the machine has booted since, which resets all limits. */
static bool rebooted(const struct sk_power_record *record)
{
	char now[40] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool read = file && fscanf(file, "%39s", now) == 1;

	if (file)
		fclose(file);
	return read && strcmp(now, record->boot_id) != 0;
}

static bool same_card(const struct sk_power_entry *one, const struct sk_power_entry *other)
{
	return !strcmp(one->kind, other->kind) && !strcmp(one->id, other->id);
}

/* Return whether an earlier entry is about the card of this one. */
static bool is_later(const struct sk_power_record *record, uint32_t number)
{
	for (uint32_t i = 0; i < number; i++)
		if (same_card(&record->entry[i], &record->entry[number]))
			return true;
	return false;
}

static void say(const char *level, const char *event, const struct sk_power_entry *entry,
		const char *why)
{
	sk_runner_log(level, event, "%s %s %s %llu%s%s", entry->kind, entry->id, entry->what,
		      (unsigned long long)entry->value, why[0] ? ": " : "", why);
}

/* Restore every setting of one card, by its first entry. Returns the number of failures. */
static uint32_t restore_card(const struct sk_power_record *record, uint32_t first)
{
	uint32_t failed = 0;
	char why[256];

	for (uint32_t i = first; i < record->count; i++) {
		const struct sk_power_entry *entry = &record->entry[i];

		if (!same_card(entry, &record->entry[first]))
			continue;
		why[0] = 0;
		if (sk_power_write(entry, why, sizeof(why)) == 0) {
			say("info", "restored", entry, "");
			continue;
		}
		failed++;
		say("error", "not restored", entry, why);
	}
	return failed;
}

/* Wait for the children; after ANSWER_S kill the rest, since nothing else ends a driver's hung
 * call. Returns the number of cards that failed. */
static uint32_t await_cards(const struct sk_power_record *record, pid_t *child)
{
	uint64_t until = boot_ns() + (uint64_t)ANSWER_S * 1000000000u;
	struct timespec pause = {0, 2000000};
	uint32_t failed = 0, left;

	do {
		bool late = boot_ns() >= until;

		left = 0;
		for (uint32_t i = 0; i < record->count; i++) {
			int status = 0;

			if (!child[i])
				continue;
			if (waitpid(child[i], &status, WNOHANG) == 0 && !late) {
				left++;
				continue;
			}
			failed += late || status != 0;
			if (late) {
				kill(child[i], SIGKILL);
				say("error", "not restored", &record->entry[i],
				    "its driver does not answer");
			}
			child[i] = 0;
		}
		if (left)
			nanosleep(&pause, NULL);
	} while (left);
	return failed;
}

/* Restore each card in a process of its own, so that a driver that hangs delays no other card.
 * Returns the number of cards that failed. */
static uint32_t restore(const struct sk_power_record *record)
{
	static pid_t child[SK_POWER_ENTRIES];
	uint32_t failed = 0;

	for (uint32_t i = 0; i < record->count; i++) {
		if (is_later(record, i))
			continue;
		child[i] = fork();
		if (child[i] == 0) {
			close(lock_fd); /* a child that hangs must not keep the lock */
			_exit(restore_card(record, i) ? 1 : 0);
		}
		if (child[i] < 0) { /* no process for this card */
			child[i] = 0;
			failed += restore_card(record, i) != 0;
		}
	}
	return failed + await_cards(record, child);
}

static int run(const char *path, const char *lease)
{
	static struct sk_power_record record;
	int error;

	lock_fd = lock(path);
	if (lock_fd < 0 && lock_fd != -ENOENT) {
		sk_runner_log("error", "no lock", "%s: %s", path, strerror(-lock_fd));
		return 1;
	}
	signal(SIGCHLD, SIG_DFL); /* if it were ignored, waitpid would find no children */
	if (renewed(lease)) {
		sk_runner_log("info", "nothing restored", "an agent is in charge again");
		return 0;
	}
	error = sk_power_record_read(path, &record);
	if (error == -ENOENT)
		return 0;
	if (error) {
		sk_runner_log("error", "the record is damaged", "%s", path);
		return 3;
	}
	if (rebooted(&record))
		sk_runner_log("info", "nothing restored", "the machine has booted since");
	else if (restore(&record))
		return 1;
	return unlink(path) && errno != ENOENT ? 1 : 0;
}

int main(int argc, char **argv)
{
	const char *record = NULL, *lease = NULL;
	bool bad = false;
	int letter;

	while ((letter = getopt_long(argc, argv, "", LONG, NULL)) >= 0) {
		if (letter == 'r')
			record = optarg;
		else if (letter == 'l')
			lease = optarg;
		else
			bad = true;
	}
	if (bad || !record || optind < argc) {
		fprintf(stderr, "usage: stoker-restore --record PATH [--lease PATH]\n");
		return 2;
	}
	return run(record, lease);
}
