/* SPDX-License-Identifier: Apache-2.0
 *
 * Restoring a state. The bytes are not trusted. Each record is checked alone and against the
 * records before it. Reservations are made by the code that makes them in apply. At the end the
 * whole ledger is checked and digested again.
 */
#include <errno.h>
#include <string.h>

#include "core/command/batch.h"
#include "core/command/submit_command.h"
#include "core/ledger/device.h"
#include "core/ledger/fair.h"
#include "core/ledger/fit.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/key.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/speed.h"
#include "core/ledger/task.h"
#include "core/ledger/traits.h"
#include "core/policy/workload.h"
#include "core/snapshot/saved.h"
#include "core/state/digest.h"
#include "core/state/journal.h"
#include "core/state/list.h"
#include "core/state/pool.h"
#include "core/state/table.h"

struct sk_snapshot_reader {
	const uint8_t *bytes;
	size_t left;
};

static bool read_record(struct sk_snapshot_reader *reader, void *record, size_t size)
{
	if (reader->left < size)
		return false;
	memcpy(record, reader->bytes, size);
	reader->bytes += size;
	reader->left -= size;
	return true;
}

static bool read_device(struct sk_core *core, struct sk_snapshot_reader *reader, uint32_t slot,
			uint32_t index)
{
	struct sk_saved_device saved;

	if (!read_record(reader, &saved, sizeof saved) || saved.capacity > SK_MILLI ||
	    saved.available > 1 || saved.family >= SK_FAMILIES || saved.traits > core->traits_n ||
	    saved.model > core->models_n)
		return false;
	sk_device_put(core, slot, index,
		      (struct sk_device){.memory_bytes = saved.memory_bytes,
					 .owner = saved.owner,
					 .capacity = saved.capacity,
					 .available = (uint8_t)saved.available,
					 .family = saved.family,
					 .reason = saved.reason,
					 .link = saved.link,
					 .bus = saved.bus,
					 .numa = saved.numa,
					 .model = (uint8_t)saved.model,
					 .traits = saved.traits});
	return true;
}

/* Nodes are saved by slot; slots between are free, so a slot is claimed by its number. */
static bool read_node(struct sk_core *core, struct sk_snapshot_reader *reader, uint32_t *last)
{
	struct sk_saved_node saved;
	struct sk_node *node;

	if (!read_record(reader, &saved, sizeof saved) || saved.zero || saved.up > 1 || !saved.id ||
	    saved.slot <= *last || saved.slot > core->limits.nodes ||
	    saved.devices > SK_NODE_DEVICES_MAX || sk_node_find(core, saved.id) ||
	    !sk_saved_labels_ok(&saved) || !sk_saved_reserve_ok(&saved))
		return false;
	*last = saved.slot;
	sk_node_create_at(core, saved.slot, saved.id);
	node = &core->nodes[saved.slot];
	node->boot = saved.boot;
	node->boot_before = saved.boot_before;
	node->incarnation = saved.incarnation;
	node->memory = saved.memory;
	node->cpu = saved.cpu;
	core->memory_all += saved.memory;
	core->cpu_all += saved.cpu;
	node->domain = saved.domain;
	node->reserve_from_ns = saved.reserve_from_ns;
	node->reserve_until_ns = saved.reserve_until_ns;
	node->reserve_queue = saved.reserve_queue;
	node->labels_n = saved.labels;
	memcpy(node->labels, saved.label, sizeof node->labels);
	if (!sk_node_grow(core, saved.slot, saved.devices))
		return false;
	for (uint32_t index = 0; index < saved.devices; index++)
		if (!read_device(core, reader, saved.slot, index))
			return false;
	sk_devices_sum(core, saved.slot);
	sk_node_set_up(core, saved.slot, saved.up, saved.reason);
	return true;
}

