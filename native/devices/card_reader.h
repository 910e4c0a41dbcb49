/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A thread that reads one card through its vendor's table at a fixed period. It keeps the newest
 * record and the history of a minute.
 *
 * Python takes records on demand: waking Python for each card ten times a second would cost several
 * times as much as the driver's calls. Invariant: no lock is held during a driver's call, so that a
 * call that never returns blocks this thread alone, and other threads see which call it is.
 * Memory: one allocation for each card, freed by stop. Threads: any may call everything here.
 */
#ifndef SK_DEVICES_CARD_READER_H
#define SK_DEVICES_CARD_READER_H

#include "devices/history.h"
#include "devices/vendor.h"

enum { SK_DEVICE_SLOW = SK_DEVICE_FAST_HZ }; /* rounds from one slow round to the next */

struct sk_device_state {
	int32_t doing;	   /* the call that the thread is in; -1: none */
	uint64_t since_ns; /* CLOCK_MONOTONIC of `doing` */
	uint64_t rounds, late, missed, calls;
	uint64_t changes; /* rounds in which a field's code changed */
};

/** The time at which a record was read. */
struct sk_device_moment {
	uint64_t rounds; /* rounds so far */
	int64_t t_ns;	 /* CLOCK_REALTIME, after the last call */
	int64_t slow_ns; /* CLOCK_REALTIME of the last slow round */
};

struct sk_device_reader;

/** Start the thread of the card with this handle. `period_ns` is at least a millisecond, `phase_ns`
 * is added to each due time. -EINVAL, -ENOMEM, or the error of pthread_create. */
int sk_device_reader_start(const struct sk_device_vendor *vendor, void *handle, uint64_t period_ns,
			   uint64_t phase_ns, struct sk_device_reader **ret);

/** End the thread and free everything; a thread that hangs in a call is abandoned with its memory.
 */
void sk_device_reader_stop(struct sk_device_reader *reader);

/** Request that the vendor finds the parts of the card again before the next round. */
void sk_device_reader_renew(struct sk_device_reader *reader);

/** Copy the newest record. */
struct sk_device_moment sk_device_reader_copy(struct sk_device_reader *reader,
					      struct sk_device_record *ret);

struct sk_device_state sk_device_reader_state(const struct sk_device_reader *reader);

/** Copy the newest value of each field, NAN for none. Returns the number of rounds. */
uint64_t sk_device_reader_latest(struct sk_device_reader *reader, double ret[SK_DEVICE_FIELDS]);

/** Copy points as sk_device_history_points does. */
uint32_t sk_device_reader_points(struct sk_device_reader *reader, uint32_t field, int64_t since_ns,
				 uint32_t most, int64_t *t_ns, double *values);

/** From now on write to this non-blocking eventfd after each round with news (news.h) or a changed
 * code, and after each `rest`th slow round. -1: no more, and the descriptor may be closed. -EINVAL
 * for a `rest` of 0. */
int sk_device_reader_watch(struct sk_device_reader *reader, int eventfd, uint32_t rest,
			   const double level[SK_DEVICE_FIELDS]);

/** Return the number of writes to the eventfd so far. */
uint64_t sk_device_reader_wakeups(const struct sk_device_reader *reader);

/** CPU time in ns that the calls of one second take in a bare loop, the least of several tries.
 * Blocks while the driver does. -errno if the vendor cannot find the card's parts. */
int64_t sk_device_second_ns(const struct sk_device_vendor *vendor, void *handle);

#endif
