/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A least-squares line through pairs of readings; times are taken relative to the newest pair, so
 * that doubles hold them to a nanosecond over days.
 */
#include "clocks/fit.h"

#include <math.h>

/* The limit of a clock that is being slewed: adjtimex allows 500 ppm, and as much again for a
 * crystal. Beyond it, and beyond the error of the readings, the clock was set. */
static const double SLEW_MAX = 1e-3;
static const double SLACK_NS = 2000;

static const struct sk_clock_pair *newest(const struct sk_clock_fit *fit)
{
	return &fit->pairs[(fit->next + SK_FIT_PAIRS - 1) % SK_FIT_PAIRS];
}

static int64_t offset_of(const struct sk_clock_pair *pair)
{
	return (int64_t)(pair->at_ns - pair->clock_ns);
}

struct line {
	double slope; /* of the offset over the other clock's time */
	double at_zero;
};

/* `x` is the other clock's time since the newest pair, `y` the offset's change since it. */
static struct line through(const struct sk_clock_fit *fit)
{
	const struct sk_clock_pair *last = newest(fit);
	double n = fit->count, sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;

	for (uint32_t i = 0; i < fit->count; i++) {
		double x = (double)(int64_t)(fit->pairs[i].clock_ns - last->clock_ns);
		double y = (double)(offset_of(&fit->pairs[i]) - offset_of(last));

		sum_x += x;
		sum_y += y;
		sum_xx += x * x;
		sum_xy += x * y;
	}
	double spread = n * sum_xx - sum_x * sum_x;
	double slope = spread > 0 ? (n * sum_xy - sum_x * sum_y) / spread : 0;

	return (struct line){slope, (sum_y - slope * sum_x) / n};
}

static uint64_t longest(const struct sk_clock_fit *fit)
{
	const struct sk_clock_pair *last = newest(fit);
	uint64_t most = 0;

	for (uint32_t i = 0; i < fit->count; i++) {
		uint64_t since = last->at_ns - fit->pairs[i].at_ns;

		most = since > most ? since : most;
	}
	return most;
}

/* Without a drift the line is flat and goes through the newest pair. */
static struct line line_of(const struct sk_clock_fit *fit, bool *has_drift)
{
	*has_drift = fit->count >= 3 && longest(fit) >= (uint64_t)SK_FIT_DRIFT_AFTER_MS * 1000000;
	return *has_drift ? through(fit) : (struct line){0, 0};
}

static double farthest(const struct sk_clock_fit *fit, struct line line)
{
	const struct sk_clock_pair *last = newest(fit);
	double most = 0;

	for (uint32_t i = 0; i < fit->count; i++) {
		double x = (double)(int64_t)(fit->pairs[i].clock_ns - last->clock_ns);
		double y = (double)(offset_of(&fit->pairs[i]) - offset_of(last));
		double miss = fabs(y - (line.at_zero + line.slope * x));

		most = miss > most ? miss : most;
	}
	return most;
}

static bool was_set(const struct sk_clock_fit *fit, const struct sk_clock_pair *pair)
{
	const struct sk_clock_pair *last = newest(fit);
	double moved = fabs((double)(offset_of(pair) - offset_of(last)));
	double since = fabs((double)(int64_t)(pair->at_ns - last->at_ns));

	return moved > SLACK_NS + since * SLEW_MAX + (double)(pair->error_ns + last->error_ns);
}

bool sk_clock_fit_add(struct sk_clock_fit *fit, const struct sk_clock_pair *pair)
{
	bool set = fit->count && was_set(fit, pair);

	if (set) {
		fit->count = 0;
		fit->next = 0;
		fit->steps++;
	}
	fit->pairs[fit->next] = *pair;
	fit->next = (fit->next + 1) % SK_FIT_PAIRS;
	fit->count += fit->count < SK_FIT_PAIRS;
	return !set;
}

bool sk_clock_fit_row(const struct sk_clock_fit *fit, struct sk_clock_row *ret)
{
	if (!fit->count)
		return false;
	const struct sk_clock_pair *last = newest(fit);
	bool has_drift;
	struct line line = line_of(fit, &has_drift);

	*ret = (struct sk_clock_row){
		.reference_ns = last->clock_ns,
		.refreshed_ns = last->at_ns,
		.offset_ns = offset_of(last) + llround(line.at_zero),
		.drift_ppb = llround(line.slope * 1e9),
		.error_ns = last->error_ns + (uint64_t)llround(farthest(fit, line)),
		.pairs = fit->count,
		.steps = fit->steps,
		.has_drift = has_drift,
	};
	return true;
}
