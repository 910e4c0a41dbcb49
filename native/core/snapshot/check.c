/* SPDX-License-Identifier: Apache-2.0
 *
 * The check of every invariant of the ledger, in a pass over the whole state. sk_core_restore runs
 * it on a state from outside, and the tests run it after every command.
 */
#include "core/ledger/fair.h"
#include "core/ledger/device.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/speed.h"
#include "core/ledger/task.h"
#include "core/state/digest.h"
#include "core/state/index.h"

struct sk_sums {
	uint64_t devices;
	uint64_t chunks;
	uint64_t tasks;
	uint64_t classes;
	uint32_t nodes;
	uint32_t up;
	uint32_t with[SK_NODE_DEVICES_MAX + 1];
	uint32_t of[SK_FAMILIES];
};

/* Milli that the tasks of a node use of one device. */
static uint64_t held_milli(const struct sk_core *core, uint32_t node, uint32_t index)
{
	uint64_t held = 0;

	for (uint32_t task = core->nodes[node].tasks.first; task;
	     task = core->tasks[task].on_node.next)
		for (uint32_t i = 0; i < core->tasks[task].shares_n; i++)
			if (core->tasks[task].shares[i].index == index)
				held += core->tasks[task].shares[i].milli;
	return held;
}

static uint64_t held_memory(const struct sk_core *core, uint32_t node, uint32_t index)
{
	uint64_t held = 0;

	for (uint32_t task = core->nodes[node].tasks.first; task;
	     task = core->tasks[task].on_node.next)
		for (uint32_t i = 0; i < core->tasks[task].shares_n; i++)
			if (core->tasks[task].shares[i].index == index)
				held += core->jobs[core->tasks[task].job]
						.request.device_memory_bytes;
	return held;
}

static const char *check_devices(const struct sk_core *core, uint32_t slot)
{
	const struct sk_node *node = &core->nodes[slot];
	uint32_t whole = 0, free = 0, families = 0;
	uint64_t models = 0, traits = 0;

	for (uint32_t index = 0; index < node->devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);
		uint32_t milli = sk_device_free(device);

		if (device->capacity > SK_MILLI || device->used > device->capacity)
			return "a device gives more than it has";
		if (device->used != held_milli(core, slot, index) ||
		    device->memory_used != held_memory(core, slot, index))
			return "a device's use is not the sum of its tasks";
		models |= device->model ? (uint64_t)1 << (device->model - 1) : 0;
		traits |= (uint64_t)(device->capacity || device->traits) << device->traits;
		families |= device->capacity ? 1u << device->family : 0;
		whole += device->capacity == SK_MILLI;
		free += milli == SK_MILLI;
		if (milli > 0 && milli < SK_MILLI &&
		    sk_index_has(&core->free_part, milli, slot) != node->up)
			return "a partly free device is not indexed as it is";
	}
	if (whole != node->devices_whole || free != node->devices_free || models != node->models ||
	    traits != node->traits || families != node->families)
		return "a node miscounts its devices";
	return NULL;
}

/* Check that the node is indexed under its count of free devices, and under an amount of free milli
 * only if one of its devices has exactly that much. */
static const char *check_index(const struct sk_core *core, uint32_t slot, struct sk_sums *sums)
{
	const struct sk_node *node = &core->nodes[slot];

	for (uint32_t class = 0; class <= SK_NODE_DEVICES_MAX; class ++)
		if (sk_index_has(&core->free_whole, class, slot) !=
		    (node->up && class == node->devices_free))
			return "a node is indexed under a wrong count of free devices";
	for (uint32_t class = 0; class < SK_MILLI; class ++) {
		if (!sk_index_has(&core->free_part, class, slot))
			continue;
		sums->classes++;
		if (!class || sk_device_with_free(core, slot, class, 0) == SK_NODE_DEVICES_MAX)
			return "a node is indexed under milli that no device has free";
	}
	return NULL;
}

