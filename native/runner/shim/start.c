/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/shim/start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/cgroup/oom.h"

enum { STACK_BYTES = 64 * 1024 };

static char child_stack[STACK_BYTES] __attribute__((aligned(64)));
static struct sk_runner_start *child_start;

static _Noreturn void give_up(struct sk_runner_start *start, enum sk_runner_stage stage, int error)
{
	start->stage = stage;
	start->failure = error;
	_exit(127);
}

static void set_streams(struct sk_runner_start *start)
{
	if (dup2(start->input, STDIN_FILENO) < 0 || dup2(start->output, STDOUT_FILENO) < 0 ||
	    dup2(start->error, STDERR_FILENO) < 0 ||
	    syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0))
		give_up(start, SK_STAGE_STREAMS, errno);
}

/** Take a session keyring of its own: whoever has the starter's could read its keys. The keyring is
 * made as the starter, so that an owner without quota cannot prevent it. 0 or an errno. */
static int leave_keyring(void)
{
	int error;

	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
		return 0;
	error = errno;
	/* The kernel has no keyrings, or a filter forbids the call here and so in the job. */
	if (syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) < 0 &&
	    errno == error)
		return 0;
	return error;
}

/* Raw system calls: the C library's wrappers would synchronise threads that do not exist here. */
static void become_owner(struct sk_runner_start *start)
{
	const struct sk_runner_launch *fixed = start->launch->fixed;

	if (!start->root)
		return;
	if (syscall(SYS_setgroups, fixed->groups, start->launch->groups) ||
	    syscall(SYS_setresgid, fixed->gid, fixed->gid, fixed->gid) ||
	    syscall(SYS_setresuid, fixed->uid, fixed->uid, fixed->uid))
		give_up(start, SK_STAGE_OWNER, errno);
}

/** Limit the processes of the owner over all of his jobs, as the kernel counts them by user. The
 * limit is set once the job is its owner, so that it stops his forks and not this start. */
static void bound_processes(struct sk_runner_start *start)
{
	rlim_t most = start->launch->fixed->user_processes;
	struct rlimit limit;

	if (!start->root || !most || getrlimit(RLIMIT_NPROC, &limit) || limit.rlim_max < most)
		return;
	limit.rlim_cur = limit.rlim_max = most;
	if (setrlimit(RLIMIT_NPROC, &limit))
		give_up(start, SK_STAGE_LIMITS, errno);
}

/** Return the value of PATH in the job's own environment. */
static const char *search_path(char **envp)
{
	for (; *envp; envp++)
		if (!strncmp(*envp, "PATH=", 5))
			return *envp + 5;
	return "/usr/local/bin:/usr/bin:/bin";
}

/** execvpe(3) without its fallback to a shell; returns the errno to report. */
static int exec_search(struct sk_runner_start *start)
{
	const char *file = start->argv[0], *at = search_path(start->envp);
	size_t length = strlen(file);
	int told = ENOENT;
	char path[PATH_MAX];

	for (;;) {
		size_t span = strcspn(at, ":");

		if (span + length + 2 <= sizeof(path)) {
			memcpy(path, at, span);
			path[span] = '/';
			memcpy(path + span + (span > 0), file, length + 1);
			execve(path, start->argv, start->envp);
			if (errno != ENOENT && errno != ENOTDIR)
				told = errno;
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				return errno;
		}
		if (!at[span])
			return told;
		at += span + 1;
	}
}

