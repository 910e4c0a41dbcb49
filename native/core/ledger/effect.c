/* SPDX-License-Identifier: Apache-2.0
 *
 * Effects are appended to the array of the caller.
 */
#include <string.h>

#include "core/ledger/effect.h"

struct sk_effect *sk_effect_add(const struct sk_act *act, enum sk_effect_kind kind, uint64_t job)
{
	struct sk_effect *effect;

	if (!act->effects)
		return NULL;
	effect = &act->effects->records[act->effects->count++];
	memset(effect, 0, sizeof *effect);
	effect->kind = (uint16_t)kind;
	effect->command = act->command;
	effect->job = job;
	return effect;
}
