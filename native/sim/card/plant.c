/* SPDX-License-Identifier: Apache-2.0 */
/*
 * While clock, load and cooling are constant, power is linear in the temperature of the die, so
 * that temperature, energy and the other integrals have closed forms. A card is moved from one
 * possible change to the next: a sample of a sensor, a step of the fan, or, while its clock
 * changes, SK_SIM_STEP_NS.
 */
#include "sim/card/plant.h"

#include <math.h>
#include <string.h>

#include "sim/card/bounds.h"
#include "sim/card/sense.h"

#define NS 1e-9
#define FAN_SPAN_C 30.0	     /* over so many degrees the fan goes from lowest to full speed */
#define FAN_MARGIN_C 5.0     /* so far below the target temperature the fan is at full speed */
#define FAN_LAG 0.05	     /* share of the way to the wanted speed that a period covers */
#define LIMIT_MARGIN 0.005   /* share of the limit below which the limiter raises the clock */
#define FAN_SETTLED 0.005    /* from so near, as a share of its span, the fan is as wanted */
#define FAN_RESTS 0.001	     /* a fan that is so near to the wanted speed counts as at rest */
#define MEMORY_RATE 0.25     /* part of its distance that memory warms up in a second (1/s) */
#define MEMORY_C_PER_W 0.12  /* degrees of the memory above the die, for each watt it draws */
#define BRAKE_SHARE 0.5	     /* the power brake lowers the clock to this share of the highest */
#define PCIE_SHARE 0.02	     /* of the slot's bandwidth at full load, host to device */
#define PCIE_BACK_SHARE 0.01 /* of the slot's bandwidth at full load, device to host */
#define LINK_SHARE 0.3	     /* of a port's bandwidth at full load */

/* Values that are constant while clock, load and cooling are. */
struct stretch {
	double clock_mhz, fan, compute, memory, bound, ambient_c; /* for which it was made */
	double power_w, per_c; /* power = power_w + per_c * die */
	double busy, memory_busy, work;
	double rate, end_c; /* the die's temperature approaches end_c at this rate (1/s) */
	double memory_rise_c;
};

static double slowed(const struct sk_sim_model *model, const struct sk_sim_load *load, double clock)
{
	return load->bound + (1 - load->bound) * model->clock_max_mhz / clock;
}

double sk_sim_work_at(const struct sk_sim_model *model, const struct sk_sim_load *load,
		      double clock_mhz)
{
	double busy = slowed(model, load, clock_mhz) * load->compute;

	return load->compute / (busy + 1 - load->compute);
}

/* Power that does not depend on temperature. */
static double power_cold(const struct sk_sim_model *model, const struct sk_sim_load *load,
			 double clock_mhz)
{
	const struct sk_sim_physics *p = &model->physics;
	double slow = slowed(model, load, clock_mhz);
	double whole = slow * load->compute + 1 - load->compute;
	double busy = slow * load->compute / whole;
	double dynamic = busy ? busy * pow(clock_mhz / model->clock_max_mhz, p->exponent) : 0;

	return p->idle_w + p->leakage_w * (1 - 25 * p->leakage_per_c) + p->dynamic_w * dynamic +
	       p->memory_w * load->memory / whole;
}

double sk_sim_power_at(const struct sk_sim_model *model, const struct sk_sim_load *load,
		       double clock_mhz, double die_c)
{
	const struct sk_sim_physics *p = &model->physics;

	return power_cold(model, load, clock_mhz) + p->leakage_w * p->leakage_per_c * die_c;
}

static bool same_load(const struct sk_sim_load *a, const struct sk_sim_load *b)
{
	return a->compute == b->compute && a->memory == b->memory && a->bound == b->bound;
}

