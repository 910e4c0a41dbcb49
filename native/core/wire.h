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
#define SK_MODELS_MAX 64u      /* device models known to one state */
#define SK_JOB_MODELS_MAX 8u   /* models a job may name */
#define SK_JOB_LABELS_MAX 4u   /* labels of each sort a job may name */
#define SK_NODE_LABELS_MAX 16u /* labels and taints of one node together */
#define SK_QUEUE_QUOTAS_MAX 8u
#define SK_QUEUE_DEPTH_MAX 8u
#define SK_RETRIES_MAX 10u
#define SK_AFTERS_MAX 64u /* jobs that wait for the end of one job */
#define SK_BACKOFF_MAX_S 300u
#define SK_PROMOTE_MAX 256u /* held jobs released by time in one propose or apply */
#define SK_NO_LIMIT UINT64_MAX

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
	SK_NODE_LABEL = 11,
	SK_NODE_RESERVE = 12,
	SK_QUEUE_SET = 13,
	SK_QUOTA_SET = 14,
	SK_USAGE = 15,
	SK_PREEMPT = 16,
	SK_PREFER = 17,
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

/* Which node and devices; 0 leaves it to the queue, and there to SK_PLACEMENT_BEST. */
enum sk_placement {
	SK_PLACEMENT_QUEUE = 0,
	SK_PLACEMENT_BEST = 1,	       /* least fragmentation, finely quantised, then best fit */
	SK_PLACEMENT_FGD = 2,	       /* fragmentation gradient descent as published */
	SK_PLACEMENT_PACK = 3,	       /* most used device or node that still fits */
	SK_PLACEMENT_SPREAD = 4,       /* least used node */
	SK_PLACEMENT_LEAST_LOADED = 5, /* least observed load */
	SK_PLACEMENT_RANDOM = 6,
	SK_PLACEMENT_COST = 7,	  /* cheapest node by its label, then most free devices */
	SK_PLACEMENT_POWER = 8,	  /* least added power, then as BEST */
	SK_PLACEMENT_THERMAL = 9, /* most thermal headroom, then as BEST */
	SK_PLACEMENT_CUSTOM = 10, /* only where a SK_PREFER says */
	SK_PLACEMENT_END,
};

/* Who is next within a queue. */
enum sk_order {
	SK_ORDER_FIFO = 1,	     /* priority, then id; the first that does not fit blocks */
	SK_ORDER_ANY = 2,	     /* the same, but nobody blocks */
	SK_ORDER_BACKFILL = 3,	     /* EASY: the first gets a reservation nobody may delay */
	SK_ORDER_CONSERVATIVE = 4,   /* every waiting one does */
	SK_ORDER_SHORTEST = 5,	     /* least estimated time left first */
	SK_ORDER_LEAST_ATTAINED = 6, /* least device time so far first */
	SK_ORDER_END,
};

/* Options of a job. */
#define SK_PREEMPTIBLE 1u
#define SK_SPREAD_TASKS 2u  /* no two tasks of the gang on one node */
#define SK_PACK_TASKS 4u    /* all tasks of the gang on one node */
#define SK_ATTRACT 8u	    /* only where a task of the same group runs, if any does */
#define SK_REPEL 16u	    /* never where a task of the same group runs */
#define SK_SAME_LINK 32u    /* devices of a task share a link group */
#define SK_AFTER_ANY 64u    /* `after` may have ended in any way, not just well */
#define SK_PREEMPTOR 128u   /* may have others preempted to start */
#define SK_MIX_VENDORS 256u /* its devices may be of several vendors and kinds */
#define SK_OPTIONS 511u

/* What a device is, as bits, so that the kinds a job accepts are a mask of them. */
#define SK_DEVICE_GPU 1u
#define SK_DEVICE_CPU 2u
#define SK_DEVICE_KINDS 3u
#define SK_VENDORS_MAX 16u /* vendors of one kind that are told apart; 0 is not known */

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
	uint64_t domain; /* of failure or network, e.g. a rack's hash; 0 none */
	uint32_t cpu_milli;
	uint16_t devices;
	uint16_t zero;
};
static_assert(sizeof(struct sk_node_up) == 64, "stored layout");

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

/* `owner` and `reason` say who makes an unavailable device so (a pid, a fault code). With the
 * reason SK_DEVICE_GONE it is no device any more once no task holds it. */
