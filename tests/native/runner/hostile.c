/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that tries what it must not do and says how far it came; static, so it runs anywhere.
 *
 *     hostile VERB [ARGUMENT]...
 *
 * Every try prints one line "name ERRNO", where ERRNO is 0 if it succeeded.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *what, long result)
{
	printf("%s %d\n", what, result < 0 ? errno : 0);
	fflush(stdout);
}

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	return fd < 0 ? -1 : (int)write(fd, text, strlen(text));
}

/** Each argument is a file to open for reading. */
static int do_read(int count, char **paths)
{
	for (int i = 0; i < count; i++)
		tell(paths[i], open(paths[i], O_RDONLY));
	return 0;
}

/** Each argument is a device node to open for reading and writing. */
static int do_open(int count, char **paths)
{
	for (int i = 0; i < count; i++)
		tell(paths[i], open(paths[i], O_RDWR));
	return 0;
}

/** arguments: description of a key, its serial number: find it and read it. */
static int do_keys(int count, char **arguments)
{
	char secret[64];
	long serial = atol(arguments[1]);

	tell("search",
	     syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", arguments[0], 0));
	tell("request", syscall(SYS_request_key, "user", arguments[0], NULL, 0));
	tell("read", syscall(SYS_keyctl, KEYCTL_READ, serial, secret, sizeof(secret)));
	tell("own", syscall(SYS_add_key, "user", "own", "x", 1, KEY_SPEC_SESSION_KEYRING));
	return 0;
}

static int do_mknod(int count, char **arguments)
{
	tell("mknod", mknod(arguments[0], S_IFCHR | 0666, makedev(195, 0)));
	tell("mknod-null", mknod(arguments[0], S_IFCHR | 0666, makedev(1, 3)));
	return 0;
}

/** Each argument is a cgroup.procs to move into. */
static int do_leave(int count, char **paths)
{
	for (int i = 0; i < count; i++)
		tell("leave", write_to(paths[i], "0"));
	return 0;
}

/** argument: the jobs cgroup. */
static int do_bpf(int count, char **arguments)
{
	static const struct bpf_insn allow[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attributes = {0};
	int cgroup = open(arguments[0], O_RDONLY | O_DIRECTORY);

	attributes.target_fd = (unsigned)cgroup;
	attributes.attach_type = BPF_CGROUP_DEVICE;
	tell("detach", syscall(SYS_bpf, BPF_PROG_DETACH, &attributes, sizeof(attributes)));
	memset(&attributes, 0, sizeof(attributes));
	tell("next-id", syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attributes, sizeof(attributes)));
	memset(&attributes, 0, sizeof(attributes));
	attributes.prog_id = 1;
	tell("program-by-id",
	     syscall(SYS_bpf, BPF_PROG_GET_FD_BY_ID, &attributes, sizeof(attributes)));
	memset(&attributes, 0, sizeof(attributes));
	attributes.map_id = 1;
	tell("map-by-id", syscall(SYS_bpf, BPF_MAP_GET_FD_BY_ID, &attributes, sizeof(attributes)));
	memset(&attributes, 0, sizeof(attributes));
	attributes.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	attributes.insns = (uintptr_t)allow;
	attributes.insn_cnt = 2;
	attributes.license = (uintptr_t) "GPL";
	tell("load", syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof(attributes)));
	return 0;
}

/** Each argument is a process id; the shim is the parent. */
static int do_signal(int count, char **pids)
{
	char path[64];

	tell("kill-shim", kill(getppid(), SIGKILL));
	tell("stop-shim", kill(getppid(), SIGSTOP));
	tell("trace-shim", ptrace(PTRACE_SEIZE, getppid(), 0, 0));
	snprintf(path, sizeof(path), "/proc/%d/mem", getppid());
	tell("shim-memory", open(path, O_RDWR));
	snprintf(path, sizeof(path), "/proc/%d/fd/8", getppid());
	tell("shim-pipe", open(path, O_WRONLY));
	for (int i = 0; i < count; i++)
		tell("kill", kill(atoi(pids[i]), SIGKILL));
	return 0;
}

static int do_privilege(int count, char **arguments)
{
	tell("setuid", setuid(0));
	tell("setgid", setgid(0));
	tell("nice", setpriority(PRIO_PROCESS, 0, -5));
	tell("chroot", chroot("/"));
	printf("effective %u\n", geteuid());
	return 0;
}

