/* SPDX-License-Identifier: Apache-2.0
 *
 * Ratings by model: which models of a node's devices would do for a task, so that the figure of
 * the node is a look-up once the speeds of a series are known. The kept ratings of FASTEST rely on
 * it. Invariant: whatever the speeds, the figure that follows is that of sk_rate.
 */
#ifndef SK_CORE_POLICY_MODEL_RATE_H
#define SK_CORE_POLICY_MODEL_RATE_H

#include "core/policy/hints.h"

/* Say in one word, which no speed changes, what the node offers the task; SK_SCORE_NONE if the task
 * does not fit now. */
uint32_t sk_model_rate(const struct sk_core *core, const struct sk_job *job, uint32_t node);

/* The ratings by FASTEST of all nodes from their words, by the speeds of the job's series. They
 * are valid until the next call. */
const uint32_t *sk_model_rates(const struct sk_core *core, const struct sk_job *job,
			       const uint32_t *words);

#endif
