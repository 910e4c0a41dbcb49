/* SPDX-License-Identifier: Apache-2.0
 *
 * The records that enter and leave the core: commands, rejections and effects; wire_view.h has the
 * views. The log stores commands as they are. Invariant: little endian, naturally aligned without
 * holes, sizes fixed by static asserts; fields are only ever added by a new kind.
 *
 * `make generate` writes from them, with their comments, the Python side (scheduler/wire_*.py) and
 * the offsets that the compiler checks (wire_layout.h). A line "Python: Name(field, field=default,
 * member as field, field: type)" in the comment of a record names its tuple and the order of its
 * fields; a field that is no member is a flag, which says if a field with None or `?` is there.
 */
#ifndef SK_CORE_WIRE_H
#define SK_CORE_WIRE_H

#include <assert.h>
#include <stdint.h>

#include "core/reason.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "records are little endian and are read in place"
#endif

#define SK_MILLI 1000u		    /* Milli-shares of one whole device or one CPU. */
#define SK_TASK_DEVICES_MAX 16u	    /* Devices of one task. */
#define SK_NODE_DEVICES_MAX 64u	    /* Devices of one node. */
#define SK_TASKS_MAX 64u	    /* Tasks of one job. */
#define SK_OBSERVATIONS_MAX 4u	    /* Observations that one decision names. */
#define SK_PRIORITY_MIN (-100)	    /* Lowest priority of a job. */
#define SK_PRIORITY_MAX 100	    /* Highest priority of a job. */
#define SK_BATCH_REQUESTS_MAX 1024u /* Requests of one `propose`. */
#define SK_BATCH_PLACES_MAX 256u    /* Tasks placed by one `propose`; it says if there are more. */
#define SK_EXPLAIN_MAX 32u	    /* Lines of one explanation. */
#define SK_MODELS_MAX 64u	    /* Device models known to one state. */
#define SK_JOB_MODELS_MAX 8u	    /* Device models that a job may name. */
#define SK_JOB_LABELS_MAX 4u	    /* Labels of each sort that a job may name. */
#define SK_JOB_CONDITIONS_MAX 12u   /* Conditions on its devices that a job may name. */
#define SK_PREFERENCES_MAX 4u	    /* Preferences among them. */
#define SK_TRAITS_MAX 63u	    /* Different traits of devices known to one state. */
#define SK_NODE_LABELS_MAX 16u	    /* Labels and taints of one node together. */
#define SK_QUEUE_QUOTAS_MAX 8u	    /* Quotas of one queue. */
#define SK_QUEUE_DEPTH_MAX 8u	    /* Queues on the way from the root to a queue. */
#define SK_RETRIES_MAX 10u	    /* Attempts after the first. */
#define SK_LAUNCHES_MAX 3u	    /* Launches in a row that nodes fail before the job does. */
#define SK_AFTERS_MAX 64u	    /* Jobs that wait for the end of one job. */
#define SK_JOB_AFTERS_MAX 8u	    /* Jobs that one job may follow. */
#define SK_BACKOFF_MAX_S 300u	    /* Longest pause before a retry, in seconds. */
#define SK_PROMOTE_MAX 256u	    /* Held jobs released by time in one propose or apply. */
#define SK_SPEEDS_MAX 4096u	    /* Measured speeds known to one state. */
#define SK_SPEED_SAMPLES_MAX 8u	    /* Newest jobs of which a speed is the median. */
#define SK_NO_LIMIT UINT64_MAX	    /* A quota's limit where there is none. */

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
	SK_GIVE_UP = 18,
	SK_DEVICE_TRAITS = 19,
	SK_SUBMIT_ARRAY = 20,
	SK_RANGE_END = 21,
	SK_KIND_END,
};

