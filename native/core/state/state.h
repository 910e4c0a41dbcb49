/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that every file of the core works on. Invariants: slot 0 of every array is never used,
 * so 0 means "none" in each link. Job and task slots never leave the core. A joining node gets the
 * lowest free slot, so node slots are equal on all replicas. Every member before `journal` is
 * replicated or derived from replicated ones; sk_core_check verifies it.
 */
#ifndef SK_CORE_STATE_STATE_H
#define SK_CORE_STATE_STATE_H

#include "core/core.h"
#include "core/state/chain.h"

struct sk_hints;

#define SK_NODES_LIMIT_MAX (1u << 16)
#define SK_DEVICES_LIMIT_MAX (1u << 20)
#define SK_JOBS_LIMIT_MAX (1u << 24)
#define SK_TASKS_LIMIT_MAX (1u << 24)
#define SK_KEYS_LIMIT_MAX (1u << 24)

#define SK_CHUNK_DEVICES 8u
#define SK_NODE_CHUNKS (SK_NODE_DEVICES_MAX / SK_CHUNK_DEVICES)
#define SK_LEVELS 256u

/* Add times up to the largest, without overflow: a node may claim any time. */
static inline uint64_t sk_time_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

#define SK_QUEUES_LIMIT_MAX (1u << 12)
#define SK_QUEUE_ROOT 1u    /* slot of the root, which takes no jobs */
#define SK_QUEUE_DEFAULT 2u /* slot of queue 0 */

/* A family is a vendor and a kind of device; a job has devices of one family by default. It is a
 * number from 0 to 31, so that a set of them is a mask; CPU devices have the upper half. */
#define SK_FAMILIES (2u * SK_VENDORS_MAX)

static inline uint8_t sk_family(uint32_t kind, uint32_t vendor)
{
	return (uint8_t)((kind == SK_DEVICE_CPU ? SK_VENDORS_MAX : 0) + vendor);
}

static inline uint32_t sk_families_of(uint32_t kinds)
{
	return (kinds & SK_DEVICE_GPU ? 0xffffu : 0) | (kinds & SK_DEVICE_CPU ? 0xffff0000u : 0);
}

/* Traits that devices share; those of position 0 are not known. */
struct sk_traits {
	uint64_t arch;
	uint64_t profile;
	uint64_t driver;
	uint32_t compute;
	uint16_t link_gbps;
	uint16_t near_cpus;
};

#define SK_LINKED_TASK 1u /* the devices of each task share a link */
#define SK_LINKED_GANG 2u /* all devices of the job on one node share a link */
#define SK_LINKED 3u	  /* either of the two */
#define SK_ONE_NUMA 4u	  /* the devices of each task are in one NUMA node */

/* The devices that a job accepts, as masks. */
struct sk_wish {
	uint64_t models;       /* 0: any */
	uint64_t traits;       /* bit n: traits n will do; all bits: any */
	uint64_t memory_least; /* of the whole device, in bytes */
	uint32_t families;
	uint8_t available; /* 1: only available devices of nodes that are up now */
	uint8_t together;  /* the above, as bits */
	uint8_t named;	   /* bit n: the conditions DEVICE of rank n hold */
	uint8_t levels;	   /* bit n: the conditions LEVEL of rank n hold */
	uint32_t near;	   /* while one domain is tried: a node of it; else 0 */
	uint32_t zero;
};

struct sk_device {
	uint64_t memory_bytes;
	uint64_t memory_used;
	uint64_t owner;
	uint16_t capacity;
	uint16_t used;
	uint8_t available;
	uint8_t family; /* see sk_family */
	uint16_t reason;
	uint16_t link;
	uint16_t bus;
	uint16_t numa;
	uint8_t model;	/* position among the models, from 1; 0 none */
	uint8_t traits; /* position among the traits; 0: not known */
};

struct sk_label {
	uint64_t label; /* 0: free, and so are those after it */
	uint64_t value;
	uint64_t flags;
};

/* Devices of a node come in chunks, so that 10,000 nodes do not each reserve the maximum. */
struct sk_chunk {
	struct sk_device devices[SK_CHUNK_DEVICES];
	uint32_t free_next;
	uint32_t zero;
};