struct sk_device_set {
	struct sk_header header;
	uint64_t node;
	uint64_t memory_bytes;
	uint64_t owner;
	uint64_t model; /* hash of its name; 0 none. A partition profile is a model */
	uint16_t index;
	uint16_t capacity_milli;
	uint16_t available;
	uint16_t reason;
	uint16_t link; /* devices of a node with the same number share that level; 0 not known */
	uint16_t bus;
	uint16_t numa;
	uint8_t kind; /* SK_DEVICE_GPU or SK_DEVICE_CPU */
	uint8_t vendor;
};
static_assert(sizeof(struct sk_device_set) == 64, "stored layout");

#define SK_LABEL_CLEAR 1u
#define SK_LABEL_TAINT 2u /* only jobs that tolerate it are placed there */
#define SK_LABEL_COST 4u  /* `value` is the node's cost, for SK_PLACEMENT_COST */
struct sk_node_label {
	struct sk_header header;
	uint64_t node;
	uint64_t label; /* hash of "key=value" */
	uint64_t value;
};
static_assert(sizeof(struct sk_node_label) == 40, "stored layout");

/* From `from_ns` to `until_ns` the node is for one queue; others must be gone by then. until 0
 * clears it. Times are those of the entries. */
struct sk_node_reserve {
	struct sk_header header;
	uint64_t node;
	uint64_t from_ns;
	uint64_t until_ns;
	uint32_t queue;
	uint32_t zero;
};
static_assert(sizeof(struct sk_node_reserve) == 48, "stored layout");

/* Create or change. Queue 0 is there from the start, has no children and takes jobs that name
 * none; `parent` 0 is the root. Only queues without children take jobs. */
#define SK_QUEUE_REMOVE 1u
struct sk_queue_set {
	struct sk_header header;
	uint32_t queue;
	uint32_t parent;
	uint32_t weight; /* against its siblings, 1 or more */
	uint16_t order;
	uint16_t placement;
};
static_assert(sizeof(struct sk_queue_set) == 32, "stored layout");

/* Milli-shares of devices of one model (0: of all) for a queue and all below it. The guaranteed
 * part is taken before what is borrowed; the limit is never passed (SK_NO_LIMIT: none).
 * guaranteed 0 and SK_NO_LIMIT drop the quota. */
struct sk_quota_set {
	struct sk_header header;
	uint64_t model;
	uint64_t guaranteed_milli;
	uint64_t limit_milli;
	uint32_t queue;
	uint32_t zero;
};
static_assert(sizeof(struct sk_quota_set) == 48, "stored layout");

/* What a job asks for, as it was submitted; kept as it is. cpu_milli, memory_bytes,
 * device_memory_bytes (of each device) are reserved where not 0. gpu_milli is per task. Lists end
 * at their first 0. */
struct sk_ask {
	uint64_t memory_bytes;
	uint64_t device_memory_bytes;
	uint64_t estimate_ns;		    /* expected run time; 0: not known */
	uint64_t after;			    /* job that must have ended before; 0 none */
	uint64_t group;			    /* of SK_ATTRACT and SK_REPEL; 0 none */
	uint64_t array;			    /* shared by the jobs of one array; 0 none */
	uint64_t models[SK_JOB_MODELS_MAX]; /* any of these will do; none: any at all */
	uint64_t require[SK_JOB_LABELS_MAX];
	uint64_t avoid[SK_JOB_LABELS_MAX];
	uint64_t tolerate[SK_JOB_LABELS_MAX];
	uint32_t gpu_milli;
	uint32_t cpu_milli;
	uint32_t queue;
	uint32_t min_run_s; /* not preempted before it ran so long */
	uint32_t backoff_s; /* base of the pause before a retry */
	int16_t priority;
	uint16_t tasks;
	uint16_t placement;
	uint16_t options;
	uint16_t retries; /* attempts after the first, for failed and lost ones */
	uint16_t kinds;	  /* of devices that will do, SK_DEVICE_KINDS */
};
static_assert(sizeof(struct sk_ask) == 240, "stored layout");

/* key 0 means none. */
struct sk_submit {
	struct sk_header header;
	uint64_t client;
	uint64_t key[2];
	uint64_t spec_hash;
	uint32_t uid;
	uint32_t tenant;
	struct sk_ask ask;
};
static_assert(sizeof(struct sk_submit) == 296, "stored layout");

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

/* SK_PREFER has the layout of a SK_PLACE: a placement from outside, tried by propose as it is. It
 * never enters the log; the SK_PLACE made of it does. */