/* True if the job still waits for the range at this place, or never will. */
static bool saved_range_live(const struct sk_saved_job *saved, uint32_t n)
{
	return !(saved->met >> n & 1) && saved->view.unmet != n + 1;
}

/* True if only ranges that the job follows are met, and none of them is the unmet one. */
static bool saved_met_ok(const struct sk_saved_job *saved)
{
	const uint64_t *after = saved->view.request.after;

	for (uint32_t n = 0; n < SK_JOB_AFTERS_MAX; n++)
		if (saved->met >> n & 1 &&
		    (!(after[n] & SK_AFTER_RANGE) || saved->view.unmet == n + 1))
			return false;
	return !(saved->met >> SK_JOB_AFTERS_MAX);
}

static bool saved_hold_ok(const struct sk_core *core, const struct sk_saved_job *saved)
{
	const struct sk_job_view *view = &saved->view;
	bool final = sk_state_final(view->state), doomed = view->hold == SK_HOLD_DOOMED;
	uint32_t live = 0, jobs = 0;

	for (; jobs < SK_JOB_AFTERS_MAX && view->request.after[jobs]; jobs++) {
		bool range = view->request.after[jobs] & SK_AFTER_RANGE;

		if (!range && view->request.after[jobs] >= view->job)
			return false;
		if (range ? saved_range_live(saved, jobs)
			  : sk_job_find(core, view->request.after[jobs]) != 0)
			live |= 1u << jobs; /* jobs that have ended are read after all live ones */
	}
	if ((view->hold && view->state != SK_PENDING) || view->unmet > jobs ||
	    (view->hold == SK_HOLD_TIME && !view->retried))
		return false;
	if (!final &&
	    (doomed != (view->unmet != 0) || (live && !doomed) != (view->hold == SK_HOLD_AFTER)))
		return false;
	return !doomed || (!view->attempt && !(live >> (view->unmet - 1u) & 1));
}

static bool saved_models_ok(const struct sk_core *core, const struct sk_request *request)
{
	for (uint32_t i = 0; i < SK_JOB_MODELS_MAX && request->models[i]; i++)
		if (!sk_model_find(core, request->models[i]))
			return false;
	return true;
}

static bool saved_job_ok(const struct sk_core *core, const struct sk_saved_job *saved)
{
	const struct sk_job_view *view = &saved->view;
	struct sk_submit submit = {.request = view->request};
	uint32_t queue = sk_queue_find(core, view->request.queue);
	struct sk_why why;

	if (saved->last > 1 || saved->unlaunched >= SK_LAUNCHES_MAX ||
	    view->ready > view->request.tasks || view->preferred >> SK_PREFERENCES_MAX ||
	    !view->job || view->job >= core->next_job || sk_job_find(core, view->job))
		return false;
	if (!view->state || view->state >= SK_STATE_END || sk_submit_ok(&submit, &why) ||
	    !sk_request_shape(&view->request) || !saved_models_ok(core, &view->request))
		return false;
	if (!sk_state_final(view->state) && (!queue || core->queues[queue].children))
		return false;
	if (saved->verdict >= SK_STATE_END ||
	    (saved->verdict > SK_PENDING && saved->verdict < SK_SUCCEEDED))
		return false;
	return view->tasks_live <= view->request.tasks && sk_saved_course_ok(saved) &&
	       saved_met_ok(saved) && saved_hold_ok(core, saved);
}

