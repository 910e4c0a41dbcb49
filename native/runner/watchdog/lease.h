/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The lease file between the agent and the watchdog; agent/state/lease.py has the same layout.
 *
 * One writer per field, each 8 bytes and aligned, so that a store is whole. Times are
 * CLOCK_BOOTTIME ns, so the lease of a suspended machine expires as well.
 */
#ifndef SK_RUNNER_WATCHDOG_LEASE_H
#define SK_RUNNER_WATCHDOG_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SK_LEASE_MAGIC 0x657361656c6b7473u /* "stklease", little endian */
enum { SK_LEASE_VERSION = 1 };

enum sk_runner_lease_flag {
	SK_LEASE_NO_CGROUP = 1,	    /* nothing can be frozen here: reported only */
	SK_LEASE_FREEZE_FAILED = 2, /* the last freeze or thaw was refused */
};

struct sk_runner_lease {
	uint64_t magic;
	uint64_t version;
	/* Written by the agent. */
	_Atomic uint64_t expiry_ns;	  /* 0: no lease rule */
	_Atomic uint64_t expiry_check;	  /* ~expiry_ns */
	_Atomic uint64_t thaw_epoch;	  /* the freeze that may be undone */
	_Atomic uint64_t power_expiry_ns; /* 0: no limits of cards are to be restored */
	_Atomic uint64_t power_check;	  /* ~power_expiry_ns */
	uint64_t agent_spare;
	/* Written by the watchdog. */
	_Atomic uint64_t freeze_epoch;	  /* freezes so far */
	_Atomic uint64_t frozen_since_ns; /* 0: not frozen; stored before the freeze is made */
	_Atomic uint64_t seen_ns;	  /* its last look */
	_Atomic uint64_t pid;
	_Atomic uint64_t flags;
	_Atomic uint64_t power_done_ns; /* the power expiry after which all was restored */
	uint64_t watchdog_spare[2];
};
_Static_assert(sizeof(struct sk_runner_lease) == 128, "lease");
_Static_assert(offsetof(struct sk_runner_lease, thaw_epoch) == 32, "lease");
_Static_assert(offsetof(struct sk_runner_lease, power_expiry_ns) == 40, "lease");
_Static_assert(offsetof(struct sk_runner_lease, freeze_epoch) == 64, "lease");
_Static_assert(offsetof(struct sk_runner_lease, flags) == 96, "lease");
_Static_assert(offsetof(struct sk_runner_lease, power_done_ns) == 104, "lease");

enum sk_runner_lease_action {
	SK_LEASE_NOTHING,
	SK_LEASE_FREEZE,
	SK_LEASE_THAW,
	SK_LEASE_KILL,
	SK_LEASE_RECORD, /* note that the jobs are frozen; only `take_up` returns it */
};

/** Decide the action at `now`. Pure. `fence_kill_ns` 0: never kill. Frozen jobs thaw only when the
 * agent has thawed this very freeze and the lease is valid again. */
enum sk_runner_lease_action sk_runner_lease_decide(const struct sk_runner_lease *lease,
						   uint64_t now, uint64_t fence_kill_ns);

/** Decide the first action of a new watchdog, whose predecessor may have been killed at any step.
 * Pure. `frozen` is the state of the jobs' cgroup. A freeze without a record, which would never be
 * thawed, is recorded; a record without its freeze is carried out, unless it may be undone by now.
 */
enum sk_runner_lease_action sk_runner_lease_take_up(const struct sk_runner_lease *lease,
						    uint64_t now, bool frozen);

/** Return until when the agent is in charge of the cards' limits; 0: it has set none, or a store is
 * not complete yet. */
static inline uint64_t sk_runner_lease_power_expiry(const struct sk_runner_lease *lease)
{
	uint64_t expiry = atomic_load_explicit(&lease->power_expiry_ns, memory_order_acquire);
	uint64_t check = atomic_load_explicit(&lease->power_check, memory_order_acquire);

	return expiry == ~check ? expiry : 0;
}

/** Return the time to the next look, in ns: short before an expiry, long else. */
uint64_t sk_runner_lease_pause(const struct sk_runner_lease *lease, uint64_t now);

#endif
