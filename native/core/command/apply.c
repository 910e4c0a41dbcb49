/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the core that every replica runs: committed commands are carried out in order, and
 * nothing but their order is trusted. No policy runs here. A command that does not fit the state is
 * counted and reported as an effect.
 */
#include <errno.h>

#include "core/command/batch.h"
#include "core/command/command.h"
#include "core/ledger/effect.h"
#include "core/ledger/hold.h"
#include "core/state/journal.h"

static uint64_t record_job(const union sk_command_record *record)
{
	const void *at = record;

	switch (record->header.kind) {
	case SK_PLACE:
		return ((const struct sk_place *)at)->job;
	case SK_OUTCOME:
		return ((const struct sk_outcome *)at)->job;
	case SK_CANCEL:
		return ((const struct sk_cancel *)at)->job;
	case SK_FORGET:
		return ((const struct sk_forget *)at)->job;
	case SK_USAGE:
		return ((const struct sk_usage *)at)->job;
	case SK_PREEMPT:
		return ((const struct sk_preempt *)at)->job;
	default:
		return 0;
	}
}

static void ignore(const struct sk_act *act, const union sk_command_record *record, uint16_t reason,
		   const struct sk_why *why)
{
	bool duplicate = reason == SK_DUPLICATE;
	struct sk_effect *effect =
		sk_effect_add(act, duplicate ? SK_EFFECT_DUPLICATE : SK_EFFECT_IGNORED,
			      why->job ? why->job : record_job(record));

	effect->reason = reason;
	effect->state = record->header.kind;
	act->core->counters.ignored[reason]++;
	act->core->counters.duplicates += duplicate;
}

static void apply_one(const struct sk_act *act, const union sk_command_record *record)
{
	struct sk_why why;
	uint16_t reason = sk_command_do(act, &record->header, &why);

	act->core->counters.commands++;
	if (reason)
		ignore(act, record, reason, &why);
}

int sk_core_apply(struct sk_core *core, const void *commands, size_t size, uint32_t first,
		  uint64_t now_ns, struct sk_effects *effects, size_t *consumed)
{
	struct sk_act act = {.core = core, .effects = effects, .now_ns = now_ns, .command = first};
	union sk_command_record record;
	uint32_t count;
	int error = sk_batch_check(commands, size, false, &count);

	effects->count = 0;
	*consumed = 0;
	if (error)
		return error;
	if (now_ns > core->now_ns)
		core->now_ns = now_ns;
	while (*consumed < size) {
		size_t unit = sk_batch_read((const uint8_t *)commands + *consumed, &record);
		uint64_t needed = sk_command_effects_max(core, &record.header);

		if (needed > effects->capacity - effects->count) {
			effects->needed = (uint32_t)needed;
			return -ENOBUFS;
		}
		if (!act.command) /* once for an entry, in however many calls it is carried out */
			sk_hold_promote(core, now_ns);
		apply_one(&act, &record);
		act.command += (uint32_t)(unit / record.header.size);
		*consumed += unit;
	}
	return 0;
}
