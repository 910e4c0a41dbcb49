/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/card/sensor.h"

#include <math.h>
#include <stddef.h>

#define FAN_LOWEST 30.0 /* percent of the highest speed; boards never stop a fan under load */

static const struct sk_sim_point *point_at(const struct sk_sim_card *card, uint32_t age)
{
	return &card->history[(card->history_next + SK_SIM_HISTORY - 1 - age) % SK_SIM_HISTORY];
}

static uint32_t points(const struct sk_sim_card *card)
{
	return card->history_count < SK_SIM_HISTORY ? card->history_count : SK_SIM_HISTORY;
}

/* Return the number of samples that are too new to be visible. */
static uint32_t hidden(const struct sk_sim_card *card)
{
	uint64_t now = card->now.at_ns, delay = card->model.sensor.delay_ns;
	uint32_t age = 0;

	while (age + 1 < points(card) && point_at(card, age)->at_ns + delay > now)
		age++;
	return age;
}

const struct sk_sim_point *sk_sim_sample(const struct sk_sim_card *card, uint32_t age)
{
	age += hidden(card);
	return age < points(card) ? point_at(card, age) : NULL;
}

static uint32_t reading_mw(const struct sk_sim_card *card, double watts)
{
	const struct sk_sim_sensor *sensor = &card->model.sensor;

	return (uint32_t)llround(fmax(watts * sensor->gain + sensor->offset_w, 0) * 1e3);
}

uint32_t sk_sim_sample_mw(const struct sk_sim_card *card, const struct sk_sim_point *point)
{
	return reading_mw(card, point->power_w);
}

/* Return the mean of the samples that end within the window before the newest visible one. */
static uint32_t averaged_mw(const struct sk_sim_card *card)
{
	uint32_t first = hidden(card), age = first;
	uint64_t newest = point_at(card, first)->at_ns;
	double sum = 0;

	do {
		sum += point_at(card, age++)->power_w;
	} while (age < points(card) &&
		 point_at(card, age)->at_ns + card->model.sensor.window_ns > newest);
	return reading_mw(card, sum / (age - first));
}

uint32_t sk_sim_power_mw(const struct sk_sim_card *card)
{
	return card->sensed.stuck ? card->sensed.stuck_mw : averaged_mw(card);
}

uint32_t sk_sim_power_instant_mw(const struct sk_sim_card *card)
{
	return card->sensed.stuck ? card->sensed.stuck_instant_mw
				  : reading_mw(card, point_at(card, hidden(card))->instant_w);
}

void sk_sim_power_freeze(struct sk_sim_card *card)
{
	uint32_t averaged = sk_sim_power_mw(card), instant = sk_sim_power_instant_mw(card);

	card->sensed.stuck++;
	card->sensed.stuck_mw = averaged;
	card->sensed.stuck_instant_mw = instant;
}

void sk_sim_power_release(struct sk_sim_card *card)
{
	if (card->sensed.stuck)
		card->sensed.stuck--;
}

uint64_t sk_sim_energy_mj(const struct sk_sim_card *card)
{
	return (uint64_t)(card->sensed.energy_j * 1e3);
}

int32_t sk_sim_temperature_mc(const struct sk_sim_card *card)
{
	return (int32_t)lround(card->sensed.die_c * 1e3);
}

int32_t sk_sim_memory_temperature_mc(const struct sk_sim_card *card)
{
	return (int32_t)lround(card->sensed.memory_c * 1e3);
}

uint32_t sk_sim_clock_mhz(const struct sk_sim_card *card)
{
	return (uint32_t)lround(card->now.clock_mhz);
}

uint32_t sk_sim_memory_clock_mhz(const struct sk_sim_card *card)
{
	return card->model.memory_mhz;
}

static uint32_t percent(double share)
{
	return (uint32_t)lround(fmin(fmax(share, 0), 1) * 100);
}

uint32_t sk_sim_busy_percent(const struct sk_sim_card *card)
{
	return percent(point_at(card, 0)->busy);
}

uint32_t sk_sim_memory_busy_percent(const struct sk_sim_card *card)
{
	return percent(point_at(card, 0)->memory_busy);
}

uint32_t sk_sim_fan_percent(const struct sk_sim_card *card)
{
	if (!card->model.fan_max_rpm)
		return 0;
	return (uint32_t)lround(FAN_LOWEST + (100 - FAN_LOWEST) * card->now.fan);
}
