/* SPDX-License-Identifier: Apache-2.0
 *
 * Idempotency: the job that a key of a client made. Invariants: when the limit is reached, the
 * client that has most keys loses its oldest, so that no client can push out the keys of one that
 * has fewer. A key outlives its job, because a late repeat must not start the job a second time.
 */
#ifndef SK_CORE_LEDGER_KEY_H
#define SK_CORE_LEDGER_KEY_H

#include "core/state/state.h"

#define SK_KEY_YOUNG_NS (3600ull * 1000000000) /* a key forgotten sooner is counted separately */

/* The slot, or 0; a key of 0 is never found. */
uint32_t sk_key_find(const struct sk_core *core, uint64_t client, const uint64_t key[2]);
/* Keep a key that is not there yet; a key of 0 is not kept. */
void sk_key_add(struct sk_core *core, const struct sk_submit *submit, uint64_t job,
		uint64_t now_ns);

#endif
