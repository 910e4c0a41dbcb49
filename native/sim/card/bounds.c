/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/card/bounds.h"

#include <errno.h>
#include <math.h>

#include "sim/card/sense.h"

#define MOST 1e18 /* largest absolute value of a number; a larger one is refused */
#define MOST_MHZ 20000
#define MOST_C 1000
#define PERIOD_LEAST_NS 100000ull
#define PERIOD_MOST_NS 3600000000000ull
#define LEAP_NS 2000000000000000ull /* 23 days */
#define END(text) ((text)[sizeof(text) - 1] = 0)

static bool within(double value, double low, double high)
{
	return value >= low && value <= high;
}

static bool is_period(uint64_t ns)
{
	return ns >= PERIOD_LEAST_NS && ns <= PERIOD_MOST_NS;
}

static bool physics_are(const struct sk_sim_physics *p)
{
	double cooling = p->fan_min / p->thermal_c_per_w;

	return within(p->thermal_c_per_w, 1e-9, MOST) && within(p->capacity_j_per_c, 1e-9, MOST) &&
	       within(p->limiter_s, 1e-9, MOST) && within(p->exponent, 1, 10) &&
	       within(p->fan_min, 1e-9, 1) && within(p->idle_w, 0, MOST) &&
	       within(p->dynamic_w, 0, MOST) && within(p->leakage_w, 0, MOST) &&
	       within(p->memory_w, 0, MOST) && within(p->ambient_c, -MOST, MOST) &&
	       within(p->leakage_per_c, -MOST, MOST) && cooling > p->leakage_w * p->leakage_per_c;
}

static bool sensor_is(const struct sk_sim_sensor *s)
{
	return is_period(s->period_ns) && is_period(s->energy_period_ns) &&
	       is_period(s->temperature_period_ns) && s->window_ns <= PERIOD_MOST_NS &&
	       s->delay_ns <= PERIOD_MOST_NS && within(s->gain, 1e-9, MOST) &&
	       within(s->offset_w, -MOST, MOST);
}

int sk_sim_model_check(const struct sk_sim_model *model)
{
	bool clocks = model->clock_step_mhz && model->clock_min_mhz &&
		      model->clock_min_mhz <= model->clock_max_mhz &&
		      model->clock_max_mhz <= MOST_MHZ && model->clock_step_mhz <= MOST_MHZ;
	bool limits = model->limit_min_mw && model->limit_min_mw <= model->limit_default_mw &&
		      model->limit_default_mw <= model->limit_max_mw;
	bool heat = model->target_c < model->slowdown_c && model->slowdown_c <= model->shutdown_c &&
		    model->target_c >= -MOST_C && model->shutdown_c <= MOST_C;
	bool ways = model->pcie_gen < 8 && model->links <= SK_SIM_LINKS;
	bool whole = physics_are(&model->physics) && sensor_is(&model->sensor);

	return clocks && limits && heat && ways && whole ? 0 : -EINVAL;
}

static bool is_clock(double mhz)
{
	return within(mhz, 1, MOST_MHZ);
}

static bool is_state(const struct sk_sim_now *now)
{
	bool clocks = is_clock(now->clock_mhz) && is_clock(now->limiter_mhz) &&
		      is_clock(now->limit_mhz) && is_clock(now->heat_mhz);
	bool heat = within(now->die_c, -MOST, MOST) && within(now->memory_c, -MOST, MOST) &&
		    within(now->ambient_rise_c, -MOST, MOST) && within(now->fan, 0, 1);
	bool sums = within(now->energy_j, 0, MOST) && within(now->work, 0, MOST) &&
		    within(now->busy_s, 0, MOST) && within(now->memory_busy_s, 0, MOST) &&
		    within(now->traffic_work, 0, MOST) && within(now->pcie_tx_bytes, 0, MOST) &&
		    within(now->pcie_rx_bytes, 0, MOST);

	return clocks && heat && sums && now->at_ns <= SK_SIM_TIME_MOST_NS;
}

static bool is_due(uint64_t when, uint64_t now, uint64_t period)
{
	return when >= now && when - now <= period;
}

static bool is_sensed(const struct sk_sim_card *card)
{
	const struct sk_sim_sensor *sensor = &card->model.sensor;
	const struct sk_sim_sensed *at = &card->sensed;
	uint64_t now = card->now.at_ns;

	return is_due(at->mark_ns, now, sensor->period_ns) &&
	       is_due(at->point_ns, now, sensor->period_ns) &&
	       is_due(at->temperature_ns, now, sensor->temperature_period_ns) &&
	       is_due(at->energy_ns, now, sensor->energy_period_ns) &&
	       is_due(at->control_ns, now, SK_SIM_CONTROL_NS) && within(at->mark_j, -MOST, MOST) &&
	       within(at->busy_s, 0, MOST) && within(at->memory_busy_s, 0, MOST) &&
	       within(at->die_c, -MOST, MOST) && within(at->memory_c, -MOST, MOST) &&
	       within(at->energy_j, 0, MOST);
}

static void sense_anew(struct sk_sim_card *card)
{
	uint64_t now = card->now.at_ns;

	card->sensed.mark_j = card->now.energy_j;
	card->sensed.control_ns = now - now % SK_SIM_CONTROL_NS + SK_SIM_CONTROL_NS;
	sk_sim_sense_restart(card);
}

/* A share may be a rounding above 1. */
static void bind_share(double *share)
{
	if (!within(*share, 0, 1.001))
		*share = 0;
}

static void bind_load(struct sk_sim_card *card)
{
	bind_share(&card->load.compute);
	bind_share(&card->load.memory);
	bind_share(&card->load.bound);
	for (uint32_t i = 0; i < 4; i++)
		if (!within(card->memo.power_w[i], -MOST, MOST))
			card->memo = (struct sk_sim_memo){0};
}

enum sk_sim_bound sk_sim_card_bound(struct sk_sim_card *card, uint64_t to_ns)
{
	if (sk_sim_model_check(&card->model)) {
		card->now.state = SK_SIM_LOST;
		return SK_SIM_BOUND_NO_MODEL;
	}
	bind_load(card);
	if (!is_state(&card->now))
		return SK_SIM_BOUND_NO_STATE;
	if (card->history_next >= SK_SIM_HISTORY || card->history_count > SK_SIM_HISTORY)
		card->history_next = card->history_count = 0;
	if (to_ns > card->now.at_ns && to_ns - card->now.at_ns > LEAP_NS) {
		card->now.at_ns = to_ns;
		sense_anew(card);
	}
	if (!is_sensed(card))
		sense_anew(card);
	return SK_SIM_BOUND_SOUND;
}

void sk_sim_card_end_texts(struct sk_sim_card *card)
{
	struct sk_sim_model *model = &card->model;

	END(model->name);
	END(model->architecture);
	END(model->serial);
	END(model->uuid);
	END(model->bus_id);
	END(model->driver);
	END(model->firmware);
	for (uint32_t i = 0; i < SK_SIM_PROCESSES; i++)
		END(card->process[i].name);
	for (uint32_t i = 0; i < SK_SIM_PARTITIONS; i++) {
		END(card->partition[i].profile);
		END(card->partition[i].uuid);
	}
}
