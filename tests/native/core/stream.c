/* SPDX-License-Identifier: Apache-2.0
 *
 * Each maker fills one record from few values, so that they meet; every field is used.
 */
#include <stdlib.h>
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/job.h"
#include "core/state/digest.h"
#include "stream.h"

#define SECOND 1000000000ull

uint64_t stream_chance(struct stream *stream, uint64_t below)
{
	stream->random += 0x9e3779b97f4a7c15u;
	return sk_mix(stream->random) % below;
}

static uint64_t one_of(struct stream *stream, const uint64_t *values, uint64_t count)
{
	return values[stream_chance(stream, count)];
}

#define ONE_OF(stream, ...)                                                                        \
	one_of(stream, (const uint64_t[]){__VA_ARGS__},                                            \
	       sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void add(struct batch *batch, const void *record, enum sk_kind kind, size_t size)
{
	struct sk_header header;

	batch->bytes = realloc(batch->bytes, batch->size + size);
	memcpy(batch->bytes + batch->size, record, size);
	memcpy(&header, record, sizeof header);
	header.size = (uint16_t)size;
	header.kind = (uint16_t)kind;
	memcpy(batch->bytes + batch->size, &header, sizeof header);
	batch->size += size;
}

static void add_node_up(struct stream *s, struct batch *batch)
{
	struct sk_node_up up = {.node = stream_chance(s, 5),
				.boot = 1 + stream_chance(s, 12) / 10,
				.incarnation = 1 + stream_chance(s, 3),
				.memory_bytes = ONE_OF(s, 1000, 1000, 600),
				.domain = stream_chance(s, 2),
				.cpu_milli = 8000,
				.devices = (uint16_t)ONE_OF(s, 0, 6, 8, 8, 8, 8, 12, 16, 65)};

	add(batch, &up, SK_NODE_UP, sizeof up);
}

static void add_node_down(struct stream *s, struct batch *batch)
{
	struct sk_node_down down = {.header.flags = (uint32_t)stream_chance(s, 4),
				    .node = stream_chance(s, 5),
				    .reason = (uint16_t)stream_chance(s, 2)};

	add(batch, &down, SK_NODE_DOWN, sizeof down);
}

static void add_device(struct stream *s, struct batch *batch)
{
	struct sk_device_set set = {
		.node = 1 + stream_chance(s, 4),
		.memory_bytes = ONE_OF(s, 0, 80, 80, 80),
		.owner = stream_chance(s, 2),
		.model = ONE_OF(s, 0, 7, 7, 8),
		.index = (uint16_t)stream_chance(s, 13),
		.capacity_milli = (uint16_t)(stream_chance(s, 8) ? 1000 : stream_chance(s, 1002)),
		.available = stream_chance(s, 9) != 0,
		.reason = (uint16_t)stream_chance(s, 2),
		.link = (uint16_t)stream_chance(s, 3),
		.bus = (uint16_t)stream_chance(s, 2),
		.numa = (uint16_t)stream_chance(s, 2),
		.kind = (uint8_t)ONE_OF(s, 1, 1, 1, 1, 2, 2, 3),
		.vendor = (uint8_t)ONE_OF(s, 0, 1, 1, 1, 2, 15, 16)};

	add(batch, &set, SK_DEVICE_SET, sizeof set);
}

static void add_label(struct stream *s, struct batch *batch)
{
	struct sk_node_label label = {.header.flags =
					      (uint32_t)ONE_OF(s, 0, 0, 1, 1, 1, 1, 2, 4, 6),
				      .node = stream_chance(s, 5),
				      .label = stream_chance(s, 5),
				      .value = stream_chance(s, 3)};

	if (stream_chance(s, 3) == 0)
		label.label = 100 + stream_chance(s, 30); /* few, so that a node runs out of them */
	add(batch, &label, SK_NODE_LABEL, sizeof label);
}

static void add_reserve(struct stream *s, struct batch *batch)
{
	uint64_t from = s->now_ns + stream_chance(s, 20) * SECOND;
	struct sk_node_reserve reserve = {.node = stream_chance(s, 5),
					  .from_ns = from,
					  .until_ns = from + stream_chance(s, 30) * SECOND,
					  .queue = (uint32_t)stream_chance(s, 4)};

	if (stream_chance(s, 3) == 0)
		reserve.from_ns = reserve.until_ns = reserve.queue = 0;
	add(batch, &reserve, SK_NODE_RESERVE, sizeof reserve);
}

static void add_queue(struct stream *s, struct batch *batch)
{
	struct sk_queue_set set = {
		.header.flags = stream_chance(s, 3) == 0,
		.queue = (uint32_t)stream_chance(s, 7),
		.parent = (uint32_t)ONE_OF(s, 0, 0, 1, 2, 3, 4),
		.weight = (uint32_t)ONE_OF(s, 0, 1, 1, 1, 2, 9),
		.order = (uint16_t)stream_chance(s, SK_ORDER_END + 1),
		.placement = (uint16_t)ONE_OF(s, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)};

	add(batch, &set, SK_QUEUE_SET, sizeof set);
}

static void add_quota(struct stream *s, struct batch *batch)
{
	struct sk_quota_set set = {.model = ONE_OF(s, 0, 7, 8, 9),
				   .guaranteed_milli = ONE_OF(s, 0, 0, 500, 2000),
				   .limit_milli = ONE_OF(s, SK_NO_LIMIT, SK_NO_LIMIT, SK_NO_LIMIT,
							 0, 1500, 4000, 9000),
				   .queue = (uint32_t)stream_chance(s, 7)};

	add(batch, &set, SK_QUOTA_SET, sizeof set);
}

static uint64_t some_job(struct stream *s, const struct sk_core *core)
{
	uint64_t back = 1 + stream_chance(s, 16);

	return core->next_job > back ? core->next_job - back : stream_chance(s, 12);
}

/* Up to three jobs to follow, each by its success, by its failure or by any end. */
static void add_afters(struct stream *s, const struct sk_core *core, struct sk_request *request)
{
	uint32_t jobs = stream_chance(s, 5) ? 0 : 1 + (uint32_t)stream_chance(s, 3);

	for (uint32_t n = 0; n < jobs && (!n || request->after[n - 1]); n++) {
		uint32_t end = (uint32_t)stream_chance(s, 4);

		request->after[n] = some_job(s, core);
		if (request->after[n] && end == 1)
			request->after_any = (uint8_t)(request->after_any | 1u << n);
		if (request->after[n] && end == 2)
			request->after_fail = (uint8_t)(request->after_fail | 1u << n);
	}
}

/* Add one or two levels, as the labels of add_label have them; few are wrong. */
static void add_levels(struct stream *s, struct sk_request *request)
{
	uint32_t count = stream_chance(s, 4) ? 0 : 1 + (uint32_t)stream_chance(s, 2);

	for (uint32_t i = 0; i < count; i++)
		request->conditions[i] = (struct sk_condition){
			.value = 1 + stream_chance(s, 2),
			.property = SK_PROPERTY_LEVEL,
			.relation = stream_chance(s, 30) ? SK_RELATION_IS : SK_RELATION_LEAST,
			.rank = (uint16_t)stream_chance(s, 3)};
}

static void fill_ask(struct stream *s, struct sk_request *request, const struct sk_core *core)
{
	bool odd = stream_chance(s, 6) == 0;

	request->gpu_milli = (uint32_t)ONE_OF(s, 0, 0, 0, 1, 300, 500, 500, 999, 1000, 2000);
	request->memory_bytes = stream_chance(s, 4) ? 0 : stream_chance(s, 700);
	request->cpu_milli = stream_chance(s, 3) ? 0 : (uint32_t)stream_chance(s, 5000);
	request->priority = (int16_t)stream_chance(s, 3);
	request->tasks = (uint16_t)(stream_chance(s, 4) ? 1 : 1 + stream_chance(s, 4));
	request->estimate_ns = stream_chance(s, 3) * 10 * SECOND;
	add_afters(s, core, request);
	request->group = 1 + stream_chance(s, 2);
	request->tolerate[0] = stream_chance(s, 4);
	request->queue = (uint32_t)(stream_chance(s, 3) ? 0 : stream_chance(s, 4));
	request->min_run_s = stream_chance(s, 4) ? 0 : (uint32_t)stream_chance(s, 5);
	request->backoff_s = (uint32_t)ONE_OF(s, 0, 1, 5, 300);
	request->placement =
		(uint16_t)(stream_chance(s, 3) ? 0 : stream_chance(s, SK_PLACEMENT_END));
	request->options = (uint16_t)ONE_OF(s, 0, 1, 1, 1, 3, 5, 9, 17, 32, 64, 65, 128, 256);
	request->retries = (uint8_t)ONE_OF(s, 0, 0, 1, 3, 10);
	request->kinds = (uint8_t)ONE_OF(s, 1, 1, 1, 2, 3);
	add_levels(s, request);
	if (!odd)
		return;
	request->gpu_milli = (uint32_t)ONE_OF(s, 1500, 8000, 16000, 17000, 1000);
	request->priority = (int16_t)(stream_chance(s, 300) - 150);
	request->tasks = (uint16_t)ONE_OF(s, 0, 1, 7, 64, 65);
	request->device_memory_bytes = ONE_OF(s, 0, 30, 90);
	request->models[0] = ONE_OF(s, 0, 7, 8, 9);
	request->models[1] = request->models[0] ? ONE_OF(s, 0, 7) : 0;
	request->require[0] = stream_chance(s, 5);
	request->avoid[0] = stream_chance(s, 5);
	request->queue = (uint32_t)stream_chance(s, 7);
	request->group = stream_chance(s, 3);
	request->options = (uint16_t)stream_chance(s, 600);
	request->kinds = (uint8_t)stream_chance(s, 5);
	request->backoff_s = (uint32_t)ONE_OF(s, 1, 301);
	request->retries = (uint8_t)ONE_OF(s, 1, 11);
	request->placement = (uint16_t)stream_chance(s, 12);
}

static void add_submit(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	struct sk_submit submit = {.client = stream_chance(s, 2),
				   .key = {stream_chance(s, 2) ? 0 : 1 + stream_chance(s, 30)},
				   .spec_hash = stream_chance(s, 2),
				   .uid = (uint32_t)stream_chance(s, 2),
				   .tenant = (uint32_t)stream_chance(s, 2)};

	fill_ask(s, &submit.request, core);
	add(batch, &submit, SK_SUBMIT, sizeof submit);
}

/* A live job that holds tasks, most of the time, or 0. */
static uint32_t some_placed(struct stream *s, const struct sk_core *core)
{
	uint32_t skip = (uint32_t)stream_chance(s, 6), found = 0;

	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next) {
		if (!core->jobs[slot].tasks_live)
			continue;
		found = slot;
		if (!skip--)
			break;
	}
	return found;
}