static void job_unpack(const struct sk_core *core, struct sk_job *job,
		       const struct sk_saved_job *saved)
{
	const struct sk_job_view *view = &saved->view;

	job->id = view->job;
	job->client = view->client;
	job->spec_hash = view->spec_hash;
	job->submit_ns = view->submit_ns;
	job->place_ns = view->place_ns;
	job->end_ns = view->end_ns;
	job->latency_ns = view->latency_ns;
	memcpy(job->observations, view->observations, sizeof job->observations);
	job->node = view->node;
	job->attained_ns = view->attained_ns;
	job->charged_ns = view->charged_ns;
	job->spent_ns = view->spent_ns;
	job->not_before_ns = view->not_before_ns;
	job->request = view->request;
	job->queue = sk_state_final(view->state) ? 0 : sk_queue_find(core, view->request.queue);
	job->wish = sk_wish_of(core, &view->request); /* the traits were read before the jobs */
	job->uid = view->uid;
	job->tenant = view->tenant;
	job->attempt = view->attempt;
	job->candidates = view->candidates;
	job->exit_code = view->exit_code;
	job->signal = view->signal;
	job->reason = view->reason;
	job->place_reason = view->place_reason;
	job->retried = view->retried;
	job->preemptions = view->preemptions;
	job->ready = view->ready;
	job->state = (uint8_t)view->state;
	job->verdict = (uint8_t)saved->verdict;
	job->last = (uint8_t)saved->last;
	job->unlaunched = saved->unlaunched;
	job->flags = view->flags;
	job->preferred = view->preferred;
	job->unmet = (uint8_t)view->unmet;
	job->met = (uint8_t)saved->met;
}

/* Put a pending job into its queue or the list of held jobs. */
static void job_wait(struct sk_core *core, uint32_t slot, uint16_t hold)
{
	switch (hold) {
	case SK_HOLD_TIME:
		sk_hold_time(core, slot);
		break;
	case SK_HOLD_AFTER:
		sk_hold_after(core, slot);
		break;
	case SK_HOLD_DOOMED:
		sk_hold_doom(core, slot);
		break;
	default:
		sk_pending_append(core, slot);
	}
}

/* Read a job and insert it into its list; its tasks are read later. */
static bool read_job(struct sk_core *core, struct sk_snapshot_reader *reader, bool live,
		     uint64_t *last)
{
	struct sk_saved_job saved;
	uint32_t slot;

	if (!read_record(reader, &saved, sizeof saved) || !saved_job_ok(core, &saved) ||
	    sk_state_final(saved.view.state) == live || (live && saved.view.job <= *last))
		return false;
	*last = saved.view.job;
	slot = sk_pool_take(core, &core->job_pool, SK_CHAIN(core->jobs, free_next));
	if (!slot)
		return false;
	job_unpack(core, &core->jobs[slot], &saved);
	sk_table_insert(core, &core->job_table, SK_CHAIN(core->jobs, hash_next),
			sk_mix(saved.view.job), slot);
	sk_list_append(core, live ? &core->live : &core->finished, SK_CHAIN(core->jobs, order),
		       slot);
	*(live ? &core->live_count : &core->finished_count) += 1;
	if (live)
		core->queues[core->jobs[slot].queue].live++;
	if (live && sk_pending_by_user(core, core->jobs[slot].queue))
		sk_account_open(core, slot);
	if (saved.view.state == SK_PENDING)
		job_wait(core, slot, saved.view.hold);
	return true;
}

static bool saved_task_ok(const struct sk_core *core, const struct sk_saved_task *saved,
			  uint32_t last, uint32_t job)
{
	if (!job || core->jobs[job].state < SK_STARTING || core->jobs[job].state > SK_STOPPING ||
	    saved->task >= core->jobs[job].request.tasks || sk_task_find(core, job, saved->task))
		return false;
	if (!saved->node_slot || saved->node_slot < last || saved->node_slot > core->limits.nodes ||
	    !core->nodes[saved->node_slot].id)
		return false;
	return (saved->state == SK_STARTING || saved->state == SK_RUNNING) && saved->ready <= 1 &&
	       saved->shares_n <= SK_TASK_DEVICES_MAX && !saved->zero[0] && !saved->zero[1];
}