/* Return sk_sim_power_at from a cache, since the same clocks recur and pow is slow. */
static double power_at(struct sk_sim_card *card, const struct sk_sim_load *load, double mhz,
		       double die_c)
{
	const struct sk_sim_physics *p = &card->model.physics;
	uint32_t slot = (uint32_t)mhz / card->model.clock_step_mhz % 4;
	struct sk_sim_memo *memo = &card->memo;

	if (!same_load(&memo->load, load))
		*memo = (struct sk_sim_memo){.load = *load};
	if (memo->mhz[slot] != mhz) {
		memo->power_w[slot] = power_cold(&card->model, load, mhz);
		memo->mhz[slot] = mhz;
	}
	return memo->power_w[slot] + p->leakage_w * p->leakage_per_c * die_c;
}

/* A card off the bus does nothing, nor does one that waits for its reset. */
static struct sk_sim_load load_of(const struct sk_sim_card *card)
{
	bool idle = card->now.state == SK_SIM_LOST || card->now.state == SK_SIM_NEEDS_RESET;

	return idle ? (struct sk_sim_load){0} : card->load;
}

static bool stretch_fits(const struct stretch *s, const struct sk_sim_card *card,
			 const struct sk_sim_load *load, double ambient)
{
	return s->clock_mhz == card->now.clock_mhz && s->fan == card->now.fan &&
	       s->compute == load->compute && s->memory == load->memory &&
	       s->bound == load->bound && s->ambient_c == ambient;
}

/* A card with worn cooling may run away; a rate near zero avoids the division by zero. */
static void stretch_make(struct stretch *s, struct sk_sim_card *card)
{
	const struct sk_sim_model *model = &card->model;
	const struct sk_sim_physics *p = &model->physics;
	struct sk_sim_load load = load_of(card);
	double ambient = p->ambient_c + card->now.ambient_rise_c;
	double clock = card->now.clock_mhz;
	double cooling = (p->fan_min + (1 - p->fan_min) * card->now.fan) / p->thermal_c_per_w;
	double slow = slowed(model, &load, clock);
	double whole = slow * load.compute + 1 - load.compute;

	if (stretch_fits(s, card, &load, ambient))
		return;
	s->clock_mhz = clock;
	s->fan = card->now.fan;
	s->compute = load.compute;
	s->memory = load.memory;
	s->bound = load.bound;
	s->ambient_c = ambient;
	s->power_w = power_at(card, &load, clock, 0);
	s->per_c = p->leakage_w * p->leakage_per_c;
	s->busy = slow * load.compute / whole;
	s->memory_busy = load.memory / whole;
	s->work = load.compute / whole;
	s->rate = fmax((cooling - s->per_c) / p->capacity_j_per_c, 1e-9);
	s->end_c = (s->power_w + cooling * ambient) / (s->rate * p->capacity_j_per_c);
	s->memory_rise_c = MEMORY_C_PER_W * p->memory_w * s->memory_busy;
}

/* Return 1 - exp(-x), fast for small x. */
static double gone(double x)
{
	if (x > 0.02)
		return -expm1(-x);
	return x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
}

static double die_after(const struct stretch *s, double die_c, double seconds)
{
	return die_c + (s->end_c - die_c) * gone(s->rate * seconds);
}

static double memory_after(const struct stretch *s, double die_c, double memory_c, double seconds)
{
	double rate = fabs(s->rate - MEMORY_RATE) < 1e-6 ? MEMORY_RATE + 1e-6 : s->rate;
	double base = s->end_c + s->memory_rise_c;
	double follows = (die_c - s->end_c) * MEMORY_RATE / (MEMORY_RATE - rate);
	double own = memory_c - base - follows;

	return base + follows * (1 - gone(rate * seconds)) +
	       own * (1 - gone(MEMORY_RATE * seconds));
}

