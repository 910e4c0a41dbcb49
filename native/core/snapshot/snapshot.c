/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving the state: one walk that stores the bytes, digests them, or both.
 */
#include <errno.h>
#include <string.h>

#include "core/ledger/device.h"
#include "core/ledger/node.h"
#include "core/ledger/queue.h"
#include "core/ledger/view.h"
#include "core/snapshot/saved.h"
#include "core/state/digest.h"

struct sk_writer {
	uint8_t *bytes; /* NULL: digest only */
	uint64_t at;
	uint64_t digest;
};

static void write_record(struct sk_writer *writer, const void *record, size_t size)
{
	if (writer->bytes)
		memcpy(writer->bytes + writer->at, record, size);
	writer->at += size;
	writer->digest = sk_digest(writer->digest, record, size);
}

static void save_node(struct sk_writer *writer, const struct sk_core *core, uint32_t slot)
{
	const struct sk_node *node = &core->nodes[slot];
	struct sk_saved_node saved = {
		.id = node->id,
		.boot = node->boot,
		.boot_before = node->boot_before,
		.incarnation = node->incarnation,
		.memory = node->memory,
		.cpu = node->cpu,
		.slot = slot,
		.up = node->up,
		.reason = node->reason,
		.devices = node->devices,
		.domain = node->domain,
		.reserve_from_ns = node->reserve_from_ns,
		.reserve_until_ns = node->reserve_until_ns,
		.reserve_queue = node->reserve_queue,
		.labels = node->labels_n,
	};

	memcpy(saved.label, node->labels, sizeof saved.label);
	write_record(writer, &saved, sizeof saved);
	for (uint32_t index = 0; index < node->devices; index++) {
		const struct sk_device *device = sk_device_at(core, slot, index);
		struct sk_saved_device one = {
			.memory_bytes = device->memory_bytes,
			.owner = device->owner,
			.capacity = device->capacity,
			.available = device->available,
			.reason = device->reason,
			.link = device->link,
			.bus = device->bus,
			.numa = device->numa,
			.model = device->model,
			.family = device->family,
			.traits = device->traits,
		};

		write_record(writer, &one, sizeof one);
	}
}

static void save_queue(struct sk_writer *writer, const struct sk_core *core, uint32_t slot)
{
	const struct sk_queue *queue = &core->queues[slot];
	struct sk_saved_queue saved = {
		.usage_ns = queue->usage_ns,
		.usage_at_ns = queue->usage_at_ns,
		.slot = slot,
		.parent = queue->parent,
		.id = queue->id,
		.weight = queue->weight,
		.order = queue->order,
		.placement = queue->placement,
		.quotas = queue->quotas_n,
	};

	for (uint32_t i = 0; i < queue->quotas_n; i++)
		saved.quota[i] = (struct sk_quota_view){
			.model = queue->quotas[i].model,
			.guaranteed_milli = queue->quotas[i].guaranteed_milli,
			.limit_milli = queue->quotas[i].limit_milli,
		};
	write_record(writer, &saved, sizeof saved);
}

static void save_jobs(struct sk_writer *writer, const struct sk_core *core, uint32_t first)
{
	for (uint32_t slot = first; slot; slot = core->jobs[slot].order.next) {
		struct sk_saved_job saved = {.verdict = core->jobs[slot].verdict,
					     .last = core->jobs[slot].last,
					     .unlaunched = (uint16_t)core->jobs[slot].unlaunched,
					     .met = core->jobs[slot].met};

		sk_job_view_fill(&core->jobs[slot], &saved.view);
		write_record(writer, &saved, sizeof saved);
	}
}

static void save_tasks(struct sk_writer *writer, const struct sk_core *core, uint32_t node)
{
	uint32_t slot = core->nodes[node].tasks.first;

	for (; slot; slot = core->tasks[slot].on_node.next) {
		const struct sk_task *task = &core->tasks[slot];
		struct sk_saved_task saved = {
			.job = core->jobs[task->job].id,
			.node_slot = node,
			.task = task->task,
			.state = task->state,
			.shares_n = task->shares_n,
			.ready = task->ready,
		};

		memcpy(saved.shares, task->shares, sizeof saved.shares);
		write_record(writer, &saved, sizeof saved);
	}
}