/* The state of a job; from SK_SUCCEEDED on a state is final. */
enum sk_state {
	SK_PENDING = 1,	  /* accepted and committed, not placed */
	SK_STARTING = 2,  /* placed; the node has been told */
	SK_RUNNING = 3,	  /* the node reported its first process */
	SK_STOPPING = 4,  /* a cancel or a limit is being carried out */
	SK_SUCCEEDED = 5, /* exit code 0 */
	SK_FAILED = 6,	  /* another exit code, a signal, or it could not be started */
	SK_CANCELLED = 7, /* stopped on request */
	SK_TIMEOUT = 8,	  /* stopped at its time limit */
	SK_LOST = 9,	  /* the node cannot say how it ended; the reason says why */
	SK_STATE_END,
};

/* The way in which a node and its devices are chosen. QUEUE leaves it to the job's queue, and there
 * to BEST. */
enum sk_placement {
	SK_PLACEMENT_QUEUE = 0,
	SK_PLACEMENT_BEST = 1,	     /* least fragmentation, finely quantised, then best fit */
	SK_PLACEMENT_FGD = 2,	     /* fragmentation gradient descent as published */
	SK_PLACEMENT_BINPACK = 3,    /* most used device or node that still fits */
	SK_PLACEMENT_SPREAD = 4,     /* least used node */
	SK_PLACEMENT_LEAST_BUSY = 5, /* least observed load */
	SK_PLACEMENT_RANDOM = 6,
	SK_PLACEMENT_COST_OPTIMIZED = 7, /* cheapest node by its label, then as LEAST_LOADED */
	SK_PLACEMENT_POWER = 8,		 /* least added power, then as BEST */
	SK_PLACEMENT_THERMAL = 9,	 /* most thermal headroom, then as BEST */
	SK_PLACEMENT_CUSTOM = 10,	 /* only where an SK_PREFER says */
	SK_PLACEMENT_LEAST_LOADED = 11,	 /* most free devices */
	SK_PLACEMENT_CONTIGUOUS = 12,	 /* devices whose numbers follow each other, on one link */
	SK_PLACEMENT_SCORED = 13,	 /* the node with the best score of a function outside */
	SK_PLACEMENT_FASTEST = 14,	 /* best measured speed, then as BEST */
	SK_PLACEMENT_END,
};

/* The rule that says who is next within a queue. */
enum sk_order {
	SK_ORDER_FIFO = 1,	     /* priority, then id; the first that does not fit blocks */
	SK_ORDER_ANY = 2,	     /* priority, then id; nobody blocks */
	SK_ORDER_BACKFILL = 3,	     /* EASY: the first gets a reservation nobody may delay */
	SK_ORDER_CONSERVATIVE = 4,   /* every waiting job gets such a reservation */
	SK_ORDER_SHORTEST = 5,	     /* least estimated time left first */
	SK_ORDER_LEAST_ATTAINED = 6, /* least device time so far first */
	SK_ORDER_FAIR = 7,	     /* priority, then the user who holds least; as BACKFILL */
	SK_ORDER_END,
};

/* Options of a job, as bits. Python: Option */
#define SK_PREEMPTIBLE 1u   /* It may be stopped to make room; then it waits again. */
#define SK_SPREAD_TASKS 2u  /* No two tasks of the gang run on one node. */
#define SK_PACK_TASKS 4u    /* All tasks of the gang run on one node. */
#define SK_ATTRACT 8u	    /* It runs only where a task of its group runs, if any does. */
#define SK_REPEL 16u	    /* It never runs where a task of its group runs. */
#define SK_SAME_LINK 32u    /* The devices of a task share a link group. */
#define SK_PREEMPTOR 64u    /* It may have others preempted to start. */
#define SK_MIX_VENDORS 128u /* Its devices may be of several vendors and kinds. */
#define SK_LOST_ONLY 256u   /* Another attempt follows one that was lost, not one that failed. */
#define SK_OPTIONS 511u

/* Kinds of devices, as bits, so that the kinds a job accepts are a set. Python: Kind */
#define SK_DEVICE_GPU 1u
#define SK_DEVICE_CPU 2u
#define SK_DEVICE_KINDS 3u
#define SK_VENDORS_MAX 16u /* Numbers of vendors that are told apart; 0 is one not known. */