static void add_outcome(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	uint32_t slot = stream_chance(s, 8) ? some_placed(s, core) : 0;
	uint32_t task = slot ? core->jobs[slot].tasks_first : 0;
	struct sk_outcome outcome = {
		.job = slot ? core->jobs[slot].id : some_job(s, core),
		.node = task ? core->nodes[core->tasks[task].node].id : 1,
		.attempt = slot && stream_chance(s, 9) ? core->jobs[slot].attempt
						       : (uint32_t)stream_chance(s, 3),
		.task = task ? core->tasks[task].task : (uint16_t)stream_chance(s, 3),
		.state = (uint16_t)(stream_chance(s, 3) ? SK_SUCCEEDED + stream_chance(s, 5)
							: SK_RUNNING)};

	if (stream_chance(s, 2) && outcome.state != SK_RUNNING) {
		outcome.header.flags = SK_HAS_EXIT_CODE;
		outcome.exit_code = (int32_t)stream_chance(s, 3);
	}
	if (stream_chance(s, 3) == 0) {
		outcome.header.flags |= SK_HAS_DEVICE_NS;
		outcome.device_ns = ONE_OF(s, 0, SECOND, 90 * SECOND, UINT64_MAX - 5);
	}
	add(batch, &outcome, SK_OUTCOME, sizeof outcome);
}

