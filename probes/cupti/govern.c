/* SPDX-License-Identifier: Apache-2.0 */
#include "govern.h"

#include "trace/segment.h"

static const uint64_t PERIOD_NS = 1000000000, PERIOD_MAX_NS = 16000000000, WINDOW_MIN_NS = 5000000;

static uint64_t draw(struct sk_govern *govern, uint64_t below)
{
	/* xorshift64 (Marsaglia 2003) */
	govern->random ^= govern->random << 13;
	govern->random ^= govern->random >> 7;
	govern->random ^= govern->random << 17;
	return below ? govern->random % below : 0;
}

void sk_govern_init(struct sk_govern *govern, uint64_t seed)
{
	*govern = (struct sk_govern){.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
}

static void set_window(struct sk_govern *govern, double window_ns)
{
	uint64_t length = (uint64_t)window_ns;

	if (length > govern->period_ns)
		length = govern->period_ns;
	govern->window_from_ns = govern->from_ns + draw(govern, govern->period_ns - length);
	govern->window_to_ns = govern->window_from_ns + length;
}

void sk_govern_plan(struct sk_govern *govern, const struct sk_govern_costs *costs,
		    uint32_t budget_ppm, uint64_t now_ns)
{
	double budget = budget_ppm / 1e6;
	bool counts = costs->counted <= budget / 2;
	double outside = counts ? costs->counted : 0;
	double spare = budget - outside, more = costs->timed - outside;
	double fixed = (double)costs->switch_ns + (double)costs->tail_ns * (more > 0 ? more : 0);

	govern->from_ns = now_ns;
	govern->period_ns = PERIOD_NS;
	govern->outside = counts ? SK_PHASE_COUNTED : SK_PHASE_BLIND;
	if (costs->timed <= budget || more <= 0) {
		set_window(govern, PERIOD_NS);
		return;
	}
	/* What a period of this length leaves for its window. */
	double window = (spare * (double)PERIOD_NS - fixed) / more;

	if (window < (double)WINDOW_MIN_NS) {
		double period = ((double)WINDOW_MIN_NS * more + fixed) / spare;

		govern->period_ns =
			period < (double)PERIOD_MAX_NS ? (uint64_t)period : PERIOD_MAX_NS;
		window = WINDOW_MIN_NS;
	}
	set_window(govern, window);
}

void sk_govern_count_only(struct sk_govern *govern, uint64_t now_ns, uint64_t length_ns)
{
	govern->from_ns = govern->window_from_ns = govern->window_to_ns = now_ns;
	govern->period_ns = length_ns;
	govern->outside = SK_PHASE_COUNTED;
}

bool sk_govern_is_over(const struct sk_govern *govern, uint64_t now_ns)
{
	return !govern->from_ns || now_ns >= govern->from_ns + govern->period_ns;
}

bool sk_govern_is_whole(const struct sk_govern *govern)
{
	return govern->window_to_ns - govern->window_from_ns == govern->period_ns;
}

uint32_t sk_govern_phase(const struct sk_govern *govern, uint64_t now_ns, uint64_t *ret_next_ns)
{
	*ret_next_ns = govern->from_ns + govern->period_ns;
	if (now_ns < govern->window_from_ns)
		*ret_next_ns = govern->window_from_ns;
	else if (now_ns < govern->window_to_ns)
		*ret_next_ns = govern->window_to_ns;
	return now_ns >= govern->window_from_ns && now_ns < govern->window_to_ns ? SK_PHASE_TIMED
										 : govern->outside;
}