/* Shares may be on devices that are unavailable by now, so only the sums are checked. */
static bool saved_shares_ok(const struct sk_core *core, const struct sk_saved_task *saved,
			    uint32_t job)
{
	uint32_t gpu = core->jobs[job].request.gpu_milli;
	uint32_t each = gpu < SK_MILLI ? gpu : SK_MILLI;
	uint64_t seen = 0;

	if (saved->shares_n != (each ? gpu / each : 0))
		return false;
	for (uint32_t i = 0; i < SK_TASK_DEVICES_MAX; i++) {
		struct sk_share share = saved->shares[i];
		const struct sk_device *device;

		if (i >= saved->shares_n) {
			if (share.index || share.milli)
				return false;
			continue;
		}
		if (share.index >= core->nodes[saved->node_slot].devices || share.milli != each ||
		    seen >> share.index & 1)
			return false;
		seen |= (uint64_t)1 << share.index;
		device = sk_device_at(core, saved->node_slot, share.index);
		if (device->used + each > device->capacity)
			return false;
	}
	return true;
}

static bool read_task(struct sk_core *core, struct sk_snapshot_reader *reader, uint32_t *last)
{
	struct sk_saved_task saved;
	struct sk_place place = {0};
	uint32_t job, task;

	if (!read_record(reader, &saved, sizeof saved))
		return false;
	job = sk_job_find(core, saved.job);
	if (!saved_task_ok(core, &saved, *last, job) || !saved_shares_ok(core, &saved, job) ||
	    core->task_pool.used == core->limits.tasks ||
	    core->nodes[saved.node_slot].tasks_count == core->limits.node_tasks)
		return false;
	*last = saved.node_slot;
	place.task = saved.task;
	place.shares_n = saved.shares_n;
	memcpy(place.shares, saved.shares, sizeof place.shares);
	task = sk_task_take(core, job, saved.node_slot, &place);
	core->tasks[task].state = saved.state;
	core->tasks[task].ready = saved.ready;
	return true;
}

static bool saved_queue_ok(const struct sk_core *core, const struct sk_saved_queue *saved)
{
	bool fixed = saved->slot == SK_QUEUE_ROOT || saved->slot == SK_QUEUE_DEFAULT;

	if (!saved->slot || saved->slot > core->limits.queues + 2 || !saved->weight ||
	    !saved->order || saved->order >= SK_ORDER_END || saved->placement >= SK_PLACEMENT_END ||
	    !sk_saved_quotas_ok(core, saved))
		return false;
	if (fixed)
		return !saved->id && saved->parent == saved->slot - 1;
	return saved->id && saved->parent && saved->parent != SK_QUEUE_DEFAULT &&
	       saved->parent <= core->limits.queues + 2;
}

static void queue_unpack(struct sk_queue *queue, const struct sk_saved_queue *saved)
{
	queue->usage_ns = saved->usage_ns;
	queue->usage_at_ns = saved->usage_at_ns;
	queue->weight = saved->weight;
	queue->order = saved->order;
	queue->placement = saved->placement;
	queue->quotas_n = saved->quotas;
	for (uint32_t i = 0; i < saved->quotas; i++)
		queue->quotas[i] =
			(struct sk_quota){saved->quota[i].model, saved->quota[i].guaranteed_milli,
					  saved->quota[i].limit_milli, 0};
}

/* Create the queues whose parents exist by now; returns how many, or -1 for an invalid one. */
static int read_queues_once(struct sk_core *core, const struct sk_snapshot_reader *reader,
			    uint32_t count)
{
	int made = 0;

	for (uint32_t i = 0, last = 0; i < count; i++) {
		struct sk_saved_queue saved;
		struct sk_snapshot_reader one = {reader->bytes + i * sizeof saved, sizeof saved};
		bool fixed;

		read_record(&one, &saved, sizeof saved);
		fixed = saved.slot <= SK_QUEUE_DEFAULT;
		if (saved.slot <= last || !saved_queue_ok(core, &saved))
			return -1;
		last = saved.slot;
		if (fixed) {
			queue_unpack(&core->queues[saved.slot], &saved);
			continue;
		}
		if (core->queues[saved.slot].in_use || !core->queues[saved.parent].in_use)
			continue;
		if (sk_queue_find(core, saved.id) ||
		    core->queues[saved.parent].depth >= SK_QUEUE_DEPTH_MAX)
			return -1;
		sk_queue_create_at(core, saved.slot, saved.id, saved.parent);
		queue_unpack(&core->queues[saved.slot], &saved);
		made++;
	}
	return made;
}

