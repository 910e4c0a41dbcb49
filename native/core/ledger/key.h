/* SPDX-License-Identifier: Apache-2.0
 *
 * Idempotency: which job a client's key made. Relied on by job.c and command.c. When the limit is
 * reached, the client that has most keys loses its oldest, so that no client's keys are pushed out
 * by one that has more; a key outlives its job, because a late repeat must not start it a second
 * time.
 */
#ifndef SK_CORE_LEDGER_KEY_H
#define SK_CORE_LEDGER_KEY_H

#include "core/state/state.h"

#define SK_KEY_YOUNG_NS (3600ull * 1000000000) /* one forgotten sooner is counted by itself */

/* The slot, or 0; a key of 0 is never found. */
uint32_t sk_key_find(const struct sk_core *core, uint64_t client, const uint64_t key[2]);
/* The key is not there; a key of 0 is not kept. */
void sk_key_add(struct sk_core *core, const struct sk_submit *submit, uint64_t job,
		uint64_t now_ns);

#endif
