/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/watchdog/lease.h"

#include "runner/site/clock.h"

enum { LOOK_MS = 100, LOOK_MIN_MS = 5 };

/** Return the expiry, or 0 if there is no rule or a store is not complete yet. */
static uint64_t read_expiry(const struct sk_runner_lease *lease)
{
	uint64_t expiry = atomic_load_explicit(&lease->expiry_ns, memory_order_acquire);
	uint64_t check = atomic_load_explicit(&lease->expiry_check, memory_order_acquire);

	return expiry == ~check ? expiry : 0;
}

enum sk_runner_lease_action sk_runner_lease_decide(const struct sk_runner_lease *lease,
						   uint64_t now, uint64_t fence_kill_ns)
{
	uint64_t expiry = read_expiry(lease);
	uint64_t since = atomic_load_explicit(&lease->frozen_since_ns, memory_order_relaxed);

	if (!since)
		return expiry && now >= expiry ? SK_LEASE_FREEZE : SK_LEASE_NOTHING;
	if (expiry && now < expiry &&
	    atomic_load_explicit(&lease->thaw_epoch, memory_order_acquire) >=
		    atomic_load_explicit(&lease->freeze_epoch, memory_order_relaxed))
		return SK_LEASE_THAW;
	if (fence_kill_ns && sk_runner_since(now, since) >= fence_kill_ns)
		return SK_LEASE_KILL;
	return SK_LEASE_NOTHING;
}

enum sk_runner_lease_action sk_runner_lease_take_up(const struct sk_runner_lease *lease,
						    uint64_t now, bool frozen)
{
	bool recorded = atomic_load_explicit(&lease->frozen_since_ns, memory_order_relaxed) != 0;

	if (frozen && !recorded)
		return SK_LEASE_RECORD;
	if (recorded && !frozen && sk_runner_lease_decide(lease, now, 0) != SK_LEASE_THAW)
		return SK_LEASE_FREEZE;
	return SK_LEASE_NOTHING;
}

uint64_t sk_runner_lease_pause(const struct sk_runner_lease *lease, uint64_t now)
{
	uint64_t expiry = read_expiry(lease);

	uint64_t left = sk_runner_until(now, expiry);

	if (!left || left >= LOOK_MS * SK_MS)
		return LOOK_MS * SK_MS;
	return left > LOOK_MIN_MS * SK_MS ? left : LOOK_MIN_MS * SK_MS;
}
