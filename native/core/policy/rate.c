/* SPDX-License-Identifier: Apache-2.0
 *
 * One function per placement. docs/developer/placement.md has formulas, units, ties and the
 * treatment of unknown values. Invariant: all arithmetic is in whole numbers.
 */
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/node.h"
#include "core/policy/rate.h"
#include "core/policy/subset.h"
#include "core/policy/workload.h"

#define SK_RATE_MAX (SK_SCORE_NONE - 1u)
#define SK_COST_HALF (INT64_C(1) << 30)
#define SK_COSTS_MAX ((1u << 24) - 1u)	     /* larger costs count as this */
#define SK_LOADS_MAX ((1u << 21) - 1u)	     /* larger loads count as this */
#define SK_TASKS_COUNT_MAX ((1u << 10) - 1u) /* more tasks count as these */
#define SK_DEGREE 1000
#define SK_DEGREES_MAX 1000

static uint32_t under(uint64_t value, uint32_t most)
{
	return value < most ? (uint32_t)value : most;
}

static uint32_t each_milli(const struct sk_job *job)
{
	return job->request.gpu_milli < SK_MILLI ? job->request.gpu_milli : SK_MILLI;
}

static uint32_t wanted(const struct sk_job *job)
{
	return job->request.gpu_milli < SK_MILLI ? job->request.gpu_milli != 0
						 : job->request.gpu_milli / SK_MILLI;
}

/* Devices that a task of this job may use now, as a mask. */
static uint64_t suited_devices(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	uint32_t each = each_milli(job);
	uint64_t mask = 0;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++) {
		const struct sk_device *device = sk_device_at(core, node, index);

		if (sk_device_free(device) >= each && !sk_fit_device(job, device))
			mask |= (uint64_t)1 << index;
	}
	return mask;
}

const struct sk_sample *sk_sample_of(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_sampled *at =
		&core->hints->samples[(size_t)core->nodes[node].chunks[index / SK_CHUNK_DEVICES] *
					      SK_CHUNK_DEVICES +
				      index % SK_CHUNK_DEVICES];

	return at->node == core->nodes[node].id && at->index == index ? &at->sample : NULL;
}

/* ---- fragmentation ---- */

/* Devices that are not in `suited` are left out, as if the node did not have them. */
static void frag_fill(const struct sk_core *core, uint32_t node, uint64_t suited,
		      struct sk_frag_node *ret)
{
	const struct sk_node *at = &core->nodes[node];

	ret->cpu_free = sk_node_cpu_free(at);
	ret->memory_free = sk_node_memory_free(at);
	ret->models = at->models;
	ret->devices = at->devices;
	for (uint32_t index = 0; index < at->devices; index++)
		ret->free[index] =
			suited >> index & 1
				? (uint16_t)sk_device_free(sk_device_at(core, node, index))
				: 0;
}

/* True if its devices are of several models. */
static bool mixed(const struct sk_core *core, uint32_t node)
{
	for (uint32_t index = 1; index < core->nodes[node].devices; index++)
		if (sk_device_at(core, node, index)->model != sk_device_at(core, node, 0)->model)
			return true;
	return false;
}

/* The node prepared for all requests, kept until it changes. */
static const struct sk_frag_node *prepared(const struct sk_core *core, uint32_t node,
					   enum sk_frag_policy policy)
{
	struct sk_hints *hints = core->hints;

	if (hints->prepared_as[node] != policy + 1) {
		frag_fill(core, node, UINT64_MAX, &hints->prepared[node]);
		sk_frag_node_prepare(&hints->tables[policy], &hints->prepared[node]);
		hints->prepared_as[node] = (uint8_t)(policy + 1);
		hints->mixed[node] = mixed(core, node);
	}
	return &hints->prepared[node];
}

static bool several_families(const struct sk_core *core, uint32_t node)
{
	uint32_t families = core->nodes[node].families;

	return (families & (families - 1)) != 0;
}

/* The devices of the family from which the task would take its devices; all of them if families may
 * be mixed. */
