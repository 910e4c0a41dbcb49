/* SPDX-License-Identifier: Apache-2.0
 *
 * The record of a job as callers and snapshots see it.
 */
#ifndef SK_CORE_LEDGER_VIEW_H
#define SK_CORE_LEDGER_VIEW_H

#include "core/state/state.h"

void sk_job_view_fill(const struct sk_job *job, struct sk_job_view *ret);

#endif
