/* SPDX-License-Identifier: Apache-2.0
 *
 * One propose in progress: commands are carried out on trial and written down. Invariant: what is
 * written down was carried out on trial in that order, so that apply does not refuse it.
 */
#ifndef SK_CORE_DECIDE_TRIAL_H
#define SK_CORE_DECIDE_TRIAL_H

#include "core/ledger/effect.h"

struct sk_trial {
	struct sk_act act;
	struct sk_proposal *out;
	uint64_t seed;
	uint64_t first_new; /* the id of the first job that comes in this propose */
	uint32_t places;
	uint32_t preempts;
};

void sk_trial_emit(struct sk_trial *trial, const void *record, size_t size);
/* True if so many more tasks may be placed, by the bound of the batch and the room of the
 * journal. */
bool sk_trial_room(const struct sk_trial *trial, uint64_t tasks);
/* True if so many tasks can be taken or ended on trial, by the room of the journal alone. */
bool sk_trial_can(const struct sk_trial *trial, uint64_t tasks);
/* Let all tasks of the job take what they need as of `at_ns`, or none; `places` receives where. */
bool sk_trial_take(struct sk_trial *trial, uint32_t job, uint64_t at_ns, struct sk_place *places);
/* True if the job would fit: its tasks are taken and reverted at once. False also if there is no
 * room to try. */
bool sk_trial_fits(struct sk_trial *trial, uint32_t job, uint64_t at_ns);
/* End the tasks of a placed job on trial; false if there is no room to revert it. */
bool sk_trial_end(struct sk_trial *trial, uint32_t job);
/* Start the job, whose tasks were taken now. */
void sk_trial_start(struct sk_trial *trial, uint32_t job, const struct sk_place *places);

#endif