/* The head of every command. `term` is the leader's term; a command of another term than the
 * state's changes nothing. */
struct sk_header {
	uint16_t size;
	uint16_t kind;
	uint32_t flags;
	uint64_t term;
};
static_assert(sizeof(struct sk_header) == 16, "stored layout");

/* A scheduler takes the lead, with a header.term that is greater than every term before.
 *
 * Python: Term(term, leader) */
struct sk_term {
	struct sk_header header;
	uint64_t leader;
};
static_assert(sizeof(struct sk_term) == 24, "stored layout");

/* A node's agent is there. A new `boot` means that the jobs of the previous boot are lost.
 *
 * Python: NodeUp(node, boot, incarnation, cpu_milli, memory_bytes, devices, domain=0) */
struct sk_node_up {
	struct sk_header header;
	uint64_t node;	      /* An id chosen by the caller, not 0. */
	uint64_t boot;	      /* Hash of the kernel's boot id. */
	uint64_t incarnation; /* Start of the agent. */
	uint64_t memory_bytes;
	uint64_t domain; /* Hash of a domain of failure or network, e.g. a rack; 0: none. */
	uint32_t cpu_milli;
	uint16_t devices; /* Device indexes; those from here on are gone. */
	uint16_t zero;
};
static_assert(sizeof(struct sk_node_up) == 64, "stored layout");

#define SK_NODE_EVICT 1u  /* The loss of the node is committed: its active jobs are lost. */
#define SK_NODE_REMOVE 2u /* Drop the entry of a node that is down and holds nothing. */
/* Nothing new is placed on the node; without a flag what runs there goes on.
 *
 * Python: NodeDown(node, evict=False, remove=False, reason=0) */
struct sk_node_down {
	struct sk_header header;
	uint64_t node;
	uint16_t reason;
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_node_down) == 32, "stored layout");

/* Capacity and availability of one device; indexes are dense from 0. With the reason
 * SK_DEVICE_GONE it is no device any more once no task holds it.
 *
 * Python: DeviceSet(node, index as device, capacity_milli=1000, memory_bytes=0, available=True,
 * owner=0, reason=0, model=0, link=0, bus=0, numa=0, kind=Kind.GPU, vendor=0) */
struct sk_device_set {
	struct sk_header header;
	uint64_t node;
	uint64_t memory_bytes;
	uint64_t owner; /* The holder that makes it unavailable, e.g. a foreign pid. */
	uint64_t model; /* Hash of its model's name; 0: none. A partition profile is a model. */
	uint16_t index; /* Its place in the node's list. */
	uint16_t capacity_milli;
	uint16_t available;
	uint16_t reason; /* The cause of its absence, e.g. a fault code. */
	uint16_t link; /* Devices of a node with the same number share a fast link; 0: not known. */
	uint16_t bus;  /* Devices of a node with the same number share a PCIe switch. */
	uint16_t numa;
	uint8_t kind;	/* One of the kinds. */
	uint8_t vendor; /* A number below SK_VENDORS_MAX; 0: not known. */
};
static_assert(sizeof(struct sk_device_set) == 64, "stored layout");

/* The traits of a device, for jobs to ask for. 0: not known, no condition on it is met.
 *
 * Python: DeviceTraits(node, index as device, compute=0, arch=0, profile=0, driver=0,
 * link_gbps=0, near_cpus=0) */
struct sk_device_traits {
	struct sk_header header;
	uint64_t node;
	uint64_t arch;	  /* Hash of the name of its architecture. */
	uint64_t profile; /* Hash of the name of its partition profile. */
	uint64_t driver;  /* Version of its driver: major << 40 | minor << 20 | patch. */
	uint32_t compute; /* Compute capability: major << 16 | minor. */
	uint16_t index;
	uint16_t link_gbps;
	uint16_t near_cpus; /* CPUs of its NUMA node that jobs may have. */
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_device_traits) == 64, "stored layout");

