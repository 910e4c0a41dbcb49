/* SPDX-License-Identifier: Apache-2.0
 *
 * The most expensive case of every command against what is reserved for it in the undo journal:
 * jobs of a full gang with sixteen devices a task, in the deepest queue, with every quota on the
 * way, a group, and a full heap of delayed jobs. The output is bytes recorded and bytes reserved;
 * exit 0 is good.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/command/command.h"
#include "core/core.h"
#include "core/ledger/fair.h"
#include "core/ledger/hold.h"
#include "core/ledger/job.h"
#include "core/ledger/task.h"
#include "core/state/journal.h"
#include "core/state/journal_bound.h"

#define DEPTH SK_QUEUE_DEPTH_MAX
#define DELAYED 4000u

static const struct sk_limits limits = {.nodes = 8,
					.devices = 512,
					.jobs = 8192,
					.finished = 1,
					.tasks = 4096,
					.node_tasks = 512,
					.keys = 1,
					.queues = 16};
static struct sk_core *core;
static uint64_t now_ns = 1;
static int bad;

static uint64_t do_now(void *record, enum sk_kind kind, size_t size, uint16_t expected)
{
	struct sk_act act = {.core = core, .now_ns = now_ns};
	struct sk_header *header = record;
	struct sk_why why;
	uint64_t used;
	uint16_t reason;

	header->kind = (uint16_t)kind;
	header->size = (uint16_t)size;
	sk_journal_begin(core);
	core->journal.used_max = 0;
	reason = sk_command_do(&act, header, &why);
	used = core->journal.used_max;
	sk_journal_end(core, true);
	if (reason != expected) {
		printf("kind %u: reason %u, expected %u\n", kind, reason, expected);
		exit(1);
	}
	return used;
}

static void compare(const char *what, uint64_t used, uint64_t reserved)
{
	printf("%-28s %8llu of %8llu\n", what, (unsigned long long)used,
	       (unsigned long long)reserved);
	bad |= used > reserved;
}

static void make_nodes(void)
{
	for (uint64_t node = 1; node <= 8; node++) {
		struct sk_node_up up = {.node = node,
					.boot = 1,
					.memory_bytes = 1 << 30,
					.cpu_milli = 1 << 30,
					.devices = SK_NODE_DEVICES_MAX};

		compare("node up", do_now(&up, SK_NODE_UP, sizeof up, 0),
			SK_JOURNAL_REQUEST + SK_NODE_DEVICES_MAX * SK_JOURNAL_SHARE);
		for (uint16_t i = 0; i < SK_NODE_DEVICES_MAX; i++) {
			struct sk_device_set set = {.node = node,
						    .memory_bytes = 1000,
						    .model = 1 + i % 8u,
						    .index = i,
						    .capacity_milli = 1000,
						    .available = 1,
						    .kind = SK_DEVICE_GPU};

			do_now(&set, SK_DEVICE_SET, sizeof set, 0);
		}
	}
}

static void make_queues(void)
{
	for (uint32_t queue = 1; queue <= DEPTH; queue++) {
		struct sk_queue_set set = {.queue = queue,
					   .parent = queue - 1,
					   .weight = 1,
					   .order = queue == DEPTH ? SK_ORDER_FAIR : SK_ORDER_FIFO};

		compare("queue set", do_now(&set, SK_QUEUE_SET, sizeof set, 0), SK_JOURNAL_REQUEST);
		for (uint64_t model = 8; model--;) {
			struct sk_quota_set quota = {
				.model = model, .limit_milli = 1 << 30, .queue = queue};

			compare("quota set", do_now(&quota, SK_QUOTA_SET, sizeof quota, 0),
				SK_JOURNAL_REQUEST);
		}
	}
}

static uint64_t submit(uint32_t gpu, uint16_t tasks, uint64_t after)
{
	struct sk_submit one = {.client = 1,
				.key = {core->next_job},
				.request = {.gpu_milli = gpu,
					    .memory_bytes = 1,
					    .cpu_milli = 1,
					    .device_memory_bytes = gpu ? 1 : 0,
					    .after = {after},
					    .group = core->next_job,
					    .tasks = tasks,
					    .kinds = SK_DEVICE_GPU,
					    .options = SK_PREEMPTIBLE,
					    .retries = SK_RETRIES_MAX,
					    .queue = DEPTH}};
	uint64_t used = do_now(&one, SK_SUBMIT, sizeof one, 0);

	bad |= used > SK_JOURNAL_REQUEST;
	return core->next_job - 1;
}

/* One node takes 4 tasks of 16 devices, so two gangs of 16 fill all eight. */
static uint64_t place(uint64_t job, uint16_t tasks, uint32_t gpu, uint64_t node)
{
	struct sk_place places[SK_TASKS_MAX] = {0};
	uint32_t attempt = core->jobs[sk_job_find(core, job)].attempt + 1;

	for (uint16_t task = 0; task < tasks; task++) {
		places[task] = (struct sk_place){.header = {sizeof *places, SK_PLACE, 0, 0},
						 .job = job,
						 .node = gpu ? node + task / 4u : node,
						 .attempt = attempt,
						 .task = task,
						 .tasks = tasks,
						 .shares_n = gpu ? 16 : 0};
		for (uint16_t i = 0; i < places[task].shares_n; i++)
			places[task].shares[i] =
				(struct sk_share){(uint16_t)(task % 4u * 16u + i), 1000};
	}
	return do_now(places, SK_PLACE, sizeof *places, 0);
}