static uint64_t suited_together(const struct sk_core *core, const struct sk_job *job, uint32_t node,
				uint64_t suited)
{
	struct sk_place place = {0};
	uint64_t mask = 0;
	uint8_t family;

	if (job->request.gpu_milli <= SK_MILLI || !sk_fit_one_family(&job->request) ||
	    !several_families(core, node))
		return suited;
	if (!sk_subset_choose_among(core, job, node, suited, &place))
		return 0;
	family = sk_device_at(core, node, place.shares[0].index)->family;
	for (uint32_t index = 0; index < core->nodes[node].devices; index++)
		if (sk_device_at(core, node, index)->family == family)
			mask |= (uint64_t)1 << index;
	return suited & mask;
}

static bool frag_on(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		    enum sk_frag_policy policy, struct sk_frag_place *ret)
{
	const struct sk_frag_table *table = &core->hints->tables[policy];
	const struct sk_frag_node *kept = prepared(core, node, policy);
	const struct sk_frag_request request = {
		.cpu_milli = job->request.cpu_milli,
		.memory_bytes = job->request.memory_bytes,
		.models = job->request.gpu_milli ? job->wish.models : 0,
		.gpu_milli = (uint16_t)each_milli(job),
		.count = (uint16_t)wanted(job),
	};
	struct sk_frag_node own;

	if (!job->request.gpu_milli ||
	    !(job->request.device_memory_bytes || several_families(core, node) ||
	      (core->hints->mixed[node] && job->wish.models)))
		return sk_frag_place(table, kept, &request, ret);
	frag_fill(core, node, suited_together(core, job, node, suited_devices(core, job, node)),
		  &own);
	sk_frag_node_prepare(table, &own);
	return sk_frag_place(table, &own, &request, ret);
}

static enum sk_frag_policy frag_policy(enum sk_placement how)
{
	return how == SK_PLACEMENT_FGD ? SK_FRAG_FGD : SK_FRAG_DEFAULT;
}

/* The cost of the placement for the requests to come. */
static uint32_t rate_frag(const struct sk_core *core, const struct sk_job *job,
			  enum sk_frag_policy policy, uint32_t node)
{
	struct sk_frag_place place;

	if (!frag_on(core, job, node, policy, &place))
		return SK_SCORE_NONE;
	if (place.cost < -SK_COST_HALF)
		return 0;
	return (uint32_t)(place.cost < SK_COST_HALF ? place.cost + SK_COST_HALF : 2 * SK_COST_HALF);
}

/* ---- best fit ---- */

/* The least that is left over on a device, in whole devices, or in processors. */
static uint32_t rate_fit(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 uint64_t suited)
{
	const struct sk_node *at = &core->nodes[node];
	uint32_t least = SK_MILLI;

	if (!job->request.gpu_milli)
		return under(sk_node_cpu_free(at), SK_RATE_MAX);
	if (job->request.gpu_milli >= SK_MILLI)
		return at->devices_free;
	for (; suited; suited &= suited - 1) {
		uint32_t free =
			sk_device_free(sk_device_at(core, node, (uint32_t)__builtin_ctzll(suited)));

		least = free < least ? free : least;
	}
	return least < SK_MILLI ? least : SK_MILLI + at->devices_free;
}

/* ---- spread and load ---- */

static uint32_t used_milli(const struct sk_core *core, uint32_t node)
{
	uint32_t used = 0;

	for (uint32_t index = 0; index < core->nodes[node].devices; index++)
		used += sk_device_at(core, node, index)->used;
	return used;
}

static uint32_t tasks_count(const struct sk_core *core, uint32_t node)
{
	return under(core->nodes[node].tasks_count, SK_TASKS_COUNT_MAX);
}

/* Least device milli in use (processors for a job without devices), then fewest tasks. */
static uint32_t rate_spread(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	uint64_t used = job->request.gpu_milli ? used_milli(core, node)
					       : under(core->nodes[node].cpu_used, SK_LOADS_MAX);

	return (uint32_t)used << 10 | tasks_count(core, node);
}

/* Least observed load, then fewest tasks; nodes that were never observed come last. */
static uint32_t rate_load(const struct sk_core *core, uint32_t node)
{
	const struct sk_observed *observed = &core->observed[node];
	uint32_t load = observed->id ? under(observed->load_milli, SK_LOADS_MAX - 1) : SK_LOADS_MAX;

	return load << 10 | tasks_count(core, node);
}