struct sk_node {
	uint64_t id; /* 0: the slot is free */
	uint64_t boot;
	uint64_t boot_before;
	uint64_t incarnation;
	uint64_t memory;
	uint64_t memory_used;
	uint64_t cpu_used;
	uint64_t domain;
	uint64_t models;   /* bit n: a device of model n + 1 is there, available or not */
	uint64_t traits;   /* bit n: a device with traits n is there, available or not */
	uint32_t families; /* families of its devices, available or not */
	uint32_t zero_families;
	uint64_t reserve_from_ns;
	uint64_t reserve_until_ns; /* 0: not reserved */
	uint32_t reserve_queue;	   /* its id */
	uint32_t labels_n;
	struct sk_label labels[SK_NODE_LABELS_MAX]; /* by label, ascending */
	uint32_t cpu;
	uint32_t hash_next;
	struct sk_list tasks;
	uint32_t tasks_count;
	uint16_t up;
	uint16_t reason;
	uint16_t devices;	/* indexes in use, from 0 */
	uint16_t devices_whole; /* those with a capacity of one whole device */
	uint16_t devices_free;	/* available, whole and unused */
	uint16_t zero;
	uint32_t chunks[SK_NODE_CHUNKS];
};

/* One placed task that has not ended, with its shares. */
struct sk_task {
	uint32_t job;
	uint32_t node;
	struct sk_link on_node;
	uint32_t job_next; /* the job's tasks, by task number */
	uint32_t free_next;
	uint16_t task;
	uint16_t state;
	uint16_t shares_n;
	uint16_t ready; /* of a gang: it waits for the others, or has waited */
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};

struct sk_job {
	uint64_t id; /* 0: the slot is free */
	uint64_t client;
	uint64_t spec_hash;
	uint64_t submit_ns;
	uint64_t place_ns;
	uint64_t end_ns;
	uint64_t latency_ns;
	uint64_t observations[SK_OBSERVATIONS_MAX];
	uint64_t node;	      /* id of task 0's node in the last attempt */
	uint64_t attained_ns; /* device time of the attempts that ended */
	uint64_t charged_ns;  /* device time of this attempt, as reported while it runs */
	uint64_t spent_ns;    /* device time of this attempt, by its tasks that ended */
	uint64_t not_before_ns;
	uint32_t uid;
	uint32_t tenant;
	uint32_t queue; /* slot */
	uint32_t attempt;
	uint32_t candidates;
	int32_t exit_code;
	int32_t signal;
	uint32_t hash_next;
	struct sk_link order;  /* among live jobs by id, or among ended ones by end */
	struct sk_link queued; /* while pending and not held, in its queue; while doomed, among
				  those that are */
	uint32_t tasks_first;
	uint32_t free_next;
	uint32_t delayed_at;   /* its place in `delayed` while held by time, from 1 */
	struct sk_list afters; /* the waits of others for this one's end */
	uint32_t afters_n;
	uint16_t level; /* level in the pending list of its queue, while queued */
	uint16_t tasks_live;
	uint16_t reason;
	uint16_t place_reason;
	uint16_t retried;
	uint16_t preemptions;
	uint16_t ready; /* tasks of a gang that were ready in this attempt; all: they may run */
	uint8_t waits;	/* bit n: it waits for the end of request.after[n] */
	uint8_t unmet;	/* the one of request.after, from 1, that ended otherwise than wanted */
	uint8_t state;
	uint8_t verdict; /* state in which it will end once its other tasks have ended; 0 none
			    yet. SK_PENDING: it was preempted and will wait again */
	uint8_t hold;	 /* enum sk_hold */
	uint8_t last;	 /* cancelled while it had tasks: it does not wait again, however it ends */
	uint8_t met;	 /* bit n: the range request.after[n] has ended as it wants it */
	uint8_t zero[3];
	uint32_t flags;
	uint32_t preferred;  /* bit n: where it was placed last, preference n + 1 is met */
	uint32_t unlaunched; /* attempts in a row that their nodes could not launch */
	/* The members from here on are written once, when the job comes. The wish alone changes,
	 * with new traits of devices, and is never reverted. */
	struct sk_wish wish; /* the devices that the request accepts */
	struct sk_request request;
};
#define SK_JOB_COURSE offsetof(struct sk_job, wish) /* bytes that change while it lives */

/* One job waits for the end of another. Its place says who: the slot of the job that waits, times
 * SK_JOB_AFTERS_MAX, and the place of the other one in request.after. */
struct sk_wait {
	struct sk_link link; /* among those that wait for the same job */
};

struct sk_key {
	uint64_t client;
	uint64_t key[2];
	uint64_t spec_hash;
	uint64_t job; /* 0: the slot is free */
	uint64_t at_ns;
	uint32_t hash_next;
	uint32_t owner;
	struct sk_link order; /* oldest first, of all clients */
	struct sk_link own;   /* oldest first, of its client */
	uint32_t free_next;
};

