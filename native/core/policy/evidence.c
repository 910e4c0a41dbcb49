/* SPDX-License-Identifier: Apache-2.0
 *
 * The evidence of the latest decisions is a ring; only explanations search it.
 */
#include <errno.h>
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/node.h"
#include "core/ledger/speed.h"
#include "core/policy/contiguous.h"
#include "core/policy/evidence.h"
#include "core/policy/signal.h"

/* The milli in use on a node: of its devices, or of its processors. */
static uint64_t node_used(const struct sk_core *core, uint32_t node, bool devices)
{
	const struct sk_node *at = &core->nodes[node];
	uint64_t used = devices ? 0 : at->cpu_used;

	for (uint32_t index = 0; devices && index < at->devices; index++)
		used += sk_device_at(core, node, index)->used;
	return used;
}

/* The milli that are free on a node for a job: of devices that it accepts, or of processors. */
static uint64_t node_free(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	const struct sk_node *at = &core->nodes[node];
	uint64_t free = job->request.gpu_milli ? 0 : sk_node_cpu_free(at);

	for (uint32_t index = 0; job->request.gpu_milli && index < at->devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);

		free += sk_fit_device(job, device) ? 0 : sk_device_free(device);
	}
	return free;
}

/* The figure of a node where no device is rated: its cost, its use, what is free or its load. */
static uint32_t node_figure(const struct sk_core *core, const struct sk_job *job,
			    enum sk_placement how, uint32_t node, const struct sk_place *place)
{
	const struct sk_label *cost = sk_node_cost(&core->nodes[node]);
	uint64_t figure = core->observed[node].load_milli;

	if (how == SK_PLACEMENT_COST_OPTIMIZED && cost)
		figure = cost->value;
	else if (how == SK_PLACEMENT_LEAST_LOADED || how == SK_PLACEMENT_COST_OPTIMIZED)
		figure = node_free(core, job, node);
	else if (how == SK_PLACEMENT_SPREAD)
		figure = node_used(core, node, place->shares_n != 0);
	else if (how == SK_PLACEMENT_CONTIGUOUS)
		figure = sk_contiguous_gaps(core, node, place);
	return figure < UINT32_MAX ? (uint32_t)figure : UINT32_MAX;
}

bool sk_evidence_scores(enum sk_placement how)
{
	return how == SK_PLACEMENT_BEST || how == SK_PLACEMENT_FGD;
}

bool sk_evidence_tells(enum sk_placement how)
{
	return sk_signal_reads(how) || sk_evidence_scores(how) || how == SK_PLACEMENT_SCORED;
}

static bool rates_devices(enum sk_placement how)
{
	return how == SK_PLACEMENT_POWER || how == SK_PLACEMENT_THERMAL ||
	       how == SK_PLACEMENT_LEAST_BUSY || how == SK_PLACEMENT_FASTEST;
}

/* The speed of the model of a device for a job, where it is measured. */
static void speed_fill(const struct sk_core *core, const struct sk_job *job, uint32_t model,
		       struct sk_evidence_side *ret)
{
	uint32_t measure = sk_signal_measure(core, job->request.series);
	uint32_t slot = sk_speed_find(core, job->request.series, (enum sk_measure)measure, model);
	struct sk_speed_view speed;

	if (!slot)
		return;
	sk_speed_view_fill(core, slot, &speed);
	ret->measure = measure;
	ret->speed_ns = speed.median_ns;
	ret->speed_least = speed.least_ns;
	ret->speed_most = speed.most_ns;
	ret->speed_jobs = speed.jobs;
}

static void side_fill(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		      struct sk_compared at, uint32_t index, struct sk_evidence_side *ret)
{
	const struct sk_sample *sample = NULL;
	uint32_t node = at.node;

	*ret = (struct sk_evidence_side){.node = core->nodes[node].id,
					 .observation = core->observed[node].id,
					 .score = at.score,
					 .index = index,
					 .load_milli = (uint32_t)core->observed[node].load_milli};
	if (index != SK_EVIDENCE_NODE)
		sample = sk_signal_of(core, node, index);
	if (sample)
		ret->sample = *sample;
	ret->figure = index == SK_EVIDENCE_NODE ? node_figure(core, job, how, node, at.place)
						: sk_signal_figure(core, job, how, node, index);
	if (how == SK_PLACEMENT_FASTEST && index != SK_EVIDENCE_NODE)
		speed_fill(core, job, sk_device_at(core, node, index)->model, ret);
}

