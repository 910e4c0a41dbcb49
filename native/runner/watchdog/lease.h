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
enum { SK_LEASE_VERSION = 2, SK_LEASE_MOST_S = 5, SK_LEASE_GAP_MS = 500 };

enum sk_runner_lease_flag {
	SK_LEASE_NO_CGROUP = 1,	    /* nothing can be frozen here: reported only */
	SK_LEASE_FREEZE_FAILED = 2, /* the last freeze or thaw was refused */
};

struct sk_runner_lease {
	uint64_t magic;
	uint64_t version;
	uint64_t boot[2]; /* the kernel's boot id; times of another boot mean nothing */
	/* Written by the agent. */
	_Atomic uint64_t expiry_ns;	  /* 0: no lease */
	_Atomic uint64_t expiry_check;	  /* ~expiry_ns */
	_Atomic uint64_t thaw_epoch;	  /* the freeze that may be undone */
	_Atomic uint64_t thaw_until_ns;	  /* the end of the lease under which it may be undone */
	_Atomic uint64_t power_expiry_ns; /* 0: no limits of cards are to be restored */
	_Atomic uint64_t power_check;	  /* ~power_expiry_ns */
	_Atomic uint64_t agent_seen_ns; /* its last look that followed another one without a gap */
	uint64_t agent_spare;
	/* Written by the watchdog. */
	_Atomic uint64_t freeze_epoch;	  /* freezes so far */
	_Atomic uint64_t frozen_since_ns; /* 0: not frozen; stored before the freeze is made */
	_Atomic uint64_t seen_ns;	  /* its last look */
	_Atomic uint64_t pid;
	_Atomic uint64_t flags;
	_Atomic uint64_t power_done_ns; /* the power expiry after which all was restored */
	uint64_t watchdog_spare[6];
};
_Static_assert(sizeof(struct sk_runner_lease) == 192, "lease");
_Static_assert(offsetof(struct sk_runner_lease, expiry_ns) == 32, "lease");
_Static_assert(offsetof(struct sk_runner_lease, power_expiry_ns) == 64, "lease");
_Static_assert(offsetof(struct sk_runner_lease, freeze_epoch) == 96, "lease");
_Static_assert(offsetof(struct sk_runner_lease, flags) == 128, "lease");
_Static_assert(offsetof(struct sk_runner_lease, power_done_ns) == 136, "lease");

enum sk_runner_lease_action {
	SK_LEASE_NOTHING,
	SK_LEASE_FREEZE,
	SK_LEASE_THAW,
	SK_LEASE_KILL,
	SK_LEASE_RECORD, /* note that the jobs are frozen; only `take_up` returns it */
};

/** Bind the file to the boot with this id: a file of another boot has no lease and no freeze. */
void sk_runner_lease_bind(struct sk_runner_lease *lease, const uint64_t boot[2]);

/** Return whether jobs may run at `now`. Without a lease, with one of a past end, and with one that
 * ends later than any lease can, they may not. While a store is not complete, the earlier of the
 * two ends counts, which was a lease as well. Pure. */
bool sk_runner_lease_valid(const struct sk_runner_lease *lease, uint64_t now);

/** Decide the action at `now`. Pure. `fence_kill_ns` 0: never kill. Frozen jobs thaw only when the
 * agent has thawed this very freeze under a lease that has not ended since. */
enum sk_runner_lease_action sk_runner_lease_decide(const struct sk_runner_lease *lease,
						   uint64_t now, uint64_t fence_kill_ns);

/** Decide the first action of a new watchdog, whose predecessor may have been killed at any step.
 * Pure. `frozen` is the state of the jobs' cgroup. A freeze without a record, which would never be
 * thawed, is recorded; a record without its freeze is carried out, unless it may be undone by now.
 */
enum sk_runner_lease_action sk_runner_lease_take_up(const struct sk_runner_lease *lease,
						    uint64_t now, bool frozen);

/** Decide what to do when the last look was at `before`. Pure. After a gap in which the agent did
 * not look either, the whole machine may have been paused together with its clocks, so the lease
 * cannot be shown to be valid. */
enum sk_runner_lease_action sk_runner_lease_after_gap(const struct sk_runner_lease *lease,
						      uint64_t now, uint64_t before);

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
