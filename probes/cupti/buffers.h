/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The buffers that CUPTI fills with records: a bounded pool, always handed out full of zeros.
 *
 * Relied on by the decoder, which gives a buffer back once it is read. CUPTI zeroes a buffer
 * itself, on the application's thread, unless it is told that ours are zero already; so they are
 * mapped when first used and what was written is wiped by the thread that has read them.
 * Past the last buffer CUPTI gets none, and drops records, which it counts.
 * Memory: 32 MiB of address space at most. Threads: any; no lock, no call but the first mmap.
 */
#ifndef SK_CUPTI_BUFFERS_H
#define SK_CUPTI_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_BUFFERS = 128, SK_BUFFER_BYTES = 256 * 1024 };

struct sk_buffers {
	_Atomic uint64_t taken[SK_BUFFERS / 64]; /* one bit each */
	_Atomic(uint8_t *) memory[SK_BUFFERS];
	_Atomic uint64_t refused;
};

/** A buffer of SK_BUFFER_BYTES zeros, or NULL when all are out or memory is short. */
uint8_t *sk_buffers_take(struct sk_buffers *buffers);

/** Whether CUPTI has any, or a thread of it still reads one to us. */
bool sk_buffers_out(const struct sk_buffers *buffers);

/** Give it back; its first `used` bytes are wiped. A buffer of somebody else is left alone. */
void sk_buffers_give(struct sk_buffers *buffers, uint8_t *buffer, size_t used);

#endif
