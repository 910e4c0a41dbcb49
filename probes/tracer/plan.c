/* SPDX-License-Identifier: Apache-2.0 */
/* Choose when a tracer under a budget times launches, period by period; see plan.h. */
#include "tracer/plan.h"

#include "records/segment.h"

/* Parts of the budget: the most that counting alone may take, the least that a timed part gets, and
 * the part that it gets of a window with a lead. */
static const double COUNTED_PART = 0.6, LEAST_PART = 0.4, BLIND_PART = 0.5;

/* A cost of AT_ONCE times the average replaces it, any other counts for 1 / SLOWLY; counting that
 * costs PATIENCE budgets is given up at once. */
static const double AT_ONCE = 2, SLOWLY = 16, PATIENCE = 5;

/* xorshift64* (Vigna 2014). The result is below `below`, which is far less than 2^64. */
static uint64_t draw(struct sk_tracer_plan *plan, uint64_t below)
{
	plan->random ^= plan->random >> 12;
	plan->random ^= plan->random << 25;
	plan->random ^= plan->random >> 27;
	return below ? plan->random * UINT64_C(0x2545f4914f6cdd1d) % below : 0;
}

void sk_tracer_plan_init(struct sk_tracer_plan *plan, const struct sk_tracer_limits *limits,
			 uint64_t seed)
{
	*plan = (struct sk_tracer_plan){.limits = *limits,
					.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
	/* Similar seeds give similar first numbers, so the first ones are skipped. */
	for (int i = 0; i < 8; i++)
		draw(plan, 1);
}

static void plan_whole(struct sk_tracer_plan *plan)
{
	plan->over_budget = 0;
	plan->outside = SK_PHASE_COUNTED;
	plan->period_ns = plan->limits.period_ns;
	plan->lead_ns = plan->timed_from_ns = plan->from_ns;
	plan->timed_to_ns = plan->from_ns + plan->period_ns;
}

/* Place the lead and the timed part as one, anywhere in the period with equal chance. */
static void place(struct sk_tracer_plan *plan, uint64_t lead_ns, uint64_t timed_ns)
{
	uint64_t period = plan->period_ns, all;

	timed_ns = timed_ns < period ? timed_ns : period;
	lead_ns = lead_ns < period - timed_ns ? lead_ns : period - timed_ns;
	all = lead_ns + timed_ns;
	plan->lead_ns = plan->from_ns + draw(plan, period - all + 1);
	plan->timed_from_ns = plan->lead_ns + lead_ns;
	plan->timed_to_ns = plan->timed_from_ns + timed_ns;
}

/* A window is longer while launches are fewer, so costs of single periods would show quiet times
 * too often. A period is planned by the average of many before it, which keeps the budget on
 * average. A cost that has risen far is believed at once. */
static void smooth(double *kept, double now)
{
	if (*kept <= 0 || now > AT_ONCE * *kept)
		*kept = now;
	else
		*kept += (now - *kept) / SLOWLY;
}

static bool is_blind(struct sk_tracer_plan *plan, double budget)
{
	double counted = plan->counted;

	if (counted <= COUNTED_PART * budget)
		plan->over_budget = 0;
	else if (plan->over_budget <= plan->limits.patience)
		plan->over_budget = counted > PATIENCE * budget ? plan->limits.patience + 1
								: plan->over_budget + 1;
	return plan->over_budget > plan->limits.patience;
}

static double least(double value, double floor)
{
	return value > floor ? value : floor;
}

void sk_tracer_plan_period(struct sk_tracer_plan *plan, const struct sk_tracer_costs *costs,
			   uint32_t budget_ppm, uint64_t now_ns)
{
	const struct sk_tracer_limits *limits = &plan->limits;
	double budget = (budget_ppm ? budget_ppm : SK_TRACER_BUDGET_PPM) / 1e6;

	plan->from_ns = now_ns;
	smooth(&plan->timed, costs->timed);
	smooth(&plan->whole, costs->whole > 0 ? costs->whole : costs->timed);
	smooth(&plan->counted, costs->counted);
	if (plan->whole <= budget) {
		plan_whole(plan);
		return;
	}
	bool blind = is_blind(plan, budget);
	double outside = blind ? 0 : plan->counted;
	double more = least(plan->timed - outside, 1e-9);
	double spare = blind ? BLIND_PART * budget : least(budget - outside, LEAST_PART * budget);
	double fixed = (double)costs->switch_ns + (double)costs->tail_ns * more;
	double period = (double)limits->period_ns, shortest = (double)limits->window_ns;
	double window = (spare * period - fixed) / more;

	if (window < shortest) {
		/* A period in which counting is over budget is not made longer by that. */
		bool patient = plan->over_budget && !blind;
		double most = (double)(patient ? limits->period_ns : limits->period_max_ns);

		period = (shortest * more + fixed) / spare;
		period = period < most ? period : most;
		window = shortest;
	}
	double lead = blind ? (1 - BLIND_PART) * budget * period / plan->counted : 0;
	/* The factor is one half to one and a half, in steps of a thousandth. */
	double jitter = 0.5 + (double)draw(plan, 1001) / 1000;

	plan->period_ns = (uint64_t)(jitter * period);
	plan->outside = blind ? SK_PHASE_BLIND : SK_PHASE_COUNTED;
	place(plan, (uint64_t)(jitter * lead), (uint64_t)(jitter * window));
}

void sk_tracer_plan_count(struct sk_tracer_plan *plan, uint64_t now_ns, uint64_t length_ns)
{
	plan->from_ns = now_ns;
	plan->period_ns = length_ns;
	plan->lead_ns = plan->timed_from_ns = plan->timed_to_ns = now_ns;
	plan->outside = SK_PHASE_COUNTED;
}

bool sk_tracer_plan_is_over(const struct sk_tracer_plan *plan, uint64_t now_ns)
{
	return !plan->from_ns || now_ns >= plan->from_ns + plan->period_ns;
}

bool sk_tracer_plan_is_whole(const struct sk_tracer_plan *plan)
{
	return plan->timed_to_ns - plan->timed_from_ns == plan->period_ns;
}

uint32_t sk_tracer_plan_phase(const struct sk_tracer_plan *plan, uint64_t now_ns,
			      uint64_t *ret_next_ns)
{
	*ret_next_ns = plan->from_ns + plan->period_ns;
	if (now_ns >= plan->timed_to_ns)
		return plan->outside;
	*ret_next_ns = plan->timed_to_ns;
	if (now_ns >= plan->timed_from_ns)
		return SK_PHASE_TIMED;
	*ret_next_ns = plan->timed_from_ns;
	if (now_ns >= plan->lead_ns)
		return SK_PHASE_COUNTED;
	*ret_next_ns = plan->lead_ns;
	return plan->outside;
}
