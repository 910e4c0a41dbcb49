/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement scores: what a placement costs the requests that are likely to come. Invariant: the
 * scores are pure integer functions of one node and a table of typical requests. They use no state,
 * allocation, float or clock, and give the same results on every machine.
 * docs/developer/placement.md has the formulas and their reasons.
 */
#ifndef SK_CORE_POLICY_FRAG_H
#define SK_CORE_POLICY_FRAG_H

#include <stdbool.h>
#include <stdint.h>

#define SK_FRAG_DEVICES_MAX 64	/* of one node */
#define SK_FRAG_CLASSES_MAX 256 /* typical requests of one table */
#define SK_FRAG_MILLI 1000	/* one whole device */

enum sk_frag_policy {
	SK_FRAG_DEFAULT = 0, /* typical requests lost, processors kept where devices need them */
	SK_FRAG_FGD = 1,     /* fragmentation gradient descent, Weng et al., USENIX ATC'23 */
};

/* One typical request: `count` devices of `gpu_milli` each; if either is 0 it needs no device.
 * `models` are the bits of the models it may run on, 0 for any. `weight` is its frequency in any
 * unit. FGD as published ignores memory; give it classes without memory, so that requests that
 * differ in memory alone are one class. For the default, a class does not fit where its memory is
 * not free. */
struct sk_frag_class {
	uint64_t memory_bytes;
	uint64_t models;
	uint32_t cpu_milli;
	uint32_t weight;
	uint16_t gpu_milli;
	uint16_t count;
};

/* A request to place on one node; if `count` is above 1, on as many different devices. */
struct sk_frag_request {
	uint64_t cpu_milli;
	uint64_t memory_bytes;
	uint64_t models; /* 0 for any */
	uint16_t gpu_milli;
	uint16_t count;
};

/* The classes in the form that the scores read: lanes of classes that need devices. Only
 * sk_frag_table_init writes it. */
struct sk_frag_table {
	uint32_t policy;
	uint32_t lanes;	 /* in use, a multiple of 8 */
	uint64_t equals; /* device milli that one cpu milli stands for, times 2^24; 0 unknown */
	uint32_t cpu[SK_FRAG_CLASSES_MAX];
	uint32_t memory[SK_FRAG_CLASSES_MAX]; /* MiB */
	uint32_t milli[SK_FRAG_CLASSES_MAX];
	uint32_t count[SK_FRAG_CLASSES_MAX];
	uint32_t inverse[SK_FRAG_CLASSES_MAX]; /* of milli, times 2^20; 0 where count is above 1 */
	uint32_t several[SK_FRAG_CLASSES_MAX]; /* 1 where count is above 1 */
	uint32_t divide[SK_FRAG_CLASSES_MAX];  /* inverse of count, times 2^16 */
	uint32_t share[SK_FRAG_CLASSES_MAX];   /* share of all requests, times 2^16 */
	uint32_t worth[SK_FRAG_CLASSES_MAX];   /* worth of one request of the class, in milli
						  times 2^8 */
	uint32_t models_low[SK_FRAG_CLASSES_MAX];
	uint32_t models_high[SK_FRAG_CLASSES_MAX];
	uint32_t models_any[SK_FRAG_CLASSES_MAX];
};

/* A node. The caller fills the free amounts, then calls sk_frag_node_prepare, again after every
 * change. */
struct sk_frag_node {
	uint64_t cpu_free; /* milli */
	uint64_t memory_free;
	uint64_t models; /* bit of the node's model, 0 for none */
	uint16_t devices;
	uint16_t free[SK_FRAG_DEVICES_MAX]; /* milli, at most 1000; 0 where nothing may be placed */
	/* Filled by sk_frag_node_prepare: */
	uint16_t kinds; /* kinds of devices, by free milli above 0, in order of the first of each */
	uint16_t kind_free[SK_FRAG_DEVICES_MAX];
	uint16_t kind_many[SK_FRAG_DEVICES_MAX];
	uint8_t kind_first[SK_FRAG_DEVICES_MAX];
	uint32_t idle;	   /* free milli of all devices */
	int32_t shortfall; /* shortfall of processors for these, -1024 (plenty) to 1024 (none) */
	int64_t before;	   /* score as it is: waste (FGD) or worth (default) */
	uint32_t takes[SK_FRAG_CLASSES_MAX]; /* for each class the requests (default) or devices
						(FGD) that fit */
	uint32_t milli[SK_FRAG_CLASSES_MAX]; /* FGD: milli of devices that each class can use */
};

/* The place of one request on a node. Costs of the same request compare between nodes: the lowest
 * is best, among equals the first node. FGD costs are 1 to 100, so that many are equal; the
 * published results have the nodes in random order. Default costs have any sign. */
struct sk_frag_place {
	int64_t cost;
	uint64_t devices; /* bits of their indexes; 0 for a request without devices */
};

/* Fill the table. -E2BIG: more than SK_FRAG_CLASSES_MAX; -EINVAL: unknown policy, a class of more
 * than 1000 milli a device or of more than SK_FRAG_DEVICES_MAX devices. An empty table is valid:
 * the costs of the default are then best fit alone, those of FGD are equal for all nodes. */
int sk_frag_table_init(struct sk_frag_table *table, enum sk_frag_policy policy,
		       const struct sk_frag_class *classes, uint32_t count);

/* Score the node as it is. FGD: the fragment amount, free milli that a request drawn from the
 * classes cannot use on average, times 2^16. Default: the worth, requests of each class that fit
 * the free devices, weighted by their frequency, in milli times 2^8. */
void sk_frag_node_prepare(const struct sk_frag_table *table, struct sk_frag_node *node);

/* The best place for this request on a node prepared with this table; false if it does not fit. */
bool sk_frag_place(const struct sk_frag_table *table, const struct sk_frag_node *node,
		   const struct sk_frag_request *request, struct sk_frag_place *ret);

#endif