#define SK_LABEL_CLEAR 1u /* The node loses the label. */
#define SK_LABEL_TAINT 2u /* Only jobs that tolerate it are placed there. */
#define SK_LABEL_COST 4u  /* `value` is the node's cost, for SK_PLACEMENT_COST_OPTIMIZED. */
/* A node gets a label or taint, another value for it, or loses it.
 *
 * Python: NodeLabel(node, label, value=0, taint=False, cost=False, clear=False) */
struct sk_node_label {
	struct sk_header header;
	uint64_t node;
	uint64_t label; /* Hash of "key=value". */
	uint64_t value; /* Hash of the key, so that it can be a level of the topology; of COST the
			   cost. */
};
static_assert(sizeof(struct sk_node_label) == 40, "stored layout");

/* From `from_ns` to `until_ns` the node is for one queue and those below it; others must be gone by
 * then. An `until_ns` of 0 clears it. Times are those of the entries.
 *
 * Python: NodeReserve(node, queue=0, from_ns=0, until_ns=0) */
struct sk_node_reserve {
	struct sk_header header;
	uint64_t node;
	uint64_t from_ns;
	uint64_t until_ns;
	uint32_t queue;
	uint32_t zero;
};
static_assert(sizeof(struct sk_node_reserve) == 48, "stored layout");

#define SK_QUEUE_REMOVE 1u /* The queue goes; it must be empty. */
/* A queue is created, changed or removed. Queue 0 is there from the start, has no children and
 * takes jobs that name none; `parent` 0 is the root. Only queues without children take jobs.
 *
 * Python: QueueSet(queue, parent=0, weight=1, order=Order.FIFO, placement=Placement.QUEUE,
 * remove=False) */
struct sk_queue_set {
	struct sk_header header;
	uint32_t queue;
	uint32_t parent;
	uint32_t weight; /* Its part against its siblings', 1 or more. */
	uint16_t order;
	uint16_t placement;
};
static_assert(sizeof(struct sk_queue_set) == 32, "stored layout");

/* Milli-shares of devices for a queue and all below it. The guaranteed part is taken before what is
 * borrowed; the limit is never passed. A guarantee of 0 and SK_NO_LIMIT drop the quota.
 *
 * Python: QuotaSet(queue, model=0, guaranteed_milli=0, limit_milli=NO_LIMIT) */
struct sk_quota_set {
	struct sk_header header;
	uint64_t model; /* Hash of a device model; 0: devices of all models. */
	uint64_t guaranteed_milli;
	uint64_t limit_milli;
	uint32_t queue;
	uint32_t zero;
};
static_assert(sizeof(struct sk_quota_set) == 48, "stored layout");

/* The property of a device that a condition speaks of. */
enum sk_property {
	SK_PROPERTY_VENDOR = 1,	 /* its number */
	SK_PROPERTY_MODEL = 2,	 /* hash of its name */
	SK_PROPERTY_MEMORY = 3,	 /* bytes that the device has */
	SK_PROPERTY_COMPUTE = 4, /* as DEVICE_TRAITS has it, and so are the fields below */
	SK_PROPERTY_ARCH = 5,
	SK_PROPERTY_PROFILE = 6,
	SK_PROPERTY_DRIVER = 7,
	SK_PROPERTY_LINK = 8,	   /* linked devices of each node, with so many GB/s; 1: any */
	SK_PROPERTY_PARTITION = 9, /* 1: a whole card, 2: a partition */
	SK_PROPERTY_DEVICE = 10,   /* the device at `place` - 1 of the node with this id; 0: any */
	SK_PROPERTY_NUMA = 11,	   /* devices of a task in one NUMA node, so many CPUs beside */
	SK_PROPERTY_LEVEL = 12,	   /* all tasks on nodes with one label of the key with this hash */
	SK_PROPERTY_END,
};

/* The way in which a property and the value of a condition are compared. Conditions IS on one
 * field are alternatives, all others must hold together. */
enum sk_relation {
	SK_RELATION_IS = 1,
	SK_RELATION_LEAST = 2,
	SK_RELATION_MOST = 3,
	SK_RELATION_END,
};

