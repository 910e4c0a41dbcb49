/* SPDX-License-Identifier: Apache-2.0
 *
 * Choices: what a scoring function outside said of the nodes for one attempt of a job, or why it
 * said nothing. Invariant: a choice only orders nodes on which the task fits by every other rule.
 */
#ifndef SK_CORE_POLICY_CHOICE_H
#define SK_CORE_POLICY_CHOICE_H

#include "core/policy/hints.h"

/* The choice for the next attempt of a pending job, or NULL. */
const struct sk_choice *sk_choice_find(const struct sk_core *core, const struct sk_job *job);

#endif
