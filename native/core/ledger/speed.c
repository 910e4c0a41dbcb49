/* SPDX-License-Identifier: Apache-2.0
 *
 * All speeds of a series are in one hash chain. A job tells of two units of work at most: the mean
 * device time of a launch, which does not depend on how much the job had to do, and its run time,
 * which counts only where the job did all of it.
 */
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/speed.h"
#include "core/state/journal.h"
#include "core/state/list.h"
#include "core/state/pool.h"
#include "core/state/table.h"

/* ---- where they are ---- */

/* The first speed of the series from this slot of its chain on. */
static uint32_t of_series(const struct sk_core *core, uint32_t slot, uint64_t series)
{
	while (slot && core->speeds[slot].series != series)
		slot = core->speeds[slot].hash_next;
	return slot;
}

uint32_t sk_speed_first(const struct sk_core *core, uint64_t series)
{
	return series ? of_series(core, sk_table_first(&core->speed_table, sk_mix(series)), series)
		      : 0;
}

uint32_t sk_speed_next(const struct sk_core *core, uint32_t slot)
{
	return of_series(core, core->speeds[slot].hash_next, core->speeds[slot].series);
}

uint32_t sk_speed_find(const struct sk_core *core, uint64_t series, enum sk_measure measure,
		       uint32_t model)
{
	uint32_t slot = sk_speed_first(core, series);

	while (slot && (core->speeds[slot].measure != measure || core->speeds[slot].model != model))
		slot = sk_speed_next(core, slot);
	return slot;
}

/* ---- samples ---- */

static uint32_t samples_of(const struct sk_speed *speed)
{
	return speed->jobs < SK_SPEED_SAMPLES_MAX ? speed->jobs : SK_SPEED_SAMPLES_MAX;
}

/* Sort the samples; returns their number. */
static uint32_t sorted(const struct sk_speed *speed, uint64_t ret[SK_SPEED_SAMPLES_MAX])
{
	uint32_t count = samples_of(speed);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = i;

		for (; at && ret[at - 1] > speed->ns[i]; at--)
			ret[at] = ret[at - 1];
		ret[at] = speed->ns[i];
	}
	return count;
}

static uint64_t median(const struct sk_speed *speed)
{
	uint64_t ns[SK_SPEED_SAMPLES_MAX];
	uint32_t count = sorted(speed, ns);

	return (ns[(count - 1) / 2] + ns[count / 2]) / 2;
}

/* ---- making room ---- */

static void speed_drop(struct sk_core *core, uint32_t slot)
{
	sk_table_remove(core, &core->speed_table, SK_CHAIN(core->speeds, hash_next),
			sk_mix(core->speeds[slot].series), slot);
	sk_list_remove(core, &core->speeds_order, SK_CHAIN(core->speeds, order), slot);
	sk_pool_give(core, &core->speed_pool, SK_CHAIN(core->speeds, free_next), slot);
}

/* An empty speed; the one that was measured longest ago makes room. */
static uint32_t speed_add(struct sk_core *core, uint64_t series, enum sk_measure measure,
			  uint32_t model)
{
	struct sk_speed *speed;
	uint32_t slot;

	if (core->speed_pool.used == SK_SPEEDS_MAX)
		speed_drop(core, core->speeds_order.first);
	slot = sk_pool_take(core, &core->speed_pool, SK_CHAIN(core->speeds, free_next));
	speed = &core->speeds[slot];
	speed->series = series;
	speed->measure = (uint8_t)measure;
	speed->model = (uint8_t)model;
	sk_table_insert(core, &core->speed_table, SK_CHAIN(core->speeds, hash_next), sk_mix(series),
			slot);
	sk_list_append(core, &core->speeds_order, SK_CHAIN(core->speeds, order), slot);
	return slot;
}

void sk_speed_put(struct sk_core *core, uint64_t series, enum sk_measure measure, uint32_t model,
		  const uint64_t ns[SK_SPEED_SAMPLES_MAX], uint32_t jobs)
{
	struct sk_speed *speed = &core->speeds[speed_add(core, series, measure, model)];

	memcpy(speed->ns, ns, sizeof speed->ns);
	speed->jobs = jobs;
	speed->median_ns = median(speed);
}

/* ---- measuring ---- */

static void sample_add(struct sk_core *core, uint64_t series, enum sk_measure measure,
		       uint32_t model, uint64_t ns)
{
	uint32_t slot = sk_speed_find(core, series, measure, model);
	struct sk_speed *speed;

	if (slot) {
		sk_list_remove(core, &core->speeds_order, SK_CHAIN(core->speeds, order), slot);
		sk_list_append(core, &core->speeds_order, SK_CHAIN(core->speeds, order), slot);
	} else {
		slot = speed_add(core, series, measure, model);
	}
	speed = &core->speeds[slot];
	sk_journal_note(core, speed->ns,
			offsetof(struct sk_speed, model) - offsetof(struct sk_speed, ns));
	speed->ns[speed->jobs % SK_SPEED_SAMPLES_MAX] = ns < SK_SPEED_NS_MAX ? ns : SK_SPEED_NS_MAX;
	speed->jobs += speed->jobs < UINT32_MAX;
	speed->median_ns = median(speed);
}

/* The model of all devices of a task; 0 if they differ in it or it is not known. */
static uint32_t model_of(const struct sk_core *core, const struct sk_task *task)
{
	uint32_t model = 0;

	for (uint32_t i = 0; i < task->shares_n; i++) {
		uint32_t at = sk_device_at(core, task->node, task->shares[i].index)->model;

		if (i && at != model)
			return 0;
		model = at;
	}
	return model;
}

/* One task speaks for a gang, so that a sample is a job. The run time of a gang is not that of one
 * model. What was stopped from outside ran as well as what succeeded, but did not do all of it. */
void sk_speed_measure(const struct sk_act *act, uint32_t task, const struct sk_outcome *command)
{
	const struct sk_request *request = &act->core->jobs[act->core->tasks[task].job].request;
	bool whole = command->state == SK_SUCCEEDED;
	bool sound = whole || command->state == SK_TIMEOUT || command->state == SK_CANCELLED;
	uint32_t model;

	if (!request->series || command->task || !sound || !(command->launch_ns | command->run_ns))
		return;
	model = model_of(act->core, &act->core->tasks[task]);
	if (model && command->launch_ns)
		sample_add(act->core, request->series, SK_MEASURE_LAUNCH, model,
			   command->launch_ns);
	if (model && command->run_ns && whole && request->tasks == 1)
		sample_add(act->core, request->series, SK_MEASURE_RUN, model, command->run_ns);
}

/* ---- views ---- */

void sk_speed_view_fill(const struct sk_core *core, uint32_t slot, struct sk_speed_view *ret)
{
	const struct sk_speed *speed = &core->speeds[slot];
	uint64_t ns[SK_SPEED_SAMPLES_MAX];
	uint32_t count = sorted(speed, ns);

	*ret = (struct sk_speed_view){.series = speed->series,
				      .model = core->models[speed->model - 1],
				      .median_ns = speed->median_ns,
				      .least_ns = ns[0],
				      .most_ns = ns[count - 1],
				      .jobs = speed->jobs,
				      .measure = speed->measure};
}

uint32_t sk_core_speeds(const struct sk_core *core, uint64_t series, struct sk_speed_view *views,
			uint32_t capacity)
{
	uint32_t slot = core->speeds_order.first, count = 0;

	for (; slot && count < capacity; slot = core->speeds[slot].order.next)
		if (!series || core->speeds[slot].series == series)
			sk_speed_view_fill(core, slot, &views[count++]);
	return count;
}
