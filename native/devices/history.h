/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The past minute of one card: the numbers of each round, and the driver's own samples of power.
 *
 * Memory: fixed size, no pointers; zeroed is empty. Threads: the caller locks.
 */
#ifndef SK_DEVICES_HISTORY_H
#define SK_DEVICES_HISTORY_H

#include "devices/record.h"

enum {
	SK_DEVICE_FAST_HZ = 10,
	SK_DEVICE_POINTS = 600, /* a minute of rounds */
	/* Fields with a history: those that are read in each round, except for THROTTLE. */
	SK_DEVICE_KEPT = SK_DEVICE_MEMORY_CLOCK + 1,
};

struct sk_device_history {
	uint64_t rounds, samples; /* how many were added so far */
	int64_t t_ns[SK_DEVICE_POINTS];
	uint64_t energy_ns[SK_DEVICE_POINTS];
	double value[SK_DEVICE_KEPT][SK_DEVICE_POINTS]; /* NAN: absent in that round */
	struct sk_device_sample sample[SK_DEVICE_POINTS];
};

/** Add the numbers of a round. */
void sk_device_history_add(struct sk_device_history *history, const struct sk_device_record *now,
			   int64_t t_ns);

/** Add the samples of a record that are newer than the last one. */
void sk_device_history_sample(struct sk_device_history *history,
			      const struct sk_device_record *now);

/** Power from the energy counter, between a second ago and a round that is not added yet. */
struct sk_device_field sk_device_history_power(const struct sk_device_history *history,
					       const struct sk_device_record *now);

/** Copy the newest `most` points of a field after `since_ns`, the oldest first; rounds without a
 * value are left out. Points of POWER_SAMPLES are the driver's samples. Returns the number. */
uint32_t sk_device_history_points(const struct sk_device_history *history, uint32_t field,
				  int64_t since_ns, uint32_t most, int64_t *t_ns, double *values);

#endif
