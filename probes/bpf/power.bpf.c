/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0) */
/*
 * The clock of the node's CPUs and its thermal events.
 *
 * These belong to the node, so to job 0; the last value and the number of changes are kept.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "tally.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline int seen_value(__u32 what, __u32 detail, __u64 value)
{
	struct sk_tally_key key = {.what = what, .detail = detail};
	struct sk_tally *tally = tally_of(&key);

	if (!tally)
		return 0;
	tally->last = value;
	__sync_fetch_and_add(&tally->count, 1);
	return 0;
}

/* (unsigned int khz, unsigned int cpu) */
SEC("raw_tp/cpu_frequency")
int on_frequency(__u64 *ctx)
{
	return seen_value(SK_TALLY_FREQUENCY, (__u32)ctx[1], (__u32)ctx[0]);
}

SEC("raw_tp/thermal_temperature")
int on_temperature(__u64 *ctx)
{
	struct thermal_zone_device *zone = (struct thermal_zone_device *)ctx[0];

	return seen_value(SK_TALLY_TEMPERATURE, BPF_CORE_READ(zone, id),
			  (__s64)BPF_CORE_READ(zone, temperature));
}

/* (struct thermal_zone_device *, int trip, enum thermal_trip_type) */
SEC("raw_tp/thermal_zone_trip")
int on_trip(__u64 *ctx)
{
	struct thermal_zone_device *zone = (struct thermal_zone_device *)ctx[0];

	return seen_value(SK_TALLY_TRIP, BPF_CORE_READ(zone, id), (__u32)ctx[2]);
}

/* (struct thermal_cooling_device *, unsigned long state) */
SEC("raw_tp/cdev_update")
int on_cooling(__u64 *ctx)
{
	struct thermal_cooling_device *device = (struct thermal_cooling_device *)ctx[0];

	return seen_value(SK_TALLY_COOLING, BPF_CORE_READ(device, id), ctx[1]);
}
