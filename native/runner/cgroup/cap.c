/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/cgroup/cap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/cgroup/limit.h"

/** Keep the file of counters open: it is read for every job. */
static int watch_counter(int dir, enum sk_runner_controller controller, bool v2)
{
	const char *name = controller == SK_PIDS ? "pids.events"
			   : v2			 ? "memory.events"
						 : "memory.oom_control";
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	sk_runner_site_place(fd, controller == SK_PIDS ? SK_FD_NODE_PIDS : SK_FD_NODE_MEMORY);
	return 0;
}

static int cap_v2(struct sk_runner_site *site, enum sk_runner_controller controller,
		  const char *limit)
{
	char path[SK_SITE_PATH + 32], word[16];
	int error;

	snprintf(word, sizeof(word), "+%s", sk_runner_controller_name[controller]);
	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", site->mount);
	sk_runner_file_write(AT_FDCWD, path, word);
	snprintf(path, sizeof(path), "%s/../cgroup.subtree_control", site->jobs);
	sk_runner_file_write(AT_FDCWD, path, word);
	error = sk_runner_file_write(SK_FD_JOBS,
				     controller == SK_MEMORY ? "memory.max" : "pids.max", limit);
	return error ? error : watch_counter(SK_FD_JOBS, controller, true);
}

static int cap_v1(struct sk_runner_site *site, enum sk_runner_controller controller,
		  const char *limit)
{
	const char *group = site->controller[controller].group;
	int dir, error;

	if (mkdir(group, 0755) && errno != EEXIST)
		return -errno;
	dir = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	error = sk_runner_file_write(
		dir, controller == SK_MEMORY ? "memory.limit_in_bytes" : "pids.max", limit);
	if (!error)
		error = watch_counter(dir, controller, false);
	if (!error)
		error = sk_runner_file_write(dir, "cgroup.procs", "0");
	close(dir);
	return error;
}

static void cap(struct sk_runner_site *site, enum sk_runner_controller controller, uint64_t limit)
{
	struct sk_runner_controller_site *where = &site->controller[controller];
	char text[24];
	int error;

	if (!limit)
		return;
	snprintf(text, sizeof(text), "%" PRIu64, limit);
	if (where->where == SK_NOWHERE) {
		snprintf(site->node_cap_why, SK_SITE_TEXT, "%s: %.200s",
			 sk_runner_controller_name[controller], where->why);
		site->node_cap = false;
		return;
	}
	error = where->where == SK_V2 ? cap_v2(site, controller, text)
				      : cap_v1(site, controller, text);
	if (!error) {
		*(controller == SK_MEMORY ? &site->memory_max_all : &site->pids_max_all) = limit;
		return;
	}
	snprintf(site->node_cap_why, SK_SITE_TEXT, "%s limit of all jobs together: %s",
		 sk_runner_controller_name[controller], strerror(-error));
	site->node_cap = false;
}

void sk_runner_cap_set(struct sk_runner_site *site, const struct sk_runner_site_wish *wish)
{
	if (!wish->pids_max_all && !wish->memory_max_all)
		return;
	site->node_cap = true;
	snprintf(site->node_cap_why, SK_SITE_TEXT,
		 "all jobs together: pids %" PRIu64 ", memory %" PRIu64 " bytes (0 is no cap)",
		 wish->pids_max_all, wish->memory_max_all);
	cap(site, SK_PIDS, wish->pids_max_all);
	cap(site, SK_MEMORY, wish->memory_max_all);
}

static uint64_t read_counter(int fd, const char *key)
{
	char text[512];
	ssize_t got = pread(fd, text, sizeof(text) - 1, 0);

	text[got < 0 ? 0 : got] = 0;
	return sk_runner_text_value(text, key, 0);
}

void sk_runner_cap_look(const struct sk_runner_site *site, struct sk_runner_cap_seen *ret)
{
	ret->memory = site->memory_max_all ? read_counter(SK_FD_NODE_MEMORY, "oom_kill") : 0;
	ret->pids = site->pids_max_all ? read_counter(SK_FD_NODE_PIDS, "max") : 0;
}

void sk_runner_cap_verdict(const struct sk_runner_site *site,
			   const struct sk_runner_cap_seen *before, bool killed, char *ret,
			   int size)
{
	struct sk_runner_cap_seen now;
	char most[32];
	int used = 0;

	ret[0] = 0;
	sk_runner_cap_look(site, &now);
	if (killed && now.memory > before->memory) {
		sk_runner_bytes_text(site->memory_max_all, most, sizeof(most));
		used = snprintf(ret, (size_t)size,
				"killed by the kernel: all jobs together reached the node's memory "
				"limit %s",
				most);
	}
	if (now.pids > before->pids && used < size)
		snprintf(ret + used, (size_t)(size - used),
			 "%sall jobs together reached the node's limit of %" PRIu64
			 " processes while it ran",
			 used ? "; " : "", site->pids_max_all);
}
