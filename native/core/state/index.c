/* SPDX-License-Identifier: Apache-2.0
 *
 * Each class has a bitmap and a count; one more bitmap has the classes that are not empty.
 */
#include "core/state/index.h"
#include "core/state/journal.h"

static uint64_t *index_word(const struct sk_index *index, uint32_t class, uint32_t slot)
{
	return &index->bits[(size_t) class * index->words + slot / 64];
}

bool sk_index_has(const struct sk_index *index, uint32_t class, uint32_t slot)
{
	return *index_word(index, class, slot) >> (slot % 64) & 1;
}

void sk_index_add(struct sk_core *core, struct sk_index *index, uint32_t class, uint32_t slot)
{
	uint64_t *word = index_word(index, class, slot);

	if (*word >> (slot % 64) & 1)
		return;
	SK_SET(core, *word, *word | (uint64_t)1 << (slot % 64));
	SK_ADD(core, index->counts[class], 1);
	SK_SET(core, index->classes_used[class / 64],
	       index->classes_used[class / 64] | (uint64_t)1 << (class % 64));
}

void sk_index_remove(struct sk_core *core, struct sk_index *index, uint32_t class, uint32_t slot)
{
	uint64_t *word = index_word(index, class, slot);

	if (!(*word >> (slot % 64) & 1))
		return;
	SK_SET(core, *word, *word & ~((uint64_t)1 << (slot % 64)));
	SK_ADD(core, index->counts[class], -1u);
	if (!index->counts[class])
		SK_SET(core, index->classes_used[class / 64],
		       index->classes_used[class / 64] & ~((uint64_t)1 << (class % 64)));
}

uint32_t sk_bits_next(const uint64_t *bits, uint32_t words, uint32_t from)
{
	uint32_t word = from / 64;
	uint64_t rest;

	if (word >= words)
		return words * 64;
	rest = bits[word] & ~(uint64_t)0 << (from % 64);
	while (!rest) {
		if (++word == words)
			return words * 64;
		rest = bits[word];
	}
	return word * 64 + (uint32_t)__builtin_ctzll(rest);
}

bool sk_index_next(const struct sk_index *index, uint32_t *class, uint32_t *slot)
{
	uint32_t class_words = (index->classes + 63) / 64;
	uint32_t from = *slot;

	for (uint32_t at = sk_bits_next(index->classes_used, class_words, *class);
	     at < index->classes; at = sk_bits_next(index->classes_used, class_words, at + 1)) {
		if (at != *class)
			from = 0;
		from = sk_bits_next(&index->bits[(size_t)at * index->words], index->words, from);
		if (from < index->words * 64) {
			*class = at;
			*slot = from;
			return true;
		}
	}
	return false;
}
