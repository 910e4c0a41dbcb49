/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts halve at every look, so that old requests are forgotten. The classes are the most frequent
 * requests that make up 95 of 100, as in the published fragmentation measure.
 */
#include <errno.h>
#include <string.h>

#include "core/ledger/fit.h"
#include "core/policy/workload.h"

#define SK_ONE_TIME 256u /* count of one submit, so that halving is fine-grained */
#define SK_COVERED 95u	 /* of 100 requests */

/* ---- the tables ---- */

static uint16_t class_count(uint32_t gpu_milli)
{
	return (uint16_t)(gpu_milli < SK_MILLI ? gpu_milli != 0 : gpu_milli / SK_MILLI);
}

static void class_fill(uint32_t cpu_milli, uint32_t gpu_milli, uint32_t weight, uint64_t memory,
		       uint64_t models, struct sk_frag_class *ret)
{
	*ret = (struct sk_frag_class){
		.memory_bytes = memory,
		.models = gpu_milli ? models : 0,
		.cpu_milli = cpu_milli,
		.weight = weight,
		.gpu_milli = (uint16_t)(gpu_milli < SK_MILLI ? gpu_milli : SK_MILLI),
		.count = class_count(gpu_milli),
	};
}

/* A class that names only unknown models is left out. */
static uint32_t classes_given(const struct sk_core *core, struct sk_frag_class *classes)
{
	const struct sk_hints *hints = core->hints;
	uint32_t count = 0;

	for (uint32_t i = 0; i < hints->given; i++) {
		const struct sk_class *given = &hints->classes[i];
		struct sk_request request = {0};
		uint64_t models;

		memcpy(request.models, given->models, sizeof request.models);
		models = sk_model_mask(core, &request);
		if (given->models[0] && !models)
			continue;
		class_fill(given->cpu_milli, given->gpu_milli, given->weight, given->memory_bytes,
			   models, &classes[count++]);
	}
	return count;
}

static uint32_t classes_counted(const struct sk_core *core, struct sk_frag_class *classes)
{
	const struct sk_hints *hints = core->hints;

	for (uint32_t i = 0; i < hints->typical_n; i++) {
		const struct sk_counted *at = &hints->typical[i];

		class_fill(at->cpu_milli, at->gpu_milli, at->times,
			   at->memory_mib / at->times << 20, at->models, &classes[i]);
	}
	return hints->typical_n;
}

/* Fill watts by the numbers of models in this state. */
static void watts_make(const struct sk_core *core)
{
	struct sk_hints *hints = core->hints;

	memset(hints->watts, 0, sizeof hints->watts);
	hints->worst_mw = 0;
	for (uint32_t i = 0; i < hints->power_n; i++) {
		const struct sk_power *power = &hints->power[i];
		uint32_t span = power->full_mw - power->idle_mw;

		hints->watts[sk_model_find(core, power->model)] = *power;
		hints->worst_mw = span > hints->worst_mw ? span : hints->worst_mw;
	}
	hints->watts[0] = (struct sk_power){0};
}

static void tables_make(const struct sk_core *core)
{
	struct sk_frag_class classes[SK_CLASSES_MAX] = {{0}};
	struct sk_hints *hints = core->hints;
	uint32_t count =
		hints->given ? classes_given(core, classes) : classes_counted(core, classes);

	sk_frag_table_init(&hints->tables[SK_FRAG_DEFAULT], SK_FRAG_DEFAULT, classes, count);
	for (uint32_t i = 0; i < count; i++)
		classes[i].memory_bytes = 0;
	sk_frag_table_init(&hints->tables[SK_FRAG_FGD], SK_FRAG_FGD, classes, count);
	watts_make(core);
	hints->models_n = core->models_n;
	sk_hints_reset(hints);
}

void sk_workload_look(const struct sk_core *core)
{
	if (core->hints->models_n != core->models_n)
		tables_make(core);
}

/* ---- given ---- */

static bool class_ok(const struct sk_class *class)
{
	uint32_t gpu = class->gpu_milli;

	return !class->zero && class->weight && (gpu <= SK_MILLI || gpu % SK_MILLI == 0) &&
	       gpu <= SK_TASK_DEVICES_MAX * SK_MILLI;
}