/* The device that decides how good the place is: the one with the worst figure. */
static uint32_t deciding(const struct sk_core *core, const struct sk_job *job,
			 enum sk_placement how, uint32_t node, const struct sk_place *place)
{
	uint32_t worst = SK_EVIDENCE_NODE, most = 0;

	for (uint32_t i = 0; i < place->shares_n && rates_devices(how); i++) {
		uint32_t figure = sk_signal_figure(core, job, how, node, place->shares[i].index);

		if (worst != SK_EVIDENCE_NODE && figure <= most)
			continue;
		worst = place->shares[i].index;
		most = figure;
	}
	return worst;
}

static bool is_taken(const struct sk_place *place, uint32_t index)
{
	for (uint32_t i = 0; i < place->shares_n; i++)
		if (place->shares[i].index == index)
			return true;
	return false;
}

/* The best device of the node that suits and was not taken. */
static uint32_t left_over(const struct sk_core *core, const struct sk_job *job,
			  enum sk_placement how, uint32_t node, const struct sk_place *place)
{
	uint64_t named = sk_wish_named(core, &job->request, &job->wish, node);
	uint32_t best = SK_EVIDENCE_NODE, least = 0;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);
		uint32_t figure = sk_signal_figure(core, job, how, node, index);

		if (is_taken(place, index) || !(named >> index & 1) ||
		    sk_device_free(device) < place->shares[0].milli || sk_fit_device(job, device) ||
		    (best != SK_EVIDENCE_NODE && figure >= least))
			continue;
		best = index;
		least = figure;
	}
	return best;
}

static void other_fill(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		       struct sk_compared taken, struct sk_compared other,
		       struct sk_kept_evidence *ret)
{
	struct sk_evidence_side beside;
	uint32_t left = SK_EVIDENCE_NODE;

	if (other.node) {
		side_fill(core, job, how, other, deciding(core, job, how, other.node, other.place),
			  &ret->sides[1]);
		ret->head.sides = 2;
	}
	if (ret->sides[0].index != SK_EVIDENCE_NODE)
		left = left_over(core, job, how, taken.node, taken.place);
	if (left == SK_EVIDENCE_NODE)
		return;
	side_fill(core, job, how, taken, left, &beside);
	if (ret->head.sides == 2 && ret->sides[1].figure < beside.figure)
		return;
	ret->sides[1] = beside;
	ret->head.sides = 2;
}

void sk_evidence_keep(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		      struct sk_compared taken, struct sk_compared other)
{
	struct sk_hints *hints = core->hints;
	struct sk_kept_evidence *at = &hints->evidence[hints->evidence_n++ % SK_EVIDENCE_MAX];
	const struct sk_place *place = taken.place;
	bool many = sk_evidence_scores(how) && core->nodes_count > SK_EVIDENCE_NODES_MAX;

	*at = (struct sk_kept_evidence){.head = {.job = place->job,
						 .attempt = place->attempt,
						 .task = place->task,
						 .placement = (uint16_t)how,
						 .reason = place->reason,
						 .sides = 1,
						 .flags = many ? SK_EVIDENCE_UNSOUGHT : 0}};
	side_fill(core, job, how, taken, deciding(core, job, how, taken.node, place),
		  &at->sides[0]);
	other_fill(core, job, how, taken, other, at);
}

int sk_core_evidence(const struct sk_core *core, uint64_t job, uint32_t attempt, uint32_t task,
		     struct sk_evidence *ret, struct sk_evidence_side sides[2])
{
	const struct sk_hints *hints = core->hints;

	for (uint64_t back = 1; back <= SK_EVIDENCE_MAX && back <= hints->evidence_n; back++) {
		const struct sk_kept_evidence *at =
			&hints->evidence[(hints->evidence_n - back) % SK_EVIDENCE_MAX];

		if (at->head.job != job || at->head.attempt != attempt || at->head.task != task)
			continue;
		*ret = at->head;
		memcpy(sides, at->sides, sizeof at->sides);
		return 0;
	}
	return -ENOENT;
}