static bool read_queues(struct sk_core *core, struct sk_snapshot_reader *reader, uint32_t count)
{
	size_t size = count * sizeof(struct sk_saved_queue);
	int made;

	if (count < 2 || count > core->limits.queues + 2 || reader->left < size)
		return false;
	while ((made = read_queues_once(core, reader, count)) > 0)
		;
	reader->bytes += size;
	reader->left -= size;
	return made == 0 && core->queues_n == count;
}

static bool read_models(struct sk_core *core, const struct sk_saved_head *head)
{
	if (head->models > SK_MODELS_MAX)
		return false;
	for (uint32_t i = 0; i < SK_MODELS_MAX; i++) {
		uint64_t model = head->model[i];

		if (i >= head->models ? model != 0 : !model || sk_model_find(core, model))
			return false;
		if (model)
			sk_model_add(core, model);
	}
	return true;
}

static bool read_traits(struct sk_core *core, const struct sk_saved_head *head)
{
	static const struct sk_traits none;

	if (head->traits > SK_TRAITS_MAX)
		return false;
	for (uint32_t i = 0; i < SK_TRAITS_MAX; i++) {
		const struct sk_traits *traits = &head->trait[i];
		bool empty = !memcmp(traits, &none, sizeof none);

		if (empty != (i >= head->traits) || (!empty && sk_traits_find(core, traits)))
			return false;
		if (!empty)
			core->traits[++core->traits_n] = *traits;
	}
	return true;
}

static bool read_key(struct sk_core *core, struct sk_snapshot_reader *reader)
{
	struct sk_saved_key saved;
	struct sk_submit submit = {0};

	if (!read_record(reader, &saved, sizeof saved) || (!saved.key[0] && !saved.key[1]) ||
	    !saved.job || saved.job >= core->next_job || core->key_pool.used == core->limits.keys ||
	    sk_key_find(core, saved.client, saved.key))
		return false;
	submit.client = saved.client;
	submit.key[0] = saved.key[0];
	submit.key[1] = saved.key[1];
	submit.spec_hash = saved.spec_hash;
	sk_key_add(core, &submit, saved.job, saved.at_ns);
	return true;
}

static bool read_speed(struct sk_core *core, struct sk_snapshot_reader *reader)
{
	struct sk_saved_speed saved;

	if (!read_record(reader, &saved, sizeof saved) || !sk_saved_speed_ok(core, &saved) ||
	    core->speed_pool.used == SK_SPEEDS_MAX)
		return false;
	sk_speed_put(core, saved.series, (enum sk_measure)saved.measure, saved.model, saved.ns,
		     saved.jobs);
	return true;
}

/* Accounts are saved in the order of their last starts. */
static bool read_account(struct sk_core *core, struct sk_snapshot_reader *reader, uint64_t *last)
{
	struct sk_saved_account saved;
	uint32_t slot;

	if (!read_record(reader, &saved, sizeof saved) || saved.zero || saved.started <= *last ||
	    saved.started > core->counters.placed)
		return false;
	*last = saved.started;
	slot = sk_account_find(core, saved.queue, saved.client);
	if (!slot || core->accounts[slot].started)
		return false;
	sk_account_started(core, slot, saved.started);
	return true;
}

