/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The shim pool: all attempts of this node and their shims, as the spawner sees them.
 *
 * It owns the slots between FREE and ENDED, the life of shims, and the end of jobs whose shim died.
 * A shim lives exactly as long as its byte of the lock file is locked: the lock is taken before the
 * fork and belongs to an open file description, so it ends with the last process that has it.
 *
 * Invariant: every slot that is not FREE is found by its key, and has a living shim, or is
 * in `dying`, or has ended.
 */
#ifndef SK_RUNNER_SPAWNER_SHIM_POOL_H
#define SK_RUNNER_SPAWNER_SHIM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/index.h"
#include "runner/site/site.h"
#include "runner/journal/table.h"

enum {
	SK_SPARE_SHIMS = 2, /* idle at any time, so that no start waits for a fork */
	SK_IDLE_SHIMS = 64, /* idle shims that stay while nothing starts */
	SK_BURST_SHIMS =
		1024, /* idle shims that stay during a burst: each fork costs more than a start */
};

struct sk_runner_shim_handle {
	int pidfd;  /* -1: no process */
	int launch; /* write end of its pipe; -1: adopted from an earlier spawner */
};

struct sk_runner_pool {
	const struct sk_runner_site *site;
	struct sk_runner_table *table;
	char lock_path[SK_SITE_PATH];
	int epoll;
	uint32_t jobs_max;
	uint32_t adopted; /* shims that do not signal our eventfd */
	bool rung;	  /* something ended without the eventfd: `scan` is due now */
	struct sk_runner_shim_handle shim[SK_SLOTS_MAX];
	struct sk_runner_slot_list idle;     /* FREE, with a shim */
	struct sk_runner_slot_list bare;     /* FREE, without */
	struct sk_runner_slot_list starting; /* not yet seen running or ended */
	struct sk_runner_slot_list dying;    /* shim dead, processes to be ended */
	uint64_t taken_ns[SK_SLOTS_MAX];     /* CLOCK_MONOTONIC, of slots in `starting` */
	uint64_t told[SK_SLOTS_MAX / 64];    /* slots of which `scan` reported that they wait */
	uint64_t last_start_ns;		     /* CLOCK_MONOTONIC */
	struct sk_runner_index index;
};

/** Callback of `sk_runner_pool_scan` for a slot that was not reported before. */
typedef void sk_runner_pool_report(void *context, uint32_t slot);

/** Recover the journal in `directory`: adopt shims that live, end the jobs of dead ones.
 *
 * @return 0 or negative errno, with a sentence in `ret_why` (SK_TEXT_MAX + 1). */
int sk_runner_pool_open(struct sk_runner_pool *pool, const struct sk_runner_site *site,
			const char *directory, int epoll, uint32_t jobs_max, char *ret_why);

/** Watch a shim's process; `launch` is the write end of its pipe, -1 for an adopted shim. */
int sk_runner_pool_watch(struct sk_runner_pool *pool, uint32_t slot, pid_t pid, int launch);

/** Stop watching it. */
void sk_runner_pool_unwatch(struct sk_runner_pool *pool, uint32_t slot);

/** Record an end that no shim can record. */
void sk_runner_pool_end(struct sk_runner_pool *pool, uint32_t slot, enum sk_runner_cause cause,
			const char *text);

/** Record a launch and hand it to a shim; 0 also if the attempt is already known. */
int sk_runner_pool_take(struct sk_runner_pool *pool, const struct sk_runner_launch_view *launch,
			uint64_t now, const char **ret_why);

/** Request the end of a job, with a reason of `size` bytes. */
int sk_runner_pool_stop(struct sk_runner_pool *pool, const struct sk_runner_stop *stop,
			const char *reason);

/** Let these attempts run, as far as they are here and wait for that or soon will. */
void sk_runner_pool_release(struct sk_runner_pool *pool, const struct sk_runner_key *keys,
			    uint32_t count);

/** Write input of a job at its offset; the total length in `*ret`. */
int sk_runner_pool_feed(struct sk_runner_pool *pool, const struct sk_runner_stdin *head,
			const char *bytes, uint32_t size, uint64_t *ret, const char **ret_why);

/** Note that the agent has the event; an ended attempt is then forgotten. */
void sk_runner_pool_acknowledge(struct sk_runner_pool *pool,
				const struct sk_runner_acknowledge *what);

/** Handle the end of a slot's shim. */
void sk_runner_pool_shim_gone(struct sk_runner_pool *pool, uint32_t slot);

/** Functions that `sk_runner_pool_scan` calls for slots that are ready, started or ended. */
struct sk_runner_pool_reports {
	sk_runner_pool_report *ready;
	sk_runner_pool_report *started;
	sk_runner_pool_report *ended;
};

/** Report slots that became ready, started or ended since the last scan. */
void sk_runner_pool_scan(struct sk_runner_pool *pool, const struct sk_runner_pool_reports *reports,
			 void *context);

/** Do the waiting work: dying jobs, starts that hang, spare shims. */
void sk_runner_pool_tick(struct sk_runner_pool *pool, uint64_t now);

/** Return the milliseconds until `scan` and `tick` are due; -1: not before an event. */
int sk_runner_pool_timeout(const struct sk_runner_pool *pool, uint64_t now);

#endif
