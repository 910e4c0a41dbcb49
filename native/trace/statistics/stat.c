/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate of totals from samples; see stat.h. Adding uses integers only. */
#include "trace/statistics/stat.h"

#include <math.h>

void sk_trace_stat_add(struct sk_trace_stat *stat, uint64_t ns, unsigned shift)
{
	struct sk_trace_stratum *stratum = &stat->strata[shift];
	unsigned __int128 square = (unsigned __int128)ns * ns;

	square += (unsigned __int128)stratum->square_high << 64 | stratum->square_low;
	stratum->square_low = (uint64_t)square;
	stratum->square_high = (uint64_t)(square >> 64);
	stratum->timed++;
	stratum->sum_ns += ns;
	sk_trace_histogram_add(&stat->histogram, ns, UINT64_C(1) << shift);
}

uint64_t sk_trace_stat_weighted_ns(const struct sk_trace_stat *stat)
{
	uint64_t sum = 0;

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++)
		sum += stat->strata[shift].sum_ns << shift;
	return sum;
}

static void merge_stratum(struct sk_trace_stratum *to, const struct sk_trace_stratum *from)
{
	unsigned __int128 square = (unsigned __int128)to->square_high << 64 | to->square_low;

	square += (unsigned __int128)from->square_high << 64 | from->square_low;
	to->square_low = (uint64_t)square;
	to->square_high = (uint64_t)(square >> 64);
	to->timed += from->timed;
	to->sum_ns += from->sum_ns;
}

void sk_trace_stat_merge(struct sk_trace_stat *stat, const struct sk_trace_stat *other)
{
	stat->retired += other->retired;
	stat->retired_bytes += other->retired_bytes;
	stat->retired_unseen += other->retired_unseen;
	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++)
		merge_stratum(&stat->strata[shift], &other->strata[shift]);
	sk_trace_histogram_merge(&stat->histogram, &other->histogram);
}

/* Return the unbiased variance of `timed` values with the given sums. */
static double variance(double timed, double sum, double square)
{
	double value = timed > 1 ? (square - sum * sum / timed) / (timed - 1) : 0;

	return value > 0 ? value : 0;
}

static double square_of(const struct sk_trace_stratum *stratum)
{
	return ldexp((double)stratum->square_high, 64) + (double)stratum->square_low;
}

/* Return the variance over all strata together, for strata with too few samples. */
static double pooled_variance(const struct sk_trace_stat *stat)
{
	double timed = 0, sum = 0, square = 0;

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++) {
		timed += (double)stat->strata[shift].timed;
		sum += (double)stat->strata[shift].sum_ns;
		square += square_of(&stat->strata[shift]);
	}
	return variance(timed, sum, square);
}

/* Return the variance of the estimated total: in each stratum one value out of every 2^shift was
 * seen. Treating them as one simple sample, not one per block, errs on the wide side. */
static double total_variance(const struct sk_trace_stat *stat, double untimed, double timed)
{
	enum { FEW = 8 };
	double pooled = pooled_variance(stat), sum = untimed * untimed * pooled / timed;

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++) {
		const struct sk_trace_stratum *stratum = &stat->strata[shift];
		double count = (double)stratum->timed, weight = ldexp(1, shift);
		double each =
			count < FEW ? pooled
				    : variance(count, (double)stratum->sum_ns, square_of(stratum));

		sum += count * weight * weight * each * (1 - 1 / weight);
	}
	return sum;
}

/* The normal distribution's value and terms for few samples, within 0.5 % of the table. */
double sk_trace_stat_student(double freedom)
{
	double part = freedom < 1 ? 1 : 1 / freedom;

	return 1.96 + part * (2.37 + part * (2.82 + part * (1.69 + part * 3.87)));
}

/* A hostile segment may claim any lengths and counts. */
static uint64_t saturated(double ns)
{
	return ns < 0x1p63 ? (uint64_t)ns : UINT64_C(1) << 63;
}

void sk_trace_stat_total(const struct sk_trace_stat *stat, uint64_t count,
			 struct sk_trace_stat_total *ret)
{
	uint64_t weighted = 0, timed = 0;
	unsigned __int128 sum = 0;

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++) {
		timed += stat->strata[shift].timed;
		weighted += stat->strata[shift].timed << shift;
		sum += (unsigned __int128)stat->strata[shift].sum_ns << shift;
	}
	*ret = (struct sk_trace_stat_total){.timed = timed, .estimate = timed != count};
	if (!weighted)
		return;
	ret->total_ns = (uint64_t)(ret->estimate ? sum * count / weighted : sum);
	if (!ret->estimate)
		return;
	double untimed = count > weighted ? (double)(count - weighted) : 0;
	double width = sqrt(total_variance(stat, untimed, (double)timed));
	/* Rare long launches make the sum skewed, and a sample may have missed some: up to three
	 * launches of an unseen kind may be among the others of the blocks (the rule of three, 95
	 * %). */
	double untold = count > timed ? (double)count / (double)timed - 1 : 0;
	double unseen = 3 * (double)stat->histogram.max * untold;

	ret->error_ns = saturated(ceil(sk_trace_stat_student((double)timed - 1) * width + unseen));
}