int sk_core_workload(struct sk_core *core, const struct sk_class *classes, uint32_t count)
{
	if (count > SK_CLASSES_MAX)
		return -E2BIG;
	for (uint32_t i = 0; i < count; i++)
		if (!class_ok(&classes[i]))
			return -EINVAL;
	if (count)
		memcpy(core->hints->classes, classes, count * sizeof *classes);
	core->hints->given = count;
	tables_make(core);
	return 0;
}

/* ---- counted ---- */

static struct sk_counted *counted_find(struct sk_hints *hints, const struct sk_counted *key)
{
	for (uint32_t i = 0; i < hints->counted_n; i++) {
		struct sk_counted *at = &hints->counted[i];

		if (at->models == key->models && at->cpu_milli == key->cpu_milli &&
		    at->gpu_milli == key->gpu_milli)
			return at;
	}
	return NULL;
}

/* Add a request; if all counts are in use the rarest makes room. */
static struct sk_counted *counted_add(struct sk_hints *hints, const struct sk_counted *key)
{
	struct sk_counted *rarest = hints->counted;

	if (hints->counted_n < SK_COUNTED_MAX) {
		rarest = &hints->counted[hints->counted_n++];
	} else {
		for (uint32_t i = 1; i < SK_COUNTED_MAX; i++)
			if (hints->counted[i].times < rarest->times)
				rarest = &hints->counted[i];
	}
	*rarest = *key;
	return rarest;
}

static bool more_often(const struct sk_counted *a, const struct sk_counted *b)
{
	if (a->times != b->times)
		return a->times > b->times;
	if (a->gpu_milli != b->gpu_milli)
		return a->gpu_milli > b->gpu_milli;
	if (a->cpu_milli != b->cpu_milli)
		return a->cpu_milli > b->cpu_milli;
	return a->models < b->models;
}

/* Insertion sort: there are few, and they hardly move from one look to the next. */
static void counted_sort(struct sk_hints *hints)
{
	for (uint32_t i = 1; i < hints->counted_n; i++) {
		struct sk_counted moved = hints->counted[i];
		uint32_t at = i;

		for (; at && more_often(&moved, &hints->counted[at - 1]); at--)
			hints->counted[at] = hints->counted[at - 1];
		hints->counted[at] = moved;
	}
}

static void counted_halve(struct sk_hints *hints)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < hints->counted_n; i++) {
		struct sk_counted at = hints->counted[i];

		at.times /= 2;
		at.memory_mib /= 2;
		if (at.times)
			hints->counted[left++] = at;
	}
	hints->counted_n = left;
}

static void typical_find(struct sk_hints *hints)
{
	uint64_t all = 0, covered = 0;

	counted_sort(hints);
	for (uint32_t i = 0; i < hints->counted_n; i++)
		all += hints->counted[i].times;
	hints->typical_n = 0;
	while (hints->typical_n < hints->counted_n && hints->typical_n < SK_CLASSES_MAX &&
	       covered * 100 < all * SK_COVERED) {
		hints->typical[hints->typical_n] = hints->counted[hints->typical_n];
		covered += hints->typical[hints->typical_n++].times;
	}
}

void sk_workload_count(const struct sk_core *core, const struct sk_job *job)
{
	struct sk_hints *hints = core->hints;
	struct sk_counted key = {.models = job->request.gpu_milli ? job->wish.models : 0,
				 .cpu_milli = job->request.cpu_milli,
				 .gpu_milli = job->request.gpu_milli};
	struct sk_counted *at = counted_find(hints, &key);
	uint64_t mib = job->request.memory_bytes >> 20;

	if (!at)
		at = counted_add(hints, &key);
	at->times += SK_ONE_TIME * job->request.tasks;
	at->memory_mib += (mib < 1u << 30 ? mib : 1u << 30) * SK_ONE_TIME * job->request.tasks;
	if (++hints->submits < SK_CLASSES_EVERY)
		return;
	hints->submits = 0;
	typical_find(hints);
	counted_halve(hints);
	if (!hints->given)
		tables_make(core);
}

void sk_workload_count_all(const struct sk_core *core)
{
	uint32_t lists[] = {core->finished.first, core->live.first};

	for (uint32_t i = 0; i < 2; i++)
		for (uint32_t slot = lists[i]; slot; slot = core->jobs[slot].order.next)
			sk_workload_count(core, &core->jobs[slot]);
}

uint32_t sk_core_workload_learn(struct sk_core *core)
{
	struct sk_hints *hints = core->hints;

	if (hints->given)
		return 0;
	typical_find(hints);
	tables_make(core);
	return hints->typical_n;
}
