/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that enter and leave the core: commands, rejections, effects and views. Relied on by
 * the log (commands are stored as they are), the binding and scheduler/records.py, whose struct
 * formats mirror this file. Invariant: little endian, naturally aligned without holes, sizes fixed
 * by static asserts; fields are only ever added by a new kind.
 */
#ifndef STOKER_CORE_WIRE_H
#define STOKER_CORE_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "core/reason.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little endian and are read in place"
#endif

#define SK_MILLI 1000u
#define SK_TASK_DEVICES_MAX 16u
#define SK_NODE_DEVICES_MAX 64u
#define SK_TASKS_MAX 64u
#define SK_OBSERVATIONS_MAX 4u
#define SK_PRIORITY_MIN (-128)
#define SK_PRIORITY_MAX 127
#define SK_BATCH_REQUESTS_MAX 1024u
#define SK_BATCH_PLACES_MAX 256u
#define SK_EXPLAIN_MAX 32u

enum sk_kind {
	SK_TERM = 1,
	SK_NODE_UP = 2,
	SK_NODE_DOWN = 3,
	SK_DEVICE_SET = 4,
	SK_SUBMIT = 5,
	SK_PLACE = 6,
	SK_OUTCOME = 7,
	SK_CANCEL = 8,
	SK_FORGET = 9,
	SK_REFUSED = 10,
	SK_KIND_END,
};

/* `scheduler/nouns.py` JobState, in its order; from SK_SUCCEEDED on a state is final. */
enum sk_state {
	SK_PENDING = 1,
	SK_STARTING = 2,
	SK_RUNNING = 3,
	SK_STOPPING = 4,
	SK_SUCCEEDED = 5,
	SK_FAILED = 6,
	SK_CANCELLED = 7,
	SK_TIMEOUT = 8,
	SK_LOST = 9,
	SK_STATE_END,
};

/* `term` is the leader's term; a command of another term than the state's changes nothing. */
struct sk_header {
	uint16_t size;
	uint16_t kind;
	uint32_t flags;
	uint64_t term;
};
static_assert(sizeof(struct sk_header) == 16, "stored layout");

/* Leadership is a fact in the log: header.term becomes the term if it is greater. */
struct sk_term {
	struct sk_header header;
	uint64_t leader;
};
static_assert(sizeof(struct sk_term) == 24, "stored layout");

/* A new boot id means that nothing of the previous boot runs any more: its jobs are lost.
 * Devices from index `devices` on are gone; the others are described by DEVICE_SET. */
struct sk_node_up {
	struct sk_header header;
	uint64_t node;
	uint64_t boot;
	uint64_t incarnation;
	uint64_t memory_bytes;
	uint32_t cpu_milli;
	uint16_t devices;
	uint16_t zero;
};
static_assert(sizeof(struct sk_node_up) == 56, "stored layout");

/* Without a flag: nothing new is placed there, what runs goes on. */
#define SK_NODE_EVICT 1u  /* committed loss of the node: its active jobs are lost */
#define SK_NODE_REMOVE 2u /* drop the entry of a node that is down and holds nothing */
struct sk_node_down {
	struct sk_header header;
	uint64_t node;
	uint16_t reason;
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_node_down) == 32, "stored layout");

/* `owner` and `reason` say who makes an unavailable device so (a pid, a fault code). */
struct sk_device_set {
	struct sk_header header;
	uint64_t node;
	uint64_t memory_bytes;
	uint64_t owner;
	uint16_t index;
	uint16_t capacity_milli;
	uint16_t available;
	uint16_t reason;
};
static_assert(sizeof(struct sk_device_set) == 48, "stored layout");

/* cpu_milli and memory_bytes are reserved where not 0. gpu_milli is per task. key 0 means none. */
struct sk_submit {
	struct sk_header header;
	uint64_t client;
	uint64_t key[2];
	uint64_t spec_hash;
	uint64_t memory_bytes;
	uint32_t uid;
	uint32_t tenant;
	uint32_t gpu_milli;
	uint32_t cpu_milli;
	int16_t priority;
	uint16_t tasks;
	uint32_t zero;
};
static_assert(sizeof(struct sk_submit) == 80, "stored layout");

struct sk_share {
	uint16_t index;
	uint16_t milli;
};
static_assert(sizeof(struct sk_share) == 4, "stored layout");

/* One task of a job. The records of a gang follow each other, tasks 0 to tasks-1, and take effect
 * together or not at all. */
struct sk_place {
	struct sk_header header;
	uint64_t job;
	uint64_t node;
	uint64_t latency_ns;
	uint64_t observations[SK_OBSERVATIONS_MAX];
	uint32_t attempt;
	uint16_t task;
	uint16_t tasks;
	uint16_t reason;
	uint16_t shares_n;
	uint32_t candidates; /* nodes looked at for this task */
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
static_assert(sizeof(struct sk_place) == 152, "stored layout");

#define SK_HAS_EXIT_CODE 1u
#define SK_HAS_SIGNAL 2u
struct sk_outcome {
	struct sk_header header;
	uint64_t job;
	uint64_t node;
	uint32_t attempt;
	uint16_t task;
	uint16_t state;
	int32_t exit_code;
	int32_t signal;
	uint16_t reason;
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_outcome) == 56, "stored layout");

