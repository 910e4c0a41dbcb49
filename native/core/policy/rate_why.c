/* SPDX-License-Identifier: Apache-2.0
 *
 * The reason of a choice, with the observations that its rating read. Invariant: a reason claims a
 * signal only if the figures of all devices taken were known.
 */
#include "core/ledger/device.h"
#include "core/ledger/node.h"
#include "core/policy/contiguous.h"
#include "core/policy/rate.h"
#include "core/policy/signal.h"

void sk_rate_note(struct sk_place *place, uint64_t observation)
{
	for (uint32_t i = 0; observation && i < SK_OBSERVATIONS_MAX; i++) {
		if (place->observations[i] == observation)
			return;
		if (!place->observations[i]) {
			place->observations[i] = observation;
			return;
		}
	}
}

/* True if the figures of all devices taken are known; the samples they came from are named. */
static bool figures_known(const struct sk_core *core, const struct sk_job *job,
			  enum sk_placement how, uint32_t node, struct sk_place *place)
{
	bool known = true;

	for (uint32_t i = 0; i < place->shares_n; i++) {
		uint32_t index = place->shares[i].index;

		if (sk_signal_known(core, job, how, node, index))
			sk_rate_note(place, sk_signal_of(core, node, index)->id);
		else
			known = false;
	}
	return known;
}

static uint16_t why_load(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 struct sk_place *place)
{
	bool known = figures_known(core, job, SK_PLACEMENT_LEAST_BUSY, node, place);

	sk_rate_note(place, core->observed[node].id);
	if (!core->observed[node].id && (!known || !place->shares_n))
		return SK_LOAD_UNKNOWN;
	return known ? SK_LEAST_LOAD : SK_DEVICE_LOAD_UNKNOWN;
}

/* A device that has a task already adds nothing, so neither table nor sample is named. */
static uint16_t why_power(const struct sk_core *core, uint32_t node, struct sk_place *place)
{
	bool known = place->shares_n || core->hints->socket_milli;

	for (uint32_t i = 0; i < place->shares_n; i++) {
		uint32_t index = place->shares[i].index;
		const struct sk_device *device = sk_device_at(core, node, index);
		const struct sk_sample *sample = sk_signal_of(core, node, index);

		if (device->used)
			continue;
		if (!core->hints->watts[device->model].full_mw)
			known = false;
		else if (sample && sample->known & (SK_SAMPLE_POWER | SK_SAMPLE_CAP))
			sk_rate_note(place, sample->id);
	}
	return known ? SK_LEAST_POWER : SK_POWER_UNKNOWN;
}

static uint16_t why_heat(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 struct sk_place *place)
{
	bool known = figures_known(core, job, SK_PLACEMENT_THERMAL, node, place);

	return known && place->shares_n ? SK_COOLEST : SK_HEAT_UNKNOWN;
}

/* Speeds are part of the state, so no observation is named. */
static uint16_t why_speed(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			  const struct sk_place *place)
{
	bool known = place->shares_n != 0;

	for (uint32_t i = 0; i < place->shares_n; i++)
		known &= sk_signal_known(core, job, SK_PLACEMENT_FASTEST, node,
					 place->shares[i].index);
	return known ? SK_FASTEST : SK_SPEED_UNKNOWN;
}

void sk_rate_note_warned(const struct sk_core *core, uint32_t node, struct sk_place *place)
{
	uint64_t warned = place->shares_n ? sk_signal_warned(core, node) : 0;

	for (; warned; warned &= warned - 1)
		sk_rate_note(place,
			     sk_signal_of(core, node, (uint32_t)__builtin_ctzll(warned))->id);
}

uint16_t sk_rate_why(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		     uint32_t node, struct sk_place *place)
{
	switch (how) {
	case SK_PLACEMENT_SPREAD:
		return SK_SPREAD_OUT;
	case SK_PLACEMENT_LEAST_BUSY:
		return why_load(core, job, node, place);
	case SK_PLACEMENT_RANDOM:
		return SK_BY_CHANCE;
	case SK_PLACEMENT_COST_OPTIMIZED:
		if (sk_node_cost(&core->nodes[node]))
			return SK_CHEAPEST;
		return SK_COST_UNKNOWN;
	case SK_PLACEMENT_LEAST_LOADED:
		return SK_MOST_FREE;
	case SK_PLACEMENT_CONTIGUOUS:
		return sk_contiguous_gaps(core, node, place) / 2 ? SK_NOT_CONTIGUOUS
								 : SK_CONTIGUOUS;
	case SK_PLACEMENT_POWER:
		return why_power(core, node, place);
	case SK_PLACEMENT_THERMAL:
		return why_heat(core, job, node, place);
	case SK_PLACEMENT_FASTEST:
		return why_speed(core, job, node, place);
	default:
		return SK_LEAST_FRAGMENTED;
	}
}
