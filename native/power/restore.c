/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * stoker-restore: gives cards back the power limits and clocks they had before stoker's first
 * write.
 *
 *     stoker-restore --record PATH [--lease PATH]
 *
 * --record PATH   what was found (record.h); removed when all of it is restored
 * --lease PATH    do nothing if the agent's power lease in this file is valid (again)
 *
 * Run by the watchdog when the agent no longer renews its power lease, by the agent before it
 * begins and when it ends, and by an operator. Everything is idempotent; two of them at once wait
 * for each other. Exit: 0 restored, or nothing to restore; 1 some could not be, the record stays; 2
 * usage; 3 the record is damaged. Log: JSON lines on standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lease.h"
#include "log.h"
#include "record.h"
#include "vendors.h"

static const struct option LONG[] = {
	{"record", required_argument, NULL, 'r'},
	{"lease", required_argument, NULL, 'l'},
	{NULL, 0, NULL, 0},
};

static uint64_t boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Whether an agent is in charge again. */
static bool renewed(const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
	struct sk_lease *lease = MAP_FAILED;
	struct stat info;
	bool valid = false;

	if (fd >= 0 && fstat(fd, &info) == 0 && info.st_size == sizeof(*lease))
		lease = mmap(NULL, sizeof(*lease), PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (lease != MAP_FAILED) {
		valid = sk_lease_power_expiry(lease) > boot_ns();
		munmap(lease, sizeof(*lease));
	}
	return valid;
}

/* One restorer at a time; the lock's file stays. */
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

/* Limits do not outlive a reboot: then there is nothing to undo. */
static bool rebooted(const struct sk_power_record *record)
{
	char now[40] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool read = file && fscanf(file, "%39s", now) == 1;

	if (file)
		fclose(file);
	return read && strcmp(now, record->boot_id) != 0;
}

static uint32_t restore(const struct sk_power_record *record)
{
	uint32_t failed = 0;
	char why[256];

	for (uint32_t i = 0; i < record->count; i++) {
		const struct sk_power_entry *entry = &record->entry[i];

		why[0] = 0;
		if (sk_power_write(entry, why, sizeof(why)) == 0) {
			sk_log("info", "restored", "%s %s %s %llu", entry->kind, entry->id,
			       entry->what, (unsigned long long)entry->value);
			continue;
		}
		failed++;
		sk_log("error", "not restored", "%s %s %s %llu: %s", entry->kind, entry->id,
		       entry->what, (unsigned long long)entry->value, why);
	}
	return failed;
}

static int run(const char *path, const char *lease)
{
	static struct sk_power_record record;
	int error, held = lock(path);

	if (held < 0 && held != -ENOENT) {
		sk_log("error", "no lock", "%s: %s", path, strerror(-held));
		return 1;
	}
	if (renewed(lease)) {
		sk_log("info", "nothing restored", "an agent is in charge again");
		return 0;
	}
	error = sk_power_record_read(path, &record);
	if (error == -ENOENT)
		return 0;
	if (error) {
		sk_log("error", "the record is damaged", "%s", path);
		return 3;
	}
	if (rebooted(&record))
		sk_log("info", "nothing restored", "the machine has booted since");
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