#define SK_HAS_EXIT_CODE 1u
#define SK_HAS_SIGNAL 2u
#define SK_HAS_DEVICE_TIME 4u
struct sk_outcome {
	struct sk_header header;
	uint64_t job;
	uint64_t node;
	uint32_t attempt;
	uint16_t task;
	uint16_t state;
	int32_t exit_code;
	int32_t signal;
	uint64_t device_ns; /* measured device time of this task; else its shares x wall time */
	uint16_t reason;
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_outcome) == 64, "stored layout");

/* Measured device time of a running job so far, all tasks of this attempt together. */
struct sk_usage {
	struct sk_header header;
	uint64_t job;
	uint64_t device_ns;
	uint32_t attempt;
	uint32_t zero;
};
static_assert(sizeof(struct sk_usage) == 40, "stored layout");

/* Stop a running job to make room; once its tasks have ended it waits again. */
struct sk_preempt {
	struct sk_header header;
	uint64_t job;
	uint64_t beneficiary; /* the job that room is made for */
	uint32_t attempt;
	uint16_t reason;
	uint16_t zero;
};
static_assert(sizeof(struct sk_preempt) == 40, "stored layout");

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
	uint64_t submit_ns;
	uint64_t place_ns;
	uint64_t end_ns;
	uint64_t latency_ns;
	uint64_t observations[SK_OBSERVATIONS_MAX];
	uint64_t node;		/* of task 0; 0 where never placed */
	uint64_t attained_ns;	/* device time of the attempts that ended */
	uint64_t charged_ns;	/* of this attempt, as reported while it runs */
	uint64_t spent_ns;	/* of this attempt, by its tasks that ended */
	uint64_t not_before_ns; /* pending, but not before this; 0: no pause */
	uint32_t uid;
	uint32_t tenant;
	uint32_t attempt;
	uint32_t flags; /* SK_HAS_EXIT_CODE, SK_HAS_SIGNAL */
	int32_t exit_code;
	int32_t signal;
	uint32_t candidates;
	uint16_t tasks_live;
	uint16_t state;
	uint16_t reason;
	uint16_t place_reason;
	uint16_t retried;     /* attempts that ended and were followed by another */
	uint16_t preemptions; /* of those, because it was preempted */
	uint16_t hold;	      /* enum sk_hold, while pending */
	uint16_t zero[3];
	struct sk_ask ask;
};
static_assert(sizeof(struct sk_job_view) == 416, "binding layout");

/* Why a pending job is not in its queue. */
enum sk_hold {
	SK_HOLD_NONE = 0,
	SK_HOLD_TIME = 1,   /* until not_before_ns */
	SK_HOLD_AFTER = 2,  /* until ask.after has ended */
	SK_HOLD_DOOMED = 3, /* ask.after ended badly: propose cancels it */
};

struct sk_node_view {
	uint64_t node;
	uint64_t boot;
	uint64_t incarnation;
	uint64_t memory_bytes;
	uint64_t memory_used;
	uint64_t cpu_used;
	uint64_t domain;
	uint64_t reserve_from_ns;
	uint64_t reserve_until_ns;
	uint32_t reserve_queue;
	uint32_t cpu_milli;
	uint32_t tasks;
	uint16_t up;
	uint16_t reason;
	uint16_t devices;
	uint16_t devices_free;
	uint32_t labels;
};
static_assert(sizeof(struct sk_node_view) == 96, "binding layout");

struct sk_label_view {
	uint64_t label;
	uint64_t value;
	uint32_t flags; /* SK_LABEL_TAINT, SK_LABEL_COST */
	uint32_t zero;
};
static_assert(sizeof(struct sk_label_view) == 24, "binding layout");

struct sk_device_view {
	uint64_t memory_bytes;
	uint64_t memory_used;
	uint64_t owner;
	uint64_t model;
	uint16_t capacity_milli;
	uint16_t used_milli;
	uint16_t available;
	uint16_t reason;
	uint16_t link;
	uint16_t bus;
	uint16_t numa;
	uint8_t kind;
	uint8_t vendor;
};
static_assert(sizeof(struct sk_device_view) == 48, "binding layout");

struct sk_quota_view {
	uint64_t model;
	uint64_t guaranteed_milli;
	uint64_t limit_milli;
	uint64_t used_milli;
};
static_assert(sizeof(struct sk_quota_view) == 32, "binding layout");

/* `used` and `pending` count the queue and all below it. */
struct sk_queue_view {
	uint64_t used_milli;
	uint64_t cpu_used;
	uint64_t memory_used;
	uint64_t usage_ns; /* device time, decayed up to now */
	uint64_t pending;
	uint64_t live; /* pending and placed jobs of the queue itself */
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
