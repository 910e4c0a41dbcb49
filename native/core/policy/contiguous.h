/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices whose numbers follow each other: applications and cables often count on it. Invariant:
 * what is chosen is always enough for the task, also where no such devices are free.
 */
#ifndef SK_CORE_POLICY_CONTIGUOUS_H
#define SK_CORE_POLICY_CONTIGUOUS_H

#include "core/state/state.h"

#define SK_GAPS_NONE UINT32_MAX

/* The devices among `suited` whose numbers are closest to each other, as a mask; 0 if there are not
 * enough. `gaps` becomes twice the numbers left out between them, plus 1 if they share no link. */
uint64_t sk_contiguous_choose(const struct sk_core *core, const struct sk_job *job, uint32_t node,
			      uint64_t suited, uint32_t *gaps);
/* The gaps of the devices taken. */
uint32_t sk_contiguous_gaps(const struct sk_core *core, uint32_t node,
			    const struct sk_place *place);

#endif
