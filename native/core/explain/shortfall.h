/* SPDX-License-Identifier: Apache-2.0
 *
 * What nodes and queues lack for a waiting job, now or once running jobs have ended as estimated.
 * Relied on by explain.c and expect.c. Reads only. Invariant: as of now, a task that fits by this
 * count is one that task.c would take.
 */
#ifndef SK_CORE_EXPLAIN_SHORTFALL_H
#define SK_CORE_EXPLAIN_SHORTFALL_H

#include "core/explain/limits.h"
#include "core/state/state.h"

/* First what is not free, then what keeps the job off a node whatever is free there. */
enum sk_need {
	SK_NEED_DEVICES,
	SK_NEED_DEVICE_MEMORY,
	SK_NEED_LINK,
	SK_NEED_ONE_VENDOR,
	SK_NEED_CPU,
	SK_NEED_MEMORY,
	SK_NEED_PLACE,
	SK_NEED_MODEL,
	SK_NEED_LABELS,
	SK_NEED_TOLERATION,
	SK_NEED_RESERVATION,
	SK_NEED_GROUP,
	SK_NEEDS
};

/* What the up nodes lack, each need with the node that lacks least. */
struct sk_shortfall {
	struct sk_explain need[SK_NEEDS];
	struct sk_explain unavailable;
	uint64_t places; /* tasks of this kind that fit together */
	uint64_t first;	 /* the node of the first of them */
	bool looked;
};

/* Tasks of this job that a node can take at that time; `lacks` may be NULL. */
uint64_t sk_shortfall_node(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t at_ns,
			   struct sk_blocked blocked, struct sk_shortfall *shortfall);

/* The same over all up nodes, counted as the job's options want its tasks: anywhere, each on a
 * node of its own, or all on one. Ends early at `enough` places where `lacks` is NULL. */
uint64_t sk_shortfall_all(const struct sk_core *core, uint32_t job, uint64_t at_ns,
			  struct sk_blocked blocked, uint64_t enough,
			  struct sk_shortfall *shortfall);

#endif