/* A condition on each device of a job. With rank 0 it is required; conditions of rank n are the
 * n-th preference, and the last preference is the first that is given up. */
struct sk_condition {
	uint64_t value;
	uint16_t property; /* 0: no condition, nor any behind it */
	uint16_t relation;
	uint16_t rank;
	uint16_t place; /* The index plus 1 of the device that DEVICE names. */
};
static_assert(sizeof(struct sk_condition) == 16, "stored layout");

/* The request of a job as it was submitted. 0 reserves no CPU or memory; lists end at their 0. */
struct sk_request {
	uint64_t memory_bytes;
	uint64_t device_memory_bytes;	      /* Memory of each device. */
	uint64_t estimate_ns;		      /* Expected run time; 0: not known. */
	uint64_t group;			      /* The group of ATTRACT and REPEL; 0: none. */
	uint64_t array;			      /* Shared by the jobs of one array; 0: none. */
	uint64_t series;		      /* Shared by jobs whose speeds compare; 0: none. */
	uint64_t models[SK_JOB_MODELS_MAX];   /* Hashes of models; any will do, none: all will. */
	uint64_t require[SK_JOB_LABELS_MAX];  /* Hashes of labels that the node must have. */
	uint64_t avoid[SK_JOB_LABELS_MAX];    /* Hashes of labels that the node must not have. */
	uint64_t tolerate[SK_JOB_LABELS_MAX]; /* Hashes of taints that do not matter. */
	uint32_t gpu_milli;		      /* Milli-shares of devices of each task. */
	uint32_t cpu_milli;
	uint32_t queue;
	uint32_t min_run_s; /* Not preempted before it ran for this time. */
	uint32_t backoff_s; /* Base of the pause before a retry; 0 means 1. */
	int16_t priority;
	uint8_t tasks;
	uint8_t per_node; /* Exactly so many tasks on each node of a gang; 0: as it fits. */
	uint16_t placement;
	uint16_t options;
	uint8_t retries;    /* Attempts after the first, for failed and lost ones. */
	uint8_t kinds;	    /* Kinds of devices that will do, as bits. */
	uint8_t after_any;  /* Bit n: job n of `after` may have ended in any way. */
	uint8_t after_fail; /* Bit n: job n of `after` must have ended otherwise than well. */
	struct sk_condition conditions[SK_JOB_CONDITIONS_MAX]; /* Conditions on its devices. */
	uint64_t after[SK_JOB_AFTERS_MAX]; /* The jobs and ranges that must have ended before. */
};
static_assert(sizeof(struct sk_request) == 496, "stored layout");
static_assert(SK_JOB_AFTERS_MAX <= 8, "each has a bit of after_any and after_fail");

/* A user submits a job. The record may end before conditions and jobs that say nothing.
 *
 * Python: Submit(client, key=b"", spec_hash=0, uid=0, tenant=0, priority=0, gpu_milli=0,
 * cpu_milli=0, memory_bytes=0, tasks=1, device_memory_bytes=0, estimate_ns=0, group=0, array=0,
 * series=0, models=(), require=(), avoid=(), tolerate=(), after=(), after_any=0, after_fail=0,
 * queue=0, min_run_s=0, backoff_s=0, placement=Placement.QUEUE, options=0, retries=0,
 * kinds=Kind.GPU, per_node=0, conditions=()) */
struct sk_submit {
	struct sk_header header;
	uint64_t client;    /* Id of who submits; keys are per client. */
	uint64_t key[2];    /* Idempotency key, up to 16 bytes; empty: none. */
	uint64_t spec_hash; /* A known key with another hash is refused. */
	uint32_t uid;
	uint32_t tenant;
	struct sk_request request;
};
static_assert(sizeof(struct sk_submit) == 552, "stored layout");
#define SK_SUBMIT_LEAST 296u /* Bytes of a request without conditions that follows no job. */
static_assert(SK_SUBMIT_LEAST + SK_JOB_CONDITIONS_MAX * sizeof(struct sk_condition) +
			      SK_JOB_AFTERS_MAX * sizeof(uint64_t) ==
		      sizeof(struct sk_submit),
	      "the conditions and the jobs that it follows come last");

