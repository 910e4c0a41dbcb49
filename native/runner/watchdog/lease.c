/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/watchdog/lease.h"

#include "runner/site/clock.h"

enum { LOOK_MS = 100, LOOK_MIN_MS = 5 };

/** Return the end of the lease; the earlier one while a store is not complete. */
static uint64_t read_expiry(const struct sk_runner_lease *lease)
{
	uint64_t expiry = atomic_load_explicit(&lease->expiry_ns, memory_order_acquire);
	uint64_t check = ~atomic_load_explicit(&lease->expiry_check, memory_order_acquire);

	return expiry < check ? expiry : check;
}

void sk_runner_lease_bind(struct sk_runner_lease *lease, const uint64_t boot[2])
{
	if (lease->boot[0] == boot[0] && lease->boot[1] == boot[1])
		return;
	atomic_store(&lease->expiry_ns, 0);
	atomic_store(&lease->expiry_check, ~(uint64_t)0);
	atomic_store(&lease->thaw_until_ns, 0);
	atomic_store(&lease->power_expiry_ns, 0);
	atomic_store(&lease->power_check, ~(uint64_t)0);
	atomic_store(&lease->agent_seen_ns, 0);
	atomic_store(&lease->frozen_since_ns, 0);
	atomic_store(&lease->seen_ns, 0);
	lease->boot[0] = boot[0];
	lease->boot[1] = boot[1];
}

bool sk_runner_lease_valid(const struct sk_runner_lease *lease, uint64_t now)
{
	uint64_t left = sk_runner_until(now, read_expiry(lease));

	return left > 0 && left <= SK_LEASE_MOST_S * SK_SECOND;
}

static bool may_thaw(const struct sk_runner_lease *lease, uint64_t now)
{
	return sk_runner_lease_valid(lease, now) &&
	       atomic_load_explicit(&lease->thaw_epoch, memory_order_acquire) >=
		       atomic_load_explicit(&lease->freeze_epoch, memory_order_relaxed) &&
	       now < atomic_load_explicit(&lease->thaw_until_ns, memory_order_relaxed);
}

enum sk_runner_lease_action sk_runner_lease_decide(const struct sk_runner_lease *lease,
						   uint64_t now, uint64_t fence_kill_ns)
{
	uint64_t since = atomic_load_explicit(&lease->frozen_since_ns, memory_order_relaxed);

	if (!since)
		return sk_runner_lease_valid(lease, now) ? SK_LEASE_NOTHING : SK_LEASE_FREEZE;
	if (may_thaw(lease, now))
		return SK_LEASE_THAW;
	if (fence_kill_ns && sk_runner_since(now, since) >= fence_kill_ns)
		return SK_LEASE_KILL;
	return SK_LEASE_NOTHING;
}

enum sk_runner_lease_action sk_runner_lease_after_gap(const struct sk_runner_lease *lease,
						      uint64_t now, uint64_t before)
{
	uint64_t seen = atomic_load_explicit(&lease->agent_seen_ns, memory_order_acquire);

	if (atomic_load_explicit(&lease->frozen_since_ns, memory_order_relaxed) ||
	    sk_runner_since(now, before) <= SK_LEASE_GAP_MS * SK_MS)
		return SK_LEASE_NOTHING;
	return sk_runner_since(now, seen) <= SK_LEASE_GAP_MS * SK_MS ? SK_LEASE_NOTHING
								     : SK_LEASE_FREEZE;
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
