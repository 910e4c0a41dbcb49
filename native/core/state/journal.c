/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal is a stack of {old bytes, padded to 8; u64 offset; u64 size}. Undo walks it down.
 */
#include <stdlib.h>
#include <string.h>

#include "core/state/journal.h"

struct sk_noted {
	uint64_t offset;
	uint64_t size;
};

static uint64_t padded_size(uint64_t size)
{
	return (size + 7) & ~(uint64_t)7;
}

void sk_journal_note_slow(struct sk_core *core, const void *at, size_t size)
{
	struct sk_journal *journal = &core->journal;
	uint64_t padded = padded_size(size);
	struct sk_noted noted = {(uint64_t)((const uint8_t *)at - (const uint8_t *)core), size};

	if (!sk_journal_room(core, padded + sizeof noted))
		abort();
	memcpy(journal->bytes + journal->used, at, size);
	memcpy(journal->bytes + journal->used + padded, &noted, sizeof noted);
	journal->used += padded + sizeof noted;
	if (journal->used > journal->used_max)
		journal->used_max = journal->used;
}

void sk_journal_begin(struct sk_core *core)
{
	core->journal.used = 0;
	core->journal.cut = false;
	core->journal.on = true;
}

uint64_t sk_journal_mark(const struct sk_core *core)
{
	return core->journal.used;
}

void sk_journal_undo(struct sk_core *core, uint64_t mark)
{
	struct sk_journal *journal = &core->journal;
	struct sk_noted noted;

	while (journal->used > mark) {
		memcpy(&noted, journal->bytes + journal->used - sizeof noted, sizeof noted);
		journal->used -= sizeof noted + padded_size(noted.size);
		memcpy((uint8_t *)core + noted.offset, journal->bytes + journal->used, noted.size);
		sk_journal_touch(core, (const uint8_t *)core + noted.offset);
	}
}

void sk_journal_end(struct sk_core *core, bool keep)
{
	if (!keep)
		sk_journal_undo(core, 0);
	core->journal.used = 0;
	core->journal.on = false;
}

bool sk_journal_room(const struct sk_core *core, uint64_t bytes)
{
	return core->journal.capacity - core->journal.used >= bytes;
}