static _Noreturn void child_main(void)
{
	struct sk_runner_start *start = child_start;
	sigset_t none;
	int error;

	if (setsid() < 0)
		give_up(start, SK_STAGE_SESSION, errno);
	error = leave_keyring();
	if (error)
		give_up(start, SK_STAGE_KEYRING, error);
	error = sk_runner_limits_enter(start->limits);
	if (error)
		give_up(start, SK_STAGE_LIMITS, -error);
	start->unbound = sk_runner_numa_enter(start->numa);
	if (start->unbound && start->numa->required)
		give_up(start, SK_STAGE_NUMA, start->unbound);
	sk_runner_oom_enter(start->limits->site);
	set_streams(start);
	umask(start->launch->fixed->umask);
	become_owner(start);
	bound_processes(start);
	/* The change of owner clears this, so it comes after: a killed shim takes the job with it.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != start->shim)
		_exit(127);
	if (chdir(start->launch->cwd))
		give_up(start, SK_STAGE_CWD, errno);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (start->argv[0][0] == 0)
		give_up(start, SK_STAGE_EXEC, ENOENT);
	if (!strchr(start->argv[0], '/'))
		give_up(start, SK_STAGE_EXEC, exec_search(start));
	execve(start->argv[0], start->argv, start->envp);
	give_up(start, SK_STAGE_EXEC, errno);
}

/** Call clone3 with a stack for the child, which must not return through the caller's frame. On
 * other machines than these two the child gets a copy of the memory instead. */
static long clone_child(struct clone_args *arguments)
{
#if defined(__x86_64__)
	long result;
	register void (*entry)(void) __asm__("r12") = (void (*)(void))child_main;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "call *%%r12\n"
			 "1:"
			 : "=a"(result)
			 : "a"(SYS_clone3), "D"(arguments), "S"(sizeof(*arguments)), "r"(entry)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = (long)arguments;
	register long x1 __asm__("x1") = sizeof(*arguments);
	register long x8 __asm__("x8") = SYS_clone3;
	register void (*entry)(void) __asm__("x19") = (void (*)(void))child_main;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "blr x19\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x1), "r"(x8), "r"(entry)
			 : "x30", "memory");
	return x0;
#else
	long result;

	arguments->flags &= ~(uint64_t)CLONE_VM;
	arguments->stack = arguments->stack_size = 0;
	result = syscall(SYS_clone3, arguments, sizeof(*arguments));
	if (result == 0)
		child_main();
	return result < 0 ? -errno : result;
#endif
}

pid_t sk_runner_start_run(struct sk_runner_start *start)
{
	struct clone_args arguments = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)child_stack,
		.stack_size = sizeof(child_stack),
	};
	long result;

	if (start->tree->dir >= 0) {
		arguments.flags |= CLONE_INTO_CGROUP;
		arguments.cgroup = (uint64_t)start->tree->dir;
	}
	start->stage = SK_STAGE_NONE;
	start->failure = 0;
	child_start = start;
	result = clone_child(&arguments);
	if (result < 0) {
		start->stage = SK_STAGE_CLONE;
		start->failure = (int)-result;
	}
	return (pid_t)result;
}

bool sk_runner_start_may_pass(const struct sk_runner_start *start)
{
	if (start->stage == SK_STAGE_CLONE)
		return start->failure == EAGAIN || start->failure == ENOMEM;
	/* The owner was above the process limit that he came with. */
	return start->stage == SK_STAGE_EXEC && start->failure == EAGAIN;
}

bool sk_runner_start_of_the_node(const struct sk_runner_start *start)
{
	switch (start->stage) {
	case SK_STAGE_NONE:
	case SK_STAGE_NUMA:
	case SK_STAGE_OWNER:
	case SK_STAGE_CWD:
	case SK_STAGE_EXEC:
		return false;
	default:
		return true;
	}
}

void sk_runner_start_text(const struct sk_runner_start *start, char *ret, int size)
{
	const struct sk_runner_launch *fixed = start->launch->fixed;
	const char *why = strerror(start->failure);

	switch (start->stage) {
	case SK_STAGE_CWD:
		snprintf(ret, (size_t)size, "cannot enter %.150s as uid %" PRIu32 ": %s",
			 start->launch->cwd, fixed->uid, why);
		return;
	case SK_STAGE_EXEC:
		snprintf(ret, (size_t)size, "cannot start %.180s: %s", start->argv[0], why);
		return;
	case SK_STAGE_OWNER:
		snprintf(ret, (size_t)size, "cannot become uid %" PRIu32 " gid %" PRIu32 ": %s",
			 fixed->uid, fixed->gid, why);
		return;
	case SK_STAGE_LIMITS:
		snprintf(ret, (size_t)size, "cannot enter the cgroup of its limits: %s", why);
		return;
	case SK_STAGE_NUMA:
		snprintf(ret, (size_t)size,
			 "cannot be bound to CPUs %.80s and memory nodes %.60s: %s",
			 start->launch->cpus, start->launch->memory_nodes, why);
		return;
	case SK_STAGE_KEYRING:
		snprintf(ret, (size_t)size, "cannot have a session keyring of its own: %s", why);
		return;
	case SK_STAGE_CLONE:
		snprintf(ret, (size_t)size, "cannot make a process: %s%s", why,
			 start->failure == EAGAIN ? " (a limit of the node on processes)" : "");
		return;
	default:
		snprintf(ret, (size_t)size, "cannot set up its session or streams: %s", why);
	}
}
