/* SPDX-License-Identifier: Apache-2.0
 *
 * The scheduler core: a deterministic state machine in memory of the caller. Invariants: nothing
 * here allocates, locks, calls the system, reads a clock or compares floats. The same memory image
 * and the same inputs give the same bytes. Every call either takes full effect or none. README.md
 * lists the folders.
 */
#ifndef SK_CORE_CORE_H
#define SK_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire_array.h"
#include "core/wire_view.h"

struct sk_core;

/* Named maxima, each at least 1. They are part of the state and of its digest. */
struct sk_limits {
	uint32_t nodes;
	uint32_t devices;
	uint32_t jobs;	     /* waiting and placed */
	uint32_t finished;   /* ended ones kept */
	uint32_t tasks;	     /* placed tasks of all jobs */
	uint32_t node_tasks; /* placed tasks of one node */
	uint32_t keys;	     /* idempotency keys kept */
	uint32_t queues;     /* besides the root and queue 0 */
};

/* The bytes that these limits need, or 0 if a limit is 0 or too large (SK_*_LIMIT_MAX in
 * state.h). */
size_t sk_core_memsize(const struct sk_limits *limits);

/* `memory` is aligned to 64 bytes and `size` is at least sk_core_memsize; otherwise -EINVAL. */
int sk_core_init(void *memory, size_t size, const struct sk_limits *limits, struct sk_core **ret);

/* The output of propose; the arrays belong to the caller. */
struct sk_proposal {
	uint8_t *commands;
	size_t commands_capacity; /* at least the requests' size + SK_DECISIONS_BYTES_MAX */
	size_t commands_size;
	struct sk_rejected *rejected;
	uint32_t rejected_capacity; /* at least one per request */
	uint32_t rejected_count;
	bool more; /* a bound was reached, not the end of the queue */
};

/* Room for all placements and for as many preemptions. */
#define SK_DECISIONS_BYTES_MAX (2 * SK_BATCH_PLACES_MAX * sizeof(struct sk_place))

/* Decide on these requests and on the waiting jobs. The state is unchanged when this returns.
 * -EBADMSG: the bytes are no batch of requests. -E2BIG: more than SK_BATCH_REQUESTS_MAX. -ENOBUFS:
 * an output array is smaller than stated in sk_proposal. */
int sk_core_propose(struct sk_core *core, const void *requests, size_t size, uint64_t now_ns,
		    uint64_t seed, struct sk_proposal *proposal);

/* Write the measured latency into each PLACE of a batch that propose made. */
void sk_core_stamp(void *commands, size_t size, uint64_t latency_ns);

struct sk_effects {
	struct sk_effect *records;
	uint32_t capacity;
	uint32_t count;
	uint32_t needed; /* after -ENOBUFS: the capacity that the next command needs */
};

/* Carry out a batch. The whole buffer is checked first, and -EBADMSG changes nothing. Each command
 * (the PLACEs of a gang are one) takes full effect or none. If the effects of the next command may
 * not fit, this stops with -ENOBUFS, and `*consumed` is less than `size`. The caller then takes the
 * effects and calls again with the rest, with `first` raised by the number of records consumed. */
int sk_core_apply(struct sk_core *core, const void *commands, size_t size, uint32_t first,
		  uint64_t now_ns, struct sk_effects *effects, size_t *consumed);

/* The functions from here to sk_core_workload feed the hints of this replica, which are no part of
 * the state, its digest or its snapshots. -ENOENT: unknown node or device. The load of a node is in
 * milli of any scale; `observation` is the id that decisions name. */
int sk_core_observe(struct sk_core *core, uint64_t node, uint64_t observation, uint32_t load_milli);

#define SK_SAMPLE_POWER 1u
#define SK_SAMPLE_TEMPERATURE 2u
#define SK_SAMPLE_LIMIT 4u
#define SK_SAMPLE_BUSY 8u
#define SK_SAMPLE_CAP 16u
#define SK_SAMPLE_CLOCK 32u
#define SK_SAMPLE_MEMORY 64u
#define SK_SAMPLE_SLOWED 128u /* heat, or a fault, holds its clock down */
#define SK_SAMPLE_WARNED 256u /* its health has a warning */
#define SK_SAMPLE_STALE 512u  /* the last figures were too old; they are taken away */
#define SK_SAMPLE_ALL 1023u
/* One observation of a device. A figure is unknown unless its bit in `known` is set. */
struct sk_sample {
	uint64_t id; /* id of the observation */
	uint32_t power_mw;
	uint32_t cap_mw;	/* power limit in force */
	int32_t temperature_mc; /* thousandths of a degree Celsius */
	int32_t limit_mc;	/* temperature at which it begins to slow down */
	uint32_t busy_ppm;
	uint32_t clock_ppm;  /* highest clock allowed now, as part of the highest there is */
	uint32_t memory_ppm; /* part of its memory in use */
	uint32_t known;
};
static_assert(sizeof(struct sk_sample) == 40, "binding layout");
int sk_core_observe_device(struct sk_core *core, uint64_t node, uint32_t index,
			   const struct sk_sample *sample);