static void save_keys(struct sk_writer *writer, const struct sk_core *core)
{
	for (uint32_t slot = core->keys_order.first; slot; slot = core->keys[slot].order.next) {
		const struct sk_key *key = &core->keys[slot];
		struct sk_saved_key saved = {key->client,
					     {key->key[0], key->key[1]},
					     key->spec_hash,
					     key->job,
					     key->at_ns};

		write_record(writer, &saved, sizeof saved);
	}
}

static void save_speeds(struct sk_writer *writer, const struct sk_core *core)
{
	for (uint32_t slot = core->speeds_order.first; slot; slot = core->speeds[slot].order.next) {
		const struct sk_speed *speed = &core->speeds[slot];
		struct sk_saved_speed saved = {.series = speed->series,
					       .jobs = speed->jobs,
					       .model = speed->model,
					       .measure = speed->measure};

		memcpy(saved.ns, speed->ns, sizeof saved.ns);
		write_record(writer, &saved, sizeof saved);
	}
}

static void save_accounts(struct sk_writer *writer, const struct sk_core *core)
{
	for (uint32_t slot = core->accounts_order.first; slot;
	     slot = core->accounts[slot].order.next) {
		struct sk_saved_account saved = {.client = core->accounts[slot].client,
						 .started = core->accounts[slot].started,
						 .queue = core->accounts[slot].queue};

		write_record(writer, &saved, sizeof saved);
	}
}

static struct sk_saved_head saved_head(const struct sk_core *core)
{
	struct sk_saved_head head = {
		.magic = SK_SAVED_MAGIC,
		.size = sk_core_snapshot_size(core),
		.version = SK_SAVED_VERSION,
		.limits = core->limits,
		.nodes = core->nodes_count,
		.term = core->term,
		.leader = core->leader,
		.next_job = core->next_job,
		.now_ns = core->now_ns,
		.live = core->live_count,
		.finished = core->finished_count,
		.tasks = core->task_pool.used,
		.keys = core->key_pool.used,
		.queues = core->queues_n,
		.models = core->models_n,
		.traits = core->traits_n,
		.speeds = core->speed_pool.used,
		.accounts = core->accounts_started,
		.counters = core->counters,
	};

	memcpy(head.model, core->models, sizeof head.model);
	memcpy(head.trait, core->traits + 1, sizeof head.trait);
	return head;
}

/* Save everything after the digest field; returns the digest. */
static uint64_t save(const struct sk_core *core, uint8_t *bytes)
{
	struct sk_saved_head head = saved_head(core);
	size_t skip = offsetof(struct sk_saved_head, size);
	struct sk_writer writer = {.bytes = bytes, .at = skip};

	write_record(&writer, (const uint8_t *)&head + skip, sizeof head - skip);
	for (uint32_t slot = sk_queue_at(core, SK_QUEUE_ROOT); slot;
	     slot = sk_queue_at(core, slot + 1))
		save_queue(&writer, core, slot);
	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1))
		save_node(&writer, core, slot);
	save_jobs(&writer, core, core->live.first);
	save_jobs(&writer, core, core->finished.first);
	for (uint32_t slot = sk_node_next(core, 1); slot; slot = sk_node_next(core, slot + 1))
		save_tasks(&writer, core, slot);
	save_keys(&writer, core);
	save_speeds(&writer, core);
	save_accounts(&writer, core);
	return sk_digest_end(writer.digest);
}

size_t sk_core_snapshot_size(const struct sk_core *core)
{
	uint64_t jobs = (uint64_t)core->live_count + core->finished_count;

	return sizeof(struct sk_saved_head) + core->queues_n * sizeof(struct sk_saved_queue) +
	       core->nodes_count * sizeof(struct sk_saved_node) +
	       core->devices_count * sizeof(struct sk_saved_device) +
	       jobs * sizeof(struct sk_saved_job) +
	       core->task_pool.used * sizeof(struct sk_saved_task) +
	       core->key_pool.used * sizeof(struct sk_saved_key) +
	       core->speed_pool.used * sizeof(struct sk_saved_speed) +
	       core->accounts_started * sizeof(struct sk_saved_account);
}

uint64_t sk_core_digest(const struct sk_core *core)
{
	return save(core, NULL);
}

int sk_core_snapshot(const struct sk_core *core, void *bytes, size_t size)
{
	struct sk_saved_head head = {.magic = SK_SAVED_MAGIC};

	if (size != sk_core_snapshot_size(core))
		return -EINVAL;
	head.digest = save(core, bytes);
	memcpy(bytes, &head, offsetof(struct sk_saved_head, size));
	return 0;
}
