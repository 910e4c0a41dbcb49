/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The table of tallies and the one way to add to it.
 *
 * Additions are atomic, because threads of one job share an entry. Entries take memory only while
 * they exist; the loader removes those of a job that it forgets.
 */
#ifndef SK_BPF_TALLY_BPF_H
#define SK_BPF_TALLY_BPF_H

#include "maps.bpf.h"
#include "records/tally.h"

#define UNTIMED (~0ULL)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sk_tally_key);
	__type(value, struct sk_tally);
} tallies __weak SEC(".maps");

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 bucket = 0;

#pragma unroll
	for (__u32 width = 16; width; width >>= 1) {
		if (ns >> width) {
			ns >>= width;
			bucket += width;
		}
	}
	return ns > 1 ? SK_TALLY_BUCKETS - 1 : bucket;
}

static __always_inline void raise_to(__u64 *highest, __u64 value)
{
#pragma unroll
	for (int attempt = 0; attempt < 4; attempt++) {
		__u64 seen = *highest;

		if (seen >= value || __sync_val_compare_and_swap(highest, seen, value) == seen)
			return;
	}
}

/* An entry is copied from this, because it is larger than a program's stack allows. */
static const struct sk_tally no_tally;

static __always_inline struct sk_tally *tally_of(struct sk_tally_key *key)
{
	struct sk_tally *tally = bpf_map_lookup_elem(&tallies, key);

	if (tally)
		return tally;
	count_made(SK_PRODUCER_TALLY);
	bpf_map_update_elem(&tallies, key, &no_tally, BPF_NOEXIST);
	tally = bpf_map_lookup_elem(&tallies, key);
	if (!tally)
		count_lost(SK_PRODUCER_TALLY);
	return tally;
}

static __always_inline void tally_add(struct sk_tally_key *key, __u64 ns, __u64 amount)
{
	struct sk_tally *tally = tally_of(key);

	if (!tally)
		return;
	__sync_fetch_and_add(&tally->count, 1);
	if (amount)
		__sync_fetch_and_add(&tally->amount, amount);
	if (ns == UNTIMED)
		return;
	__sync_fetch_and_add(&tally->ns, ns);
	__sync_fetch_and_add(&tally->lengths[bucket_of(ns) % SK_TALLY_BUCKETS], 1);
	raise_to(&tally->longest_ns, ns);
}

/* Clocks of two CPUs may differ. */
static __always_inline __u64 since(__u64 began_ns)
{
	__u64 now = bpf_ktime_get_ns();

	return now > began_ns ? now - began_ns : 0;
}

#endif