static const char *check_node_tasks(const struct sk_core *core, uint32_t slot, struct sk_sums *sums)
{
	const struct sk_node *node = &core->nodes[slot];
	uint64_t cpu = 0, memory = 0;
	uint32_t count = 0, before = 0;

	for (uint32_t task = node->tasks.first; task; task = core->tasks[task].on_node.next) {
		const struct sk_job *job = &core->jobs[core->tasks[task].job];

		if (core->tasks[task].node != slot || core->tasks[task].on_node.prev != before)
			return "a task is on another node's list";
		if (sk_task_find(core, core->tasks[task].job, core->tasks[task].task) != task)
			return "a task is not on its job's list";
		cpu += job->request.cpu_milli;
		memory += job->request.memory_bytes;
		before = task;
		count++;
	}
	if (node->tasks.last != before || node->tasks_count != count)
		return "a node miscounts its tasks";
	if (node->cpu_used != cpu || node->memory_used != memory)
		return "a node's reservations are not the sum of its tasks";
	if (count > core->limits.node_tasks)
		return "a node holds more tasks than its limit";
	sums->tasks += count;
	return NULL;
}

static const char *check_node(const struct sk_core *core, uint32_t slot, struct sk_sums *sums)
{
	const struct sk_node *node = &core->nodes[slot];
	const char *broken;

	if (!node->id || sk_node_find(core, node->id) != slot)
		return "a node is not found by its id";
	sums->nodes++;
	sums->up += node->up;
	sums->devices += node->devices;
	sums->chunks += (node->devices + SK_CHUNK_DEVICES - 1) / SK_CHUNK_DEVICES;
	sums->with[node->devices_whole]++;
	for (uint32_t family = 0; family < SK_FAMILIES; family++)
		sums->of[family] += node->families >> family & 1;
	broken = check_devices(core, slot);
	if (!broken)
		broken = check_index(core, slot, sums);
	return broken ? broken : check_node_tasks(core, slot, sums);
}

static uint64_t index_sum(const struct sk_index *index)
{
	uint64_t sum = 0;

	for (uint32_t class = 0; class < index->classes; class ++)
		sum += index->counts[class];
	return sum;
}

static const char *check_nodes(const struct sk_core *core, struct sk_sums *sums)
{
	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1)) {
		const char *broken = check_node(core, slot, sums);

		if (broken)
			return broken;
	}
	if (sums->nodes != core->nodes_count || sums->up != core->nodes_up)
		return "nodes are miscounted";
	if (sums->devices != core->devices_count || sums->devices > core->limits.devices)
		return "devices are miscounted";
	if (sums->chunks != core->chunk_pool.used || sums->tasks != core->task_pool.used)
		return "a device chunk or a task has no owner";
	if (index_sum(&core->free_whole) != sums->up ||
	    index_sum(&core->free_part) != sums->classes)
		return "an index counts nodes that are not there";
	for (uint32_t family = 0; family < SK_FAMILIES; family++)
		if (core->nodes_of[family] != sums->of[family])
			return "nodes by kinds of devices are miscounted";
	for (uint32_t count = 0; count <= SK_NODE_DEVICES_MAX; count++)
		if (core->nodes_with[count] != sums->with[count])
			return "nodes by devices are miscounted";
	return NULL;
}

static const char *check_state(const struct sk_core *core, const struct sk_job *job, bool live)
{
	uint32_t tasks = 0, ready = 0;

	for (uint32_t task = job->tasks_first; task; task = core->tasks[task].job_next) {
		ready += core->tasks[task].ready;
		tasks++;
	}
	if (tasks != job->tasks_live || tasks > job->request.tasks)
		return "a job miscounts its tasks";
	if (ready > job->ready || job->ready > job->request.tasks)
		return "a job miscounts its tasks that are ready";
	if (sk_state_final(job->state) == live)
		return "a job is in the wrong list for its state";
	if ((job->state >= SK_STARTING && job->state <= SK_STOPPING) != (tasks > 0))
		return "a job holds tasks in a state that has none, or has none";
	if (live && job->verdict && job->state != SK_STOPPING)
		return "a judged job goes on";
	if (!live && job->afters_n)
		return "a job waits for one that has ended";
	if (job->afters_n > SK_AFTERS_MAX)
		return "more jobs wait for one than may";
	return NULL;
}