/* ---- cost ---- */

static const struct sk_label *cheapest_label(const struct sk_node *node)
{
	const struct sk_label *cheapest = NULL;

	for (uint32_t i = 0; i < node->labels_n; i++)
		if (node->labels[i].flags & SK_LABEL_COST &&
		    (!cheapest || node->labels[i].value < cheapest->value))
			cheapest = &node->labels[i];
	return cheapest;
}

/* Lowest cost, then most free devices; nodes without a cost come last, least loaded first. */
static uint32_t rate_cost(const struct sk_core *core, uint32_t node)
{
	const struct sk_node *at = &core->nodes[node];
	const struct sk_label *label = cheapest_label(at);

	if (!label)
		return 1u << 31 | rate_load(core, node) >> 1;
	return under(label->value, SK_COSTS_MAX) << 7 |
	       (uint32_t)(SK_NODE_DEVICES_MAX - at->devices_free);
}

/* ---- power ---- */

/* A device with any task counts as full (PWR, CCGrid'25). So does one without a task of ours that
 * draws more than a quarter of the way from idle to full. */
uint32_t sk_device_adds_mw(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_device *device = sk_device_at(core, node, index);
	const struct sk_power *watts = &core->hints->watts[device->model];
	const struct sk_sample *sample = sk_sample_of(core, node, index);
	uint32_t span = watts->full_mw - watts->idle_mw, drawn;

	if (device->used)
		return 0;
	if (!watts->full_mw)
		return core->hints->worst_mw;
	if (!sample || !(sample->known & SK_SAMPLE_POWER) || sample->power_mw <= watts->idle_mw)
		return span;
	drawn = sample->power_mw - watts->idle_mw;
	if (drawn <= span / 4)
		return span;
	return drawn < span ? span - drawn : 0;
}

/* Sockets with any processor in use count as full. */
static uint64_t sockets_add_mw(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	const struct sk_hints *hints = core->hints;
	uint64_t used = core->nodes[node].cpu_used, size = hints->socket_milli;

	if (!size)
		return 0;
	return ((used + job->request.cpu_milli + size - 1) / size - (used + size - 1) / size) *
	       (hints->socket.full_mw - hints->socket.idle_mw);
}

/* The devices of `suited` that add least; for whole devices all of them, since they have to be
 * taken. */
static uint64_t least_power(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			    uint64_t suited)
{
	uint32_t least = UINT32_MAX;
	uint64_t mask = 0;

	if (job->request.gpu_milli >= SK_MILLI)
		return suited;
	for (; suited; suited &= suited - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(suited);
		uint32_t adds = sk_device_adds_mw(core, node, index);

		if (adds > least)
			continue;
		mask = adds < least ? 0 : mask;
		mask |= (uint64_t)1 << index;
		least = adds;
	}
	return mask;
}

/* Watts added by the devices that would be taken and by the sockets. */
static uint32_t rate_power(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	struct sk_place place = {0};
	uint64_t adds = sockets_add_mw(core, job, node);

	if (!sk_rate_shares(core, job, SK_PLACEMENT_POWER, node, &place))
		return SK_SCORE_NONE;
	for (uint32_t i = 0; i < place.shares_n; i++)
		adds += sk_device_adds_mw(core, node, place.shares[i].index);
	return under(adds / 1000, SK_RATE_MAX);
}

/* ---- heat ---- */

/* Whole degrees below the limit; 0 if unknown, -1 at the limit or above. */
static int32_t headroom_of(const struct sk_core *core, uint32_t node, uint32_t index)
{
	const struct sk_sample *sample = sk_sample_of(core, node, index);
	uint32_t needed = SK_SAMPLE_TEMPERATURE | SK_SAMPLE_LIMIT;
	int64_t left;

	if (!sample || (sample->known & needed) != needed)
		return 0;
	left = (int64_t)sample->limit_mc - sample->temperature_mc;
	if (left <= 0)
		return -1;
	left /= SK_DEGREE;
	return (int32_t)(left < SK_DEGREES_MAX ? left : SK_DEGREES_MAX);
}

