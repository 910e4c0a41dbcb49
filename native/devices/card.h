/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * A card that is read, and the fields that a vendor's table makes of its calls.
 *
 * `enter` and `leave` surround every call that reads, so that other threads see which call a card's
 * thread is in.
 * Memory: the reader's. Threads: one thread for each card writes, any may read the atomics.
 */
#ifndef SK_DEVICES_CARD_H
#define SK_DEVICES_CARD_H

#include <stdatomic.h>
#include <time.h>

#include "devices/vendor.h"

struct sk_device_card {
	const struct sk_device_vendor *vendor;
	void *handle;			  /* the driver's */
	void *state;			  /* the vendor's */
	_Atomic int32_t doing;		  /* the call that its thread is in; -1: none */
	_Atomic uint64_t since_ns, calls; /* CLOCK_MONOTONIC of `doing`; calls so far */
};

static inline uint64_t sk_device_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void sk_device_enter(struct sk_device_card *card, int32_t call)
{
	atomic_store_explicit(&card->since_ns, sk_device_clock(CLOCK_MONOTONIC),
			      memory_order_relaxed);
	atomic_store_explicit(&card->doing, call, memory_order_release);
}

static inline int32_t sk_device_leave(struct sk_device_card *card, int32_t code)
{
	atomic_store_explicit(&card->doing, -1, memory_order_release);
	atomic_fetch_add_explicit(&card->calls, 1, memory_order_relaxed);
	return code;
}

static inline struct sk_device_field sk_device_value(double value)
{
	return (struct sk_device_field){.value = value};
}

static inline struct sk_device_field sk_device_absent(int32_t call, int32_t code)
{
	return (struct sk_device_field){.value = NAN, .code = code, .call = (uint16_t)call};
}

/** The value that a call gave, or the absence that its code means. */
static inline struct sk_device_field sk_device_said(int32_t call, int32_t code, double value)
{
	return code ? sk_device_absent(call, code) : sk_device_value(value);
}

/** The value of a field, NAN if it is absent. */
static inline double sk_device_number(const struct sk_device_field *field)
{
	return field->code ? NAN : field->value;
}

#endif