struct sk_share {
	uint16_t index;
	uint16_t milli;
};
static_assert(sizeof(struct sk_share) == 4, "stored layout");

/* A decision for one task; only `propose` makes these. The records of a gang follow each other,
 * tasks 0 to tasks-1, and take effect together or not at all.
 *
 * Python: Place(job, attempt, task, tasks, node, shares, reason, latency_ns, observations,
 * candidates) */
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
	uint32_t candidates; /* Nodes looked at for this task. */
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
static_assert(sizeof(struct sk_place) == 152, "stored layout");

/* A placement from outside for one task of a job whose placement is CUSTOM, tried by propose as it
 * is. It never enters the log; the SK_PLACE made of it does. Those of a gang follow each other,
 * tasks 0 to tasks-1. It has the layout of a SK_PLACE.
 *
 * Python: Prefer(job, attempt, node, shares=(), task=0, tasks=1, observations=(), candidates=0) */

#define SK_HAS_EXIT_CODE 1u
#define SK_HAS_SIGNAL 2u
#define SK_HAS_DEVICE_NS 4u
/* The end or the start of one task, as its node says it. A repeated outcome changes nothing. A task
 * of a gang is first ready: everything that its first process needs is there, and it waits until
 * all tasks of the gang are. The state "starting" says so.
 *
 * Python: TaskOutcome(job, attempt, node, state, exit_code=None, signal=None, reason=0, task=0,
 * device_ns=None, run_ns=0, launch_ns=0) */
struct sk_outcome {
	struct sk_header header;
	uint64_t job;
	uint64_t node; /* The node that says so; another node than the task's is refused. */
	uint32_t attempt;
	uint16_t task;
	uint16_t state; /* Code of a state: running, one that is final, pending: not begun, or
			   starting: ready. */
	int32_t exit_code;
	int32_t signal;
	uint64_t device_ns; /* Measured device time of this task; else its shares x wall time. */
	uint64_t run_ns;    /* The time that its program ran; 0: not known. */
	uint64_t launch_ns; /* Mean device time of a launch of it; 0: not measured. */
	uint16_t reason;    /* Passed through; the caller's own codes start at Reason.OUTER. With
			       the state pending NOT_LAUNCHED alone counts. */
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_outcome) == 80, "stored layout");

/* Measured device time of a running job so far, all tasks of this attempt together.
 *
 * Python: DeviceUsage(job, attempt, device_ns) */
struct sk_usage {
	struct sk_header header;
	uint64_t job;
	uint64_t device_ns;
	uint32_t attempt;
	uint32_t zero;
};
static_assert(sizeof(struct sk_usage) == 40, "stored layout");

#define SK_PREEMPT_MOVE 1u /* A node of it takes no jobs: it may go if it may run again. */
/* Stop a running job to make room, or to move it; once its tasks have ended it waits again.
 *
 * Python: Preempt(job, attempt, beneficiary=0, reason=0, move=False) */
struct sk_preempt {
	struct sk_header header;
	uint64_t job;
	uint64_t beneficiary; /* The job that room is made for. */
	uint32_t attempt;
	uint16_t reason;
	uint16_t zero;
};
static_assert(sizeof(struct sk_preempt) == 40, "stored layout");

/* Stop a job: at once while pending, else by its nodes.
 *
 * Python: Cancel(job, reason=0) */
struct sk_cancel {
	struct sk_header header;
	uint64_t job;
	uint16_t reason;
	uint16_t zero[3];
};
static_assert(sizeof(struct sk_cancel) == 32, "stored layout");

/* End the attempt of a gang whose tasks are not all ready in time. It fails, and nothing of it has
 * run. Once all of them are ready it is too late for that.
 *
 * Python: GiveUp(job, attempt, reason=0) */
