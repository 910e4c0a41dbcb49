/* SPDX-License-Identifier: Apache-2.0
 *
 * The expected start of a waiting job, from the estimates of running jobs and of those ahead of it.
 * Invariant: nothing here writes; the result is an estimate from estimates and no decision uses it.
 */
#ifndef SK_CORE_EXPLAIN_ETA_H
#define SK_CORE_EXPLAIN_ETA_H

#include "core/state/state.h"

#define SK_ETA_ENDS_MAX 512u  /* ends that are considered, the earliest */
#define SK_ETA_AHEAD_MAX 256u /* jobs ahead that are considered */

/* The entry time; false if an estimate that matters is unknown, or a bound of this file is
 * exceeded. */
bool sk_eta_start(const struct sk_core *core, uint32_t job, uint64_t *ret);

#endif