static const char *check_list(const struct sk_core *core, const struct sk_list *list, bool live,
			      uint32_t expected)
{
	uint32_t count = 0, before = 0;

	for (uint32_t slot = list->first; slot; slot = core->jobs[slot].order.next) {
		const struct sk_job *job = &core->jobs[slot];
		const char *broken = check_state(core, job, live);

		if (broken)
			return broken;
		if (job->order.prev != before ||
		    (live && before && core->jobs[before].id >= job->id))
			return "jobs are out of order";
		if (sk_job_find(core, job->id) != slot || job->id >= core->next_job)
			return "a job is not found by its id";
		before = slot;
		if (++count > expected)
			break;
	}
	return list->last == before && count == expected ? NULL : "jobs are miscounted";
}

/* Check the counts and the order of the jobs that wait in one queue. */
static const char *check_pending(const struct sk_core *core, uint32_t queue, uint64_t *queued)
{
	for (int kind = 0; kind < SK_QUEUE_KINDS; kind++) {
		uint32_t slot = sk_pending_first(core, queue, (enum sk_queue_kind)kind), before = 0;
		uint64_t count = 0;

		for (; slot; before = slot, slot = sk_pending_next(core, slot), count++) {
			const struct sk_job *job = &core->jobs[slot];

			if (job->state != SK_PENDING || job->hold || job->queue != queue ||
			    (int)sk_queue_kind(job) != kind)
				return "a job waits in the wrong queue";
			if (job->level != sk_pending_level(core, job))
				return "a job waits on the wrong level";
			if (before && core->jobs[before].level == job->level &&
			    core->jobs[before].id >= job->id &&
			    (job->queued.prev || !sk_pending_by_user(core, queue)))
				return "waiting jobs are out of order";
		}
		if (count != sk_pending_of(core, queue, (enum sk_queue_kind)kind)->count)
			return "a queue is miscounted";
		queued[kind] += count;
	}
	return NULL;
}

static const char *check_queue(const struct sk_core *core, uint32_t slot)
{
	const struct sk_queue *queue = &core->queues[slot];
	uint64_t live = 0, pending = 0, cpu = 0, memory = 0;
	uint32_t children = 0;

	for (uint32_t job = core->live.first; job; job = core->jobs[job].order.next) {
		const struct sk_job *at = &core->jobs[job];

		live += at->queue == slot;
		if (!sk_queue_within(core, at->queue, slot))
			continue;
		pending += at->state == SK_PENDING && !at->hold;
		cpu += (uint64_t)at->request.cpu_milli * at->tasks_live;
		memory += at->request.memory_bytes * at->tasks_live;
	}
	for (uint32_t i = sk_queue_at(core, 1); i; i = sk_queue_at(core, i + 1))
		children += core->queues[i].parent == slot;
	if (children != queue->children || (children && live) || live != queue->live)
		return "a queue miscounts its jobs or children";
	if (pending != queue->pending_all || cpu != queue->cpu_used ||
	    memory != queue->memory_used || queue->used_milli != sk_queue_in_use(core, slot, 0))
		return "a queue's use is not the sum of its tasks";
	for (uint32_t i = 0; i < queue->quotas_n; i++)
		if (queue->quotas[i].used_milli !=
		    sk_queue_in_use(core, slot, queue->quotas[i].model))
			return "a quota's use is not the sum of its tasks";
	return NULL;
}

/* Check that a held job is in the list of its kind of hold. */
static const char *check_hold(const struct sk_core *core, uint32_t slot)
{
	const struct sk_job *job = &core->jobs[slot];

	if (job->hold && job->state != SK_PENDING)
		return "a job is held that is not pending";
	if ((job->hold == SK_HOLD_TIME) != (job->delayed_at != 0) ||
	    (job->delayed_at &&
	     (job->delayed_at > core->delayed_n || core->delayed[job->delayed_at] != slot)))
		return "a delayed job is not where it should be";
	if ((job->hold == SK_HOLD_AFTER) != (job->waits != 0) ||
	    (job->hold == SK_HOLD_DOOMED) != (job->unmet != 0))
		return "a job is held for no other, or waits for one and is not held";
	return NULL;
}

