/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over arrays of ratings and of free amounts, eight node slots at a time; score.c compiles
 * them for wide and for narrow machines. Invariant: the results are the same everywhere.
 */
#ifndef SK_CORE_POLICY_SCORE_LANES_H
#define SK_CORE_POLICY_SCORE_LANES_H

#include <string.h>

#include "core/policy/hints.h"

#define SK_LANES 8u
#define SK_INLINE static inline __attribute__((always_inline))

_Static_assert(SK_BLOCK % SK_LANES == 0, "blocks are whole vectors");

#if defined(__x86_64__)
#define SK_TWO_VARIANTS
#define SK_WIDE __attribute__((target("avx2")))
#endif

#pragma GCC diagnostic ignored "-Wpsabi"

typedef uint32_t sk_vector __attribute__((vector_size(SK_LANES * 4)));
typedef int32_t sk_signed_vector __attribute__((vector_size(SK_LANES * 4)));
typedef uint64_t sk_wide_vector __attribute__((vector_size(SK_LANES * 4)));

SK_INLINE sk_vector load(const uint32_t *from)
{
	sk_vector vector;

	memcpy(&vector, from, sizeof vector);
	return vector;
}

SK_INLINE sk_vector all(uint32_t value)
{
	return (sk_vector){0} + value;
}

SK_INLINE bool any(const sk_vector *mask)
{
	sk_wide_vector wide = (sk_wide_vector)*mask;

	return (wide[0] | wide[1] | wide[2] | wide[3]) != 0;
}

#define SK_LESS(a, b) ((sk_vector)((a) < (b)))
#define SK_LESS_SIGNED(a, b) ((sk_vector)((sk_signed_vector)(a) < (sk_signed_vector)(b)))
#define SK_CHOOSE(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

struct sk_least_free {
	uint32_t cpu;
	uint32_t memory;
	uint32_t devices;
	const uint32_t *has; /* free devices, in the same unit */
};

/* Mark all slots as unfit except those in `todo`, whose free amounts may suffice; returns their
 * number. */
SK_INLINE uint32_t sift_lanes(const struct sk_hints *hints, const struct sk_least_free *least,
			      uint32_t *scores, uint32_t *todo)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < hints->end; slot += SK_LANES) {
		sk_vector few =
			SK_LESS_SIGNED(load(hints->summary.cpu + slot), all(least->cpu)) |
			SK_LESS_SIGNED(load(hints->summary.memory + slot), all(least->memory)) |
			SK_LESS_SIGNED(load(least->has + slot), all(least->devices));
		sk_vector none = all(SK_SCORE_NONE), enough = ~few;

		memcpy(scores + slot, &none, sizeof none);
		if (!any(&enough))
			continue;
		for (uint32_t i = 0; i < SK_LANES; i++) {
			todo[count] = slot + i;
			count += enough[i] & 1;
		}
	}
	return count;
}

/* The first slot at or after this one with that score, or `end`. */
SK_INLINE uint32_t next_lanes(const uint32_t *scores, uint32_t slot, uint32_t end, uint32_t score)
{
	for (; slot % SK_LANES && slot < end; slot++)
		if (scores[slot] == score)
			return slot;
	for (; slot < end; slot += SK_LANES) {
		sk_vector same = (sk_vector)(load(scores + slot) == all(score));

		if (!any(&same))
			continue;
		while (scores[slot] != score)
			slot++;
		return slot;
	}
	return end;
}

SK_INLINE uint32_t min_lanes(const sk_vector *lanes)
{
	uint32_t least = (*lanes)[0];

	for (uint32_t i = 1; i < SK_LANES; i++)
		least = (*lanes)[i] < least ? (*lanes)[i] : least;
	return least;
}

SK_INLINE uint32_t lowest_lanes(const uint32_t *scores, uint32_t end)
{
	sk_vector a = all(SK_SCORE_NONE), b = a;

	for (uint32_t slot = 0; slot < end; slot += 2 * SK_LANES) {
		sk_vector left = load(scores + slot);
		sk_vector right = load(scores + slot + SK_LANES);

		a = SK_CHOOSE(SK_LESS(left, a), left, a);
		b = SK_CHOOSE(SK_LESS(right, b), right, b);
	}
	a = SK_CHOOSE(SK_LESS(b, a), b, a);
	return min_lanes(&a);
}

/* The lowest second rating among the slots with this first rating. */
SK_INLINE uint32_t lowest_of_lanes(const uint32_t *scores, const uint32_t *second, uint32_t end,
				   uint32_t score)
{
	sk_vector least = all(SK_SCORE_NONE);

	for (uint32_t slot = 0; slot < end; slot += SK_LANES) {
		sk_vector same = (sk_vector)(load(scores + slot) == all(score));
		sk_vector other = load(second + slot) | ~same;

		least = SK_CHOOSE(SK_LESS(other, least), other, least);
	}
	return min_lanes(&least);
}

SK_INLINE uint32_t least_lanes(const struct sk_hints *hints, const uint32_t *first,
			       const uint32_t *second)
{
	uint32_t score = lowest_lanes(first, hints->end), least, slot;

	if (score == SK_SCORE_NONE)
		return 0;
	slot = next_lanes(first, 0, hints->end, score);
	if (!second)
		return slot;
	least = lowest_of_lanes(first, second, hints->end, score);
	while (second[slot] != least)
		slot = next_lanes(first, slot + 1, hints->end, score);
	return slot;
}

SK_INLINE uint32_t count_lanes(const struct sk_hints *hints, const uint32_t *scores)
{
	sk_vector fit = all(0);
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < hints->end; slot += SK_LANES)
		fit -= (sk_vector)(load(scores + slot) != all(SK_SCORE_NONE));
	for (uint32_t i = 0; i < SK_LANES; i++)
		count += fit[i];
	return count;
}

#endif