/* A client that has keys. */
struct sk_key_owner {
	uint64_t client;
	struct sk_list keys; /* oldest first */
	uint32_t count;
	uint32_t hash_next;
	struct sk_link order;
	uint32_t free_next;
};

/* Unused slots: those given back come first, then those never used. */
struct sk_pool {
	uint32_t free_first;
	uint32_t fresh;
	uint32_t end;
	uint32_t used;
};

/* The domains of nodes that were looked for last, for one job; scratch, and no part of the state.
 */
struct sk_domains {
	uint32_t stride;
	uint32_t count;
	uint32_t *nodes;   /* `count` domains, each by its first node; level.c says in what order */
	uint32_t *next;	   /* by domain: the next one of its bucket */
	uint32_t *last;	   /* by domain: its last node */
	uint32_t *member;  /* by node: the next node of its domain; 0: there is none */
	uint32_t *buckets; /* `stride` */
	uint64_t *labels;  /* by domain: a hash of its labels */
	uint64_t *room;	   /* by domain: what the caller adds up */
};

/* Chains of slots by hash of a 64-bit id. */
struct sk_table {
	uint32_t *buckets;
	uint32_t mask;
};

/* The speed of one device model for one series of jobs: the time of a unit of work. */
struct sk_speed {
	uint64_t series;
	uint64_t ns[SK_SPEED_SAMPLES_MAX]; /* that of job n is at n modulo their number */
	uint64_t median_ns;
	uint32_t jobs;	 /* jobs that were measured, up to the largest number */
	uint8_t model;	 /* position among the models, from 1 */
	uint8_t measure; /* enum sk_measure */
	uint16_t zero;
	uint32_t hash_next;
	struct sk_link order; /* the one that was measured last comes last */
	uint32_t free_next;
};

/* The set of node slots of each class, ordered by class, then slot. */
struct sk_index {
	uint64_t *bits;
	uint32_t *counts;
	uint64_t *classes_used;
	uint32_t classes;
	uint32_t words;
};

/* Pending jobs of one kind in one queue, by level (0 goes first) and by id within one. Where the
 * order is FAIR, `levels` lists the lines of users. */
struct sk_pending {
	struct sk_list levels[SK_LEVELS];
	uint64_t used[SK_LEVELS / 64];
	uint64_t count;
};

/* One user in one queue whose order is FAIR, with the amounts that its placed tasks hold. */
struct sk_account {
	uint64_t client;
	uint64_t milli;
	uint64_t cpu;
	uint64_t memory;
	uint64_t started; /* tasks that were placed up to the last start of a job; 0: none was */
	struct sk_link order; /* once one was: the one that started last comes last */
	uint32_t queue;	      /* slot */
	uint32_t live;	      /* jobs of the user in the queue, pending or placed */
	uint32_t hash_next;
	uint32_t free_next;
};

/* The queued jobs of one user in one queue on one level, where the order is FAIR. */
struct sk_user_line {
	uint32_t account;
	uint16_t kind;
	uint16_t level;
	struct sk_list jobs; /* by id */
	struct sk_link link; /* among the lines of the level */
	uint32_t hash_next;
	uint32_t free_next;
};

enum sk_queue_kind { SK_QUEUE_HOST, SK_QUEUE_DEVICE, SK_QUEUE_KINDS };

struct sk_quota {
	uint64_t model; /* 0: all devices */
	uint64_t guaranteed_milli;
	uint64_t limit_milli;
	uint64_t used_milli; /* by the queue and all below it */
};

/* Slots 1 and 2 are always in use; `parent` is a slot, 0 only for the root. */
struct sk_queue {
	uint32_t id;
	uint32_t in_use;
	uint32_t parent;
	uint32_t depth;
	uint32_t children;
	uint32_t hash_next;
	uint32_t weight;
	uint16_t order;
	uint16_t placement;
	uint32_t quotas_n;
	uint32_t zero;
	uint64_t live;	      /* its own jobs, pending or placed */
	uint64_t pending_all; /* queued jobs of it and all below */
	uint64_t used_milli;  /* milli in use by placed tasks of it and all below */
	uint64_t cpu_used;
	uint64_t memory_used;
	uint64_t usage_ns; /* device time, decayed as of usage_at_ns */
	uint64_t usage_at_ns;
	struct sk_quota quotas[SK_QUEUE_QUOTAS_MAX];
};

/* Placed tasks of one group, for SK_ATTRACT and SK_REPEL. */
struct sk_group {
	uint64_t id;
	uint32_t tasks;
	uint32_t hash_next;
	uint32_t free_next;
	uint32_t zero;
};