static const char *check_afters(const struct sk_core *core, uint32_t slot, uint64_t *waits)
{
	uint32_t count = 0;

	for (uint32_t at = core->jobs[slot].afters.first; at; at = core->waits[at].link.next) {
		const struct sk_job *job = &core->jobs[at / SK_JOB_AFTERS_MAX];
		uint32_t n = at % SK_JOB_AFTERS_MAX;

		if (job->hold != SK_HOLD_AFTER || !(job->waits >> n & 1) ||
		    job->request.after[n] != core->jobs[slot].id)
			return "a job waits for the wrong one";
		*waits += 1;
		count++;
	}
	return count == core->jobs[slot].afters_n ? NULL : "waiting jobs are miscounted";
}

/* The waits of a job that are in lists, which those for ranges are not. */
static uint64_t job_waits(const struct sk_job *job)
{
	uint64_t count = 0;

	for (uint32_t n = 0; n < SK_JOB_AFTERS_MAX; n++)
		count += job->waits >> n & 1 && !(job->request.after[n] & SK_AFTER_RANGE);
	return count;
}

static const char *check_queues(const struct sk_core *core)
{
	uint64_t queued[SK_QUEUE_KINDS] = {0}, held = core->delayed_n, pending = 0;
	uint64_t waits = 0, expected = 0;
	const char *broken = NULL;

	for (uint32_t slot = sk_queue_at(core, 1); slot && !broken;
	     slot = sk_queue_at(core, slot + 1)) {
		broken = check_queue(core, slot);
		if (!broken)
			broken = check_pending(core, slot, queued);
	}
	for (uint32_t slot = core->doomed.first; slot; slot = core->jobs[slot].queued.next)
		held += core->jobs[slot].hold == SK_HOLD_DOOMED;
	for (uint32_t slot = core->live.first; slot && !broken;
	     slot = core->jobs[slot].order.next) {
		pending += core->jobs[slot].state == SK_PENDING;
		held += core->jobs[slot].hold == SK_HOLD_AFTER;
		expected += job_waits(&core->jobs[slot]);
		broken = check_hold(core, slot);
		if (!broken)
			broken = check_afters(core, slot, &waits);
	}
	if (broken)
		return broken;
	if (waits != expected)
		return "a job waits in no list";
	if (queued[0] != core->queued[0] || queued[1] != core->queued[1])
		return "the queues are miscounted";
	return queued[0] + queued[1] + held == pending ? NULL : "a pending job waits nowhere";
}

/* The sum of what accounts count and hold, each times a number of the account's own, so that sums
 * over jobs and over accounts are equal only if each account is. */
static uint64_t account_sum(uint64_t client, uint32_t queue, uint64_t live, uint64_t milli,
			    uint64_t cpu, uint64_t memory)
{
	return sk_mix(client + queue) * (live + 3 * milli + 5 * cpu + 7 * memory);
}

static uint64_t job_sum(const struct sk_core *core, const struct sk_job *job)
{
	uint64_t milli = 0;

	for (uint32_t at = job->tasks_first; at; at = core->tasks[at].job_next)
		for (uint32_t i = 0; i < core->tasks[at].shares_n; i++)
			milli += core->tasks[at].shares[i].milli;
	return account_sum(job->client, job->queue, 1, milli,
			   (uint64_t)job->request.cpu_milli * job->tasks_live,
			   job->request.memory_bytes * job->tasks_live);
}

static const char *check_accounts(const struct sk_core *core)
{
	uint64_t sum = 0;
	uint32_t count = 0;

	for (uint32_t slot = core->live.first; slot; slot = core->jobs[slot].order.next)
		if (sk_pending_by_user(core, core->jobs[slot].queue))
			sum += job_sum(core, &core->jobs[slot]);
	for (uint32_t i = 0; i <= core->account_table.mask; i++)
		for (uint32_t at = core->account_table.buckets[i]; at;
		     at = core->accounts[at].hash_next, count++) {
			const struct sk_account *of = &core->accounts[at];

			sum -= account_sum(of->client, of->queue, of->live, of->milli, of->cpu,
					   of->memory);
		}
	if (count != core->account_pool.used)
		return "accounts are miscounted";
	return sum ? "an account is not the sum of its user's jobs" : NULL;
}

