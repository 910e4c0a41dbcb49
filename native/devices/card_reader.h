/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A thread that reads one card through its vendor's table at a fixed pace and keeps what it found:
 * the newest record, and a minute of each number.
 *
 * Python reads what it wants when it wants it: waking Python for each card ten times a second would
 * cost several times what the calls do. Invariant: no lock is held while a driver is called, so
 * that a call that never returns takes this thread alone, and readers see which call it is.
 * Memory: one allocation for each card, freed by stop. Threads: any may call everything here.
 */
#ifndef SK_DEVICES_CARD_READER_H
#define SK_DEVICES_CARD_READER_H

#include "devices/vendor.h"

enum {
	SK_DEVICE_FAST_HZ = 10,
	SK_DEVICE_SLOW = 10,	/* rounds from one slow round to the next */
	SK_DEVICE_POINTS = 600, /* a minute at 10 Hz */
};

struct sk_device_state {
	int32_t doing;	   /* the call that the thread is inside of; -1: none */
	uint64_t since_ns; /* CLOCK_MONOTONIC of `doing` */
	uint64_t rounds, late, missed, calls;
	uint64_t changes; /* rounds in which a field's code was another than before */
};

/** When a copied record was read. */
struct sk_device_moment {
	uint64_t rounds; /* 0: there was none yet */
	int64_t t_ns;	 /* CLOCK_REALTIME, after the last call */
	int64_t slow_ns; /* the same for what is read once a second */
};

struct sk_device_reader;

/** Start the thread for the card with this handle; period_ns of at least a millisecond, phase_ns is
 * added to each due time. -EINVAL, -ENOMEM, or what pthread_create said. */
int sk_device_reader_start(const struct sk_device_vendor *vendor, void *handle, uint64_t period_ns,
			   uint64_t phase_ns, struct sk_device_reader **ret);

/** End the thread and free everything; one that hangs in a call is left behind with its memory. */
void sk_device_reader_stop(struct sk_device_reader *reader);

/** Let the vendor look again for what does not change, before the next round. */
void sk_device_reader_renew(struct sk_device_reader *reader);

/** Copy the newest record. */
struct sk_device_moment sk_device_reader_copy(struct sk_device_reader *reader,
					      struct sk_device_record *ret);

struct sk_device_state sk_device_reader_state(const struct sk_device_reader *reader);

/** Newest value of each field, NAN for none. Returns the rounds. */
uint64_t sk_device_reader_latest(struct sk_device_reader *reader, double ret[SK_DEVICE_FIELDS]);

/** Newest `most` points of a field after `since_ns`, the oldest first; rounds without a value are
 * left out. The points of POWER_SAMPLES are the driver's own samples. Returns how many. */
uint32_t sk_device_reader_points(struct sk_device_reader *reader, uint32_t field, int64_t since_ns,
				 uint32_t most, int64_t *t_ns, double *values);

/** From now on write to this eventfd, which does not block, after each round in which a field's
 * code changed, a counter of errors or a reason that tells of a fault changed, or a field was at
 * its level (NAN: it has none) or above it; and after each `rest`th slow round. -1: no more, and
 * the descriptor may be closed. -EINVAL for a `rest` of 0. */
int sk_device_reader_watch(struct sk_device_reader *reader, int eventfd, uint32_t rest,
			   const double level[SK_DEVICE_FIELDS]);

/** Return the number of wake-ups written so far. */
uint64_t sk_device_reader_wakeups(const struct sk_device_reader *reader);

/** CPU time in ns that the calls of one second take in a bare loop: the least of some tries. Blocks
 * as the driver does. -errno for a vendor that cannot begin. */
int64_t sk_device_second_ns(const struct sk_device_vendor *vendor, void *handle);

#endif
