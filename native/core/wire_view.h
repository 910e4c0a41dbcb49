/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that say what the core knows: of a job, a node, a device, a queue, a task. Like those
 * of wire.h they are declared here alone; none of them is stored.
 */
#ifndef SK_CORE_WIRE_VIEW_H
#define SK_CORE_WIRE_VIEW_H

#include "core/wire.h"

/* Everything that the core knows of a job. Times are those of the entries that caused them, or 0.
 *
 * Python: JobInfo(job, client, spec_hash, memory_bytes, submit_ns, place_ns, end_ns, latency_ns,
 * observations, node, uid, tenant, gpu_milli, cpu_milli, attempt, exit_code?, signal?,
 * priority, tasks, tasks_live, state: JobState, reason, place_reason, candidates, attained_ns,
 * charged_ns, spent_ns, not_before_ns, retried, preemptions, hold, ready, preferred, unmet,
 * request: Submit) */
struct sk_job_view {
	uint64_t job;
	uint64_t client;
	uint64_t spec_hash;
	uint64_t submit_ns;
	uint64_t place_ns;
	uint64_t end_ns;
	uint64_t latency_ns;
	uint64_t observations[SK_OBSERVATIONS_MAX];
	uint64_t node;		/* The node of task 0 in the last attempt; 0: never placed. */
	uint64_t attained_ns;	/* Device time of the attempts that ended. */
	uint64_t charged_ns;	/* Device time of this attempt, as reported while it runs. */
	uint64_t spent_ns;	/* Device time of this attempt, by its tasks that ended. */
	uint64_t not_before_ns; /* It waits, but not before this time; 0: no pause. */
	uint32_t uid;
	uint32_t tenant;
	uint32_t attempt;
	uint32_t flags; /* SK_HAS_EXIT_CODE, SK_HAS_SIGNAL */
	int32_t exit_code;
	int32_t signal;
	uint32_t candidates;
	uint16_t tasks_live; /* Tasks that are placed and have not ended. */
	uint16_t state;
	uint16_t reason;
	uint16_t place_reason;
	uint16_t retried;     /* Attempts that ended and were followed by another. */
	uint16_t preemptions; /* Those that did not fail: preempted, or not begun. */
	uint16_t hold;	/* The reason why it is not in its queue though pending: `enum sk_hold`. */
	uint16_t ready; /* Tasks of a gang that were ready in this attempt. */
	uint16_t preferred; /* Bit n: where it was placed last, preference n + 1 is met. */
	uint16_t unmet; /* The job of request.after, from 1, that ended otherwise than wanted; 0. */
	struct sk_request request; /* All that was asked for; the key is not kept. */
};
static_assert(sizeof(struct sk_job_view) == 672, "binding layout");

/* The reason why a pending job is not in its queue. */
enum sk_hold {
	SK_HOLD_NONE = 0,
	SK_HOLD_TIME = 1,   /* until not_before_ns */
	SK_HOLD_AFTER = 2,  /* until all of request.after have ended */
	SK_HOLD_DOOMED = 3, /* one of them ended otherwise than wanted: propose cancels it */
};

/* A node and its ledger. What is used may exceed the total after a node came back smaller.
 *
 * Python: NodeInfo(node, boot, incarnation, memory_bytes, memory_used, cpu_used, cpu_milli, tasks,
 * up: bool, reason, devices, devices_free, domain, reserve_from_ns, reserve_until_ns,
 * reserve_queue, labels) */
struct sk_node_view {
	uint64_t node;
	uint64_t boot;
	uint64_t incarnation;
	uint64_t memory_bytes;
	uint64_t memory_used;
	uint64_t cpu_used;
	uint64_t domain;
	uint64_t reserve_from_ns;
	uint64_t reserve_until_ns; /* 0: it is not reserved. */
	uint32_t reserve_queue;
	uint32_t cpu_milli;
	uint32_t tasks;
	uint16_t up;
	uint16_t reason; /* The reason why it is down; 0 while up. */
	uint16_t devices;
	uint16_t devices_free; /* Devices that are available and entirely free. */
	uint32_t labels;
};
static_assert(sizeof(struct sk_node_view) == 96, "binding layout");