static void add_usage(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	uint32_t slot = some_placed(s, core);
	struct sk_usage usage = {.job = slot ? core->jobs[slot].id : some_job(s, core),
				 .device_ns = stream_chance(s, 50) * SECOND,
				 .attempt = slot ? core->jobs[slot].attempt : 1};

	add(batch, &usage, SK_USAGE, sizeof usage);
}

static void add_preempt(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	uint32_t slot = stream_chance(s, 6) ? some_placed(s, core) : 0;
	struct sk_preempt preempt = {.job = slot ? core->jobs[slot].id : some_job(s, core),
				     .beneficiary = some_job(s, core),
				     .attempt = slot ? core->jobs[slot].attempt : 1,
				     .reason = (uint16_t)ONE_OF(s, 0, SK_RECLAIMED)};

	add(batch, &preempt, SK_PREEMPT, sizeof preempt);
}

static void add_end(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	uint64_t first = core->live.first ? core->jobs[core->live.first].id : 1;
	struct sk_cancel cancel = {.job = stream_chance(s, 3) ? first : some_job(s, core),
				   .reason = (uint16_t)ONE_OF(s, 0, 1001)};
	struct sk_forget forget = {.job = some_job(s, core)};

	if (stream_chance(s, 3))
		add(batch, &cancel, SK_CANCEL, sizeof cancel);
	else
		add(batch, &forget, SK_FORGET, sizeof forget);
}

