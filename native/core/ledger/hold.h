/* SPDX-License-Identifier: Apache-2.0
 *
 * Held jobs: pending jobs that may not start until a time, or until another job has ended. propose
 * and apply release by time before anything else. Invariant: a pending job is in exactly one of a
 * queue, the heap of delayed ones, the lists of the jobs it waits for, or the list of the doomed.
 */
#ifndef SK_CORE_LEDGER_HOLD_H
#define SK_CORE_LEDGER_HOLD_H

#include "core/state/state.h"

/* Hold the job until its `not_before_ns`. */
void sk_hold_time(struct sk_core *core, uint32_t job);
/* Hold the job until those of request.after that are live have ended; false if none is. */
bool sk_hold_after(struct sk_core *core, uint32_t job);
/* True if an end in this state is what the request wants of the n-th job that it follows. */
bool sk_after_met(const struct sk_request *request, uint32_t n, uint32_t state);
/* Mark a job that can never start because of how a job ended that it follows; propose cancels it.
 */
void sk_hold_doom(struct sk_core *core, uint32_t job);
/* Take a job out of its queue, or out of the list of held jobs that has it. */
void sk_hold_end(struct sk_core *core, uint32_t job);
/* Release the jobs that waited for this one, which has ended: they queue, or are doomed. */
void sk_hold_release(struct sk_core *core, uint32_t before);
/* The range that a job follows at place n of request.after has ended, as it wants it or not. */
void sk_hold_range_end(struct sk_core *core, uint32_t job, uint32_t n, bool met);
/* Queue at most SK_PROMOTE_MAX jobs whose time has come. */
void sk_hold_promote(struct sk_core *core, uint64_t now_ns);
/* The job that is held until the earliest time, or 0. */
static inline uint32_t sk_hold_next(const struct sk_core *core)
{
	return core->delayed_n ? core->delayed[1] : 0;
}

#endif