struct sk_give_up {
	struct sk_header header;
	uint64_t job;
	uint32_t attempt;
	uint16_t reason;
	uint16_t zero;
};
static_assert(sizeof(struct sk_give_up) == 32, "stored layout");

/* Drop an ended job before retention does.
 *
 * Python: Forget(job) */
struct sk_forget {
	struct sk_header header;
	uint64_t job;
};
static_assert(sizeof(struct sk_forget) == 24, "stored layout");

/* Requests turned away before they reached the core, so that replicas count the same.
 *
 * Python: RefusedRequests(client, count as requests, reason) */
struct sk_refused {
	struct sk_header header;
	uint64_t client;
	uint32_t count;
	uint16_t reason;
	uint16_t zero;
};
static_assert(sizeof(struct sk_refused) == 32, "stored layout");

/* One request that propose did not turn into a command. The state is as if it had not been made.
 *
 * Python: RejectedRecord(request, kind, reason, job, asked, have) */
struct sk_rejected {
	uint32_t request; /* Its position among the requests. */
	uint16_t kind;	  /* The kind of the command. */
	uint16_t reason;
	uint64_t job;	/* The job it is about; for DUPLICATE the one that the key made, perhaps in
			   this very batch: answer only when the batch is committed. */
	uint64_t asked; /* A figure of the reason. */
	uint64_t have;	/* A figure of the reason. */
};
static_assert(sizeof(struct sk_rejected) == 32, "stored layout");

/* The kinds of effects; the comment of a kind names its tuple. */
enum sk_effect_kind {
	/* The job is now in `state`. State "pending" is the commit of the submit at `command`.
	 *
	 * Python: StateChanged(command, job, attempt, state: JobState, reason, node, exit_code?,
	 * signal?) */
	SK_EFFECT_STATE = 1,
	/* Tell `node` to start this task of this attempt, once.
	 *
	 * Python: Start(command, job, attempt, task, tasks, node, shares, reason, latency_ns,
	 * observations) */
	SK_EFFECT_START = 2,
	/* Tell `node` to end this task, which then becomes `state`.
	 *
	 * Python: Stop(command, job, attempt, task, node, state: JobState, reason) */
	SK_EFFECT_STOP = 3,
	/* The job is gone from the state: drop what belongs to it. `node` ran task 0, or is 0.
	 *
	 * Python: Forgotten(command, job, node, reason) */
	SK_EFFECT_FORGET = 4,
	/* The submit at `command` repeated a key; `job` is the first one's.
	 *
	 * Python: Duplicate(command, job) */
	SK_EFFECT_DUPLICATE = 5,
	/* The command changed nothing; it is counted under its reason.
	 *
	 * Python: Ignored(command, state as kind, job, reason) */
	SK_EFFECT_IGNORED = 6,
	/* All tasks of a gang are ready: tell `node` to let this one run.
	 *
	 * Python: Release(command, job, attempt, task, node) */
	SK_EFFECT_RELEASE = 7,
};

/* One effect of an applied batch. For IGNORED `state` is the command's kind. */
struct sk_effect {
	uint16_t kind;
	uint16_t state;
	uint16_t reason;
	uint16_t task;
	uint32_t attempt;
	uint32_t command; /* Position of the cause in the batch, from 0. */
	uint64_t job;
	uint64_t node; /* The node of the task; 0 where no task did it. */
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

/* One line of an explanation, the most telling first; figures that the reason does not use are 0.
 *
 * Python: ExplainRecord(reason, count as number, node, job, asked, have, detail=0) */
struct sk_explain {
	uint16_t reason;
	uint16_t detail; /* More on the reason: for PLACED_ON why there, for ENDED the state's code,
			    for a node that is kept out the refusal, for QUEUE_AT_LIMIT how deep the
			    queue is, for a placement its policy. */
	uint32_t count;	 /* Number of nodes, devices or jobs it is true of. */
	uint64_t node;
	uint64_t job;
	uint64_t asked;
	uint64_t have;
};
static_assert(sizeof(struct sk_explain) == 40, "stored layout");

#endif
