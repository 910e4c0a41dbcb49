/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/cgroup/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = 32768, NESTING_MAX = 32 };

/* One row of /proc. One walk at a time uses the table; pages that it does not touch cost nothing.
 */
static struct process {
	pid_t pid;
	pid_t parent;
	pid_t session;
	bool member;
} processes[PROCESSES_MAX];

static void name_tree(struct sk_runner_tree *tree, const struct sk_runner_site *site,
		      const struct sk_runner_key *key)
{
	memset(tree, 0, sizeof(*tree));
	tree->site = site;
	tree->dir = -1;
	snprintf(tree->name, sizeof(tree->name), "%" PRIu64 ".%" PRIu32 ".%" PRIu32, key->job,
		 key->attempt, key->task);
}

static void place_tree(struct sk_runner_tree *tree, const char *group)
{
	snprintf(tree->path, sizeof(tree->path), "%s/%s", group, tree->name);
}

static int open_tree(struct sk_runner_tree *tree)
{
	struct stat info;

	tree->dir = openat(SK_FD_JOBS, tree->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (tree->dir < 0)
		return -errno;
	if (fstat(tree->dir, &info))
		return -errno;
	tree->id = info.st_ino;
	return 0;
}

int sk_runner_tree_make(struct sk_runner_tree *tree, const struct sk_runner_site *site,
			const struct sk_runner_key *key, bool fenced)
{
	name_tree(tree, site, key);
	place_tree(tree, fenced ? SK_FENCED : SK_FREE);
	tree->root = getpid();
	if (!site->cgroups)
		return 0;
	/* A cgroup of this name can only be left from an attempt that never started, so it must be
	 * empty. */
	if (mkdirat(SK_FD_JOBS, tree->path, 0755) &&
	    (errno != EEXIST || unlinkat(SK_FD_JOBS, tree->path, AT_REMOVEDIR) ||
	     mkdirat(SK_FD_JOBS, tree->path, 0755)))
		return -errno;
	return open_tree(tree);
}

void sk_runner_tree_find(struct sk_runner_tree *tree, const struct sk_runner_site *site,
			 const struct sk_runner_key *key, pid_t session)
{
	name_tree(tree, site, key);
	tree->session = session;
	place_tree(tree, SK_FENCED);
	if (!site->cgroups || open_tree(tree) != -ENOENT)
		return;
	place_tree(tree, SK_FREE);
	open_tree(tree);
}

/** Read parent and session of `pid`; false if it is gone or a zombie. The name may hold any byte
 * and ends at the last parenthesis. */
static bool read_process(pid_t pid, struct process *ret)
{
	char path[32], text[512], state;
	const char *rest;
	int group;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (sk_runner_file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	rest = strrchr(text, ')');
	ret->pid = pid;
	ret->member = false;
	return rest &&
	       sscanf(rest + 1, " %c %d %d %d", &state, &ret->parent, &group, &ret->session) == 4 &&
	       state != 'Z';
}

static int read_processes(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int count = 0;

	if (!proc)
		return 0;
	while (count < PROCESSES_MAX && (entry = readdir(proc)))
		if (isdigit((unsigned char)entry->d_name[0]) &&
		    read_process(atoi(entry->d_name), &processes[count]))
			count++;
	closedir(proc);
	return count;
}

static bool is_member(const struct sk_runner_tree *tree, const struct process *process, int count)
{
	if (tree->session && process->session == tree->session)
		return true;
	if (!tree->root)
		return false;
	if (process->parent == tree->root)
		return true;
	for (int i = 0; i < count; i++)
		if (processes[i].member && processes[i].pid == process->parent)
			return true;
	return false;
}

/** Mark members until a pass finds no more; return the number of rows. */
static int mark_members(const struct sk_runner_tree *tree, int *ret_members)
{
	int count = read_processes(), members = 0;
	bool found = true;

	while (found) {
		found = false;
		for (int i = 0; i < count; i++) {
			if (processes[i].member || !is_member(tree, &processes[i], count))
				continue;
			processes[i].member = found = true;
			members++;
		}
	}
	*ret_members = members;
	return count;
}

static void send_checked(pid_t pid, int signal, bool (*still)(pid_t, const void *),
			 const void *context)
{
	/* The pid may have been reused since it was read: pin it, then read again. */
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		return;
	if (still(pid, context))
		syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
	close(fd);
}

static bool same_process(pid_t pid, const void *context)
{
	const struct process *seen = context;
	struct process now;

	return read_process(pid, &now) &&
	       (now.session == seen->session || now.parent == seen->parent);
}

/** Return whether the process is still to be signalled, and note it if so. */
static bool note(struct sk_runner_seen *seen, pid_t pid)
{
	if (!seen)
		return true;
	for (int i = 0; i < seen->count; i++)
		if (seen->pid[i] == pid)
			return false;
	if (seen->count == SK_SEEN_MAX)
		return false;
	seen->pid[seen->count++] = pid;
	return true;
}

/** Return whether the process has a handler for the signal. */
static bool handles(pid_t pid, int signal)
{
	char path[32], text[4096];
	const char *caught;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (sk_runner_file_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	caught = strstr(text, "\nSigCgt:");
	return caught && strtoull(caught + 8, NULL, 16) >> (signal - 1) & 1;
}

static int signal_processes(const struct sk_runner_tree *tree, int signal,
			    struct sk_runner_seen *seen, bool handlers)
{
	int members, count = mark_members(tree, &members), sent = 0;

	for (int i = 0; i < count; i++) {
		if (!processes[i].member || !note(seen, processes[i].pid))
			continue;
		if (handlers && !handles(processes[i].pid, signal))
			continue;
		send_checked(processes[i].pid, signal, same_process, &processes[i]);
		sent++;
	}
	return sent;
}

static bool in_cgroup(pid_t pid, const void *context)
{
	const struct sk_runner_tree *tree = context;
	char path[32], text[4096], part[SK_TASK_NAME + 2];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	snprintf(part, sizeof(part), "/%s", tree->name);
	return sk_runner_file_read(AT_FDCWD, path, text, sizeof(text)) > 0 && strstr(text, part);
}

static int signal_cgroup(const struct sk_runner_tree *tree, int signal, struct sk_runner_seen *seen,
			 bool handlers)
{
	int count = 0, fd = openat(tree->dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "re");
	int pid;

	if (!file)
		return 0;
	while (fscanf(file, "%d", &pid) == 1) {
		if (!note(seen, pid) || (handlers && !handles(pid, signal)))
			continue;
		count++;
		send_checked(pid, signal, in_cgroup, tree);
	}
	fclose(file);
	return count;
}

int sk_runner_tree_signal(const struct sk_runner_tree *tree, int signal,
			  struct sk_runner_seen *seen)
{
	return tree->dir >= 0 ? signal_cgroup(tree, signal, seen, false)
			      : signal_processes(tree, signal, seen, false);
}

void sk_runner_tree_tell(const struct sk_runner_tree *tree, int signal)
{
	if (tree->dir >= 0)
		signal_cgroup(tree, signal, NULL, true);
	else
		signal_processes(tree, signal, NULL, true);
}

void sk_runner_tree_kill(const struct sk_runner_tree *tree)
{
	if (tree->dir >= 0 && sk_runner_file_write(tree->dir, "cgroup.kill", "1") == 0)
		return;
	/* Each pass may meet children forked during it; the loop has to outrun a fork bomb. */
	for (int pass = 0; pass < 64 && sk_runner_tree_signal(tree, SIGKILL, NULL); pass++)
		;
}

/** Remove the cgroups that a privileged job made below its own, deepest first. */
static void remove_nested(int dir, int depth)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!stream)
		return;
	while ((entry = readdir(stream))) {
		int below;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		below = openat(dir, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (below >= 0 && depth < NESTING_MAX)
			remove_nested(below, depth + 1);
		if (below >= 0)
			close(below);
		unlinkat(dir, entry->d_name, AT_REMOVEDIR);
	}
	closedir(stream);
}

int sk_runner_tree_remove(struct sk_runner_tree *tree)
{
	int members;

	if (tree->dir < 0) {
		if (!tree->root && !tree->session)
			return 0;
		mark_members(tree, &members);
		return members ? -EBUSY : 0;
	}
	if (unlinkat(SK_FD_JOBS, tree->path, AT_REMOVEDIR)) {
		if (errno != EBUSY && errno != ENOTEMPTY && errno != ENOENT)
			return -errno;
		if (errno != ENOENT) {
			remove_nested(tree->dir, 0);
			if (unlinkat(SK_FD_JOBS, tree->path, AT_REMOVEDIR))
				return -EBUSY;
		}
	}
	close(tree->dir);
	tree->dir = -1;
	tree->root = tree->session = 0;
	return 0;
}

uint64_t sk_runner_tree_cpu_ns(const struct sk_runner_tree *tree, uint64_t fallback)
{
	char text[1024];

	if (tree->dir < 0 || sk_runner_file_read(tree->dir, "cpu.stat", text, sizeof(text)) <= 0)
		return fallback;
	return sk_runner_text_value(text, "usage_usec", fallback / 1000) * 1000;
}

bool sk_runner_tree_frozen(const struct sk_runner_tree *tree)
{
	char text[256];

	return tree->dir >= 0 &&
	       sk_runner_file_read(tree->dir, "cgroup.events", text, sizeof(text)) > 0 &&
	       sk_runner_text_value(text, "frozen", 0) == 1;
}

static int remove_group(const char *path)
{
	int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? 0 : -errno;
	remove_nested(dir, 0);
	close(dir);
	return rmdir(path) ? -errno : 0;
}

int sk_runner_site_remove(const struct sk_runner_site *site)
{
	char parent[SK_SITE_PATH];
	int error = 0, first = 0;

	for (int i = 0; i < SK_CONTROLLERS; i++) {
		if (site->controller[i].where == SK_V1)
			error = remove_group(site->controller[i].group);
		first = first ? first : error;
	}
	if (!site->cgroups)
		return first;
	error = remove_group(site->jobs);
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(site->jobs, '/') - site->jobs),
		 site->jobs);
	if (!error && rmdir(parent))
		error = -errno;
	return first ? first : error;
}