static void pass(struct sk_sim_card *card, const struct stretch *s, uint64_t to_ns)
{
	struct sk_sim_now *now = &card->now;
	uint64_t ns = to_ns - now->at_ns;
	double seconds = (double)ns * NS, left = gone(s->rate * seconds) / s->rate;
	double die = now->die_c;

	now->energy_j +=
		(s->power_w + s->per_c * s->end_c) * seconds + s->per_c * (die - s->end_c) * left;
	now->memory_c = memory_after(s, die, now->memory_c, seconds);
	now->die_c = die_after(s, die, seconds);
	now->power_w = s->power_w + s->per_c * now->die_c;
	now->work += s->work * seconds;
	now->busy_s += s->busy * seconds;
	now->memory_busy_s += s->memory_busy * seconds;
	if (now->limiter_mhz != now->limit_mhz) {
		double lag = gone(seconds / card->model.physics.limiter_s);

		now->limiter_mhz += (now->limit_mhz - now->limiter_mhz) * lag;
	}
	for (uint32_t i = 0, why = now->why; why && i < SK_SIM_WHYS; i++, why >>= 1)
		if (why & 1)
			now->why_ns[i] += ns;
	now->at_ns = to_ns;
}

/* Round a clock to those of the model: whole steps below its highest, and its lowest. */
static double on_grid(const struct sk_sim_model *model, double mhz)
{
	double steps = nearbyint((model->clock_max_mhz - mhz) / model->clock_step_mhz);

	return fmax(model->clock_max_mhz - fmax(steps, 0) * model->clock_step_mhz,
		    model->clock_min_mhz);
}

static double asked_mhz(const struct sk_sim_card *card)
{
	const struct sk_sim_now *now = &card->now;

	return now->locked_max_mhz ? on_grid(&card->model, now->locked_max_mhz)
				   : card->model.clock_max_mhz;
}

static bool loaded(const struct sk_sim_load *load)
{
	return load->compute > 0 || load->memory > 0;
}

/* Find the highest clock whose power is within the limit at this temperature. The search begins at
 * the last result, since it seldom moves far. */
static double within_limit(struct sk_sim_card *card, const struct sk_sim_load *load, double asked,
			   double die_c)
{
	const struct sk_sim_model *model = &card->model;
	double limit = card->now.limit_mw * 1e-3, low = model->clock_min_mhz;
	double step = model->clock_step_mhz, mhz = fmin(card->now.limit_mhz, asked);

	while (mhz > low && power_at(card, load, mhz, die_c) > limit)
		mhz = fmax(mhz - step, low);
	while (mhz < asked) {
		double next = fmin(mhz == low ? on_grid(model, mhz + step / 2) : mhz + step, asked);

		if (next <= mhz)
			next = fmin(mhz + step, asked);
		if (power_at(card, load, next, die_c) > limit * (1 - LIMIT_MARGIN))
			break;
		mhz = next;
	}
	return mhz;
}

/* Clock that the temperature allows: above the target it falls, to the lowest at the slowdown. */
static double within_heat(const struct sk_sim_model *model, double die_c)
{
	double span = model->slowdown_c - model->target_c;
	double over = (die_c - model->target_c) / span;

	if (over <= 0)
		return model->clock_max_mhz;
	return on_grid(model,
		       model->clock_max_mhz - over * (model->clock_max_mhz - model->clock_min_mhz));
}

struct choice {
	double mhz, limit_mhz;
	uint32_t why;
};

static void lower(struct choice *choice, double mhz, enum sk_sim_why why)
{
	if (mhz >= choice->mhz)
		return;
	choice->mhz = mhz;
	choice->why = 1u << why;
}

/* Compute the card's state at this temperature. */
static struct choice choose(struct sk_sim_card *card, double die_c)
{
	const struct sk_sim_model *model = &card->model;
	const struct sk_sim_now *now = &card->now;
	struct sk_sim_load load = load_of(card);
	double asked = asked_mhz(card);
	struct choice choice = {.mhz = model->clock_max_mhz, .limit_mhz = asked};

