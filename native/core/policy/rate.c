/* SPDX-License-Identifier: Apache-2.0
 *
 * One function per placement. docs/developer/placement.md has formulas, units, ties and the
 * treatment of unknown values. Invariant: all arithmetic is in whole numbers.
 */
#include "core/ledger/device.h"
#include "core/ledger/fit.h"
#include "core/ledger/node.h"
#include "core/policy/contiguous.h"
#include "core/policy/rate.h"
#include "core/policy/signal.h"
#include "core/policy/subset.h"
#include "core/policy/workload.h"

#define SK_RATE_MAX (SK_SCORE_NONE - 1u)
#define SK_COST_HALF (INT64_C(1) << 30)
#define SK_COSTS_MAX ((1u << 24) - 1u)	     /* larger costs count as this */
#define SK_LOADS_MAX ((1u << 21) - 1u)	     /* larger loads count as this */
#define SK_FREE_CPU_MAX ((1u << 21) - 1u)    /* more free processors, in milli, count as these */
#define SK_TASKS_COUNT_MAX ((1u << 10) - 1u) /* more tasks count as these */

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
	return job->wish.named ? mask & sk_wish_named(core, &job->request, &job->wish, node) : mask;
}

/* The devices of the link group of the node that tasks of the job use already, or else of the group
 * with most of these devices. */
