/* SPDX-License-Identifier: Apache-2.0
 *
 * Pending jobs that may not start yet: until a time, or until another job has ended. Relied on by
 * job.c and by propose.c and apply.c, which release by time before anything else. Invariant: a
 * pending job is in exactly one of a queue, the heap of delayed ones, the list of a job it waits
 * for, or the list of the doomed.
 */
#ifndef SK_CORE_LEDGER_HOLD_H
#define SK_CORE_LEDGER_HOLD_H

#include "core/state/state.h"

/* The job waits until `not_before_ns`, which is set. */
void sk_hold_time(struct sk_core *core, uint32_t job);
/* The job waits for the end of another, live one. */
void sk_hold_after(struct sk_core *core, uint32_t job, uint32_t before);
/* The job it waited for ended badly: propose will cancel it. */
void sk_hold_doom(struct sk_core *core, uint32_t job);
/* Out of whatever holds it, or of its queue. */
void sk_hold_end(struct sk_core *core, uint32_t job);
/* Those that waited for this job, which has ended: they queue, or are doomed. */
void sk_hold_release(struct sk_core *core, uint32_t before);
/* At most SK_PROMOTE_MAX jobs whose time has come queue. */
void sk_hold_promote(struct sk_core *core, uint64_t now_ns);
/* The first job that is held by time, or 0. */
static inline uint32_t sk_hold_next(const struct sk_core *core)
{
	return core->delayed_n ? core->delayed[1] : 0;
}

#endif
