/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stoker-spawner: starts and keeps the jobs of one node.
 *
 *     stoker-spawner --socket PATH --journal DIR [--cgroup NAME] [--no-gate] [--jobs-max N]
 *                    [--allow-root] [--pids-max-all N] [--memory-max-all BYTES]
 *                    [--start-retry-s N]
 *     stoker-spawner --kill-all --journal DIR [--cgroup NAME]
 *
 * --socket PATH        Unix socket of the agent, made 0600; a stale one is replaced
 * --journal DIR        existing folder, 0700; holds `journal`, `keepers.lock`, `spawner.lock`
 * --cgroup NAME        jobs run below <cgroup2 mount>/NAME/jobs/fenced and .../free; without it no
 * cgroups
 * --no-gate            do not load the device gate
 * --jobs-max N         attempts at once, ended and unacknowledged ones included (at most 4096)
 * --allow-root         jobs whose owner is uid 0 are accepted (they have no capabilities)
 * --pids-max-all N, --memory-max-all BYTES   caps of all jobs together, where controllers exist
 * --start-retry-s N    how long a start is tried again that finds no process or memory (45)
 * --kill-all           end every job and shim, remove the cgroups and the gate, exit
 *
 * SIGTERM ends the spawner alone; jobs and shims go on and the next spawner takes them up.
 * Exit status: 0; 1 a failure; 2 usage, or another spawner owns the journal; 3 corrupt journal.
 * Log: JSON lines on standard error. Readiness: the socket accepts connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "runner/cgroup/cap.h"
#include "runner/gate/gate.h"
#include "runner/shim/shim.h"
#include "runner/spawner/killall.h"
#include "runner/site/log.h"
#include "runner/cgroup/oom.h"
#include "runner/spawner/spawner.h"
#include "runner/journal/table.h"

enum {
	LAST_SIGNAL = 64,
	CAPABILITIES = 64,
	START_RETRY_S = 45,
	START_RETRY_S_MAX = 50, /* before a start of a minute is ended from outside */
};

static const struct option LONG[] = {
	{"socket", required_argument, NULL, 's'},
	{"journal", required_argument, NULL, 'j'},
	{"cgroup", required_argument, NULL, 'c'},
	{"no-gate", no_argument, NULL, 'g'},
	{"jobs-max", required_argument, NULL, 'n'},
	{"allow-root", no_argument, NULL, 'r'},
	{"pids-max-all", required_argument, NULL, 'p'},
	{"memory-max-all", required_argument, NULL, 'm'},
	{"start-retry-s", required_argument, NULL, 't'},
	{"kill-all", no_argument, NULL, 'k'},
	{NULL, 0, NULL, 0},
};

struct flags {
	struct sk_runner_spawner_options options;
	bool gate;
	bool kill_all;
	bool bad;
};

static uint64_t parse_number(struct flags *flags, const char *text, uint64_t most)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value == 0 || value > most) {
		fprintf(stderr, "stoker-spawner: %s is not a number from 1 to %llu\n", text,
			(unsigned long long)most);
		flags->bad = true;
	}
	return value;
}

static void take_flag(struct flags *flags, int letter)
{
	struct sk_runner_spawner_options *options = &flags->options;

	switch (letter) {
	case 's':
		options->socket = optarg;
		return;
	case 'j':
		options->journal = optarg;
		return;
	case 'c':
		options->wish.name = optarg[0] ? optarg : NULL;
		flags->bad |= strchr(optarg, '/') != NULL;
		return;
	case 'g':
		flags->gate = false;
		return;
	case 'n':
		options->jobs_max = (uint32_t)parse_number(flags, optarg, SK_SLOTS_MAX);
		return;
	case 'r':
		options->wish.allow_root = true;
		return;
	case 'p':
		options->wish.pids_max_all = parse_number(flags, optarg, 1u << 22);
		return;
	case 'm':
		options->wish.memory_max_all = parse_number(flags, optarg, INT64_MAX);
		return;
	case 't':
		options->wish.start_retry_s = parse_number(flags, optarg, START_RETRY_S_MAX);
		return;
	case 'k':
		flags->kill_all = true;
		return;
	default:
		flags->bad = true;
	}
}

/** Nothing inherited by accident reaches a job: no descriptor, no ignored or blocked signal. */
static void forget_inheritance(void)
{
	/* The kernel's own call and record: the C library refuses its internal signals 32 and 33,
	 * which its posix_spawn leaves ignored in every child (glibc,
	 * sysdeps/unix/sysv/linux/spawni.c). */
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} by_default = {0};
	sigset_t all;
	int null;

	for (int number = 1; number <= LAST_SIGNAL; number++)
		syscall(SYS_rt_sigaction, number, &by_default, NULL, sizeof(by_default.mask));
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	syscall(SYS_close_range, SK_FD_NULL, ~0U, 0);
	for (int fd = 0; fd < SK_FD_NULL; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			_exit(1);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sk_runner_site_place(null, SK_FD_NULL);
	/* Reserve the fixed numbers, so that nothing private is opened under one of them. */
	for (int fd = SK_FD_JOBS; fd < SK_FD_FIRST; fd++)
		dup3(SK_FD_NULL, fd, O_CLOEXEC);
	umask(022);
}

/** Two descriptors per shim stay open; shims lower the limit again for their jobs. */
static void raise_descriptors(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

/** Give up here, once and inherited, everything that no job may have: the capability bounding set
 * (which execve could bring back), no_new_privs, core files. The spawner and its shims keep their
 * own capabilities because they never call execve. */
static void give_up_privileges(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const struct rlimit none = {0, 0};

	for (int capability = 0; capability < CAPABILITIES; capability++)
		prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &header, data) == 0) {
		data[0].inheritable = data[1].inheritable = 0;
		syscall(SYS_capset, &header, data);
	}
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	raise_descriptors();
	/* A job's first process shares this memory until execve, so its owner must not read it. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

int main(int argc, char **argv)
{
	struct flags flags = {
		.gate = true,
		.options = {.jobs_max = SK_SLOTS_MAX, .wish.start_retry_s = START_RETRY_S},
	};
	static struct sk_runner_site site;
	int letter;

	while ((letter = getopt_long(argc, argv, "", LONG, NULL)) >= 0)
		take_flag(&flags, letter);
	if (flags.bad || optind < argc || !flags.options.journal ||
	    (!flags.kill_all && !flags.options.socket)) {
		fprintf(stderr,
			"usage: stoker-spawner --socket PATH --journal DIR [--cgroup NAME] "
			"[--no-gate] [--jobs-max N] [--allow-root] [--pids-max-all N] "
			"[--memory-max-all BYTES] [--start-retry-s N] | --kill-all --journal DIR "
			"[--cgroup NAME]\n");
		return 2;
	}
	sk_runner_shim_title(argv[0],
			     (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]));
	forget_inheritance();
	sk_runner_site_open(&site, &flags.options.wish);
	if (flags.kill_all)
		return sk_runner_killall_run(&site, &flags.options);
	if (flags.gate)
		sk_runner_gate_open(&site);
	else
		snprintf(site.gate_why, sizeof(site.gate_why), "started with --no-gate");
	sk_runner_cap_set(&site, &flags.options.wish);
	sk_runner_oom_find(&site);
	give_up_privileges();
	return sk_runner_spawner_run(&site, &flags.options);
}