	if (!loaded(&load)) {
		choice.mhz = fmin(fmax(model->clock_min_mhz, now->locked_min_mhz), asked);
		choice.why = 1u << SK_SIM_WHY_IDLE;
		return choice;
	}
	choice.limit_mhz = within_limit(card, &load, asked, die_c);
	lower(&choice, asked, SK_SIM_WHY_LOCKED);
	lower(&choice, on_grid(model, now->limiter_mhz), SK_SIM_WHY_POWER);
	lower(&choice, now->heat_mhz,
	      now->heat_mhz > model->clock_min_mhz ? SK_SIM_WHY_THERMAL : SK_SIM_WHY_HARD_THERMAL);
	if (now->brakes)
		lower(&choice, on_grid(model, model->clock_max_mhz * BRAKE_SHARE),
		      SK_SIM_WHY_BRAKE);
	return choice;
}

static void decide(struct sk_sim_card *card)
{
	struct sk_sim_now *now = &card->now;
	struct choice choice = choose(card, now->die_c);

	now->limit_mhz = choice.limit_mhz;
	if (fabs(now->limiter_mhz - now->limit_mhz) < card->model.clock_step_mhz * 0.5)
		now->limiter_mhz = now->limit_mhz;
	choice = choose(card, now->die_c);
	now->clock_mhz = choice.mhz;
	now->why = choice.why;
}

/* Return whether no decision would change until the die has this temperature. The temperature only
 * rises or only falls until then, and each decision changes at one temperature, so it suffices to
 * decide once more at the end. */
static bool settled(struct sk_sim_card *card, double die_c)
{
	const struct sk_sim_now *now = &card->now;
	struct sk_sim_load load = load_of(card);
	struct choice then;

	if (now->limiter_mhz != now->limit_mhz && loaded(&load))
		return false;
	then = choose(card, die_c);
	return then.mhz == now->clock_mhz && then.limit_mhz == now->limit_mhz &&
	       then.why == now->why;
}

static double fan_wanted(const struct sk_sim_card *card, double die_c)
{
	double full = card->model.target_c - FAN_MARGIN_C;

	return fmin(fmax((die_c - (full - FAN_SPAN_C)) / FAN_SPAN_C, 0), 1);
}

