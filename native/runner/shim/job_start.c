/* SPDX-License-Identifier: Apache-2.0 */
/* The start of an attempt: its cgroup, limits, devices and streams, then its first process. One of
 * a gang waits between the two, without a limit of its own: whoever released or stopped the others
 * decides about it as well, and says so again to every new spawner and agent.
 *
 * Invariant: a start for which the machine has no process at the moment is tried again, and an
 * attempt that never began is reported as never started, not as failed. */
#include "runner/shim/job_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/site/clock.h"
#include "runner/gate/gate.h"

enum {
	START_AGAIN_MS = 10, /* pause before a start that found no process, doubled up to */
	START_AGAIN_MAX_MS = 1000,
};

static char *vectors[SK_ARGUMENTS_MAX + 2];

static int make_trace_folder(struct sk_runner_job *job)
{
	const char *path = job->launch.trace_folder;
	const struct sk_runner_launch *fixed = job->launch.fixed;
	struct stat info;
	int fd, error = 0;

	if (!path[0])
		return 0;
	if (mkdir(path, 0700) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	/* An existing folder must be of an earlier attempt of the same owner, or of this user. */
	if (fstat(fd, &info))
		error = -errno;
	else if (info.st_uid != fixed->uid && info.st_uid != geteuid())
		error = -EPERM;
	else if (fchmod(fd, 0700) || (job->site->root && fchown(fd, fixed->uid, fixed->gid)))
		error = -errno;
	close(fd);
	return error;
}

/** Make a pipe of the job. The shim's end does not block; both ends belong to the owner, so that
 * the job may open /dev/stdout again by name. */
static int make_pipe(struct sk_runner_job *job, int ours, int *ret_ours, int *ret_theirs)
{
	const struct sk_runner_launch *fixed = job->launch.fixed;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	*ret_ours = ends[ours];
	*ret_theirs = ends[!ours];
	if (fcntl(ends[ours], F_SETFL, O_NONBLOCK) ||
	    (job->site->root && fchown(ends[0], fixed->uid, fixed->gid)))
		return -errno;
	return 0;
}

static int make_streams(struct sk_runner_job *job)
{
	int error = make_pipe(job, 0, &job->out.pipe, &job->start.output);

	if (!error)
		error = make_pipe(job, 0, &job->err.pipe, &job->start.error);
	if (error || !(job->launch.fixed->flags & SK_LAUNCH_STDIN))
		return error;
	return make_pipe(job, 1, &job->feed.pipe, &job->start.input);
}

void sk_runner_job_close_child_ends(struct sk_runner_job *job)
{
	if (job->start.output >= 0)
		close(job->start.output);
	if (job->start.error >= 0)
		close(job->start.error);
	if (job->start.input > SK_FD_NULL)
		close(job->start.input);
	job->start.output = job->start.error = job->start.input = -1;
}

/** Note that a step failed in which the job has no part: another node may well launch it. */
static int of_the_node(struct sk_runner_job *job, int error)
{
	job->ended.bits |= SK_EVENT_NODE;
	return error;
}

/** Return 0, or an errno after adding a clause. */
static int check_owner(struct sk_runner_job *job)
{
	const struct sk_runner_launch *fixed = job->launch.fixed;

	if (fixed->uid == 0 && geteuid() == 0 && !job->site->allow_root) {
		sk_runner_job_say(
			job, "a job of uid 0 was refused: the spawner runs without --allow-root");
		return -EPERM;
	}
	if (!job->site->root && fixed->uid != geteuid()) {
		sk_runner_job_say(job, "cannot become uid %" PRIu32 ": the spawner runs as uid %u",
				  fixed->uid, geteuid());
		return -EPERM;
	}
	return 0;
}

static int prepare_tree(struct sk_runner_job *job)
{
	const struct sk_runner_launch *fixed = job->launch.fixed;
	char why[SK_TEXT_MAX + 1];
	int error = sk_runner_tree_make(&job->tree, job->site, &fixed->key,
					fixed->flags & SK_LAUNCH_FENCED);

	if (error) {
		sk_runner_job_say(job, "cannot make its cgroup: %s", strerror(-error));
		return of_the_node(job, error);
	}
	error = sk_runner_limits_set(&job->limits, job->site, &job->tree, fixed, why);
	if (error) {
		sk_runner_job_say(job, "%s", why);
		return error;
	}
	error = sk_runner_numa_set(&job->numa, job->site, &job->tree, &job->launch, why);
	if (error) {
		sk_runner_job_say(job, "%s", why);
		return error;
	}
	if (job->site->gate && fixed->devices) {
		error = sk_runner_gate_grant(job->tree.id, job->launch.devices, fixed->devices);
		if (error) {
			sk_runner_job_say(job, "cannot grant its devices: %s", strerror(-error));
			return of_the_node(job, error);
		}
	}
	return 0;
}

int sk_runner_job_prepare(struct sk_runner_job *job)
{
	int error = check_owner(job);

	if (!error)
		error = prepare_tree(job);
	if (error)
		return error;
	error = make_trace_folder(job);
	if (error) {
		sk_runner_job_say(job, "cannot make its trace folder %.120s: %s",
				  job->launch.trace_folder, strerror(-error));
		return error == -EPERM ? error : of_the_node(job, error);
	}
	error = make_streams(job);
	if (error) {
		sk_runner_job_say(job, "cannot make its pipes: %s", strerror(-error));
		return of_the_node(job, error);
	}
	return 0;
}

bool sk_runner_job_stopped_before_start(struct sk_runner_job *job)
{
	const struct sk_runner_control *control = &job->slot->control;

	if (!atomic_load_explicit(&control->stops, memory_order_acquire))
		return false;
	job->ended.cause = SK_CAUSE_STOPPED;
	sk_runner_job_say(job, "%.95s", control->reason[0] ? control->reason : "stopped");
	return true;
}

bool sk_runner_job_gather(struct sk_runner_job *job)
{
	struct sk_runner_control *control = &job->slot->control;
	uint64_t one = 1;

	if (!(job->launch.fixed->flags & SK_LAUNCH_GATHER))
		return true;
	control->cgroup_id = job->tree.id;
	atomic_store_explicit(&control->ready_ns, sk_runner_clock_ns(CLOCK_REALTIME),
			      memory_order_release);
	/* Without a spawner the eventfd has no reader; the next one reads the slots. */
	if (write(SK_FD_BELL, &one, sizeof(one)) < 0)
		errno = 0;
	while (!atomic_load_explicit(&control->released, memory_order_acquire)) {
		if (sk_runner_job_stopped_before_start(job))
			return false;
		sk_runner_job_wait(NULL, 0, UINT64_MAX);
	}
	return true;
}

/** Try to start once; true if the job runs. */
static bool start_once(struct sk_runner_job *job)
{
	job->leader = sk_runner_start_run(&job->start);
	if (!job->start.failure)
		return true;
	if (job->leader > 0)
		waitpid(job->leader, NULL, 0);
	return false;
}

/** Wait before the next try; a stop request ends the wait. */
static void pause_start(uint64_t ms)
{
	sk_runner_job_wait(NULL, 0, ms * SK_MS);
}

/** Try until the job runs, fails for good, is stopped, or the time for retries is over. */
static bool start_patiently(struct sk_runner_job *job)
{
	uint64_t begun = sk_runner_clock_ns(CLOCK_MONOTONIC), pause = START_AGAIN_MS;

	while (!start_once(job)) {
		if (!sk_runner_start_may_pass(&job->start))
			return false;
		if (sk_runner_since(sk_runner_clock_ns(CLOCK_MONOTONIC), begun) >=
		    job->site->start_retry_ns) {
			job->ended.cause = SK_CAUSE_NEVER_STARTED;
			return false;
		}
		if (sk_runner_job_stopped_before_start(job))
			return false;
		pause_start(pause);
		pause = pause * 2 < START_AGAIN_MAX_MS ? pause * 2 : START_AGAIN_MAX_MS;
	}
	return true;
}

bool sk_runner_job_launch(struct sk_runner_job *job)
{
	char why[SK_TEXT_MAX + 1];
	bool runs;

	sk_runner_launch_vectors(&job->launch, vectors, &job->start.envp);
	job->start.argv = vectors;
	sk_runner_cap_look(job->site, &job->caps);
	sk_runner_slot_launch(job->slot);
	runs = start_patiently(job);
	sk_runner_job_close_child_ends(job);
	if (runs && job->start.unbound)
		sk_runner_job_say(job, "its CPUs and memory could not all be bound: %s",
				  strerror(job->start.unbound));
	if (runs || job->ended.cause == SK_CAUSE_STOPPED)
		return runs;
	if (sk_runner_start_of_the_node(&job->start))
		job->ended.bits |= SK_EVENT_NODE;
	sk_runner_start_text(&job->start, why, sizeof(why));
	sk_runner_job_say(job, "%s", why);
	return false;
}
