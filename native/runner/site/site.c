/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/site/site.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runner/site/clock.h"

const char *const sk_runner_controller_name[SK_CONTROLLERS] = {"cpu", "memory", "pids", "cpuset"};

void sk_runner_site_place(int fd, int to)
{
	if (fd == to)
		return;
	if (dup3(fd, to, O_CLOEXEC) < 0)
		abort();
	close(fd);
}

int sk_runner_file_write(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	ssize_t wrote;
	int error;

	if (fd < 0)
		return -errno;
	wrote = write(fd, text, strlen(text));
	error = wrote < 0 ? -errno : 0;
	close(fd);
	return error;
}

ssize_t sk_runner_file_read(int dir, const char *name, char *ret, size_t size)
{
	size_t filled = 0;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);

	ret[0] = 0;
	if (fd < 0)
		return -errno;
	while (filled < size - 1) {
		ssize_t got = read(fd, ret + filled, size - 1 - filled);

		if (got <= 0)
			break;
		filled += (size_t)got;
	}
	ret[filled] = 0;
	close(fd);
	return (ssize_t)filled;
}

uint64_t sk_runner_text_value(const char *text, const char *key, uint64_t fallback)
{
	size_t length = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (!strncmp(line, key, length) && line[length] == ' ')
			return strtoull(line + length + 1, NULL, 10);
	}
	return fallback;
}

/** Return whether `word` is among the words of `text`, which `separators` divide. */
static bool has_word(const char *text, const char *word, const char *separators)
{
	size_t length = strlen(word);

	while (*text) {
		size_t span = strcspn(text, separators);

		if (span == length && !strncmp(text, word, length))
			return true;
		text += span + strspn(text + span, separators);
	}
	return false;
}

/** Read one line of mountinfo: "... mountpoint options - type source superoptions". The kernel
 * writes a space in a path as \040; such mounts are ignored. */
static void read_mount(struct sk_runner_site *site, const char *name, char *line)
{
	char *rest = strstr(line, " - ");
	char mountpoint[SK_SITE_PATH], type[32], source[64], options[256] = "";

	if (!rest || sscanf(line, "%*s %*s %*s %*s %511s", mountpoint) != 1 ||
	    sscanf(rest + 3, "%31s %63s %255s", type, source, options) < 2)
		return;
	if (!strcmp(type, "cgroup2") && !site->mount[0])
		snprintf(site->mount, sizeof(site->mount), "%s", mountpoint);
	for (int i = 0; !strcmp(type, "cgroup") && i < SK_CONTROLLERS; i++) {
		struct sk_runner_controller_site *found = &site->controller[i];

		if (i == SK_CPUSET || found->where != SK_NOWHERE ||
		    !has_word(options, sk_runner_controller_name[i], ","))
			continue;
		if (access(mountpoint, W_OK)) {
			snprintf(found->why, sizeof(found->why), "%.200s cannot be written: %s",
				 mountpoint, strerror(errno));
			continue;
		}
		found->where = SK_V1;
		if (snprintf(found->group, sizeof(found->group), "%s/%s", mountpoint, name) >=
		    (int)sizeof(found->group))
			found->where = SK_NOWHERE;
		snprintf(found->why, sizeof(found->why), "cgroup v1 at %.200s", mountpoint);
	}
}

static void read_mounts(struct sk_runner_site *site, const char *name)
{
	char line[4096];
	FILE *file = fopen("/proc/self/mountinfo", "re");

	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		read_mount(site, name, line);
	fclose(file);
}

static void find_v2_controllers(struct sk_runner_site *site)
{
	char path[SK_SITE_PATH + 32], text[512];

	snprintf(path, sizeof(path), "%s/cgroup.controllers", site->mount);
	sk_runner_file_read(AT_FDCWD, path, text, sizeof(text));
	for (int i = 0; i < SK_CONTROLLERS; i++) {
		if (!has_word(text, sk_runner_controller_name[i], " \n"))
			continue;
		site->controller[i].where = SK_V2;
		snprintf(site->controller[i].why, SK_SITE_TEXT, "cgroup v2");
	}
}

