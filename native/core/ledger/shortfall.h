/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortfall of nodes and queues for a waiting job, now or once running jobs have ended as
 * estimated. Invariants: nothing here writes; for the present, a task fits by this count exactly if
 * task.c would take it.
 */
#ifndef SK_CORE_LEDGER_SHORTFALL_H
#define SK_CORE_LEDGER_SHORTFALL_H

#include "core/ledger/limits.h"
#include "core/state/state.h"

/* The needs of a job: first amounts that are not free, then conditions that keep it off a node. */
enum sk_need {
	SK_NEED_DEVICES,
	SK_NEED_DEVICE_MEMORY,
	SK_NEED_LINK,
	SK_NEED_NUMA,
	SK_NEED_ONE_VENDOR,
	SK_NEED_CPU,
	SK_NEED_MEMORY,
	SK_NEED_PLACE,
	SK_NEED_MODEL,
	SK_NEED_CONDITIONS,
	SK_NEED_LABELS,
	SK_NEED_TOLERATION,
	SK_NEED_RESERVATION,
	SK_NEED_GROUP,
	SK_NEED_LEVEL,
	SK_NEEDS
};

/* The shortfalls of the up nodes, each with the node where it is smallest. */
struct sk_shortfall {
	struct sk_explain need[SK_NEEDS];
	struct sk_explain unavailable;
	uint64_t places; /* tasks of this kind that fit together */
	uint64_t first;	 /* node of the first of them */
	bool looked;
};

/* Tasks of this job for which a node has room at that time, whether it may have them or not;
 * `shortfall` may be NULL. */
uint64_t sk_shortfall_room(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t at_ns,
			   struct sk_blocked blocked, struct sk_shortfall *shortfall);
/* Returns the same of a node that may have them, and 0 of any other. */
uint64_t sk_shortfall_node(const struct sk_core *core, uint32_t job, uint32_t node, uint64_t at_ns,
			   struct sk_blocked blocked, struct sk_shortfall *shortfall);

/* Tasks of this job that all up nodes can take at that time, counted as its options place them:
 * anywhere, each on a node of its own, or all on one. The count ends at `enough` if `shortfall` is
 * NULL. */
uint64_t sk_shortfall_all(const struct sk_core *core, uint32_t job, uint64_t at_ns,
			  struct sk_blocked blocked, uint64_t enough,
			  struct sk_shortfall *shortfall);

#endif
