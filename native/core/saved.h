/* SPDX-License-Identifier: Apache-2.0
 *
 * The state as bytes. Relied on by snapshot.c and restore.c. Layout: sk_saved_head, then nodes by
 * slot each with its devices, live jobs by id, ended jobs by end, tasks by node slot in order of
 * placing, keys from the oldest. Lists are saved in their order and indexes not at all, so equal
 * states give equal bytes whatever their history. Another layout is another SK_SAVED_VERSION.
 */
#ifndef STOKER_CORE_SAVED_H
#define STOKER_CORE_SAVED_H

#include "core/state.h"

#define SK_SAVED_MAGIC 0x3165726f63726b73ull /* "skrcore1" */
#define SK_SAVED_VERSION 1u

struct sk_saved_head {
	uint64_t magic;
	uint64_t digest; /* of all bytes after this field */
	uint64_t size;
	uint32_t version;
	uint32_t zero;
	struct sk_limits limits;
	uint32_t nodes;
	uint64_t term;
	uint64_t leader;
	uint64_t next_job;
	uint64_t now_ns;
	uint32_t live;
	uint32_t finished;
	uint32_t tasks;
	uint32_t keys;
	struct sk_counters counters;
};
_Static_assert(sizeof(struct sk_saved_head) == 112 + sizeof(struct sk_counters), "stored layout");
_Static_assert(sizeof(struct sk_counters) == 8 * (7 + 10 + 42), "stored layout");

struct sk_saved_node {
	uint64_t id;
	uint64_t boot;
	uint64_t boot_before;
	uint64_t incarnation;
	uint64_t memory;
	uint32_t cpu;
	uint32_t slot;
	uint16_t up;
	uint16_t reason;
	uint16_t devices;
	uint16_t zero;
};
_Static_assert(sizeof(struct sk_saved_node) == 56, "stored layout");

struct sk_saved_device {
	uint64_t memory_bytes;
	uint64_t owner;
	uint16_t capacity;
	uint16_t available;
	uint16_t reason;
	uint16_t zero;
};
_Static_assert(sizeof(struct sk_saved_device) == 24, "stored layout");

struct sk_saved_job {
	struct sk_job_view view;
	uint16_t verdict;
	uint16_t zero[3];
};
_Static_assert(sizeof(struct sk_saved_job) == 160, "stored layout");

struct sk_saved_task {
	uint64_t job;
	uint32_t node_slot;
	uint16_t task;
	uint16_t state;
	uint16_t shares_n;
	uint16_t zero[3];
	struct sk_share shares[SK_TASK_DEVICES_MAX];
};
_Static_assert(sizeof(struct sk_saved_task) == 88, "stored layout");

struct sk_saved_key {
	uint64_t client;
	uint64_t key[2];
	uint64_t spec_hash;
	uint64_t job;
};
_Static_assert(sizeof(struct sk_saved_key) == 40, "stored layout");

void sk_job_view_fill(const struct sk_job *job, struct sk_job_view *ret);

#endif