static void add_rare(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	struct sk_term term = {.header.term = core->term + stream_chance(s, 3), .leader = 3};
	struct sk_refused refused = {.client = 1, .count = (uint32_t)stream_chance(s, 9)};

	if (stream_chance(s, 2))
		add(batch, &term, SK_TERM, sizeof term);
	else
		add(batch, &refused, SK_REFUSED, sizeof refused);
}

/* Free devices of the node, from a random one on. */
static void fill_shares(struct stream *s, struct sk_place *place, const struct sk_core *core,
			const struct sk_request *request)
{
	uint32_t each = request->gpu_milli < SK_MILLI ? request->gpu_milli : SK_MILLI;
	uint32_t wanted = each ? request->gpu_milli / each : 0,
		 first = (uint32_t)stream_chance(s, 8);

	if (stream_chance(s, 12) == 0)
		wanted = (uint32_t)stream_chance(s, 4);
	place->shares_n = (uint16_t)(wanted < SK_TASK_DEVICES_MAX ? wanted : SK_TASK_DEVICES_MAX);
	for (uint32_t i = 0; i < place->shares_n; i++)
		place->shares[i] = (struct sk_share){(uint16_t)((first + i) % 16), (uint16_t)each};
}

static void add_group(struct stream *s, struct batch *batch, const struct sk_core *core,
		      enum sk_kind kind)
{
	uint32_t skip = (uint32_t)stream_chance(s, 6), slot = core->live.first;
	uint16_t tasks;

	while (slot && skip-- && core->jobs[slot].order.next)
		slot = core->jobs[slot].order.next;
	if (!slot)
		return;
	tasks = stream_chance(s, 12) ? core->jobs[slot].request.tasks : 2;
	for (uint16_t task = 0; task < tasks; task++) {
		struct sk_place place = {.header.term = core->term,
					 .job = core->jobs[slot].id,
					 .node = 1 + stream_chance(s, 3),
					 .attempt = core->jobs[slot].attempt + 1,
					 .task = task,
					 .tasks = tasks};

		fill_shares(s, &place, core, &core->jobs[slot].request);
		add(batch, &place, kind, sizeof place);
	}
}

void stream_places(struct stream *stream, struct batch *batch, const struct sk_core *core)
{
	add_group(stream, batch, core, SK_PLACE);
}

void stream_request(struct stream *s, struct batch *batch, const struct sk_core *core)
{
	uint64_t what = stream_chance(s, 100);

	if (what < 12)
		add_node_up(s, batch);
	else if (what < 15)
		add_node_down(s, batch);
	else if (what < 30)
		add_device(s, batch);
	else if (what < 50)
		add_submit(s, batch, core);
	else if (what < 70)
		add_outcome(s, batch, core);
	else if (what < 74)
		add_label(s, batch);
	else if (what < 76)
		add_reserve(s, batch);
	else if (what < 80)
		add_queue(s, batch);
	else if (what < 83)
		add_quota(s, batch);
	else if (what < 87)
		add_usage(s, batch, core);
	else if (what < 91)
		add_preempt(s, batch, core);
	else if (what < 94)
		add_group(s, batch, core, SK_PREFER);
	else if (what < 99)
		add_end(s, batch, core);
	else
		add_rare(s, batch, core);
}