/* Run the card's slow control: the fan, and the shutdown by heat. */
static void control(struct sk_sim_card *card)
{
	struct sk_sim_now *now = &card->now;
	double wanted = fan_wanted(card, now->die_c), fan = now->fan;

	now->fan = fabs(wanted - fan) < FAN_SETTLED ? wanted : fan + (wanted - fan) * FAN_LAG;
	now->heat_mhz = within_heat(&card->model, now->die_c);
	if (now->die_c >= card->model.shutdown_c)
		now->state = SK_SIM_LOST;
	card->sensed.control_ns += SK_SIM_CONTROL_NS;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool fan_rests(const struct sk_sim_card *card, double die_c)
{
	return card->model.physics.fan_min == 1 ||
	       fabs(fan_wanted(card, die_c) - card->now.fan) < FAN_RESTS;
}

/* Return whether clock and cooling would stay constant for ever. */
static bool rests(struct sk_sim_card *card, const struct stretch *s)
{
	const struct sk_sim_now *now = &card->now;

	return fmax(s->end_c, now->die_c) <= card->model.target_c &&
	       now->heat_mhz == card->model.clock_max_mhz && fan_rests(card, now->die_c) &&
	       fan_rests(card, s->end_c) && settled(card, s->end_c);
}

/* Move a card with a constant state in one step over a time longer than its sensors remember. */
static void skip(struct sk_sim_card *card, struct stretch *s, uint64_t to_ns)
{
	uint64_t remembered = sk_sim_sense_memory_ns(&card->model.sensor);
	uint64_t until;

	if (to_ns - card->now.at_ns <= 2 * remembered)
		return;
	decide(card);
	stretch_make(s, card);
	if (!rests(card, s))
		return;
	until = to_ns - remembered;
	until -= until % card->model.sensor.period_ns;
	pass(card, s, until);
	sk_sim_sense_restart(card);
	card->sensed.control_ns = until - until % SK_SIM_CONTROL_NS + SK_SIM_CONTROL_NS;
}

static void carry_traffic(struct sk_sim_card *card)
{
	const struct sk_sim_model *model = &card->model;
	struct sk_sim_now *now = &card->now;
	double work = now->work - now->traffic_work;
	double lane_gb_s = 0.985 * (double)(1u << model->pcie_gen) / 8; /* of generation 3: 0.985 */
	double slot = lane_gb_s * model->pcie_width * 1e9 * work;
	double port = model->link_gb_s * 1e9 * LINK_SHARE * work;

	now->traffic_work = now->work;
	now->pcie_rx_bytes += slot * PCIE_SHARE;
	now->pcie_tx_bytes += slot * PCIE_BACK_SHARE;
	for (uint32_t i = 0; i < model->links && i < SK_SIM_LINKS; i++) {
		if (now->link_down & 1u << i)
			continue;
		now->link_tx_bytes[i] += port;
		now->link_rx_bytes[i] += port;
	}
}

/* Return false if the card cannot be moved; a card in an impossible state is set up anew. */
static bool is_movable(struct sk_sim_card *card, uint64_t to_ns)
{
	enum sk_sim_bound bound = sk_sim_card_bound(card, to_ns);
	struct sk_sim_model model;

	if (bound != SK_SIM_BOUND_NO_STATE)
		return bound == SK_SIM_BOUND_SOUND;
	model = card->model;
	sk_sim_card_init(card, &model, to_ns < SK_SIM_TIME_MOST_NS ? to_ns : SK_SIM_TIME_MOST_NS);
	return sk_sim_card_bound(card, to_ns) == SK_SIM_BOUND_SOUND;
}

void sk_sim_card_move(struct sk_sim_card *card, uint64_t to_ns)
{
	struct sk_sim_now *now = &card->now;
	struct stretch s = {.clock_mhz = -1};

	if (!is_movable(card, to_ns) || to_ns <= now->at_ns)
		return;
	skip(card, &s, to_ns);
	while (now->at_ns < to_ns) {
		uint64_t step = now->at_ns - now->at_ns % SK_SIM_STEP_NS + SK_SIM_STEP_NS;
		uint64_t next = earlier(to_ns, sk_sim_sense_next(card));

		if (step == now->at_ns + SK_SIM_STEP_NS)
			decide(card);
		next = earlier(next, card->sensed.control_ns);
		stretch_make(&s, card);
		if (next > step) {
			double seconds = (double)(next - now->at_ns) * NS;

			if (!settled(card, die_after(&s, now->die_c, seconds)))
				next = step;
		}
		pass(card, &s, next);
		sk_sim_sense(card);
		if (next == card->sensed.control_ns) {
			control(card);
			skip(card, &s, to_ns);
		}
	}
	now->busy = s.busy;
	now->memory_busy = s.memory_busy;
	now->throughput = s.work;
	carry_traffic(card);
}

void sk_sim_card_init(struct sk_sim_card *card, const struct sk_sim_model *model, uint64_t at_ns)
{
	struct sk_sim_now *now = &card->now;
	struct stretch s = {.clock_mhz = -1};

	memset(card, 0, sizeof(*card));
	card->model = *model;
	now->at_ns = at_ns;
	now->limit_mw = model->limit_default_mw;
	now->limiter_mhz = now->limit_mhz = now->heat_mhz = model->clock_max_mhz;
	now->clock_mhz = model->clock_min_mhz;
	now->why = 1u << SK_SIM_WHY_IDLE;
	now->memory_used = model->memory_bytes / 256; /* memory that the driver reserves */
	stretch_make(&s, card);
	now->die_c = s.end_c;
	now->memory_c = s.end_c;
	now->power_w = s.power_w + s.per_c * s.end_c;
	card->sensed.control_ns = at_ns - at_ns % SK_SIM_CONTROL_NS + SK_SIM_CONTROL_NS;
	sk_sim_sense_restart(card);
	sk_sim_sense_rest(card);
}
