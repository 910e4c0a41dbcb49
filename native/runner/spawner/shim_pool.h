/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * All attempts of this node and their shims, as the spawner sees them.
 *
 * Owns the slots between FREE and ENDED, the shims' life and what is done for the job of a shim
 * that died. Whether a shim lives is never guessed: it holds a lock (open file description, so it
 * ends with the last process that has it) on its byte of the lock file, taken before it was forked.
 *
 * Invariant: every slot that is not FREE is found by (job, attempt), and has a living shim, or is
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
	SK_SPARE_SHIMS = 2,    /* kept ready, so that no start waits for a fork */
	SK_IDLE_SHIMS = 64,    /* kept while nothing starts */
	SK_BURST_SHIMS = 1024, /* kept during a burst: each fork costs more than a start */
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
	uint32_t adopted; /* shims that ring no bell of ours */
	bool rung;	  /* something ended without a bell: `scan` is due now */
	struct sk_runner_shim_handle shim[SK_SLOTS_MAX];
	struct sk_runner_slot_list idle;     /* FREE, with a shim */
	struct sk_runner_slot_list bare;     /* FREE, without */
	struct sk_runner_slot_list starting; /* not yet seen running or ended */
	struct sk_runner_slot_list dying;    /* shim dead, processes to be ended */
	uint64_t taken_ns[SK_SLOTS_MAX];     /* CLOCK_MONOTONIC, of slots in `starting` */
	uint64_t last_start_ns;		     /* CLOCK_MONOTONIC */
	struct sk_runner_index index;
};

/** What `sk_runner_pool_scan` found; called with a slot that was not reported before. */
typedef void sk_runner_pool_report(void *context, uint32_t slot);

/**
 * Take up the journal in `directory`: adopt shims that live, end what dead ones left.
 * @return 0 or negative errno, with a sentence in `ret_why` (SK_TEXT_MAX + 1).
 */
int sk_runner_pool_open(struct sk_runner_pool *pool, const struct sk_runner_site *site,
			const char *directory, int epoll, uint32_t jobs_max, char *ret_why);

/** Watch a shim's process; `launch` is our end of its pipe, -1 for one we did not fork. */
int sk_runner_pool_watch(struct sk_runner_pool *pool, uint32_t slot, pid_t pid, int launch);

/** Stop watching it. */
void sk_runner_pool_unwatch(struct sk_runner_pool *pool, uint32_t slot);

/** Record an end that no shim records. */
void sk_runner_pool_end(struct sk_runner_pool *pool, uint32_t slot, enum sk_runner_cause cause,
			const char *text);

/** Record a launch and hand it to a shim; 0 also if it was already taken. */
int sk_runner_pool_take(struct sk_runner_pool *pool, const struct sk_runner_launch_view *launch,
			uint64_t now, const char **ret_why);

/** Ask a job to end; a reason of `size` bytes. */
int sk_runner_pool_stop(struct sk_runner_pool *pool, const struct sk_runner_stop *stop,
			const char *reason);

/** Put input of a job at its place; total length in `*ret`. */
int sk_runner_pool_feed(struct sk_runner_pool *pool, const struct sk_runner_stdin *head,
			const char *bytes, uint32_t size, uint64_t *ret, const char **ret_why);

/** The agent has the event; an ended attempt is forgotten. */
void sk_runner_pool_acknowledge(struct sk_runner_pool *pool,
				const struct sk_runner_acknowledge *what);

/** The shim of a slot has ended. */
void sk_runner_pool_shim_gone(struct sk_runner_pool *pool, uint32_t slot);

/** Report slots that started or ended since the last scan. */
void sk_runner_pool_scan(struct sk_runner_pool *pool, sk_runner_pool_report *started,
			 sk_runner_pool_report *ended, void *context);

/** Work that waits: dying jobs, starts that hang, spare shims. */
void sk_runner_pool_tick(struct sk_runner_pool *pool, uint64_t now);

/** Milliseconds until `scan` and `tick` want to run; -1: not before something happens. */
int sk_runner_pool_timeout(const struct sk_runner_pool *pool, uint64_t now);

#endif
