/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices: what a scoring function outside said of the nodes for one attempt of a job, or why it
 * said nothing. Invariant: a choice only orders nodes on which the task fits by every other rule.
 */
#ifndef SK_CORE_POLICY_CHOICE_H
#define SK_CORE_POLICY_CHOICE_H

#include "core/core.h"
#include "core/state/state.h"

struct sk_choice {
	uint64_t job; /* 0: none */
	uint32_t attempt;
	uint16_t reason; /* 0, or why the built-in policy is used instead */
	uint16_t count;
	struct sk_choice_row rows[SK_CANDIDATES_MAX];
};

/* The choice for the next attempt of a pending job, or NULL. */
const struct sk_choice *sk_choice_find(const struct sk_core *core, const struct sk_job *job);
/* True if the job can be placed only once a choice for it is there. */
bool sk_choice_missing(const struct sk_core *core, const struct sk_job *job);

#endif
