/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/cgroup/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CPU_PERIOD_US = 100000 };

void sk_runner_bytes_text(uint64_t bytes, char *ret, int size)
{
	static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes;
	int i = 0;

	while (value >= 1024 && i < 4) {
		value /= 1024;
		i++;
	}
	snprintf(ret, (size_t)size, "%.*f %s", value == (uint64_t)value ? 0 : 1, value, unit[i]);
}

static int set_cpu(int dir, bool v2, uint32_t milli)
{
	char text[64];
	uint64_t quota = (uint64_t)milli * (CPU_PERIOD_US / 1000);

	if (v2) {
		snprintf(text, sizeof(text), "%" PRIu64 " %d", quota, CPU_PERIOD_US);
		return sk_runner_file_write(dir, "cpu.max", text);
	}
	snprintf(text, sizeof(text), "%" PRIu64, quota);
	return sk_runner_file_write(dir, "cpu.cfs_quota_us", text);
}

static int set_memory(int dir, bool v2, uint64_t bytes)
{
	char text[32];
	int error;

	snprintf(text, sizeof(text), "%" PRIu64, bytes);
	error = sk_runner_file_write(dir, v2 ? "memory.max" : "memory.limit_in_bytes", text);
	if (error)
		return error;
	/* Swap counts as memory where the kernel counts it at all. */
	error = v2 ? sk_runner_file_write(dir, "memory.swap.max", "0")
		   : sk_runner_file_write(dir, "memory.memsw.limit_in_bytes", text);
	return error == -ENOENT ? 0 : error;
}

static int set_pids(int dir, uint32_t pids)
{
	char text[16];

	snprintf(text, sizeof(text), "%" PRIu32, pids);
	return sk_runner_file_write(dir, "pids.max", text);
}

