/* SPDX-License-Identifier: Apache-2.0
 *
 * When a waiting job should start, from the estimates of those that run and of those ahead of it.
 * Relied on by explain.c. Reads only; an estimate of an estimate, never used for a decision.
 */
#ifndef SK_CORE_EXPLAIN_ETA_H
#define SK_CORE_EXPLAIN_ETA_H

#include "core/state/state.h"

#define SK_ETA_ENDS_MAX 512u  /* the ends that come first are looked at */
#define SK_ETA_AHEAD_MAX 256u /* jobs ahead that are reckoned with */

/* The entry time; false where an estimate that decides is not known, or past the bounds above. */
bool sk_eta_start(const struct sk_core *core, uint32_t job, uint64_t *ret);

#endif