/* Power of an unused and of a fully used device of this model, and of one socket of `socket_milli`
 * processors (0: unknown). -EINVAL: full is below idle. -ENOSPC: too many models. */
int sk_core_model_power(struct sk_core *core, uint64_t model, uint32_t idle_mw, uint32_t full_mw);
int sk_core_cpu_power(struct sk_core *core, uint32_t socket_milli, uint32_t idle_mw,
		      uint32_t full_mw);

#define SK_CLASSES_MAX 128u
/* A typical request; `weight` is its frequency in any unit. */
struct sk_class {
	uint64_t memory_bytes;
	uint64_t models[SK_JOB_MODELS_MAX]; /* models that it accepts, as in a request */
	uint32_t cpu_milli;
	uint32_t gpu_milli;
	uint32_t weight;
	uint32_t zero;
};
static_assert(sizeof(struct sk_class) == 88, "binding layout");
/* Set the expected requests; with 0 classes they are counted from recent submits. -E2BIG,
 * -EINVAL. */
int sk_core_workload(struct sk_core *core, const struct sk_class *classes, uint32_t count);
/* Expect the requests that were counted so far, although fewer than SK_CLASSES_EVERY; those of the
 * jobs in a restored snapshot count as well. Returns the number of classes, 0 while others are
 * given. */
uint32_t sk_core_workload_learn(struct sk_core *core);

#define SK_EVIDENCE_MAX 2048u	     /* newest decisions whose evidence is kept */
#define SK_EVIDENCE_NODE 4294967295u /* no device was rated, but the node */
#define SK_EVIDENCE_NODES_MAX 128u   /* nodes among which the next best score is sought */
#define SK_EVIDENCE_UNSOUGHT 1u	     /* it was not: there are more nodes */
/* The part of an evidence about one node: the device that decided and its sample at that time. */
struct sk_evidence_side {
	uint64_t node;
	uint64_t observation; /* id of the node's observation; 0: none was there */
	struct sk_sample sample;
	uint64_t score; /* the rating of the node, lower is better; of SCORED the rank it was told,
			   higher is better */
	uint32_t index; /* device, or SK_EVIDENCE_NODE */
	uint32_t load_milli;
	uint32_t figure;   /* the figure that was compared, lower is better: mW added, degrees from
			      SK_DEGREES_MAX down, steps of load, steps of slowness, or the node's
			      load */
	uint32_t measure;  /* enum sk_measure, for the speed below; 0: none is known */
	uint64_t speed_ns; /* median time that the device's model took for a unit of work */
	uint64_t speed_least; /* this and the next one count the newest jobs */
	uint64_t speed_most;
	uint32_t speed_jobs;
	uint32_t zero;
};
static_assert(sizeof(struct sk_evidence_side) == 112, "binding layout");
/* The evidence of a placement by signals or scores; `sides` is 2 with that of the next best, and 1
 * where there was no other. */
struct sk_evidence {
	uint64_t job;
	uint32_t attempt;
	uint16_t task;
	uint16_t placement;
	uint16_t reason;
	uint16_t sides;
	uint32_t flags; /* SK_EVIDENCE_UNSOUGHT */
};
static_assert(sizeof(struct sk_evidence) == 24, "binding layout");
/* Fill what this replica read when it placed a task, first of the chosen. -ENOENT: it did not, or
 * too many decisions ago. */
int sk_core_evidence(const struct sk_core *core, uint64_t job, uint32_t attempt, uint32_t task,
		     struct sk_evidence *ret, struct sk_evidence_side sides[2]);

#define SK_CHOICES_MAX 64u /* jobs whose latest choice is kept */
/* The rank that a scoring function gives a node; the highest is the best. */
struct sk_choice_row {
	uint64_t node;
	uint64_t rank;
};
static_assert(sizeof(struct sk_choice_row) == 16, "binding layout");
/* Tell what a scoring function said for an attempt of a job with the placement SCORED, or by
 * `reason` why it said nothing, so that the policy BEST is used. -EINVAL: too many rows, or both.
 */
int sk_core_choice(struct sk_core *core, uint64_t job, uint32_t attempt, uint16_t reason,
		   const struct sk_choice_row *rows, uint32_t count);

