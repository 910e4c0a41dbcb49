/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate of totals from samples; see stat.h. Adding uses integers only. */
#include "trace/statistics/stat.h"

#include <math.h>

void sk_trace_stat_add(struct sk_trace_stat *stat, uint64_t ns, unsigned shift,
		       enum sk_trace_stat_draw draw)
{
	struct sk_trace_stratum *stratum = &stat->strata[draw][shift];
	unsigned __int128 square = (unsigned __int128)ns * ns;

	square += (unsigned __int128)stratum->square_high << 64 | stratum->square_low;
	stratum->square_low = (uint64_t)square;
	stratum->square_high = (uint64_t)(square >> 64);
	stratum->timed++;
	stratum->sum_ns += ns;
	sk_trace_histogram_add(&stat->histogram, ns, UINT64_C(1) << shift);
}

static struct sk_trace_stat_sums sums_of(const struct sk_trace_stat *stat,
					 enum sk_trace_stat_draw draw)
{
	struct sk_trace_stat_sums sums = {0};

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++) {
		sums.launches += stat->strata[draw][shift].timed << shift;
		sums.ns += stat->strata[draw][shift].sum_ns << shift;
	}
	return sums;
}

uint64_t sk_trace_stat_weighted_ns(const struct sk_trace_stat *stat)
{
	return sums_of(stat, SK_STAT_WHOLE).ns + sums_of(stat, SK_STAT_DRAWN).ns;
}

static uint64_t scaled(uint64_t ns, uint64_t count, uint64_t launches)
{
	return launches ? (uint64_t)((unsigned __int128)ns * count / launches) : 0;
}

uint64_t sk_trace_stat_scale(const struct sk_trace_stat_sums sums[SK_STAT_DRAWS], uint64_t count)
{
	const struct sk_trace_stat_sums *whole = &sums[SK_STAT_WHOLE],
					*drawn = &sums[SK_STAT_DRAWN];
	uint64_t rest = count > whole->launches ? count - whole->launches : 0;

	if (!drawn->launches || !rest)
		return scaled(whole->ns + drawn->ns, count, whole->launches + drawn->launches);
	return whole->ns + scaled(drawn->ns, rest, drawn->launches);
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
	for (int draw = 0; draw < SK_STAT_DRAWS; draw++)
		for (int shift = 0; shift < SK_STAT_SHIFTS; shift++)
			merge_stratum(&stat->strata[draw][shift], &other->strata[draw][shift]);
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

/* Return the variance over all strata of a kind together, for strata with too few samples. */
static double pooled_variance(const struct sk_trace_stratum strata[SK_STAT_SHIFTS],
			      double *ret_timed)
{
	double timed = 0, sum = 0, square = 0;

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++) {
		timed += (double)strata[shift].timed;
		sum += (double)strata[shift].sum_ns;
		square += square_of(&strata[shift]);
	}
	*ret_timed = timed;
	return variance(timed, sum, square);
}

/* Return the variance of the total of what samples of a kind stand for: in each stratum one value
 * out of every 2^shift was seen, and none of `untimed`. Treating them as one simple sample, not one
 * per block, errs on the wide side. */
static double kind_variance(const struct sk_trace_stratum strata[SK_STAT_SHIFTS], double untimed)
{
	enum { FEW = 8 };
	double timed, pooled = pooled_variance(strata, &timed);
	double sum = timed > 0 ? untimed * untimed * pooled / timed : 0;

	for (int shift = 0; shift < SK_STAT_SHIFTS; shift++) {
		const struct sk_trace_stratum *stratum = &strata[shift];
		double count = (double)stratum->timed, weight = ldexp(1, shift);
		double each =
			count < FEW ? pooled
				    : variance(count, (double)stratum->sum_ns, square_of(stratum));

		sum += count * weight * weight * each * (1 - 1 / weight);
	}
	return sum;
}

/* Return the variance of the estimated total. Launches of which none was timed are estimated by
 * drawn windows, where there are any. */
static double total_variance(const struct sk_trace_stat *stat, double untimed, bool drawn)
{
	return kind_variance(stat->strata[SK_STAT_WHOLE], drawn ? 0 : untimed) +
	       kind_variance(stat->strata[SK_STAT_DRAWN], drawn ? untimed : 0);
}

static uint64_t samples(const struct sk_trace_stat *stat)
{
	uint64_t timed = 0;

	for (int draw = 0; draw < SK_STAT_DRAWS; draw++)
		for (int shift = 0; shift < SK_STAT_SHIFTS; shift++)
			timed += stat->strata[draw][shift].timed;
	return timed;
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
	const struct sk_trace_stat_sums sums[SK_STAT_DRAWS] = {sums_of(stat, SK_STAT_WHOLE),
							       sums_of(stat, SK_STAT_DRAWN)};
	uint64_t timed = samples(stat), weighted = sums[0].launches + sums[1].launches;

	*ret = (struct sk_trace_stat_total){.timed = timed, .estimate = timed != count};
	if (!weighted)
		return;
	ret->total_ns = ret->estimate ? sk_trace_stat_scale(sums, count) : sums[0].ns + sums[1].ns;
	if (!ret->estimate)
		return;
	double untimed = count > weighted ? (double)(count - weighted) : 0;
	double width = sqrt(total_variance(stat, untimed, sums[SK_STAT_DRAWN].launches > 0));
	/* Rare long launches make the sum skewed, and a sample may have missed some: up to three
	 * launches of an unseen kind may be among the others of the blocks (the rule of three, 95
	 * %). */
	double untold = count > timed ? (double)count / (double)timed - 1 : 0;
	double unseen = 3 * (double)stat->histogram.max * untold;

	ret->error_ns = saturated(ceil(sk_trace_stat_student((double)timed - 1) * width + unseen));
}