/** argument: a set-user-id copy of this program. */
static int do_setuid(int count, char **arguments)
{
	execl(arguments[0], arguments[0], "privilege", (char *)NULL);
	tell("exec", -1);
	return 1;
}

/** Fork until it fails and tell how many there were; with an argument stay, and fork on. */
static int do_bomb(int count, char **arguments)
{
	int made = 0;

	while (made < 100000) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0)
			for (;;)
				pause();
		made++;
	}
	printf("forks %d %d\n", made, errno);
	fflush(stdout);
	while (count) {
		if (fork() == 0)
			for (;;)
				pause();
		usleep(100);
	}
	return 7;
}

/** argument: MiB to touch. */
static int do_fill(int count, char **arguments)
{
	size_t size = (size_t)atoi(arguments[0]) << 20;
	char *memory = malloc(size);

	for (size_t i = 0; memory && i < size; i += 4096)
		memory[i] = 1;
	tell("fill", memory ? 0 : -1);
	return 0;
}

/** arguments: device, file for the pid: a daemon keeps the device open after the job's end. */
static int do_hold(int count, char **arguments)
{
	int fd = open(arguments[0], O_RDWR);
	char text[16];

	tell("hold", fd);
	if (fork() == 0) {
		setsid();
		signal(SIGTERM, SIG_IGN);
		if (fork())
			_exit(0);
		snprintf(text, sizeof(text), "%d\n", getpid());
		close(1);
		close(2);
		write_to(arguments[1], text);
		for (;;)
			pause();
	}
	wait(NULL);
	/* Leave only when the daemon is there. */
	while (access(arguments[1], R_OK) || open(arguments[1], O_RDONLY) < 0)
		usleep(1000);
	for (struct stat info; stat(arguments[1], &info) == 0 && info.st_size == 0;)
		usleep(1000);
	return 0;
}

/** arguments: COUNT SEED: COUNT bytes of every value, the same for the same seed. */
static int do_bytes(int count, char **arguments)
{
	unsigned long left = strtoul(arguments[0], NULL, 10);
	unsigned seed = (unsigned)atoi(arguments[1]);
	static unsigned char chunk[1000];

	while (left) {
		size_t size = left < sizeof(chunk) ? left : sizeof(chunk), done = 0;

		for (size_t i = 0; i < size; i++) {
			seed = seed * 1664525 + 1013904223;
			chunk[i] = (unsigned char)(seed >> 24);
		}
		while (done < size) {
			ssize_t wrote = write(1, chunk + done, size - done);

			if (wrote < 0)
				return 1;
			done += (size_t)wrote;
		}
		left -= size;
		if (count > 2)
			usleep((unsigned)atoi(arguments[2]));
	}
	return (int)(strtoul(arguments[1], NULL, 10) % 100);
}

/** The state that a job finds itself in. */
static int do_self(int count, char **arguments)
{
	struct rlimit core, files;
	struct stat info;
	char folder[PATH_MAX];
	mode_t mask = umask(0);

	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_NOFILE, &files);
	printf("uid %u %u gid %u %u session %d umask %03o core %d %d files %d cwd %s\n", getuid(),
	       geteuid(), getgid(), getegid(), getsid(0) == getpid(), mask, (int)core.rlim_cur,
	       (int)core.rlim_max, (int)files.rlim_cur, getcwd(folder, sizeof(folder)));
	for (int fd = 3; fd < 1024; fd++)
		if (fstat(fd, &info) == 0)
			printf("descriptor %d\n", fd);
	for (int number = 1; number < 65; number++) {
		struct sigaction action;

		if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			printf("signal %d is not default\n", number);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*run)(int count, char **arguments);
	int needs;
} verbs[] = {
	{"read", do_read, 1},	  {"open", do_open, 1},
	{"mknod", do_mknod, 1},	  {"leave", do_leave, 1},
	{"bpf", do_bpf, 1},	  {"signal", do_signal, 0},
	{"setuid", do_setuid, 1}, {"privilege", do_privilege, 0},
	{"bomb", do_bomb, 0},	  {"fill", do_fill, 1},
	{"hold", do_hold, 2},	  {"bytes", do_bytes, 2},
	{"self", do_self, 0},	  {"keys", do_keys, 2},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(verbs[i].name, argv[1]) && argc - 2 >= verbs[i].needs)
			return verbs[i].run(argc - 2, argv + 2);
	return 64;
}
