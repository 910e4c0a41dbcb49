/* SPDX-License-Identifier: Apache-2.0
 *
 * One command being carried out, and the effects that tell of it. Invariant: a trial writes no
 * effect; apply provides room for all effects of a command before it begins.
 */
#ifndef SK_CORE_LEDGER_EFFECT_H
#define SK_CORE_LEDGER_EFFECT_H

#include "core/state/state.h"

/* A command being carried out. `effects` is NULL on trial, when no effect is written. */
struct sk_act {
	struct sk_core *core;
	struct sk_effects *effects;
	uint64_t now_ns;
	uint32_t command;
};

/* Append an effect of this job, zeroed except for what every effect carries; NULL on trial. */
struct sk_effect *sk_effect_add(const struct sk_act *act, enum sk_effect_kind kind, uint64_t job);

#endif