static void open_jobs(struct sk_runner_site *site, const char *name)
{
	char path[SK_SITE_PATH];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", site->mount, name) >= SK_SITE_PATH - 8) {
		snprintf(site->cgroup_why, SK_SITE_TEXT, "the cgroup's path is too long");
		return;
	}
	if (mkdir(path, 0755) && errno != EEXIST) {
		snprintf(site->cgroup_why, SK_SITE_TEXT, "cannot make %.180s: %s", path,
			 strerror(errno));
		return;
	}
	snprintf(site->jobs, sizeof(site->jobs), "%.*s/jobs", SK_SITE_PATH - 8, path);
	if (mkdir(site->jobs, 0755) && errno != EEXIST) {
		snprintf(site->cgroup_why, SK_SITE_TEXT, "cannot make %.180s: %s", site->jobs,
			 strerror(errno));
		return;
	}
	fd = open(site->jobs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		snprintf(site->cgroup_why, SK_SITE_TEXT, "cannot open %.180s: %s", site->jobs,
			 strerror(errno));
		return;
	}
	sk_runner_site_place(fd, SK_FD_JOBS);
	if ((mkdirat(SK_FD_JOBS, SK_FENCED, 0755) && errno != EEXIST) ||
	    (mkdirat(SK_FD_JOBS, SK_FREE, 0755) && errno != EEXIST)) {
		snprintf(site->cgroup_why, SK_SITE_TEXT, "cannot make groups in %.180s: %s",
			 site->jobs, strerror(errno));
		return;
	}
	site->cgroups = true;
	site->kill_file = faccessat(SK_FD_JOBS, "cgroup.kill", W_OK, 0) == 0;
	snprintf(site->cgroup_why, SK_SITE_TEXT, "%.250s", site->jobs);
}

static void say_missing(struct sk_runner_site *site)
{
	for (int i = 0; i < SK_CONTROLLERS; i++) {
		struct sk_runner_controller_site *controller = &site->controller[i];

		if (!site->cgroups) {
			controller->where = SK_NOWHERE;
			snprintf(controller->why, SK_SITE_TEXT, "no cgroups: %.200s",
				 site->cgroup_why);
		} else if (controller->where == SK_NOWHERE && !controller->why[0]) {
			snprintf(controller->why, SK_SITE_TEXT,
				 i == SK_CPUSET
					 ? "no %s controller of cgroup v2: CPUs are bound by "
					   "affinity"
					 : "no %s controller is mounted, neither cgroup v2 nor v1",
				 sk_runner_controller_name[i]);
		}
	}
}

void sk_runner_site_open(struct sk_runner_site *site, const struct sk_runner_site_wish *wish)
{
	memset(site, 0, sizeof(*site));
	site->root = geteuid() == 0;
	site->allow_root = wish->allow_root;
	site->start_retry_ns = wish->start_retry_s * SK_SECOND;
	snprintf(site->gate_why, SK_SITE_TEXT, "not tried");
	snprintf(site->node_cap_why, SK_SITE_TEXT, "not asked for");
	if (!wish->name) {
		snprintf(site->cgroup_why, SK_SITE_TEXT, "started without --cgroup");
	} else {
		read_mounts(site, wish->name);
		if (!site->mount[0]) {
			snprintf(site->cgroup_why, SK_SITE_TEXT,
				 "no cgroup2 file system is mounted");
		} else {
			find_v2_controllers(site);
			open_jobs(site, wish->name);
		}
	}
	say_missing(site);
}

/** Write "+memory" to the subtree_control of each directory from the mount down to `jobs`. */
int sk_runner_site_enable(const struct sk_runner_site *site, enum sk_runner_controller controller)
{
	char path[SK_SITE_PATH + 32], word[16];
	size_t root = strlen(site->mount), end = root;
	int error = 0;

	snprintf(word, sizeof(word), "+%s", sk_runner_controller_name[controller]);
	for (;;) {
		snprintf(path, sizeof(path), "%.*s/cgroup.subtree_control", (int)end, site->jobs);
		error = sk_runner_file_write(AT_FDCWD, path, word);
		if (!site->jobs[end])
			break;
		end += 1 + strcspn(site->jobs + end + 1, "/");
	}
	if (!error)
		error = sk_runner_file_write(SK_FD_JOBS, SK_FENCED "/cgroup.subtree_control", word);
	return error ? error
		     : sk_runner_file_write(SK_FD_JOBS, SK_FREE "/cgroup.subtree_control", word);
}
