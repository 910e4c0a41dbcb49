/* SPDX-License-Identifier: Apache-2.0
 *
 * Undo: propose runs the real commands on the real state and then reverts every write, at a cost
 * that depends on what was changed. Invariants: while the journal is on, memory is written only
 * after its old bytes were recorded; a caller checks sk_journal_room first, because an undo that is
 * cut short would corrupt the state. Running out of room is a programming error and aborts the
 * process.
 */
#ifndef SK_CORE_STATE_JOURNAL_H
#define SK_CORE_STATE_JOURNAL_H

#include "core/state/changes.h"

/* Record `size` bytes at `at`, which lie in the memory of the core. */
void sk_journal_note_slow(struct sk_core *core, const void *at, size_t size);

/* Add a node whose record is written or reverted to the change log; device.c calls this for
 * devices, which lie elsewhere. */
static inline void sk_journal_touch(struct sk_core *core, const void *at)
{
	uint64_t offset = (uint64_t)((uintptr_t)at - (uintptr_t)core->nodes);

	if (offset < (core->limits.nodes + 1ull) * sizeof *core->nodes)
		sk_changes_add(core->changes, (uint32_t)(offset / sizeof *core->nodes));
}

static inline void sk_journal_note(struct sk_core *core, const void *at, size_t size)
{
	sk_journal_touch(core, at);
	if (core->journal.on)
		sk_journal_note_slow(core, at, size);
}

#define SK_SET(core, place, value)                                                                 \
	do {                                                                                       \
		sk_journal_note((core), &(place), sizeof(place));                                  \
		(place) = (value);                                                                 \
	} while (0)

#define SK_ADD(core, place, value) SK_SET(core, place, (place) + (value))

void sk_journal_begin(struct sk_core *core);
uint64_t sk_journal_mark(const struct sk_core *core);
/* Revert every write since the mark. */
void sk_journal_undo(struct sk_core *core, uint64_t mark);
/* Revert all writes (`keep` false) or keep them, and switch the journal off. */
void sk_journal_end(struct sk_core *core, bool keep);
bool sk_journal_room(const struct sk_core *core, uint64_t bytes);

#endif
