/* SPDX-License-Identifier: Apache-2.0
 *
 * Speeds: how long one device model takes for a unit of work of one series of jobs, measured by
 * jobs that ended. Invariants: a speed is the median of the newest samples; at most SK_SPEEDS_MAX
 * are kept, and the one that was measured longest ago makes room.
 */
#ifndef SK_CORE_LEDGER_SPEED_H
#define SK_CORE_LEDGER_SPEED_H

#include "core/ledger/effect.h"

#define SK_SPEED_NS_MAX (UINT64_C(1) << 56) /* longer times count as this, about two years */

/* Take what the end of a task says of the speed of its devices, while it still holds them. */
void sk_speed_measure(const struct sk_act *act, uint32_t task, const struct sk_outcome *command);

/* The slot of a speed, or 0. */
uint32_t sk_speed_find(const struct sk_core *core, uint64_t series, enum sk_measure measure,
		       uint32_t model);
/* The first speed of a hash chain that holds all those of a series, and the next one of the
 * series; 0: none. */
uint32_t sk_speed_first(const struct sk_core *core, uint64_t series);
uint32_t sk_speed_next(const struct sk_core *core, uint32_t slot);

/* Add a speed with all of its samples; it is not there, and there is room. */
void sk_speed_put(struct sk_core *core, uint64_t series, enum sk_measure measure, uint32_t model,
		  const uint64_t ns[SK_SPEED_SAMPLES_MAX], uint32_t jobs);

/* Fill a view of the speed in this slot. */
void sk_speed_view_fill(const struct sk_core *core, uint32_t slot, struct sk_speed_view *ret);

#endif