struct sk_cancel {
	struct sk_header header;
	uint64_t job;
	uint16_t reason;
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_cancel) == 32, "stored layout");

struct sk_forget {
	struct sk_header header;
	uint64_t job;
};
static_assert(sizeof(struct sk_forget) == 24, "stored layout");

/* Requests turned away before they reached the core, so that replicas count the same. */
struct sk_refused {
	struct sk_header header;
	uint64_t client;
	uint32_t count;
	uint16_t reason;
	uint16_t zero;
};
static_assert(sizeof(struct sk_refused) == 32, "stored layout");

/* One request that propose did not turn into a command. `job` is the job it is about, for
 * SK_DUPLICATE the job the first request made. asked and have are the figures of the reason. */
struct sk_rejected {
	uint32_t request;
	uint16_t kind;
	uint16_t reason;
	uint64_t job;
	uint64_t asked;
	uint64_t have;
};
static_assert(sizeof(struct sk_rejected) == 32, "stored layout");

enum sk_effect_kind {
	SK_EFFECT_STATE = 1,	 /* the job is now in `state` */
	SK_EFFECT_START = 2,	 /* tell `node` to start this task */
	SK_EFFECT_STOP = 3,	 /* tell `node` to end this task, so that it becomes `state` */
	SK_EFFECT_FORGET = 4,	 /* the job is gone from the state: drop what belongs to it */
	SK_EFFECT_DUPLICATE = 5, /* a SUBMIT repeated a key; `job` is the first one's */
	SK_EFFECT_IGNORED = 6,	 /* the command changed nothing, for `reason` */
};

/* `command` counts the records of the batch from 0. For IGNORED `state` is the command's kind. */
struct sk_effect {
	uint16_t kind;
	uint16_t state;
	uint16_t reason;
	uint16_t task;
	uint32_t attempt;
	uint32_t command;
	uint64_t job;
	uint64_t node;
	uint64_t latency_ns;
	uint64_t observations[SK_OBSERVATIONS_MAX];
	int32_t exit_code;
	int32_t signal;
	uint32_t flags; /* SK_HAS_EXIT_CODE, SK_HAS_SIGNAL */
	uint16_t tasks;
	uint16_t shares_n;
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
static_assert(sizeof(struct sk_effect) == 152, "stored layout");

/* One line of an explanation; which fields carry a figure depends on `reason`. */
struct sk_explain {
	uint16_t reason;
	uint16_t detail;
	uint32_t count;
	uint64_t node;
	uint64_t job;
	uint64_t asked;
	uint64_t have;
};
static_assert(sizeof(struct sk_explain) == 40, "stored layout");

struct sk_job_view {
	uint64_t job;
	uint64_t client;
	uint64_t spec_hash;
	uint64_t memory_bytes;
	uint64_t submit_ns;
	uint64_t place_ns;
	uint64_t end_ns;
	uint64_t latency_ns;
	uint64_t observations[SK_OBSERVATIONS_MAX];
	uint64_t node; /* of task 0; 0 where never placed */
	uint32_t uid;
	uint32_t tenant;
	uint32_t gpu_milli;
	uint32_t cpu_milli;
	uint32_t attempt;
	uint32_t flags; /* SK_HAS_EXIT_CODE, SK_HAS_SIGNAL */
	int32_t exit_code;
	int32_t signal;
	int16_t priority;
	uint16_t tasks;
	uint16_t tasks_live;
	uint16_t state;
	uint16_t reason;
	uint16_t place_reason;
	uint32_t candidates;
};
static_assert(sizeof(struct sk_job_view) == 152, "binding layout");

struct sk_node_view {
	uint64_t node;
	uint64_t boot;
	uint64_t incarnation;
	uint64_t memory_bytes;
	uint64_t memory_used;
	uint64_t cpu_used;
	uint32_t cpu_milli;
	uint32_t tasks;
	uint16_t up;
	uint16_t reason;
	uint16_t devices;
	uint16_t devices_free;
};
static_assert(sizeof(struct sk_node_view) == 64, "binding layout");

struct sk_device_view {
	uint64_t memory_bytes;
	uint64_t owner;
	uint16_t capacity_milli;
	uint16_t used_milli;
	uint16_t available;
	uint16_t reason;
};
static_assert(sizeof(struct sk_device_view) == 24, "binding layout");

struct sk_task_view {
	uint64_t job;
	uint64_t node;
	uint32_t attempt;
	uint16_t task;
	uint16_t state;
	uint16_t job_state;
	uint16_t shares_n;
	uint32_t zero;
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
static_assert(sizeof(struct sk_task_view) == 96, "binding layout");

#endif
