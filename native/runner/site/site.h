/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The place where jobs run on this machine: cgroups and controllers, with reasons where one is
 * missing, and the file descriptors that every shim inherits.
 *
 * Layout: `<cgroup2 mount>/<name>/jobs/fenced/<job>.<attempt>.<task>` for a task that is frozen
 * when the node's lease ends, and `free` instead of `fenced` for any other. Limits of one task on a
 * v1 controller: `<v1 mount>/<name>/<job>.<attempt>.<task>`.
 *
 * The spawner fills the record once; shims only read it.
 */
#ifndef SK_RUNNER_SITE_SITE_H
#define SK_RUNNER_SITE_SITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/** Descriptors with a fixed number, so that a shim can close all others with one call. */
enum sk_runner_site_fd {
	SK_FD_NULL = 3,		/* /dev/null */
	SK_FD_JOBS = 4,		/* the jobs cgroup's directory */
	SK_FD_GRANTS = 5,	/* gate: map of granted devices */
	SK_FD_DENIED = 6,	/* gate: map of refused opens */
	SK_FD_BELL = 7,		/* eventfd: a slot ended */
	SK_FD_LAUNCH = 8,	/* a shim's end of the pipe that brings its launches */
	SK_FD_LOCK = 9,		/* a shim's lock of its slot */
	SK_FD_NODE_MEMORY = 10, /* memory events of all jobs together */
	SK_FD_NODE_PIDS = 11,	/* pids events of all jobs together */
	SK_FD_FIRST = 12,	/* everything from here on is private to one process */
};

enum {
	SK_SITE_PATH = 512,
	SK_SITE_TEXT = 256,
	SK_TASK_NAME = 48, /* "<job>.<attempt>.<task>" */
};

enum sk_runner_controller {
	SK_CPU,
	SK_MEMORY,
	SK_PIDS,
	SK_CPUSET, /* cgroup v2 alone: elsewhere CPUs are bound by affinity */
	SK_CONTROLLERS,
};

enum sk_runner_hierarchy {
	SK_NOWHERE,
	SK_V1,
	SK_V2,
};

struct sk_runner_controller_site {
	enum sk_runner_hierarchy where;
	char group[SK_SITE_PATH]; /* v1: `<mount>/<name>`, made when first needed */
	char why[SK_SITE_TEXT];	  /* how it is enforced, or why not */
};

struct sk_runner_site {
	bool cgroups;
	bool kill_file; /* the jobs cgroup has cgroup.kill (Linux 5.14) */
	bool gate;
	bool root;	 /* may become other users */
	bool allow_root; /* may start jobs as uid 0 */
	bool node_cap;
	bool oom_held;		 /* no job can lower its score below that of the node's processes */
	int oom_score;		 /* oom_score_adj of jobs */
	uint64_t memory_max_all; /* enforced caps of all jobs together, 0: none */
	uint64_t pids_max_all;
	uint64_t start_retry_ns; /* how long a start that finds no process is tried again */
	char jobs[SK_SITE_PATH];
	char mount[SK_SITE_PATH];
	char cgroup_why[SK_SITE_TEXT];
	char gate_why[SK_SITE_TEXT];
	char node_cap_why[SK_SITE_TEXT];
	char oom_why[SK_SITE_TEXT];
	struct sk_runner_controller_site controller[SK_CONTROLLERS];
};

/** The options of the command line. */
struct sk_runner_site_wish {
	const char *name; /* NULL: no cgroups */
	bool allow_root;
	uint64_t pids_max_all;	 /* 0: none */
	uint64_t memory_max_all; /* 0: none */
	uint64_t start_retry_s;
};

extern const char *const sk_runner_controller_name[SK_CONTROLLERS];

/** The two groups below the jobs cgroup. The watchdog freezes the first one with one write, which
 * reaches a task that starts at the same moment too. */
#define SK_FENCED "fenced"
#define SK_FREE "free"

/** Find mounts and controllers, make the jobs cgroup with its groups and open it as SK_FD_JOBS. It
 * never fails: the `why` texts name what does not work. */
void sk_runner_site_open(struct sk_runner_site *site, const struct sk_runner_site_wish *wish);

/** Enable the controller for tasks on v2: from the mount down to the groups of the jobs cgroup. 0
 * or negative errno. */
int sk_runner_site_enable(const struct sk_runner_site *site, enum sk_runner_controller controller);

/** Remove every cgroup of the site; 0, or -EBUSY where processes are left. */
int sk_runner_site_remove(const struct sk_runner_site *site);

/** Move descriptor `fd` to the fixed number `to`, close-on-exec. */
void sk_runner_site_place(int fd, int to);

/** Write `text` to `name` below `dir`; 0 or negative errno. */
int sk_runner_file_write(int dir, const char *name, const char *text);

/** Read all of `name` below `dir` as text; the number of bytes or negative errno. */
ssize_t sk_runner_file_read(int dir, const char *name, char *ret, size_t size);

/** Return the number after `key ` at the start of a line of `text`; `fallback` if there is none. */
uint64_t sk_runner_text_value(const char *text, const char *key, uint64_t fallback);

#endif