static bool read_all(struct sk_core *core, struct sk_snapshot_reader *reader,
		     const struct sk_saved_head *head)
{
	uint32_t node = 0, task_node = 0;
	uint64_t job = 0, started = 0;

	if (!read_models(core, head) || !read_traits(core, head) ||
	    !read_queues(core, reader, head->queues))
		return false;
	for (uint32_t i = 0; i < head->nodes; i++)
		if (!read_node(core, reader, &node))
			return false;
	for (uint32_t i = 0; i < head->live; i++)
		if (!read_job(core, reader, true, &job))
			return false;
	for (uint32_t i = 0; i < head->finished; i++)
		if (!read_job(core, reader, false, &job))
			return false;
	for (uint32_t i = 0; i < head->tasks; i++)
		if (!read_task(core, reader, &task_node))
			return false;
	for (uint32_t i = 0; i < head->keys; i++)
		if (!read_key(core, reader))
			return false;
	for (uint32_t i = 0; i < head->speeds; i++)
		if (!read_speed(core, reader))
			return false;
	for (uint32_t i = 0; i < head->accounts; i++)
		if (!read_account(core, reader, &started))
			return false;
	return !reader->left;
}

static bool head_ok(const struct sk_saved_head *head, size_t size)
{
	return head->magic == SK_SAVED_MAGIC && head->version == SK_SAVED_VERSION && !head->zero &&
	       head->size == size && head->next_job && sk_core_memsize(&head->limits) &&
	       head->live <= head->limits.jobs && head->finished <= head->limits.finished;
}

static bool digest_ok(const uint8_t *bytes, size_t size, uint64_t expected)
{
	size_t skip = offsetof(struct sk_saved_head, size);

	return (size - skip) % 8 == 0 &&
	       sk_digest_end(sk_digest(0, bytes + skip, size - skip)) == expected;
}

int sk_core_snapshot_limits(const void *bytes, size_t size, struct sk_limits *ret)
{
	struct sk_saved_head head;

	if (size < sizeof head)
		return -EBADMSG;
	memcpy(&head, bytes, sizeof head);
	if (!head_ok(&head, size))
		return -EBADMSG;
	*ret = head.limits;
	return 0;
}

/* Fill a new core with the records behind the head; false if they do not fit into it. */
static bool fill(struct sk_core *core, struct sk_snapshot_reader *reader,
		 const struct sk_saved_head *head)
{
	core->term = head->term;
	core->leader = head->leader;
	core->next_job = head->next_job;
	core->now_ns = head->now_ns;
	core->counters = head->counters;
	if (!read_all(core, reader, head) || sk_core_check(core))
		return false;
	sk_workload_count_all(core);
	return true;
}

/* Restore into a core of `limits`, or of the snapshot's own limits for NULL. Only with its own
 * limits does the state have the digest of the snapshot, because the limits are part of it. */
static int load(void *memory, size_t memory_size, const void *bytes, size_t size,
		const struct sk_limits *limits, struct sk_core **ret)
{
	struct sk_snapshot_reader reader = {bytes, size};
	struct sk_saved_head head;
	struct sk_core *core;
	int error;

	if (!read_record(&reader, &head, sizeof head) || !head_ok(&head, size) ||
	    !digest_ok(bytes, size, head.digest))
		return -EBADMSG;
	if (limits && (head.live > limits->jobs || head.finished > limits->finished))
		return -ENOSPC;
	error = sk_core_init(memory, memory_size, limits ? limits : &head.limits, &core);
	if (error)
		return error;
	if (!fill(core, &reader, &head) || (!limits && sk_core_digest(core) != head.digest))
		return limits ? -ENOSPC : -EBADMSG;
	*ret = core;
	return 0;
}

int sk_core_restore(void *memory, size_t memory_size, const void *bytes, size_t size,
		    struct sk_core **ret)
{
	return load(memory, memory_size, bytes, size, NULL, ret);
}

int sk_core_resize(void *memory, size_t memory_size, const void *bytes, size_t size,
		   const struct sk_limits *limits, struct sk_core **ret)
{
	return load(memory, memory_size, bytes, size, limits, ret);
}