static uint64_t gang_link(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			  uint64_t suited)
{
	uint64_t most = 0;

	for (uint64_t left = suited; left; left &= left - 1) {
		uint16_t link = sk_device_at(core, node, (uint32_t)__builtin_ctzll(left))->link;
		uint64_t mask = 0;

		for (uint64_t all = link ? suited : 0; all; all &= all - 1)
			if (sk_device_at(core, node, (uint32_t)__builtin_ctzll(all))->link == link)
				mask |= all & -all;
		for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
			if (core->tasks[at].node == node &&
			    sk_device_at(core, node, core->tasks[at].shares[0].index)->link != link)
				mask = 0;
		if (__builtin_popcountll(mask) > __builtin_popcountll(most))
			most = mask;
	}
	return most;
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
	    !(job->request.device_memory_bytes || job->wish.memory_least || ~job->wish.traits ||
	      job->wish.named || several_families(core, node) ||
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

static uint32_t load_of(const struct sk_core *core, uint32_t node)
{
	const struct sk_observed *observed = &core->observed[node];

	return observed->id ? under(observed->load_milli, SK_LOADS_MAX - 1) : SK_LOADS_MAX;
}

/* Least observed load, then fewest tasks; nodes that were never observed come last. */
static uint32_t rate_load(const struct sk_core *core, uint32_t node)
{
	return load_of(core, node) << 10 | tasks_count(core, node);
}

/* The figure of the worst device that would be taken, or SK_SCORE_NONE. */
static uint32_t worst_figure(const struct sk_core *core, const struct sk_job *job,
			     enum sk_placement how, uint32_t node)
{
	struct sk_place place = {0};
	uint32_t most = 0;

	if (!sk_rate_shares(core, job, how, node, &place))
		return SK_SCORE_NONE;
	for (uint32_t i = 0; i < place.shares_n; i++) {
		uint32_t figure = sk_signal_figure(core, job, how, node, place.shares[i].index);

		most = figure > most ? figure : most;
	}
	return most;
}

/* Least load of the most loaded device that would be taken, then as above with an eighth of the
 * precision. */
static uint32_t rate_device_load(const struct sk_core *core, const struct sk_job *job,
				 uint32_t node)
{
	uint32_t most;

	if (!job->request.gpu_milli)
		return rate_load(core, node);
	most = worst_figure(core, job, SK_PLACEMENT_LEAST_BUSY, node);
	if (most == SK_SCORE_NONE)
		return SK_SCORE_NONE;
	return most << 28 | load_of(core, node) / 8 << 10 | tasks_count(core, node);
}

/* ---- most free ---- */

/* Most free milli of the devices that the job accepts, or most free processors; then fewest tasks.
 */
static uint32_t rate_free(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			  uint64_t suited)
{
	uint64_t cpu = sk_node_cpu_free(&core->nodes[node]);
	uint32_t free = 0;

	if (!job->request.gpu_milli)
		return (SK_FREE_CPU_MAX - under(cpu, SK_FREE_CPU_MAX)) << 10 |
		       tasks_count(core, node);
	for (; suited; suited &= suited - 1)
		free += sk_device_free(sk_device_at(core, node, (uint32_t)__builtin_ctzll(suited)));
	return (SK_NODE_DEVICES_MAX * SK_MILLI - free) << 10 | tasks_count(core, node);
}

/* ---- cost ---- */

/* Lowest cost, then most free devices; nodes without a cost come last, most free first. */
static uint32_t rate_cost(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			  uint64_t suited)
{
	const struct sk_node *at = &core->nodes[node];
	const struct sk_label *label = sk_node_cost(at);

	if (!label)
		return 1u << 31 | rate_free(core, job, node, suited);
	return under(label->value, SK_COSTS_MAX) << 7 |
	       (uint32_t)(SK_NODE_DEVICES_MAX - at->devices_free);
}

/* ---- power ---- */

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

/* Watts added by the devices that would be taken and by the sockets. */
static uint32_t rate_power(const struct sk_core *core, const struct sk_job *job, uint32_t node)
{
	struct sk_place place = {0};
	uint64_t adds = sockets_add_mw(core, job, node);

	if (!sk_rate_shares(core, job, SK_PLACEMENT_POWER, node, &place))
		return SK_SCORE_NONE;
	for (uint32_t i = 0; i < place.shares_n; i++)
		adds += sk_signal_adds_mw(core, node, place.shares[i].index);
	return under(adds / 1000, SK_RATE_MAX);
}

/* ---- numbers of devices ---- */

/* Fewest gaps between the numbers of the devices that would be taken, then fewest unused devices.
 */
static uint32_t rate_contiguous(const struct sk_core *core, const struct sk_job *job, uint32_t node,
				uint64_t suited)
{
	uint32_t gaps;

	if (job->request.gpu_milli <= SK_MILLI)
		return rate_fit(core, job, node, suited);
	if (!sk_contiguous_choose(core, job, node, suited, &gaps))
		return SK_SCORE_NONE;
	return gaps << 7 | core->nodes[node].devices_free;
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

/* The figure of the worst device that has to be among the `count` best, or of the next worse one
 * after `above`; SK_FIGURE_NEVER if there is none. */
static uint32_t figure_next(const uint32_t *figures, uint64_t suited, uint32_t count, int64_t above)
{
	uint32_t next = SK_FIGURE_NEVER;

	for (uint64_t left = suited; left; left &= left - 1) {
		uint32_t figure = figures[__builtin_ctzll(left)], below = 0;

		for (uint64_t all = suited; all; all &= all - 1)
			below += figures[__builtin_ctzll(all)] <= figure;
		if (below >= count && figure > above && figure < next)
			next = figure;
	}
	return next;
}

bool sk_rate_suffices(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		      uint64_t among)
{
	struct sk_place place = {0};

	if (wanted(job) == 1 && !(job->wish.together & SK_LINKED_GANG))
		return among != 0;
	return sk_subset_choose_among(core, job, node, among, &place);
}

/* The devices with the best figures that are enough for the task. Where links or families rule the
 * best ones out, those with the next worse figure join them. */
static uint64_t best_figures(const struct sk_core *core, const struct sk_job *job,
			     enum sk_placement how, uint32_t node, uint64_t suited)
{
	uint32_t figures[SK_NODE_DEVICES_MAX], count = wanted(job), at;
	uint64_t mask = 0;

	for (uint64_t left = suited; left; left &= left - 1) {
		uint32_t index = (uint32_t)__builtin_ctzll(left);

		figures[index] = sk_signal_figure(core, job, how, node, index);
	}
	at = figure_next(figures, suited, count, -1);
	for (; at != SK_FIGURE_NEVER; at = figure_next(figures, suited, count, at)) {
		for (uint64_t left = suited; left; left &= left - 1)
			if (figures[__builtin_ctzll(left)] <= at)
				mask |= left & -left;
		if (sk_rate_suffices(core, job, node, mask))
			return mask;
	}
	return 0;
}

/* Devices whose health has a warning are left out where the others do. */
static uint64_t unwarned(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			 uint64_t suited)
{
	uint64_t well = suited & ~sk_signal_warned(core, node);
	struct sk_place place = {0};

	return well != suited && sk_subset_choose_among(core, job, node, well, &place) ? well
										       : suited;
}

/* The first suited device with as much free and without a warning, or else this one. */
static uint32_t equal_unwarned(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			       uint32_t index)
{
	uint64_t warned = sk_signal_warned(core, node);
	uint32_t free = sk_device_free(sk_device_at(core, node, index));
	uint64_t well;

	if (!(warned >> index & 1))
		return index;
	for (well = suited_devices(core, job, node) & ~warned; well; well &= well - 1) {
		uint32_t other = (uint32_t)__builtin_ctzll(well);

		if (sk_device_free(sk_device_at(core, node, other)) == free)
			return other;
	}
	return index;
}

static uint64_t allowed(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
			uint32_t node)
{
	uint64_t suited = unwarned(core, job, node, suited_devices(core, job, node));
	uint32_t gaps;

	if (job->wish.together & SK_LINKED_GANG)
		suited = gang_link(core, job, node, suited);
	switch (how) {
	case SK_PLACEMENT_SPREAD:
	case SK_PLACEMENT_LEAST_LOADED:
		return emptiest(core, job, node, suited);
	case SK_PLACEMENT_POWER:
	case SK_PLACEMENT_THERMAL:
	case SK_PLACEMENT_LEAST_BUSY:
	case SK_PLACEMENT_FASTEST:
		return best_figures(core, job, how, node, suited);
	case SK_PLACEMENT_CONTIGUOUS:
		return sk_contiguous_choose(core, job, node, suited, &gaps);
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
	if (!frag || job->request.gpu_milli >= SK_MILLI || job->wish.together ||
	    !sk_workload_known(core))
		return sk_subset_choose_among(core, job, node, allowed(core, job, how, node),
					      place);
	if (!frag_on(core, job, node, frag_policy(how), &at))
		return false;
	place->shares[0].index =
		(uint16_t)equal_unwarned(core, job, node, (uint32_t)__builtin_ctzll(at.devices));
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

/* True if enough devices suit, and are together if that is requested. */
static bool devices_do(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		       uint64_t suited)
{
	struct sk_place place = {0};

	if ((uint32_t)__builtin_popcountll(suited) < wanted(job))
		return false;
	if (job->request.gpu_milli <= SK_MILLI)
		return !(job->wish.together & SK_LINKED_GANG) || gang_link(core, job, node, suited);
	return (!job->wish.together &&
		(!sk_fit_one_family(&job->request) || !several_families(core, node))) ||
	       sk_subset_choose_among(core, job, node, suited, &place);
}

bool sk_rate_offers(const struct sk_core *core, const struct sk_job *job, uint32_t node,
		    uint64_t *ret)
{
	*ret = 0;
	if (!room(core, job, node))
		return false;
	if (!job->request.gpu_milli)
		return true;
	if (!(core->nodes[node].families & job->wish.families) ||
	    !devices_do(core, job, node, suited_devices(core, job, node)))
		return false;
	*ret = allowed(core, job, SK_PLACEMENT_BEST, node); /* it leaves none out */
	return true;
}

uint32_t sk_rate(const struct sk_core *core, const struct sk_job *job, enum sk_placement how,
		 uint32_t node)
{
	bool frag = how == SK_PLACEMENT_BEST || how == SK_PLACEMENT_FGD;
	uint64_t suited;

	if (job->request.gpu_milli && !(core->nodes[node].families & job->wish.families))
		return SK_SCORE_NONE;
	if (frag && core->hints->summary.plain[node] && !job->request.require[0] &&
	    sk_workload_known(core) && !job->wish.together)
		return rate_frag(core, job, frag_policy(how), node); /* the command checks this as
									well */
	if (!room(core, job, node))
		return SK_SCORE_NONE;
	if (frag && sk_workload_known(core) && !job->wish.together)
		return rate_frag(core, job, frag_policy(how), node);
	suited = job->request.gpu_milli ? suited_devices(core, job, node) : 0;
	if (!devices_do(core, job, node, suited))
		return SK_SCORE_NONE;
	switch (how) {
	case SK_PLACEMENT_SPREAD:
		return rate_spread(core, job, node);
	case SK_PLACEMENT_LEAST_BUSY:
		return rate_device_load(core, job, node);
	case SK_PLACEMENT_RANDOM:
	case SK_PLACEMENT_CUSTOM:
		return 0;
	case SK_PLACEMENT_COST_OPTIMIZED:
		return rate_cost(core, job, node, suited);
	case SK_PLACEMENT_LEAST_LOADED:
		return rate_free(core, job, node, suited);
	case SK_PLACEMENT_CONTIGUOUS:
		return rate_contiguous(core, job, node, suited);
	case SK_PLACEMENT_POWER:
		return rate_power(core, job, node);
	case SK_PLACEMENT_THERMAL:
	case SK_PLACEMENT_FASTEST:
		return worst_figure(core, job, how, node);
	case SK_PLACEMENT_BEST:
	case SK_PLACEMENT_FGD:
		if (sk_workload_known(core))
			return rate_frag(core, job, frag_policy(how), node);
		return rate_fit(core, job, node, suited);
	default:
		return rate_fit(core, job, node, suited);
	}
}
