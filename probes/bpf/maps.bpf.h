/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/** @file
 * The counter map and the jobs cgroup, which every BPF object has.
 *
 * A producer counts `made` before it tries and `lost` when it fails, so nothing is dropped
 * uncounted.
 */
#ifndef SK_BPF_MAPS_BPF_H
#define SK_BPF_MAPS_BPF_H

#include "records/counter.h"

/* The cgroup whose grandchildren are jobs, and its depth below the root. Set before loading. */
__weak const volatile __u64 jobs_cgroup = 0;
__weak const volatile __u32 jobs_level = 1;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SK_PRODUCERS);
	__type(key, __u32);
	__type(value, struct sk_counter);
} counters __weak SEC(".maps");

static __always_inline void count_made(__u32 producer)
{
	struct sk_counter *counter = bpf_map_lookup_elem(&counters, &producer);

	if (counter)
		counter->made++;
}

static __always_inline void count_lost(__u32 producer)
{
	struct sk_counter *counter = bpf_map_lookup_elem(&counters, &producer);

	if (counter)
		counter->lost++;
}

#endif