/* A label or taint of a node.
 *
 * Python: Label(label, value, taint: bool, cost: bool) */
struct sk_label_view {
	uint64_t label; /* Hash of "key=value". */
	uint64_t value;
	uint32_t flags; /* SK_LABEL_TAINT, SK_LABEL_COST */
	uint32_t zero;
};
static_assert(sizeof(struct sk_label_view) == 24, "binding layout");

/* The ledger of one device: its capacity is used + free while available, else used + unavailable.
 *
 * Python: DeviceState(memory_bytes, owner, capacity_milli, used_milli, available: bool, reason,
 * memory_used, model, link, bus, numa, kind=Kind.GPU, vendor=0, compute=0, arch=0, profile=0,
 * driver=0, link_gbps=0, near_cpus=0) */
struct sk_device_view {
	uint64_t memory_bytes;
	uint64_t memory_used;
	uint64_t owner;
	uint64_t model;
	uint64_t arch;
	uint64_t profile;
	uint64_t driver;
	uint16_t capacity_milli;
	uint16_t used_milli;
	uint16_t available;
	uint16_t reason;
	uint16_t link;
	uint16_t bus;
	uint16_t numa;
	uint8_t kind;
	uint8_t vendor;
	uint32_t compute;
	uint16_t link_gbps;
	uint16_t near_cpus;
};
static_assert(sizeof(struct sk_device_view) == 80, "binding layout");

/* The quota of a queue and those below it for one device model (0: all), and its use.
 *
 * Python: QuotaInfo(model, guaranteed_milli, limit_milli, used_milli) */
struct sk_quota_view {
	uint64_t model;
	uint64_t guaranteed_milli;
	uint64_t limit_milli;
	uint64_t used_milli;
};
static_assert(sizeof(struct sk_quota_view) == 32, "binding layout");

/* A queue; what it uses and how many are pending counts those below it.
 *
 * Python: QueueInfo(queue, parent, weight, order, placement, depth, used_milli, cpu_used,
 * memory_used, usage_ns, pending, live, quota as quotas: QuotaInfo) */
struct sk_queue_view {
	uint64_t used_milli;
	uint64_t cpu_used;
	uint64_t memory_used;
	uint64_t usage_ns; /* Device time, decayed up to now. */
	uint64_t pending;
	uint64_t live; /* Pending and placed jobs of the queue itself. */
	uint32_t queue;
	uint32_t parent;
	uint32_t weight;
	uint16_t order;
	uint16_t placement;
	uint32_t quotas;
	uint32_t depth;
	struct sk_quota_view quota[SK_QUEUE_QUOTAS_MAX];
};
static_assert(sizeof(struct sk_queue_view) == 328, "binding layout");

/* One placed task that has not ended.
 *
 * Python: TaskInfo(job, node, attempt, task, state: JobState, job_state: JobState, shares,
 * ready: bool, released: bool) */
struct sk_task_view {
	uint64_t job;
	uint64_t node;
	uint32_t attempt;
	uint16_t task;
	uint16_t state;
	uint16_t job_state;
	uint16_t shares_n;
	uint16_t ready;	   /* A task of a gang that waits for the others, or has waited. */
	uint16_t released; /* All tasks of the gang were ready, so each of them may run. */
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
static_assert(sizeof(struct sk_task_view) == 96, "binding layout");

/* The unit of work by which the speed of a device model is measured. */
enum sk_measure {
	SK_MEASURE_LAUNCH = 1, /* the launch of a kernel: the device time of one */
	SK_MEASURE_RUN = 2,    /* a whole job: the time that it ran */
	SK_MEASURE_END,
};

/* The speed of one device model for one series of jobs: the time of a unit of work.
 *
 * Python: Speed(series, model, measure, jobs, median_ns, least_ns, most_ns) */
struct sk_speed_view {
	uint64_t series;
	uint64_t model;
	uint64_t median_ns; /* The newest SK_SPEED_SAMPLES_MAX jobs count, here and in the next two.
			     */
	uint64_t least_ns;
	uint64_t most_ns;
	uint32_t jobs; /* Jobs that were measured in all. */
	uint16_t measure;
	uint16_t zero;
};
static_assert(sizeof(struct sk_speed_view) == 48, "binding layout");

#endif
