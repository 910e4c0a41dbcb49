/* SPDX-License-Identifier: Apache-2.0
 *
 * One propose in progress: commands carried out on trial and written down. Relied on by propose.c,
 * backfill.c and preempt.c. Invariant: what is written down was carried out on trial in that order,
 * so that apply does not refuse it.
 */
#ifndef SK_CORE_DECIDE_TRIAL_H
#define SK_CORE_DECIDE_TRIAL_H

#include "core/ledger/effect.h"

struct sk_trial {
	struct sk_act act;
	struct sk_proposal *out;
	uint64_t seed;
	uint32_t places;
	uint32_t preempts;
};

void sk_trial_emit(struct sk_trial *trial, const void *record, size_t size);
/* Whether so many more tasks may be placed, by the batch's bound and the journal's room. */
bool sk_trial_room(const struct sk_trial *trial, uint64_t tasks);
/* Whether so many tasks can be taken or ended on trial, by the journal's room alone. */
bool sk_trial_can(const struct sk_trial *trial, uint64_t tasks);
/* All tasks of the job take what they need as of `at_ns`, or none; `places` says where. */
bool sk_trial_take(struct sk_trial *trial, uint32_t job, uint64_t at_ns, struct sk_place *places);
/* The same, taken back at once: whether the job would fit. False also for want of room to try. */
bool sk_trial_fits(struct sk_trial *trial, uint32_t job, uint64_t at_ns);
/* The tasks of a placed job end, for the sake of the trial; false for want of room to undo it. */
bool sk_trial_end(struct sk_trial *trial, uint32_t job);
/* The job, whose tasks were taken now, starts. */
void sk_trial_start(struct sk_trial *trial, uint32_t job, const struct sk_place *places);

#endif