#define SK_CANDIDATES_MAX 256u
/* A node on which a task would fit, and the devices it would take. */
struct sk_candidate {
	uint64_t node;
	uint64_t observation; /* 0: never observed */
	uint64_t cost;	      /* cost label of the node; UINT64_MAX: it has none */
	uint64_t cpu_free;
	uint64_t memory_free;
	uint32_t load_milli;
	uint32_t tasks;
	uint32_t rating; /* rating by SK_PLACEMENT_BEST, lower is better */
	uint32_t adds_mw;
	uint16_t devices_free;
	uint16_t shares_n;
	uint32_t zero;
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
static_assert(sizeof(struct sk_candidate) == 128, "binding layout");
/* List nodes for the next task of a pending job whose first `count` tasks would go to `places`, at
 * most `capacity` of them, beginning at a node chosen by `seed`. Returns their number. -ENOENT: no
 * pending job has this id. -EINVAL: those places are impossible. The state is unchanged when this
 * returns. */
int sk_core_candidates(struct sk_core *core, uint64_t job, const struct sk_place *places,
		       uint32_t count, uint64_t now_ns, uint64_t seed,
		       struct sk_candidate *candidates, uint32_t capacity);

/* Bring at most `budget` stale ratings up to date, so that the next decisions need not. A leader
 * calls this when it has nothing to decide. */
#define SK_SETTLE_EACH 256u /* budget after each apply, some 10 us at most */
void sk_core_settle(struct sk_core *core, uint32_t budget);
/* True if every kept rating equals a rating computed from scratch. */
bool sk_core_scores_check(struct sk_core *core);

uint64_t sk_core_digest(const struct sk_core *core);
size_t sk_core_snapshot_size(const struct sk_core *core);
/* `size` is exactly sk_core_snapshot_size. */
int sk_core_snapshot(const struct sk_core *core, void *bytes, size_t size);
/* The limits that a snapshot was made with, so that the caller can provide the memory. */
int sk_core_snapshot_limits(const void *bytes, size_t size, struct sk_limits *ret);
/* -EBADMSG: the bytes are no sound state; the memory is unusable then. */
int sk_core_restore(void *memory, size_t memory_size, const void *bytes, size_t size,
		    struct sk_core **ret);
/* Restore a snapshot into a core of other limits, as an entry that changes them requires; the
 * memory is sk_core_memsize(limits). -ENOSPC: the state does not fit into these limits. */
int sk_core_resize(void *memory, size_t memory_size, const void *bytes, size_t size,
		   const struct sk_limits *limits, struct sk_core **ret);

/* Returns NULL, or the name of the first broken invariant. */
const char *sk_core_check(const struct sk_core *core);
/* Digest of the raw memory without the journal; it is equal before and after propose. */
uint64_t sk_core_memory_digest(const struct sk_core *core);

/* Write up to `capacity` lines, the most important first; returns their number, 0 for an unknown
 * job. */
uint32_t sk_core_explain(const struct sk_core *core, uint64_t job, struct sk_explain *lines,
			 uint32_t capacity);

/* Returns the reason for which a SK_PREEMPT_MOVE of the job would be refused now, or
 * SK_REASON_NONE. NOT_PREEMPTIBLE: it may not run again; NO_NODE_FITS: no node that takes jobs
 * could run it, were it empty; UNCHANGED: all of its nodes take jobs. */
uint16_t sk_core_move_refusal(const struct sk_core *core, uint64_t job);

/* Views return -ENOENT for unknown ids; counts are the number of records written. */
int sk_core_job(const struct sk_core *core, uint64_t job, struct sk_job_view *ret);
int sk_core_node(const struct sk_core *core, uint64_t node, struct sk_node_view *ret);
uint32_t sk_core_nodes(const struct sk_core *core, uint64_t *ids, uint32_t capacity);
uint32_t sk_core_devices(const struct sk_core *core, uint64_t node, struct sk_device_view *views,
			 uint32_t capacity);
uint32_t sk_core_node_tasks(const struct sk_core *core, uint64_t node, struct sk_task_view *views,
			    uint32_t capacity);
uint32_t sk_core_job_tasks(const struct sk_core *core, uint64_t job, struct sk_task_view *views,
			   uint32_t capacity);
uint32_t sk_core_labels(const struct sk_core *core, uint64_t node, struct sk_label_view *views,
			uint32_t capacity);
int sk_core_queue(const struct sk_core *core, uint32_t queue, uint64_t now_ns,
		  struct sk_queue_view *ret);
/* Write the ids of all queues except the root, by slot. */
uint32_t sk_core_queues(const struct sk_core *core, uint32_t *ids, uint32_t capacity);
/* Write the speeds of a series, of all series for 0, from the one measured first. */
uint32_t sk_core_speeds(const struct sk_core *core, uint64_t series, struct sk_speed_view *views,
			uint32_t capacity);
/* Returns the entry time at which the first held job may start, 0 if there is none. Until then
 * propose has nothing to do unless something happens. */
uint64_t sk_core_due(const struct sk_core *core);
/* Returns the entry time before which an unknown key of this client may have been forgotten; 0:
 * none was. */
uint64_t sk_core_key_window(const struct sk_core *core, uint64_t client, const uint64_t key[2]);
uint64_t sk_core_term(const struct sk_core *core);
uint64_t sk_core_leader(const struct sk_core *core);
void sk_core_limits(const struct sk_core *core, struct sk_limits *ret);

/* Read one counter by position; returns NULL past the last one. */
const char *sk_core_counter(const struct sk_core *core, uint32_t position, uint64_t *ret);

#endif
