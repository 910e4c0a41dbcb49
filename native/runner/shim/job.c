/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/shim/job_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/cgroup/cap.h"
#include "runner/site/clock.h"
#include "runner/gate/gate.h"

enum {
	RECHECK_MS = 1, /* first pause between looks for remaining processes, doubled up to */
	RECHECK_MAX_MS = 50,
	EXACT_CPU_MS = 50, /* runs longer than this have their CPU time read from the cgroup */
	LAST_DRAINS = 8,   /* 1 MiB each, more than an unprivileged pipe holds */
	REMOVE_TRIES = 100,
};

static volatile sig_atomic_t child_ended;
static sigset_t while_waiting;

static void on_signal(int number)
{
	if (number == SIGCHLD)
		child_ended = 1;
}

void sk_runner_job_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t all;

	sigfillset(&all);
	action.sa_mask = all;
	sigprocmask(SIG_SETMASK, &all, &while_waiting);
	sigaction(SIGCHLD, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	/* Every other signal stays blocked for ever, so that ending the node cannot end a shim
	 * first. */
	while_waiting = all;
	sigdelset(&while_waiting, SIGCHLD);
	sigdelset(&while_waiting, SIGUSR1);
}

int sk_runner_job_wait(struct pollfd *fds, nfds_t count, uint64_t ns)
{
	struct timespec left = sk_runner_timespec(ns);

	return ppoll(fds, count, ns == UINT64_MAX ? NULL : &left, &while_waiting);
}