/* The devices below their limit; for a share only the coolest of them. */
static uint64_t coolest(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			uint64_t suited)
{
	bool share = job->request.gpu_milli < SK_MILLI;
	int32_t most = 0;
	uint64_t mask = 0;

	for (; suited; suited &= suited - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(suited);
		int32_t headroom = headroom_of(core, node, index);

		if (headroom < (share ? most : 0))
			continue;
		mask = share && headroom > most ? 0 : mask;
		mask |= (uint64_t)1 << index;
		most = headroom > most ? headroom : most;
	}
	return mask;
}

/* The headroom of the hottest device that would be taken. */
static uint32_t rate_heat(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	struct sk_place place = {0};
	int32_t least = SK_DEGREES_MAX;

	if (!sk_rate_shares(core, job, SK_PLACEMENT_THERMAL, node, &place))
		return SK_SCORE_NONE;
	for (uint32_t i = 0; i < place.shares_n; i++) {
		int32_t headroom = headroom_of(core, node, place.shares[i].index);

		least = headroom < least ? headroom : least;
	}
	return (uint32_t)(SK_DEGREES_MAX - least);
}

/* ---- which devices ---- */

/* The least used devices, so that shares of one node spread as well. */
static uint64_t emptiest(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 uint64_t suited)
{
	uint32_t most = 0;
	uint64_t mask = 0;

	if (job->request.gpu_milli >= SK_MILLI)
		return suited;
	for (; suited; suited &= suited - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(suited);
		uint32_t free = sk_device_free(sk_device_at(core, node, index));

		if (free < most)
			continue;
		mask = free > most ? 0 : mask;
		mask |= (uint64_t)1 << index;
		most = free;
	}
	return mask;
}

static uint64_t allowed(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
			uint32_t node)
{
	uint64_t suited = suited_devices(core, job, node);

	switch (how) {
	case SK_PLACEMENT_SPREAD:
		return emptiest(core, job, node, suited);
	case SK_PLACEMENT_POWER:
		return least_power(core, job, node, suited);
	case SK_PLACEMENT_THERMAL:
		return coolest(core, job, node, suited);
	default:
		return suited;
	}
}

bool sk_rate_shares(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		    uint32_t node, struct sk_place *place)
{
	bool frag = how == SK_PLACEMENT_BEST || how == SK_PLACEMENT_FGD;
	struct sk_frag_place at;

	place->shares_n = 0;
	if (!job->request.gpu_milli)
		return true;
	if (!frag || job->request.gpu_milli >= SK_MILLI || !sk_workload_known(core))
		return sk_subset_choose_among(core, job, node, allowed(core, job, how, node),
					      place);
	if (!frag_on(core, job, node, frag_policy(how), &at))
		return false;
	place->shares[0].index = (uint16_t)__builtin_ctzll(at.devices);
	place->shares[0].milli = (uint16_t)job->request.gpu_milli;
	place->shares_n = 1;
	return true;
}

/* ---- the rating ---- */

static bool room(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	const struct sk_node *at = &core->nodes[node];

	return at->up && at->tasks_count < core->limits.node_tasks &&
	       job->request.cpu_milli <= sk_node_cpu_free(at) &&
	       job->request.memory_bytes <= sk_node_memory_free(at) &&
	       sk_fit_kind(core, &job->request, &job->wish, node) == SK_REASON_NONE;
}

/* True if enough devices suit, and are linked if that is requested. */
static bool devices_do(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		       uint64_t suited)
{
	struct sk_place place = {0};

	if ((uint32_t)__builtin_popcountll(suited) < wanted(job))
		return false;
	if (job->request.gpu_milli <= SK_MILLI)
		return true;
	return (!(job->request.options & SK_SAME_LINK) &&
		(!sk_fit_one_family(&job->request) || !several_families(core, node))) ||
	       sk_subset_choose_among(core, job, node, suited, &place);
}

