/* SPDX-License-Identifier: Apache-2.0
 *
 * One function per signal; docs/developer/placement.md has units and the treatment of unknown
 * values. Loads are compared in tenths and heat in whole degrees, so that noise decides nothing.
 */
#include "core/ledger/device.h"
#include "core/ledger/speed.h"
#include "core/policy/signal.h"
#include "core/state/table.h"

#define SK_DEGREE 1000
#define SK_PPM 1000000u

bool sk_signal_reads(enum sk_placement how)
{
	return how == SK_PLACEMENT_LEAST_BUSY || how == SK_PLACEMENT_POWER ||
	       how == SK_PLACEMENT_THERMAL || how == SK_PLACEMENT_COST_OPTIMIZED ||
	       how == SK_PLACEMENT_SPREAD || how == SK_PLACEMENT_LEAST_LOADED ||
	       how == SK_PLACEMENT_CONTIGUOUS || how == SK_PLACEMENT_FASTEST;
}

const struct sk_sample *sk_signal_of(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_sampled *at =
		&core->hints->samples[(size_t)core->nodes[node].chunks[index / SK_CHUNK_DEVICES] *
					      SK_CHUNK_DEVICES +
				      index % SK_CHUNK_DEVICES];

	return at->node == core->nodes[node].id && at->index == index ? &at->sample : NULL;
}

static bool has(const struct sk_sample *sample, uint32_t bits)
{
	return sample && (sample->known & bits) == bits;
}

/* ---- power ---- */

/* A device with any task counts as full (PWR, CCGrid'25). So does one without a task of ours that
 * draws more than a quarter of the way from idle to full. No device draws more than its limit. */
uint32_t sk_signal_adds_mw(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, node, index);
	const struct sk_power *watts = &core->hints->watts[device->model];
	const struct sk_sample *sample = sk_signal_of(core, node, index);
	uint32_t full = watts->full_mw, span, drawn;

	if (device->used)
		return 0;
	if (!full)
		return core->hints->worst_mw;
	if (has(sample, SK_SAMPLE_CAP) && sample->cap_mw < full)
		full = sample->cap_mw > watts->idle_mw ? sample->cap_mw : watts->idle_mw;
	span = full - watts->idle_mw;
	if (!has(sample, SK_SAMPLE_POWER) || sample->power_mw <= watts->idle_mw)
		return span;
	drawn = sample->power_mw - watts->idle_mw;
	if (drawn <= span / 4)
		return span;
	return drawn < span ? span - drawn : 0;
}

/* ---- heat ---- */

int32_t sk_signal_headroom(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_sample *sample = sk_signal_of(core, node, index);
	int64_t left;

	if (!has(sample, SK_SAMPLE_TEMPERATURE | SK_SAMPLE_LIMIT))
		return 0;
	left = (int64_t)sample->limit_mc - sample->temperature_mc;
	if (left <= 0)
		return -1;
	if (sample->known & (SK_SAMPLE_SLOWED | SK_SAMPLE_WARNED))
		return 0;
	left /= SK_DEGREE;
	return (int32_t)(left < SK_DEGREES_MAX ? left : SK_DEGREES_MAX);
}

/* ---- load ---- */

/* The part of the device that a newcomer would not have: work that is there or memory that is
 * taken, and what the clock is held back by. */
uint32_t sk_signal_load(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_sample *sample = sk_signal_of(core, node, index);
	uint64_t load, left;

	if (!has(sample, SK_SAMPLE_BUSY))
		return SK_LOAD_UNKNOWN_STEP;
	if (sample->known & (SK_SAMPLE_SLOWED | SK_SAMPLE_WARNED))
		return SK_LOAD_STEPS;
	load = sample->busy_ppm < SK_PPM ? sample->busy_ppm : SK_PPM;
	if (has(sample, SK_SAMPLE_MEMORY) && sample->memory_ppm > load)
		load = sample->memory_ppm < SK_PPM ? sample->memory_ppm : SK_PPM;
	left = SK_PPM - load;
	if (has(sample, SK_SAMPLE_CLOCK) && sample->clock_ppm < SK_PPM)
		left = left * sample->clock_ppm / SK_PPM;
	return (uint32_t)((SK_PPM - left) * SK_LOAD_STEPS / SK_PPM);
}

/* ---- speed ---- */

