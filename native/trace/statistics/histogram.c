/* SPDX-License-Identifier: Apache-2.0 */
/* Duration histogram; see histogram.h. The bounds of the 32 buckets of an octave are a table. */
#include "trace/statistics/histogram.h"

#include <errno.h>

/* floor(2^(63 + j/32)). These are irrational but for j = 0, so for an integer v scaled to have
 * bit 63 set, v > 2^(63 + j/32) exactly when v > OCTAVE[j]. */
static const uint64_t OCTAVE[32] = {
	UINT64_C(0x8000000000000000), UINT64_C(0x82cd8698ac2ba1d7), UINT64_C(0x85aac367cc487b14),
	UINT64_C(0x88980e8092da8527), UINT64_C(0x8b95c1e3ea8bd6e6), UINT64_C(0x8ea4398b45cd53c0),
	UINT64_C(0x91c3d373ab11c336), UINT64_C(0x94f4efa8fef70961), UINT64_C(0x9837f0518db8a96f),
	UINT64_C(0x9b8d39b9d54e5538), UINT64_C(0x9ef5326091a111ad), UINT64_C(0xa27043030c496818),
	UINT64_C(0xa5fed6a9b15138ea), UINT64_C(0xa9a15ab4ea7c0ef8), UINT64_C(0xad583eea42a14ac6),
	UINT64_C(0xb123f581d2ac258f), UINT64_C(0xb504f333f9de6484), UINT64_C(0xb8fbaf4762fb9ee9),
	UINT64_C(0xbd08a39f580c36be), UINT64_C(0xc12c4cca66709456), UINT64_C(0xc5672a115506dadd),
	UINT64_C(0xc9b9bd866e2f27a2), UINT64_C(0xce248c151f8480e3), UINT64_C(0xd2a81d91f12ae45a),
	UINT64_C(0xd744fccad69d6af4), UINT64_C(0xdbfbb797daf23755), UINT64_C(0xe0ccdeec2a94e111),
	UINT64_C(0xe5b906e77c8348a8), UINT64_C(0xeac0c6e7dd24392e), UINT64_C(0xefe4b99bdcdaf5cb),
	UINT64_C(0xf5257d152486cc2c), UINT64_C(0xfa83b2db722a033a),
};

/* Bucket of the lowest value of each 64th of an octave: floor(32 * log2(1 + i / 64)). */
static const uint8_t FIRST[64] = {
	0,  0,	1,  2,	2,  3,	4,  4,	5,  6,	6,  7,	7,  8,	9,  9,	10, 10, 11, 12, 12, 13,
	13, 14, 14, 15, 15, 16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 21, 22, 22, 23, 23,
	24, 24, 25, 25, 25, 26, 26, 27, 27, 27, 28, 28, 29, 29, 29, 30, 30, 30, 31, 31,
};

int sk_trace_histogram_index(uint64_t value)
{
	int octave = 63 - __builtin_clzll(value);
	uint64_t scaled = value << (63 - octave);
	/* 64 cells of an octave: a bucket is never narrower than one, so the guess is right or one
	 * too low. */
	int step = FIRST[scaled >> 57 & 63];

	step += step < 31 && scaled > OCTAVE[step + 1];
	/* A power of two is the inclusive upper bound of the bucket below it. */
	return 32 * octave + step - (scaled == OCTAVE[0]);
}

uint64_t sk_trace_histogram_lower(int index)
{
	return OCTAVE[index & 31] >> (63 - index / 32);
}

void sk_trace_histogram_add(struct sk_trace_histogram *histogram, uint64_t value, uint64_t weight)
{
	if (!histogram->count || value < histogram->min)
		histogram->min = value;
	if (value > histogram->max)
		histogram->max = value;
	histogram->count += weight;
	histogram->sum += value * weight;
	if (value <= SK_HISTOGRAM_ZERO) {
		histogram->zero += weight;
		return;
	}
	int bucket = sk_trace_histogram_index(value) - SK_HISTOGRAM_INDEX_FIRST;

	if (bucket >= SK_HISTOGRAM_BUCKETS) {
		bucket = SK_HISTOGRAM_BUCKETS - 1;
		histogram->high += weight;
	}
	histogram->buckets[bucket] += weight;
}

void sk_trace_histogram_merge(struct sk_trace_histogram *histogram,
			      const struct sk_trace_histogram *other)
{
	if (!other->count)
		return;
	if (!histogram->count || other->min < histogram->min)
		histogram->min = other->min;
	if (other->max > histogram->max)
		histogram->max = other->max;
	histogram->count += other->count;
	histogram->sum += other->sum;
	histogram->zero += other->zero;
	histogram->high += other->high;
	for (int bucket = 0; bucket < SK_HISTOGRAM_BUCKETS; bucket++)
		histogram->buckets[bucket] += other->buckets[bucket];
}

static uint64_t clamped(const struct sk_trace_histogram *histogram, uint64_t value)
{
	if (value < histogram->min)
		return histogram->min;
	return value > histogram->max ? histogram->max : value;
}

int sk_trace_histogram_quantile(const struct sk_trace_histogram *histogram, unsigned permille,
				uint64_t *ret)
{
	if (!histogram->count)
		return -ENODATA;
	/* The smallest value with at least permille/1000 of the weight at or below it. */
	uint64_t rank = (uint64_t)(((unsigned __int128)histogram->count * permille + 999) / 1000);
	uint64_t below = histogram->zero;

	if (rank <= below) {
		*ret = clamped(histogram, SK_HISTOGRAM_ZERO);
		return 0;
	}
	for (int bucket = 0; bucket < SK_HISTOGRAM_BUCKETS; bucket++) {
		below += histogram->buckets[bucket];
		if (below < rank)
			continue;
		int index = bucket + SK_HISTOGRAM_INDEX_FIRST;
		uint64_t lower = sk_trace_histogram_lower(index);

		*ret = clamped(histogram,
			       lower + (sk_trace_histogram_lower(index + 1) - lower + 1) / 2);
		return 0;
	}
	*ret = histogram->max;
	return 0;
}
