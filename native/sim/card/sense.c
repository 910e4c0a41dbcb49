/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/card/sense.h"

#include <math.h>

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Return the sampled part of each period: all of it unless the sensor has another. */
static uint64_t sampled_ns(const struct sk_sim_sensor *sensor)
{
	return sensor->sampled_ns && sensor->sampled_ns < sensor->period_ns ? sensor->sampled_ns
									    : sensor->period_ns;
}

uint64_t sk_sim_sense_next(const struct sk_sim_card *card)
{
	const struct sk_sim_sensed *at = &card->sensed;

	return earlier(earlier(at->mark_ns, at->point_ns),
		       earlier(at->temperature_ns, at->energy_ns));
}

uint64_t sk_sim_sense_memory_ns(const struct sk_sim_sensor *sensor)
{
	uint64_t slow = later(sensor->energy_period_ns, sensor->temperature_period_ns);
	uint64_t power = sensor->window_ns + sensor->delay_ns + 2 * sensor->period_ns;

	return later(later(SK_SIM_SAMPLES * sensor->period_ns, 2 * slow), power);
}

static void mark(struct sk_sim_card *card)
{
	card->sensed.mark_j = card->now.energy_j;
	card->sensed.mark_ns += card->model.sensor.period_ns;
}

static struct sk_sim_point *push(struct sk_sim_card *card)
{
	struct sk_sim_point *point = &card->history[card->history_next % SK_SIM_HISTORY];

	card->history_next = (card->history_next + 1) % SK_SIM_HISTORY;
	if (card->history_count < SK_SIM_HISTORY)
		card->history_count++;
	return point;
}

static void sample(struct sk_sim_card *card)
{
	const struct sk_sim_sensor *sensor = &card->model.sensor;
	const struct sk_sim_now *now = &card->now;
	struct sk_sim_sensed *sensed = &card->sensed;
	double seconds = (double)sensor->period_ns * 1e-9;

	*push(card) = (struct sk_sim_point){
		.at_ns = now->at_ns,
		.power_w = (now->energy_j - sensed->mark_j) / ((double)sampled_ns(sensor) * 1e-9),
		.instant_w = now->power_w,
		.busy = (now->busy_s - sensed->busy_s) / seconds,
		.memory_busy = (now->memory_busy_s - sensed->memory_busy_s) / seconds,
		.clock_mhz = now->clock_mhz,
	};
	sensed->busy_s = now->busy_s;
	sensed->memory_busy_s = now->memory_busy_s;
	sensed->point_ns += sensor->period_ns;
}

static void look_at_temperature(struct sk_sim_card *card)
{
	card->sensed.die_c = card->now.die_c;
	card->sensed.memory_c = card->now.memory_c;
	card->sensed.temperature_ns += card->model.sensor.temperature_period_ns;
}

static void look_at_energy(struct sk_sim_card *card)
{
	card->sensed.energy_j = card->now.energy_j;
	card->sensed.energy_ns += card->model.sensor.energy_period_ns;
}

/* A sample ends before the next one begins, if both are due now. */
void sk_sim_sense(struct sk_sim_card *card)
{
	const struct sk_sim_sensed *at = &card->sensed;
	uint64_t now = card->now.at_ns;

	if (now == at->point_ns)
		sample(card);
	if (now == at->mark_ns)
		mark(card);
	if (now == at->temperature_ns)
		look_at_temperature(card);
	if (now == at->energy_ns)
		look_at_energy(card);
}

static uint64_t after(uint64_t now, uint64_t period)
{
	return now - now % period + period;
}

/* An unfinished sample continues with the card's present state. */
void sk_sim_sense_restart(struct sk_sim_card *card)
{
	const struct sk_sim_sensor *sensor = &card->model.sensor;
	struct sk_sim_sensed *sensed = &card->sensed;
	uint64_t now = card->now.at_ns;

	sensed->point_ns = after(now, sensor->period_ns);
	sensed->mark_ns = sensed->point_ns - sampled_ns(sensor);
	if (sensed->mark_ns <= now) {
		double missed = (double)(now - sensed->mark_ns) * 1e-9;

		mark(card);
		sensed->mark_j -= card->now.power_w * missed;
	}
	sensed->busy_s = card->now.busy_s;
	sensed->memory_busy_s = card->now.memory_busy_s;
	sensed->temperature_ns = after(now, sensor->temperature_period_ns);
	sensed->energy_ns = after(now, sensor->energy_period_ns);
	sensed->die_c = card->now.die_c;
	sensed->memory_c = card->now.memory_c;
	sensed->energy_j = card->now.energy_j;
}

void sk_sim_sense_rest(struct sk_sim_card *card)
{
	*push(card) = (struct sk_sim_point){
		.at_ns = card->now.at_ns,
		.power_w = card->now.power_w,
		.instant_w = card->now.power_w,
		.clock_mhz = card->now.clock_mhz,
	};
}
