/* SPDX-License-Identifier: Apache-2.0
 *
 * A 64-bit digest over words. It detects replicas that differ and torn files, not an attacker: log
 * entries and snapshots are signed outside.
 */
#ifndef SK_CORE_STATE_DIGEST_H
#define SK_CORE_STATE_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/state/table.h"

/* Multiply and rotate; the multiplier is 2^64 divided by the golden ratio, made odd. */
static inline uint64_t sk_digest_word(uint64_t digest, uint64_t word)
{
	digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
	return digest << 29 | digest >> 35;
}

/* `size` is a multiple of 8. */
static inline uint64_t sk_digest(uint64_t digest, const void *bytes, size_t size)
{
	uint64_t word;

	for (size_t at = 0; at < size; at += sizeof word) {
		memcpy(&word, (const uint8_t *)bytes + at, sizeof word);
		digest = sk_digest_word(digest, word);
	}
	return digest;
}

static inline uint64_t sk_digest_end(uint64_t digest)
{
	return sk_mix(digest);
}

#endif