static uint64_t outcome(uint64_t job, uint16_t task, uint16_t state)
{
	struct sk_job *at = &core->jobs[sk_job_find(core, job)];
	uint32_t held = sk_task_find(core, sk_job_find(core, job), task);
	struct sk_outcome one = {.job = job,
				 .node = core->nodes[core->tasks[held].node].id,
				 .attempt = at->attempt,
				 .task = task,
				 .state = state};

	return do_now(&one, SK_OUTCOME, sizeof one, 0);
}

static uint64_t cancel(uint64_t job)
{
	struct sk_cancel one = {.job = job};

	return do_now(&one, SK_CANCEL, sizeof one, 0);
}

static uint64_t evict(uint64_t node)
{
	struct sk_node_down down = {
		.header.flags = SK_NODE_EVICT, .node = node, .reason = (uint16_t)(1000 + node)};
	uint64_t reserved =
		sk_command_journal_max(core, (down.header.kind = SK_NODE_DOWN, &down.header));
	uint64_t used = do_now(&down, SK_NODE_DOWN, sizeof down, 0);

	compare("node evicted", used, reserved);
	return used;
}

/* Fill the heap with jobs that failed and wait, the sooner ones last, so that each new one rises
 * through it. */
static void fill_heap(void)
{
	now_ns = 1ull << 60;
	for (uint32_t i = 0; i < DELAYED; i++) {
		uint64_t job = submit(0, 1, 0);

		now_ns -= 1000000000000ull;
		place(job, 1, 0, 8);
		outcome(job, 0, SK_FAILED);
	}
	now_ns -= 1000000000000ull;
}

static void end_gang(uint64_t gang)
{
	uint64_t task = SK_JOURNAL_TASK + SK_TASK_DEVICES_MAX * SK_JOURNAL_SHARE, used = 0;

	compare("gang of 16 placed", place(gang, 16, 16000, 1), 16 * task);
	for (uint16_t at = 0; at < 16; at++)
		used = outcome(gang, at, SK_FAILED);
	compare("outcome that retries", used, SK_JOURNAL_REQUEST + task);
}

static void end_with_afters(void)
{
	uint64_t first = submit(16000, 1, 0), used;

	for (uint32_t i = 0; i < SK_AFTERS_MAX; i++)
		submit(1000, 1, first);
	place(first, 1, 16000, 1);
	used = outcome(first, 0, SK_SUCCEEDED);
	compare("outcome that releases", used,
		SK_JOURNAL_REQUEST + SK_JOURNAL_TASK + SK_TASK_DEVICES_MAX * SK_JOURNAL_SHARE +
			SK_AFTERS_MAX * SK_JOURNAL_AFTER);
}

