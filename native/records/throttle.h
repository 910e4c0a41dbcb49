/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The launch throttle: the word by which the agent limits in which share of the time a process's
 * launches begin.
 *
 * trace/job/drain.c writes it and probes/tracer obeys it. The first part of each period of 20 ms is
 * open; launches that come in the rest wait until the next period. Periods are counted on
 * CLOCK_MONOTONIC, so that all processes of a node share them.
 *
 * Invariant: a launch waits at most one period, and none waits SK_THROTTLE_VALID_NS after a word
 * was written, whatever became of its writer; a word that could do more is open.
 */
#ifndef SK_RECORDS_THROTTLE_H
#define SK_RECORDS_THROTTLE_H

#include <stdint.h>

enum {
	SK_THROTTLE_WHOLE = 1024, /* the share of a word is in parts of it, 1 to 1023 */
	SK_THROTTLE_PERIOD_NS = 20000000,
	SK_THROTTLE_VALID_NS = 1000000000,
};

/** Return the word for a share, valid until `until_ns`; 0, open, for a share that delays nothing.
 */
static inline uint64_t sk_throttle_word(uint32_t share, uint64_t until_ns)
{
	if (!share || share >= SK_THROTTLE_WHOLE)
		return 0;
	return (until_ns & ~(uint64_t)(SK_THROTTLE_WHOLE - 1)) | share;
}

static inline uint32_t sk_throttle_share(uint64_t word)
{
	return (uint32_t)(word & (SK_THROTTLE_WHOLE - 1));
}

static inline uint64_t sk_throttle_until(uint64_t word)
{
	return word & ~(uint64_t)(SK_THROTTLE_WHOLE - 1);
}

/** Return when a launch at `now_ns` may begin; 0: at once. */
static inline uint64_t sk_throttle_opens(uint64_t word, uint64_t now_ns)
{
	uint64_t share = sk_throttle_share(word), until = sk_throttle_until(word);
	uint64_t gone = now_ns % SK_THROTTLE_PERIOD_NS;

	if (!share || now_ns >= until || until - now_ns > SK_THROTTLE_VALID_NS)
		return 0;
	if (gone * SK_THROTTLE_WHOLE < share * SK_THROTTLE_PERIOD_NS)
		return 0;
	uint64_t next = now_ns - gone + SK_THROTTLE_PERIOD_NS;

	return next < until ? next : until;
}

#endif