/** Open the group that carries the limit, making it on v1. */
static int open_group(struct sk_runner_limits *limits, enum sk_runner_controller i)
{
	const struct sk_runner_controller_site *where = &limits->site->controller[i];
	static bool enabled[SK_CONTROLLERS]; /* once per shim is enough */
	char path[SK_SITE_PATH + SK_TASK_NAME + 1];

	if (where->where == SK_V2) {
		enabled[i] = enabled[i] || sk_runner_site_enable(limits->site, i) == 0;
		limits->dir[i] = openat(limits->tree->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return limits->dir[i] < 0 ? -errno : 0;
	}
	if (mkdir(where->group, 0755) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/%s", where->group, limits->tree->name);
	if (mkdir(path, 0755) && errno != EEXIST)
		return -errno;
	limits->dir[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (limits->dir[i] < 0)
		return -errno;
	limits->entry[i] = openat(limits->dir[i], "cgroup.procs", O_WRONLY | O_CLOEXEC);
	return limits->entry[i] < 0 ? -errno : 0;
}

static int set_one(struct sk_runner_limits *limits, enum sk_runner_controller i, char *ret_why)
{
	const struct sk_runner_controller_site *where = &limits->site->controller[i];
	bool v2 = where->where == SK_V2;
	int error;

	if (where->where == SK_NOWHERE) {
		snprintf(ret_why, SK_TEXT_MAX, "a %s limit cannot be enforced here: %s",
			 sk_runner_controller_name[i], where->why);
		return -EOPNOTSUPP;
	}
	error = open_group(limits, i);
	if (!error)
		error = i == SK_CPU	 ? set_cpu(limits->dir[i], v2, limits->cpu_milli)
			: i == SK_MEMORY ? set_memory(limits->dir[i], v2, limits->memory_bytes)
					 : set_pids(limits->dir[i], limits->pids);
	if (error)
		snprintf(ret_why, SK_TEXT_MAX, "the %s limit could not be set (%.100s): %s",
			 sk_runner_controller_name[i], where->why, strerror(-error));
	return error;
}

/** Set a limit that the job did not ask for. A file of its own cgroup costs a start nothing. Moving
 * into a v1 group waits for RCU and cuts a burst to a fifth, so on v1 no default is set. */
static void set_default(struct sk_runner_limits *limits, enum sk_runner_controller i)
{
	char why[SK_TEXT_MAX + 1];

	if (limits->site->controller[i].where != SK_V2)
		return;
	limits->on[i] = set_one(limits, i, why) == 0;
	if (limits->on[i] || limits->dir[i] < 0)
		return;
	close(limits->dir[i]);
	limits->dir[i] = -1;
}

int sk_runner_limits_set(struct sk_runner_limits *limits, const struct sk_runner_site *site,
			 const struct sk_runner_tree *tree, const struct sk_runner_launch *launch,
			 char *ret_why)
{
	*limits = (struct sk_runner_limits){
		.site = site,
		.tree = tree,
		.memory_bytes = launch->memory_bytes,
		.pids = launch->pids,
		.cpu_milli = launch->cpu_milli,
		.dir = {-1, -1, -1, -1},
		.entry = {-1, -1, -1, -1},
	};
	limits->on[SK_CPU] = launch->flags & SK_LAUNCH_CPU;
	limits->on[SK_MEMORY] = launch->flags & SK_LAUNCH_MEMORY;
	limits->on[SK_PIDS] = launch->flags & SK_LAUNCH_PIDS;
	if (launch->flags & SK_LAUNCH_PIDS_DEFAULT)
		set_default(limits, SK_PIDS);
	if (launch->flags & SK_LAUNCH_MEMORY_DEFAULT)
		set_default(limits, SK_MEMORY);
	for (int i = 0; i < SK_CONTROLLERS; i++) {
		/* An open group was set as a default. */
		int error = limits->on[i] && limits->dir[i] < 0 ? set_one(limits, i, ret_why) : 0;

		if (error)
			return error;
	}
	return 0;
}

int sk_runner_limits_enter(const struct sk_runner_limits *limits)
{
	for (int i = 0; i < SK_CONTROLLERS; i++)
		if (limits->entry[i] >= 0 && write(limits->entry[i], "0", 1) < 0)
			return -errno;
	return 0;
}

static uint64_t read_number(int dir, const char *name)
{
	char text[32];

	return sk_runner_file_read(dir, name, text, sizeof(text)) > 0 ? strtoull(text, NULL, 10)
								      : 0;
}

/** Processes of this group that the kernel killed for its memory limit. */
static uint64_t memory_kills(const struct sk_runner_limits *limits)
{
	bool v2 = limits->site->controller[SK_MEMORY].where == SK_V2;
	char text[512];

	sk_runner_file_read(limits->dir[SK_MEMORY], v2 ? "memory.events" : "memory.oom_control",
			    text, sizeof(text));
	return sk_runner_text_value(text, "oom_kill", 0);
}

static uint64_t pids_refusals(const struct sk_runner_limits *limits)
{
	char text[256];

	sk_runner_file_read(limits->dir[SK_PIDS], "pids.events", text, sizeof(text));
	return sk_runner_text_value(text, "max", 0);
}

void sk_runner_limits_sample(struct sk_runner_limits *limits)
{
	bool v2 = limits->site->controller[SK_MEMORY].where == SK_V2;

	if (limits->on[SK_MEMORY]) {
		limits->memory_kills = memory_kills(limits);
		limits->memory_peak = read_number(limits->dir[SK_MEMORY],
						  v2 ? "memory.peak" : "memory.max_usage_in_bytes");
	}
	if (limits->on[SK_PIDS])
		limits->pids_refusals = pids_refusals(limits);
}

void sk_runner_limits_verdict(const struct sk_runner_limits *limits, bool killed, char *ret,
			      int size)
{
	uint64_t kills = limits->memory_kills, refusals = limits->pids_refusals;
	int used = 0;
	char bytes[32];

	ret[0] = 0;
	sk_runner_bytes_text(limits->memory_bytes, bytes, sizeof(bytes));
	if (kills && killed)
		used = snprintf(ret, (size_t)size, "killed by the kernel: memory limit %s reached",
				bytes);
	else if (kills)
		used = snprintf(ret, (size_t)size,
				"memory limit %s was reached: the kernel killed %" PRIu64
				" of its processes",
				bytes, kills);
	if (refusals && used < size)
		snprintf(ret + used, (size_t)(size - used),
			 "%spids limit %" PRIu32 " was reached %" PRIu64 " times", used ? "; " : "",
			 limits->pids, refusals);
}

void sk_runner_limits_remove(struct sk_runner_limits *limits)
{
	char path[SK_SITE_PATH + SK_TASK_NAME + 1];

	for (int i = 0; i < SK_CONTROLLERS; i++) {
		if (limits->entry[i] >= 0)
			close(limits->entry[i]);
		if (limits->dir[i] >= 0)
			close(limits->dir[i]);
		limits->entry[i] = limits->dir[i] = -1;
		if (!limits->on[i] || limits->site->controller[i].where != SK_V1)
			continue;
		snprintf(path, sizeof(path), "%s/%s", limits->site->controller[i].group,
			 limits->tree->name);
		rmdir(path);
	}
}