void sk_runner_job_say(struct sk_runner_job *job, const char *format, ...)
{
	struct sk_runner_ended *ended = &job->ended;
	size_t room = sizeof(ended->text) - ended->text_bytes;
	va_list arguments;
	int length;

	if (ended->text_bytes && room > 3) {
		memcpy(ended->text + ended->text_bytes, "; ", 2);
		ended->text_bytes += 2;
		room -= 2;
	}
	va_start(arguments, format);
	length = vsnprintf(ended->text + ended->text_bytes, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		ended->text_bytes += (size_t)length < room ? (uint32_t)length : (uint32_t)room - 1;
}

/* --- run ------------------------------------------------------------------------------------- */

static void account(struct sk_runner_job *job, const struct rusage *usage)
{
	uint64_t peak = (uint64_t)usage->ru_maxrss * 1024;

	job->cpu_ns += (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * SK_SECOND +
		       (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000;
	if (peak > job->memory_peak)
		job->memory_peak = peak;
}

/** Collect ended children: the leader, and orphans of the job that this subreaper inherited. */
static void reap(struct sk_runner_job *job)
{
	struct rusage usage;
	int status;
	pid_t pid;

	child_ended = 0;
	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
		account(job, &usage);
		if (pid != job->leader)
			continue;
		job->leader_gone = true;
		job->status = status;
	}
	job->childless = pid < 0 && errno == ECHILD;
}

static bool nothing_left(struct sk_runner_job *job, uint64_t now)
{
	if (!job->leader_gone)
		return false;
	sk_runner_limits_sample(&job->limits);
	if (!job->site->cgroups)
		return job->childless || sk_runner_tree_remove(&job->tree) == 0;
	if (sk_runner_since(now, job->begun_ns) > EXACT_CPU_MS * SK_MS)
		job->cpu_ns = sk_runner_tree_cpu_ns(&job->tree, job->cpu_ns);
	return sk_runner_tree_remove(&job->tree) == 0;
}

static void begin_ending(struct sk_runner_job *job, uint64_t now, uint64_t grace_ns)
{
	int count = sk_runner_tree_signal(&job->tree, SIGTERM, &job->asked);

	if (job->leader_gone)
		job->left_behind = count;
	job->phase = SK_ENDING;
	job->deadline_ns = sk_runner_after(now, grace_ns);
	job->recheck_ns = RECHECK_MS * SK_MS;
}

/** Tell the job to save its work. Only processes that handle the signal get it, and those that are
 * made later do not: it would end helpers and wrappers, which know nothing of it. */
static void begin_saving(struct sk_runner_job *job, uint64_t now, int signal, uint64_t grace_ns)
{
	sk_runner_tree_tell(&job->tree, signal);
	job->phase = SK_SAVING;
	job->deadline_ns = sk_runner_after(now, grace_ns);
}

/** Signal processes that were forked while the first round of signals went out. */
static void keep_ending(struct sk_runner_job *job)
{
	if (job->phase == SK_ENDING)
		sk_runner_tree_signal(&job->tree, SIGTERM, &job->asked);
	if (job->recheck_ns < RECHECK_MAX_MS * SK_MS)
		job->recheck_ns *= 2;
}

static void begin_killing(struct sk_runner_job *job, uint64_t now)
{
	sk_runner_tree_kill(&job->tree);
	job->phase = SK_KILLING;
	job->deadline_ns = sk_runner_after(now, 100 * SK_MS);
	job->recheck_ns = RECHECK_MS * SK_MS;
}

/** Carry out a stop request that is new. */
static void look_at_control(struct sk_runner_job *job, uint64_t now)
{
	uint32_t stops = atomic_load_explicit(&job->slot->control.stops, memory_order_acquire);
	uint64_t grace_ns;
	int signal;

	if (stops == job->stops)
		return;
	job->stops = stops;
	grace_ns = atomic_load_explicit(&job->slot->control.grace_ns, memory_order_relaxed);
	if (!job->leader_gone && !job->cause)
		job->cause = SK_CAUSE_STOPPED;
	signal = (int)atomic_load_explicit(&job->slot->control.signal, memory_order_relaxed);
	if (job->phase == SK_RUNNING && signal && signal != SIGTERM)
		begin_saving(job, now, signal, grace_ns);
	else if (job->phase == SK_RUNNING || (job->phase == SK_SAVING && !signal))
		begin_ending(job, now, grace_ns);
	else if (job->phase < SK_KILLING && sk_runner_after(now, grace_ns) < job->deadline_ns)
		job->deadline_ns = sk_runner_after(now, grace_ns);
}

static void look_at_clock(struct sk_runner_job *job, uint64_t now)
{
	if (job->phase == SK_RUNNING && now >= job->time_limit_ns) {
		job->cause = SK_CAUSE_TIMEOUT;
		begin_ending(job, now, job->launch.fixed->grace_ns);
	} else if (job->phase == SK_SAVING && now >= job->deadline_ns) {
		begin_ending(job, now, job->launch.fixed->grace_ns);
	} else if (job->phase != SK_RUNNING && now >= job->deadline_ns) {
		begin_killing(job, now);
	}
}

static uint64_t next_wake(const struct sk_runner_job *job, uint64_t now)
{
	if (job->phase == SK_RUNNING)
		return job->time_limit_ns;
	if (job->phase == SK_SAVING)
		return job->deadline_ns;
	return sk_runner_after(now, job->recheck_ns) < job->deadline_ns
		       ? sk_runner_after(now, job->recheck_ns)
		       : job->deadline_ns;
}

static void wait_for_event(struct sk_runner_job *job, uint64_t now)
{
	uint64_t wake = next_wake(job, now);
	struct pollfd fds[3] = {
		{.fd = job->out.pipe, .events = POLLIN},
		{.fd = job->err.pipe, .events = POLLIN},
		{.fd = job->feed.pipe, .events = sk_runner_feed_waits(&job->feed) ? POLLOUT : 0},
	};

	if (sk_runner_job_wait(fds, 3, wake == UINT64_MAX ? wake : sk_runner_until(now, wake)) <= 0)
		return;
	if (fds[0].revents)
		sk_runner_sink_drain(&job->out, &job->budget);
	if (fds[1].revents)
		sk_runner_sink_drain(&job->err, &job->budget);
	if (fds[2].revents & (POLLERR | POLLNVAL))
		sk_runner_feed_close(&job->feed);
}

static void step(struct sk_runner_job *job)
{
	uint64_t now = sk_runner_clock_ns(CLOCK_MONOTONIC);

	wait_for_event(job, now);
	/* Both streams have ended, so the end is near or has come: look without waiting for the
	 * signal. */
	if (child_ended || job->phase != SK_RUNNING || (job->out.pipe < 0 && job->err.pipe < 0))
		reap(job);
	now = sk_runner_clock_ns(CLOCK_MONOTONIC);
	sk_runner_feed_pump(&job->feed);
	look_at_control(job, now);
	look_at_clock(job, now);
	if (nothing_left(job, now)) {
		job->phase = SK_OVER;
		return;
	}
	if (job->phase < SK_ENDING && job->leader_gone)
		begin_ending(job, now, job->launch.fixed->grace_ns);
	else if (job->phase >= SK_ENDING)
		keep_ending(job);
}

/* --- end ------------------------------------------------------------------------------------- */

static void say_outcome(struct sk_runner_job *job)
{
	const struct sk_runner_control *control = &job->slot->control;
	struct sk_runner_ended *ended = &job->ended;

	if (WIFEXITED(job->status)) {
		ended->bits |= SK_EVENT_CODE;
		ended->code = WEXITSTATUS(job->status);
	} else {
		ended->bits |= SK_EVENT_SIGNAL;
		ended->signal = WTERMSIG(job->status);
	}
	ended->cause = job->cause		? job->cause
		       : WIFEXITED(job->status) ? SK_CAUSE_EXITED
						: SK_CAUSE_SIGNALLED;
	if (job->cause == SK_CAUSE_STOPPED)
		sk_runner_job_say(job, "%.95s", control->reason[0] ? control->reason : "stopped");
	if (job->cause == SK_CAUSE_TIMEOUT)
		sk_runner_job_say(job, "time limit %g s reached",
				  (double)job->launch.fixed->time_limit_ns / 1e9);
	if (!job->cause && ended->signal == SIGKILL &&
	    atomic_load_explicit(&control->overdue, memory_order_relaxed)) {
		ended->cause = SK_CAUSE_START_FAILED;
		sk_runner_job_say(
			job,
			"its start was ended: its folder or program did not answer for seconds");
	}
}

/** Add what the kernel refused or killed; it reads files only where limits were set. */
static void say_refusals(struct sk_runner_job *job)
{
	bool killed = !job->cause && job->ended.signal == SIGKILL;
	char text[SK_TEXT_MAX + 1];

	sk_runner_limits_verdict(&job->limits, killed, text, sizeof(text));
	killed &= text[0] == 0;
	if (text[0])
		sk_runner_job_say(job, "%s", text);
	sk_runner_cap_verdict(job->site, &job->caps, killed, text, sizeof(text));
	if (text[0])
		sk_runner_job_say(job, "%s", text);
	if (job->site->gate) {
		sk_runner_gate_denied(job->tree.id, text, sizeof(text));
		if (text[0])
			sk_runner_job_say(job, "%s", text);
	}
	if (job->left_behind)
		sk_runner_job_say(job, "%d processes it left behind were ended", job->left_behind);
}

static void say_losses(struct sk_runner_job *job)
{
	const struct sk_runner_sink_budget *budget = &job->budget;
	char most[32];

	if (budget->refused)
		sk_runner_job_say(job, "%" PRIu64 " bytes of output were lost: %s", budget->refused,
				  strerror(-budget->error));
	if (!budget->over)
		return;
	sk_runner_bytes_text(job->launch.fixed->output_bytes_max, most, sizeof(most));
	sk_runner_job_say(job, "%" PRIu64 " bytes of output above %s were dropped", budget->over,
			  most);
}

static void measure(struct sk_runner_job *job)
{
	struct sk_runner_ended *ended = &job->ended;
	uint64_t peak = job->limits.memory_peak;

	ended->bits |= SK_EVENT_USAGE;
	ended->cpu_ns = job->cpu_ns;
	/* Where no controller counts all processes together, use the peak of the largest one. */
	ended->memory_peak = peak ? peak : job->memory_peak;
	ended->out_bytes = job->out.written;
	ended->err_bytes = job->err.written;
	ended->dropped_bytes = job->budget.over + job->budget.refused;
}

/** Remove the folder of trace segments if no process of the job made one, as almost always: the
 * agent then does not look at the folder. Its parent belongs to the node, so the path is safe. */
static void clear_traces(struct sk_runner_job *job)
{
	const char *path = job->launch.trace_folder;

	if (path && path[0] && !rmdir(path))
		job->ended.bits |= SK_EVENT_CLEARED;
}

/** Release everything the attempt held; its tree is empty. */
static void release(struct sk_runner_job *job)
{
	clear_traces(job);
	sk_runner_feed_close(&job->feed);
	sk_runner_sink_close(&job->out);
	sk_runner_sink_close(&job->err);
	sk_runner_job_close_child_ends(job);
	if (job->site->gate && job->tree.id)
		sk_runner_gate_revoke(job->tree.id, job->launch.devices,
				      job->launch.fixed->devices);
	if (job->limits.site)
		sk_runner_limits_remove(&job->limits);
	job->ended.t_ns = sk_runner_clock_ns(CLOCK_REALTIME);
}

static void begin(struct sk_runner_job *job)
{
	const struct sk_runner_launch *fixed = job->launch.fixed;

	job->out = (struct sk_runner_sink){-1, -1, job->launch.folder, "out", 0};
	job->err = (struct sk_runner_sink){-1, -1, job->launch.folder, "err", 0};
	job->feed = (struct sk_runner_feed){-1, -1, job->launch.folder, &job->slot->control, 0};
	job->budget.left = fixed->output_bytes_max;
	job->tree.dir = -1;
	job->start.launch = &job->launch;
	job->start.limits = &job->limits;
	job->start.numa = &job->numa;
	job->start.tree = &job->tree;
	job->start.root = job->site->root;
	job->start.shim = getpid();
	job->start.input = SK_FD_NULL;
	job->start.output = job->start.error = -1;
}

static void run(struct sk_runner_job *job)
{
	const struct sk_runner_launch *fixed = job->launch.fixed;

	sk_runner_slot_start(job->slot, (uint32_t)job->leader, job->tree.id,
			     sk_runner_clock_ns(CLOCK_REALTIME));
	job->begun_ns = sk_runner_clock_ns(CLOCK_MONOTONIC);
	job->time_limit_ns = UINT64_MAX;
	if (fixed->flags & SK_LAUNCH_TIME)
		job->time_limit_ns = sk_runner_after(job->begun_ns, fixed->time_limit_ns);
	sk_runner_feed_pump(&job->feed);
	look_at_control(job, job->begun_ns);
	while (job->phase != SK_OVER)
		step(job);
	/* The writers are gone, or an end was passed out of the job: take what is in the pipe now.
	 */
	for (int i = 0; i < LAST_DRAINS && sk_runner_sink_drain(&job->out, &job->budget); i++)
		;
	for (int i = 0; i < LAST_DRAINS && sk_runner_sink_drain(&job->err, &job->budget); i++)
		;
	say_outcome(job);
	say_refusals(job);
	say_losses(job);
	measure(job);
}

/** Remove the empty tree of a job that did not start. */
static void abandon(struct sk_runner_job *job)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (int i = 0; i < REMOVE_TRIES && sk_runner_tree_remove(&job->tree); i++)
		nanosleep(&pause, NULL);
}

/** Collect orphans that reach this subreaper after the last process of the job has ended. */
static void collect_orphans(void)
{
	child_ended = 0;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

void sk_runner_job_idle(int fd)
{
	struct pollfd poll = {.fd = fd, .events = POLLIN};

	while (sk_runner_job_wait(&poll, 1, UINT64_MAX) < 0 && errno == EINTR)
		collect_orphans();
}

void sk_runner_job_run(struct sk_runner_job *job, const struct sk_runner_site *site,
		       struct sk_runner_slot *slot, const void *bytes, size_t size)
{
	const char *why;

	memset(job, 0, sizeof(*job));
	job->site = site;
	job->slot = slot;
	job->ended.cause = SK_CAUSE_START_FAILED;
	if (sk_runner_launch_parse(bytes, size, &job->launch, &why)) {
		sk_runner_job_say(job, "%s", why);
		return;
	}
	begin(job);
	if (!sk_runner_job_stopped_before_start(job) && !sk_runner_job_prepare(job) &&
	    sk_runner_job_gather(job) && sk_runner_job_launch(job))
		run(job);
	else
		abandon(job);
	release(job);
	collect_orphans();
}
