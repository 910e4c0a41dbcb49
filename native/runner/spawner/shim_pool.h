/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * All attempts of this node and their keepers, as the spawner sees them.
 *
 * Relied on by the spawner's requests. Owns the slots between FREE and ENDED, the keepers' life
 * and what is done for the job of a keeper that died. Whether a keeper lives is never guessed: it
 * holds a lock (open file description, so it ends with the last process that has it) on its byte of
 * the lock file, taken before it was forked.
 *
 * Invariant: every slot that is not FREE is found by (job, attempt), and has a living keeper, or is
 * in `dying`, or has ended.
 */
#ifndef SK_FLEET_H
#define SK_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/journal/index.h"
#include "runner/site/site.h"
#include "runner/journal/table.h"

enum {
	SK_SPARE_KEEPERS = 2,	 /* kept ready, so that no start waits for a fork */
	SK_IDLE_KEEPERS = 64,	 /* kept while nothing starts */
	SK_BURST_KEEPERS = 1024, /* kept during a burst: each fork costs more than a start */
};

struct sk_keeper_handle {
	int pidfd;  /* -1: no process */
	int launch; /* write end of its pipe; -1: adopted from an earlier spawner */
};

struct sk_fleet {
	const struct sk_site *site;
	struct sk_table *table;
	char lock_path[SK_SITE_PATH];
	int epoll;
	uint32_t jobs_max;
	uint32_t adopted; /* keepers that ring no bell of ours */
	bool rung;	  /* something ended without a bell: `scan` is due now */
	struct sk_keeper_handle keeper[SK_SLOTS_MAX];
	struct sk_slot_list idle;	 /* FREE, with a keeper */
	struct sk_slot_list bare;	 /* FREE, without */
	struct sk_slot_list starting;	 /* not yet seen running or ended */
	struct sk_slot_list dying;	 /* keeper dead, processes to be ended */
	uint64_t taken_ns[SK_SLOTS_MAX]; /* CLOCK_MONOTONIC, of slots in `starting` */
	uint64_t last_start_ns;		 /* CLOCK_MONOTONIC */
	struct sk_index index;
};

/** What `sk_fleet_scan` found; called with a slot that was not reported before. */
typedef void sk_fleet_report(void *context, uint32_t slot);

/**
 * Take up the journal in `directory`: adopt keepers that live, end what dead ones left.
 * @return 0 or negative errno, with a sentence in `ret_why` (SK_TEXT_MAX + 1).
 */
int sk_fleet_open(struct sk_fleet *fleet, const struct sk_site *site, const char *directory,
		  int epoll, uint32_t jobs_max, char *ret_why);

/** Watch a keeper's process; `launch` is our end of its pipe, -1 for one we did not fork. */
int sk_fleet_watch(struct sk_fleet *fleet, uint32_t slot, pid_t pid, int launch);

/** Stop watching it. */
void sk_fleet_unwatch(struct sk_fleet *fleet, uint32_t slot);

/** Record an end that no keeper records. */
void sk_fleet_end(struct sk_fleet *fleet, uint32_t slot, enum sk_cause cause, const char *text);

/** Record a launch and hand it to a keeper; 0 also if it was already taken. */
int sk_fleet_take(struct sk_fleet *fleet, const struct sk_launch_view *launch, uint64_t now,
		  const char **ret_why);

/** Ask a job to end; a reason of `size` bytes. */
int sk_fleet_stop(struct sk_fleet *fleet, const struct sk_stop *stop, const char *reason);

/** Put input of a job at its place; total length in `*ret`. */
int sk_fleet_feed(struct sk_fleet *fleet, const struct sk_stdin *head, const char *bytes,
		  uint32_t size, uint64_t *ret, const char **ret_why);

/** The agent has the event; an ended attempt is forgotten. */
void sk_fleet_acknowledge(struct sk_fleet *fleet, const struct sk_acknowledge *what);

/** The keeper of a slot has ended. */
void sk_fleet_keeper_gone(struct sk_fleet *fleet, uint32_t slot);

/** Report slots that started or ended since the last scan. */
void sk_fleet_scan(struct sk_fleet *fleet, sk_fleet_report *started, sk_fleet_report *ended,
		   void *context);

/** Work that waits: dying jobs, starts that hang, spare keepers. */
void sk_fleet_tick(struct sk_fleet *fleet, uint64_t now);

/** Milliseconds until `scan` and `tick` want to run; -1: not before something happens. */
int sk_fleet_timeout(const struct sk_fleet *fleet, uint64_t now);

#endif