uint32_t sk_signal_measure(const struct sk_core *core, uint64_t series)
{
	uint32_t models[SK_MEASURE_END] = {0};
	uint32_t slot = sk_speed_first(core, series);

	for (; slot; slot = sk_speed_next(core, slot))
		models[core->speeds[slot].measure]++;
	if (models[SK_MEASURE_RUN] > models[SK_MEASURE_LAUNCH])
		return SK_MEASURE_RUN;
	return models[SK_MEASURE_LAUNCH] ? SK_MEASURE_LAUNCH : 0;
}

/* The shortest time of a unit of work by this measure. */
static uint64_t best_ns(const struct sk_core *core, uint64_t series, uint32_t measure)
{
	uint64_t best = UINT64_MAX;

	for (uint32_t slot = sk_speed_first(core, series); slot; slot = sk_speed_next(core, slot))
		if (core->speeds[slot].measure == measure && core->speeds[slot].median_ns < best)
			best = core->speeds[slot].median_ns;
	return best;
}

static uint32_t steps_of(uint64_t own_ns, uint64_t best_ns)
{
	uint64_t steps = own_ns * SK_SPEED_STEPS / best_ns;

	return steps < SK_SPEED_UNKNOWN_STEP ? (uint32_t)steps : SK_SPEED_UNKNOWN_STEP - 1;
}

uint32_t sk_signal_slowness(const struct sk_core *core, uint64_t series, uint32_t node,
			    uint32_t index)
{
	uint32_t measure = sk_signal_measure(core, series);
	uint32_t slot = sk_speed_find(core, series, (enum sk_measure)measure,
				      sk_device_at(core, node, index)->model);

	return slot ? steps_of(core->speeds[slot].median_ns, best_ns(core, series, measure))
		    : SK_SPEED_UNKNOWN_STEP;
}

void sk_signal_speeds(const struct sk_core *core, uint64_t series, uint32_t ret[SK_MODELS_MAX + 1])
{
	uint32_t measure = sk_signal_measure(core, series);
	uint64_t best = best_ns(core, series, measure);

	for (uint32_t model = 0; model <= SK_MODELS_MAX; model++)
		ret[model] = SK_SPEED_UNKNOWN_STEP;
	for (uint32_t slot = sk_speed_first(core, series); slot; slot = sk_speed_next(core, slot))
		if (core->speeds[slot].measure == measure)
			ret[core->speeds[slot].model] =
				steps_of(core->speeds[slot].median_ns, best);
}

/* ---- what is compared ---- */

uint32_t sk_signal_figure(const struct sk_core *core, const struct sk_job *job,
			  enum sk_placement how, uint32_t node, uint32_t index)
{
	int32_t headroom;

	switch (how) {
	case SK_PLACEMENT_POWER:
		return sk_signal_adds_mw(core, node, index);
	case SK_PLACEMENT_THERMAL:
		headroom = sk_signal_headroom(core, node, index);
		return headroom < 0 ? SK_FIGURE_NEVER : (uint32_t)(SK_DEGREES_MAX - headroom);
	case SK_PLACEMENT_LEAST_BUSY:
		return sk_signal_load(core, node, index);
	case SK_PLACEMENT_FASTEST:
		return sk_signal_slowness(core, job->request.series, node, index);
	default:
		return 0;
	}
}

bool sk_signal_known(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		     uint32_t node, uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, node, index);
	const struct sk_sample *sample = sk_signal_of(core, node, index);

	switch (how) {
	case SK_PLACEMENT_POWER:
		return device->used || core->hints->watts[device->model].full_mw;
	case SK_PLACEMENT_THERMAL:
		return has(sample, SK_SAMPLE_TEMPERATURE | SK_SAMPLE_LIMIT);
	case SK_PLACEMENT_LEAST_BUSY:
		return has(sample, SK_SAMPLE_BUSY);
	case SK_PLACEMENT_FASTEST:
		return sk_signal_slowness(core, job->request.series, node, index) !=
		       SK_SPEED_UNKNOWN_STEP;
	default:
		return true;
	}
}

uint64_t sk_signal_warned(const struct sk_core *core, uint32_t node)
{
	uint64_t mask = 0;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++)
		if (has(sk_signal_of(core, node, index), SK_SAMPLE_WARNED))
			mask |= (uint64_t)1 << index;
	return mask;
}