struct sk_counters {
	uint64_t commands;
	uint64_t submitted;
	uint64_t duplicates;
	uint64_t placed;
	uint64_t forgotten;
	uint64_t keys_forgotten;
	uint64_t keys_forgotten_young;
	uint64_t refused;
	uint64_t retried;
	uint64_t preempted;
	uint64_t ended[SK_STATE_END];
	uint64_t ignored[SK_REFUSAL_END];
};

struct sk_observed {
	uint64_t id;
	uint64_t load_milli;
};

struct sk_journal {
	uint8_t *bytes;
	uint64_t capacity;
	uint64_t used;
	uint64_t used_max;
	uint64_t reserve; /* bytes kept for the loss of the fullest node */
	bool on;
	bool cut; /* part of a command was left out on trial for want of room */
};

#define SK_CHANGED_MAX 4096u /* changed nodes remembered, a power of two */

/* The change log, see changes.h. */
struct sk_changes {
	uint64_t count;	 /* changes so far; `nodes` has the last SK_CHANGED_MAX of them */
	uint64_t read;	 /* changes that the reader has seen */
	uint32_t *nodes; /* node slots, a ring */
};

struct sk_core {
	struct sk_limits limits;
	uint64_t term;
	uint64_t leader;
	uint64_t next_job;
	uint64_t now_ns;
	struct sk_counters counters;

	struct sk_node *nodes;
	uint64_t *node_slots; /* bitmap of slots in use */
	struct sk_table node_table;
	uint32_t nodes_count;
	uint32_t nodes_up;
	uint32_t nodes_with[SK_NODE_DEVICES_MAX + 1]; /* nodes by devices_whole */
	uint32_t nodes_of[SK_FAMILIES];		      /* nodes with such a device */
	uint64_t devices_count;
	uint64_t cpu_all; /* of all known nodes, as are the devices */
	uint64_t memory_all;

	struct sk_chunk *chunks;
	struct sk_pool chunk_pool;

	struct sk_index free_whole; /* up nodes by devices_free */
	struct sk_index free_part;  /* up nodes by free milli of their partly free devices */

	struct sk_task *tasks;
	struct sk_pool task_pool;

	struct sk_job *jobs;
	struct sk_wait *waits; /* SK_JOB_AFTERS_MAX for each job slot */
	struct sk_pool job_pool;
	struct sk_table job_table;
	struct sk_list live;	 /* pending and placed, by id */
	struct sk_list finished; /* by end, the first to be forgotten first */
	uint32_t live_count;
	uint32_t finished_count;

	uint64_t models[SK_MODELS_MAX]; /* by first appearance; they are never forgotten */
	struct sk_traits traits[SK_TRAITS_MAX + 1]; /* those no device has make room for new ones */
	uint32_t traits_n;			    /* positions in use, from 1 */
	uint32_t models_n;
	uint32_t delayed_n;
	uint32_t *delayed; /* binary heap of job slots by (not_before_ns, id), from 1 */
	struct sk_queue *queues;
	struct sk_pending *pending; /* SK_QUEUE_KINDS for each queue slot */
	struct sk_table queue_table;
	uint32_t queues_n;		 /* in use, the root and queue 0 among them */
	uint32_t queues_end;		 /* past the last slot in use */
	uint64_t queued[SK_QUEUE_KINDS]; /* jobs in all queues */
	struct sk_list doomed;		 /* pending jobs that can never start, by id */
	struct sk_account *accounts;
	struct sk_pool account_pool;
	struct sk_table account_table;
	struct sk_list accounts_order;
	uint32_t accounts_started; /* in this list */
	struct sk_user_line *user_lines;
	struct sk_pool user_line_pool;
	struct sk_table user_line_table;
	struct sk_group *groups;
	struct sk_pool group_pool;
	struct sk_table group_table;

	struct sk_key *keys;
	struct sk_pool key_pool;
	struct sk_table key_table;
	struct sk_list keys_order;
	struct sk_key_owner *key_owners;
	struct sk_pool key_owner_pool;
	struct sk_table key_owner_table;
	struct sk_list key_owners_order;

	struct sk_speed *speeds;
	struct sk_pool speed_pool;
	struct sk_table speed_table;
	struct sk_list speeds_order;

	struct sk_observed *observed; /* by node slot; not replicated */
	struct sk_journal journal;
	uint64_t size;
	struct sk_domains *domains;
	struct sk_changes *changes; /* neither replicated nor undone */
	struct sk_hints *hints;	    /* inputs of choices beyond the state: neither replicated nor
				       undone */
};

#endif
