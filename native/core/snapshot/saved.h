/* SPDX-License-Identifier: Apache-2.0
 *
 * The state as bytes. The parts follow each other in this order: sk_saved_head, queues by slot,
 * nodes by slot (each with its devices), live jobs by id, ended jobs by end, tasks by node slot in
 * order of placing, keys from the oldest, speeds from the one measured first, accounts of users
 * that started a job from the one longest ago. Invariants: lists are saved in their order and
 * indexes not at all, so that equal states give equal bytes whatever their history. Another layout
 * has another SK_SAVED_VERSION.
 */
#ifndef SK_CORE_SNAPSHOT_SAVED_H
#define SK_CORE_SNAPSHOT_SAVED_H

#include "core/state/state.h"

#define SK_SAVED_MAGIC 0x3165726f63726b73ull /* "skrcore1" */
#define SK_SAVED_VERSION 9u

struct sk_saved_head {
	uint64_t magic;
	uint64_t digest; /* digest of all bytes after this field */
	uint64_t size;
	uint32_t version;
	uint32_t zero;
	struct sk_limits limits;
	uint32_t nodes;
	uint32_t queues; /* the root and queue 0 among them */
	uint64_t term;
	uint64_t leader;
	uint64_t next_job;
	uint64_t now_ns;
	uint32_t live;
	uint32_t finished;
	uint32_t tasks;
	uint32_t keys;
	uint32_t models;
	uint32_t traits;
	uint32_t speeds;
	uint32_t accounts; /* 0 below feature level 4 */
	struct sk_counters counters;
	uint64_t model[SK_MODELS_MAX];
	struct sk_traits trait[SK_TRAITS_MAX]; /* from position 1 */
};
_Static_assert(sizeof(struct sk_saved_head) ==
		       136 + sizeof(struct sk_counters) + 8 * SK_MODELS_MAX + 32 * SK_TRAITS_MAX,
	       "stored layout");
_Static_assert(sizeof(struct sk_counters) == 8 * (10 + 10 + 97), "stored layout");

/* Queues are saved by slot. A queue is never moved, but its slot may be lower than that of its
 * parent. */
struct sk_saved_queue {
	uint64_t usage_ns;
	uint64_t usage_at_ns;
	uint32_t slot;
	uint32_t parent; /* slot */
	uint32_t id;
	uint32_t weight;
	uint16_t order;
	uint16_t placement;
	uint32_t quotas;
	struct sk_quota_view quota[SK_QUEUE_QUOTAS_MAX]; /* used_milli is 0: it is summed on
							    restore */
};
_Static_assert(sizeof(struct sk_saved_queue) == 40 + 32 * SK_QUEUE_QUOTAS_MAX, "stored layout");

struct sk_saved_node {
	uint64_t id;
	uint64_t boot;
	uint64_t boot_before;
	uint64_t incarnation;
	uint64_t memory;
	uint64_t domain;
	uint64_t reserve_from_ns;
	uint64_t reserve_until_ns;
	uint32_t reserve_queue;
	uint32_t labels;
	uint32_t cpu;
	uint32_t slot;
	uint16_t up;
	uint16_t reason;
	uint16_t devices;
	uint16_t zero;
	struct sk_label label[SK_NODE_LABELS_MAX];
};
_Static_assert(sizeof(struct sk_saved_node) == 88 + 24 * SK_NODE_LABELS_MAX, "stored layout");

struct sk_saved_device {
	uint64_t memory_bytes;
	uint64_t owner;
	uint16_t capacity;
	uint16_t available;
	uint16_t reason;
	uint16_t link;
	uint16_t bus;
	uint16_t numa;
	uint16_t model;
	uint8_t family;
	uint8_t traits;
};
_Static_assert(sizeof(struct sk_saved_device) == 32, "stored layout");

struct sk_saved_job {
	struct sk_job_view view;
	uint16_t verdict;
	uint16_t last;
	uint16_t unlaunched;
	uint16_t met; /* 0 below feature level 4 */
};
_Static_assert(sizeof(struct sk_saved_job) == 680, "stored layout");

struct sk_saved_task {
	uint64_t job;
	uint32_t node_slot;
	uint16_t task;
	uint16_t state;
	uint16_t shares_n;
	uint16_t ready;
	uint16_t zero[2];
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
_Static_assert(sizeof(struct sk_saved_task) == 88, "stored layout");

struct sk_saved_key {
	uint64_t client;
	uint64_t key[2];
	uint64_t spec_hash;
	uint64_t job;
	uint64_t at_ns;
};
_Static_assert(sizeof(struct sk_saved_key) == 48, "stored layout");

struct sk_saved_speed {
	uint64_t series;
	uint64_t ns[SK_SPEED_SAMPLES_MAX];
	uint32_t jobs;
	uint16_t model;
	uint16_t measure;
};
_Static_assert(sizeof(struct sk_saved_speed) == 80, "stored layout");

struct sk_saved_account {
	uint64_t client;
	uint64_t started;
	uint32_t queue; /* slot */
	uint32_t zero;
};
_Static_assert(sizeof(struct sk_saved_account) == 24, "stored layout");

/* True for labels that are ascending with zeros behind the last. */
bool sk_saved_labels_ok(const struct sk_saved_node *saved);
/* True for a reservation that NODE_RESERVE would accept; the queue may have been dropped since. */
bool sk_saved_reserve_ok(const struct sk_saved_node *saved);
/* True for quotas that are ascending by models which were read. */
bool sk_saved_quotas_ok(const struct sk_core *core, const struct sk_saved_queue *saved);
/* True if only a job that ran has been judged, cancelled or retried. */
bool sk_saved_course_ok(const struct sk_saved_job *saved);
/* True for a speed of a model that was read, with all of its samples, which is not there yet. */
bool sk_saved_speed_ok(const struct sk_core *core, const struct sk_saved_speed *saved);

#endif