/* Each of those that wait follows as many others as it may, and one of them ends badly. */
static void end_and_doom(void)
{
	uint64_t before[SK_JOB_AFTERS_MAX], used;

	for (uint32_t i = 0; i < SK_JOB_AFTERS_MAX; i++)
		before[i] = submit(16000, 1, 0);
	for (uint32_t i = 0; i < SK_AFTERS_MAX; i++) {
		struct sk_submit one = {.client = 2,
					.key = {core->next_job},
					.request = {.tasks = 1, .kinds = SK_DEVICE_GPU}};

		memcpy(one.request.after, before, sizeof before);
		used = do_now(&one, SK_SUBMIT, sizeof one, 0);
		bad |= used > SK_JOURNAL_REQUEST;
	}
	used = cancel(before[SK_JOB_AFTERS_MAX / 2]);
	compare("cancel that dooms", used, SK_JOURNAL_REQUEST + SK_AFTERS_MAX * SK_JOURNAL_AFTER);
	used = cancel(core->next_job - 1);
	compare("cancel of one that waits", used, SK_JOURNAL_REQUEST);
}

/* Devices that their node no longer reports go with the last task that uses them. */
static void lose_devices(void)
{
	uint64_t task = SK_JOURNAL_TASK + SK_TASK_DEVICES_MAX * SK_JOURNAL_SHARE;
	uint64_t job = submit(16000, 1, 0);
	struct sk_node_up up = {
		.node = 5, .boot = 2, .memory_bytes = 1 << 30, .cpu_milli = 1 << 30};

	place(job, 1, 16000, 5);
	for (uint16_t i = 0; i < 16; i++) {
		struct sk_device_set gone = {.node = 5,
					     .index = i,
					     .capacity_milli = 1000,
					     .model = 1 + i % 8u,
					     .reason = SK_DEVICE_GONE,
					     .kind = SK_DEVICE_GPU};

		compare("device gone", do_now(&gone, SK_DEVICE_SET, sizeof gone, 0),
			SK_JOURNAL_REQUEST);
	}
	compare("outcome that drops devices", outcome(job, 0, SK_FAILED),
		SK_JOURNAL_REQUEST + task);
	compare("node without its devices", do_now(&up, SK_NODE_UP, sizeof up, 0),
		sk_command_journal_max(core, &up.header));
}

static void lose_nodes(void)
{
	for (uint32_t i = 0; i < limits.node_tasks; i++)
		place(submit(0, 1, 0), 1, 0, 7);
	evict(7);
	place(submit(16000, 4, 0), 4, 16000, 6);
	evict(6);
}

static void promote(void)
{
	sk_journal_begin(core);
	core->journal.used_max = 0;
	sk_hold_promote(core, UINT64_MAX);
	compare("256 whose time has come", core->journal.used_max,
		SK_PROMOTE_MAX * SK_JOURNAL_PROMOTE);
	sk_journal_end(core, true);
}

/* A queue with as many jobs of as many users as may be there changes its order to and fro. */
static void regroup(void)
{
	struct sk_queue_set set = {.queue = 20, .weight = 1, .order = SK_ORDER_BACKFILL};

	do_now(&set, SK_QUEUE_SET, sizeof set, 0);
	for (uint32_t i = 0; i < SK_REGROUP_MAX; i++) {
		struct sk_submit one = {.client = 100 + i,
					.key = {core->next_job},
					.request = {.priority = (int16_t)(i % 100),
						    .tasks = 1,
						    .kinds = SK_DEVICE_GPU,
						    .queue = 20}};

		do_now(&one, SK_SUBMIT, sizeof one, 0);
		if (i % 3 == 2) /* three slots of the bound are for two jobs, of which one runs */
			i += place(core->next_job - 1, 1, 0, 8) != 0;
	}
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t reserved;

		set.order = i ? SK_ORDER_BACKFILL : SK_ORDER_FAIR;
		set.header.kind = SK_QUEUE_SET;
		reserved = sk_command_journal_max(core, &set.header);
		compare("order that groups by users", do_now(&set, SK_QUEUE_SET, sizeof set, 0),
			reserved);
	}
}

int main(void)
{
	size_t size = sk_core_memsize(&limits);
	void *memory = aligned_alloc(64, size);
	const char *broken;

	if (sk_core_init(memory, size, &limits, &core))
		return 2;
	make_nodes();
	make_queues();
	fill_heap();
	end_gang(submit(16000, 16, 0));
	end_with_afters();
	end_and_doom();
	lose_devices();
	lose_nodes();
	promote();
	regroup();
	broken = sk_core_check(core);
	if (broken)
		printf("%s\n", broken);
	free(memory);
	return bad || broken;
}
