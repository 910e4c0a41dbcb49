/* SPDX-License-Identifier: Apache-2.0 */
#include "devices/history.h"

#include "devices/card.h"

enum { NS = 1000000000 };

void sk_device_history_add(struct sk_device_history *history, const struct sk_device_record *now,
			   int64_t t_ns)
{
	uint64_t place = history->rounds++ % SK_DEVICE_POINTS;

	history->t_ns[place] = t_ns;
	history->energy_ns[place] = now->energy_ns;
	for (uint32_t i = 0; i < SK_DEVICE_KEPT; i++)
		history->value[i][place] = sk_device_number(&now->field[i]);
}

/* Answers of the driver overlap, so that only newer samples are added. */
void sk_device_history_sample(struct sk_device_history *history, const struct sk_device_record *now)
{
	const struct sk_device_field *field = &now->field[SK_DEVICE_POWER_SAMPLES];
	uint32_t count = field->code ? 0 : (uint32_t)field->value;

	for (uint32_t i = 0; i < count && i < SK_DEVICE_SAMPLES_MAX; i++) {
		uint64_t newest = (history->samples - 1) % SK_DEVICE_POINTS;

		if (history->samples && now->sample[i].t_ns <= history->sample[newest].t_ns)
			continue;
		history->sample[history->samples++ % SK_DEVICE_POINTS] = now->sample[i];
	}
}

struct sk_device_field sk_device_history_power(const struct sk_device_history *history,
					       const struct sk_device_record *now)
{
	const struct sk_device_field *energy = &now->field[SK_DEVICE_ENERGY];
	struct sk_device_field power = sk_device_absent(SK_DEVICE_NO_CALL, SK_DEVICE_TOO_EARLY);
	uint64_t past = (history->rounds - SK_DEVICE_FAST_HZ) % SK_DEVICE_POINTS;
	double grown, passed_ns;

	if (energy->code)
		return *energy;
	if (history->rounds < SK_DEVICE_FAST_HZ)
		return power;
	grown = energy->value - history->value[SK_DEVICE_ENERGY][past];
	passed_ns = (double)(now->energy_ns - history->energy_ns[past]);
	/* A counter that went back belongs to a driver that was loaded again. */
	if (!(grown >= 0) || now->energy_ns < history->energy_ns[past] || passed_ns < 0.9 * NS)
		return power;
	power = sk_device_value(grown / passed_ns * NS);
	power.window_us = (uint32_t)(passed_ns / 1000);
	return power;
}

static bool point_at(const struct sk_device_history *history, uint32_t field, uint64_t round,
		     struct sk_device_sample *ret)
{
	uint64_t place = round % SK_DEVICE_POINTS;

	if (field == SK_DEVICE_POWER_SAMPLES)
		*ret = history->sample[place];
	else
		*ret = (struct sk_device_sample){history->t_ns[place],
						 history->value[field][place]};
	return !isnan(ret->watts);
}

uint32_t sk_device_history_points(const struct sk_device_history *history, uint32_t field,
				  int64_t since_ns, uint32_t most, int64_t *t_ns, double *values)
{
	struct sk_device_sample point;
	uint64_t end, first;
	uint32_t found = 0;

	if (field >= SK_DEVICE_KEPT && field != SK_DEVICE_POWER_SAMPLES)
		return 0;
	end = field == SK_DEVICE_POWER_SAMPLES ? history->samples : history->rounds;
	first = end > SK_DEVICE_POINTS ? end - SK_DEVICE_POINTS : 0;
	first = most < end - first ? end - most : first;
	for (uint64_t i = first; i < end; i++) {
		if (!point_at(history, field, i, &point) || point.t_ns <= since_ns)
			continue;
		t_ns[found] = point.t_ns;
		values[found++] = point.watts;
	}
	return found;
}