/* Check the order of the last starts, and that no line of a user is empty or of an unknown one. */
static const char *check_users(const struct sk_core *core)
{
	uint64_t last = 0;
	uint32_t started = 0, lines = 0;

	for (uint32_t at = core->accounts_order.first; at; at = core->accounts[at].order.next) {
		if (core->accounts[at].started <= last)
			return "last starts are out of order";
		last = core->accounts[at].started;
		started++;
	}
	for (uint32_t i = 0; i <= core->user_line_table.mask; i++)
		for (uint32_t at = core->user_line_table.buckets[i]; at;
		     at = core->user_lines[at].hash_next, lines++) {
			const struct sk_user_line *line = &core->user_lines[at];

			if (!line->jobs.first || core->jobs[line->jobs.first].client !=
							 core->accounts[line->account].client)
				return "a line of a user is empty or another's";
		}
	return started == core->accounts_started && lines == core->user_line_pool.used
		       ? NULL
		       : "users are miscounted";
}

static const char *check_keys(const struct sk_core *core)
{
	uint32_t count = 0, before = 0;

	for (uint32_t slot = core->keys_order.first; slot; slot = core->keys[slot].order.next) {
		if (core->keys[slot].order.prev != before || core->keys[slot].job >= core->next_job)
			return "keys are out of order";
		before = slot;
		count++;
	}
	return count == core->key_pool.used && count <= core->limits.keys ? NULL
									  : "keys are miscounted";
}

static const char *check_key_owners(const struct sk_core *core)
{
	uint32_t keys = 0, key_owners = 0;

	for (uint32_t at = core->key_owners_order.first; at; at = core->key_owners[at].order.next) {
		const struct sk_key_owner *owner = &core->key_owners[at];
		uint32_t own = 0;

		for (uint32_t slot = owner->keys.first; slot; slot = core->keys[slot].own.next) {
			if (core->keys[slot].owner != at ||
			    core->keys[slot].client != owner->client)
				return "a key is with another's";
			own++;
		}
		if (!own || own != owner->count)
			return "a client's keys are miscounted";
		keys += own;
		key_owners++;
	}
	return keys == core->key_pool.used && key_owners == core->key_owner_pool.used
		       ? NULL
		       : "clients with keys are miscounted";
}

static const char *check_speeds(const struct sk_core *core)
{
	uint32_t count = 0, before = 0;

	for (uint32_t slot = core->speeds_order.first; slot; slot = core->speeds[slot].order.next) {
		const struct sk_speed *at = &core->speeds[slot];

		if (at->order.prev != before || !at->jobs ||
		    sk_speed_find(core, at->series, at->measure, at->model) != slot)
			return "a speed is not where it should be";
		before = slot;
		count++;
	}
	return count == core->speed_pool.used ? NULL : "speeds are miscounted";
}

const char *sk_core_check(const struct sk_core *core)
{
	struct sk_sums sums = {0};
	const char *broken = check_nodes(core, &sums);

	if (!broken)
		broken = check_list(core, &core->live, true, core->live_count);
	if (!broken)
		broken = check_list(core, &core->finished, false, core->finished_count);
	if (!broken && core->finished_count > core->limits.finished)
		broken = "more ended jobs than retention";
	if (!broken && core->job_pool.used != core->live_count + core->finished_count)
		broken = "a job is in no list";
	if (!broken)
		broken = check_queues(core);
	if (!broken)
		broken = check_accounts(core);
	if (!broken)
		broken = check_users(core);
	if (!broken)
		broken = check_keys(core);
	if (!broken)
		broken = check_key_owners(core);
	return broken ? broken : check_speeds(core);
}

uint64_t sk_core_memory_digest(const struct sk_core *core)
{
	size_t head = offsetof(struct sk_core, journal) & ~(size_t)7;
	size_t from = sizeof *core;
	size_t to = (size_t)(core->journal.bytes - (const uint8_t *)core);
	uint64_t digest = sk_digest(0, core, head);

	return sk_digest_end(sk_digest(digest, (const uint8_t *)core + from, to - from));
}
