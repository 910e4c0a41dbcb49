/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One attempt of one job, from its launch to its recorded end, inside a shim.
 *
 * Phases: RUNNING until the first process ends or an end is requested; SAVING while the job may
 * save its work, if the end was requested with a signal for that; ENDING after SIGTERM to the
 * remaining processes; KILLING after the grace. The attempt is over when no process is left.
 */
#ifndef SK_RUNNER_SHIM_JOB_H
#define SK_RUNNER_SHIM_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/cgroup/cap.h"
#include "runner/shim/feed.h"
#include "runner/cgroup/limit.h"
#include "runner/shim/sink.h"
#include "runner/shim/start.h"
#include "runner/journal/table.h"
#include "runner/cgroup/tree.h"

enum sk_runner_phase {
	SK_RUNNING,
	SK_SAVING,
	SK_ENDING,
	SK_KILLING,
	SK_OVER,
};

struct sk_runner_job {
	const struct sk_runner_site *site;
	struct sk_runner_slot *slot;
	struct sk_runner_launch_view launch;
	struct sk_runner_tree tree;
	struct sk_runner_limits limits;
	struct sk_runner_numa numa;
	struct sk_runner_cap_seen caps; /* counters before it ran */
	struct sk_runner_start start;
	struct sk_runner_sink out;
	struct sk_runner_sink err;
	struct sk_runner_sink_budget budget;
	struct sk_runner_feed feed;
	enum sk_runner_phase phase;
	enum sk_runner_cause cause; /* 0 until something other than its own end decides */
	pid_t leader;
	bool leader_gone;
	bool childless;		     /* no child of the shim is left */
	int status;		     /* of the leader, as wait(2) reports it */
	int left_behind;	     /* processes that outlived the leader */
	struct sk_runner_seen asked; /* processes that were sent SIGTERM */
	uint32_t stops;		     /* stop requests that were carried out */
	uint64_t begun_ns;	     /* CLOCK_MONOTONIC */
	uint64_t time_limit_ns;	     /* CLOCK_MONOTONIC, UINT64_MAX for none */
	uint64_t deadline_ns;	     /* end of the present phase */
	uint64_t recheck_ns;	     /* pause between looks for remaining processes */
	uint64_t cpu_ns;
	uint64_t memory_peak;
	struct sk_runner_ended ended;
};

/** Run the launch at `bytes` to its end, which is then in `job->ended`. */
void sk_runner_job_run(struct sk_runner_job *job, const struct sk_runner_site *site,
		       struct sk_runner_slot *slot, const void *bytes, size_t size);

/** Install the handlers and the mask under which sk_runner_job_run works; once per process. */
void sk_runner_job_signals(void);

/** Wait until `fd` can be read, and meanwhile collect orphans of the last job. */
void sk_runner_job_idle(int fd);

#endif
