/* SPDX-License-Identifier: Apache-2.0
 *
 * Undo: propose runs the real commands on the real state and then takes every write back, which
 * costs what was changed and not what there is. Relied on by every writer of the state.
 * Invariant: while the journal is on, memory is written only after its old bytes were noted;
 * callers make sure of room beforehand (sk_journal_room), because an undo that is cut short would
 * corrupt the state: that is a programmer's error and stops the process.
 */
#ifndef SK_CORE_STATE_JOURNAL_H
#define SK_CORE_STATE_JOURNAL_H

#include "core/state/changes.h"

/* Note `size` bytes at `at`, which lie in the core's memory. */
void sk_journal_note_slow(struct sk_core *core, const void *at, size_t size);

/* Whoever writes or undoes within a node's record has it rated anew; device.c notes one there. */
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
/* Take back everything since the mark. */
void sk_journal_undo(struct sk_core *core, uint64_t mark);
/* Undo everything (`keep` false) or let it stand, and switch the journal off. */
void sk_journal_end(struct sk_core *core, bool keep);
bool sk_journal_room(const struct sk_core *core, uint64_t bytes);

#endif