uint32_t sk_rate(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		 uint32_t node)
{
	bool frag = how == SK_PLACEMENT_BEST || how == SK_PLACEMENT_FGD;
	uint64_t suited;

	if (job->request.gpu_milli && !(core->nodes[node].families & job->wish.families))
		return SK_SCORE_NONE;
	if (frag && core->hints->summary.plain[node] && !job->request.require[0] &&
	    sk_workload_known(core) && !(job->request.options & SK_SAME_LINK))
		return rate_frag(core, job, frag_policy(how), node); /* the command checks this as
									well */
	if (!room(core, job, node))
		return SK_SCORE_NONE;
	if (frag && sk_workload_known(core) && !(job->request.options & SK_SAME_LINK))
		return rate_frag(core, job, frag_policy(how), node);
	suited = job->request.gpu_milli ? suited_devices(core, job, node) : 0;
	if (!devices_do(core, job, node, suited))
		return SK_SCORE_NONE;
	switch (how) {
	case SK_PLACEMENT_SPREAD:
		return rate_spread(core, job, node);
	case SK_PLACEMENT_LEAST_LOADED:
		return rate_load(core, node);
	case SK_PLACEMENT_RANDOM:
	case SK_PLACEMENT_CUSTOM:
		return 0;
	case SK_PLACEMENT_COST:
		return rate_cost(core, node);
	case SK_PLACEMENT_POWER:
		return rate_power(core, job, node);
	case SK_PLACEMENT_THERMAL:
		return rate_heat(core, job, node);
	case SK_PLACEMENT_BEST:
	case SK_PLACEMENT_FGD:
		if (sk_workload_known(core))
			return rate_frag(core, job, frag_policy(how), node);
		return rate_fit(core, job, node, suited);
	default:
		return rate_fit(core, job, node, suited);
	}
}

/* ---- what was read ---- */

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

static uint16_t why_load(const struct sk_core *core, uint32_t node, struct sk_place *place)
{
	sk_rate_note(place, core->observed[node].id);
	return core->observed[node].id ? SK_LEAST_LOADED : SK_LOAD_UNKNOWN;
}

/* A device that has a task already adds nothing, so neither table nor sample is named. */
static uint16_t why_power(const struct sk_core *core, uint32_t node, struct sk_place *place)
{
	bool known = place->shares_n || core->hints->socket_milli;

	for (uint32_t i = 0; i < place->shares_n; i++) {
		uint32_t index = place->shares[i].index;
		const struct sk_device *device = sk_device_at(core, node, index);
		const struct sk_sample *sample = sk_sample_of(core, node, index);

		if (device->used)
			continue;
		if (!core->hints->watts[device->model].full_mw)
			known = false;
		else if (sample && sample->known & SK_SAMPLE_POWER)
			sk_rate_note(place, sample->id);
	}
	return known ? SK_LEAST_POWER : SK_POWER_UNKNOWN;
}

static uint16_t why_heat(const struct sk_core *core, uint32_t node, struct sk_place *place)
{
	uint32_t needed = SK_SAMPLE_TEMPERATURE | SK_SAMPLE_LIMIT;
	bool known = place->shares_n != 0;

	for (uint32_t i = 0; i < place->shares_n; i++) {
		const struct sk_sample *sample = sk_sample_of(core, node, place->shares[i].index);

		if (sample && (sample->known & needed) == needed)
			sk_rate_note(place, sample->id);
		else
			known = false;
	}
	return known ? SK_COOLEST : SK_HEAT_UNKNOWN;
}

uint16_t sk_rate_why(const struct sk_core *core, enum sk_placement how, uint32_t node,
		     struct sk_place *place)
{
	switch (how) {
	case SK_PLACEMENT_SPREAD:
		return SK_SPREAD_OUT;
	case SK_PLACEMENT_LEAST_LOADED:
		return why_load(core, node, place);
	case SK_PLACEMENT_RANDOM:
		return SK_BY_CHANCE;
	case SK_PLACEMENT_COST:
		if (cheapest_label(&core->nodes[node]))
			return SK_CHEAPEST;
		why_load(core, node, place);
		return SK_COST_UNKNOWN;
	case SK_PLACEMENT_POWER:
		return why_power(core, node, place);
	case SK_PLACEMENT_THERMAL:
		return why_heat(core, node, place);
	default:
		return SK_LEAST_FRAGMENTED;
	}
}
