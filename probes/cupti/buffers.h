/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The buffers that CUPTI fills with records: a bounded pool, always handed out full of zeros.
 *
 * CUPTI zeroes a buffer itself, on the application's thread, unless it knows that buffers are zero
 * already. So buffers are mapped when they are first used, and the thread that has read one wipes
 * what was written. When all buffers are out CUPTI gets none, and drops records, which it counts.
 *
 * Memory: 32 MiB of address space at most. Threads: any; no lock, and no system call but the first
 * mmap.
 */
#ifndef SK_CUPTI_BUFFERS_H
#define SK_CUPTI_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SK_CUPTI_BUFFERS = 128, SK_CUPTI_BUFFER_BYTES = 256 * 1024 };

struct sk_cupti_buffers {
	_Atomic uint64_t taken[SK_CUPTI_BUFFERS / 64]; /* one bit each */
	_Atomic(uint8_t *) memory[SK_CUPTI_BUFFERS];
	_Atomic uint64_t refused;
};

/** Return a buffer of SK_CUPTI_BUFFER_BYTES zeros, or NULL when all are out or memory is short. */
uint8_t *sk_cupti_buffers_take(struct sk_cupti_buffers *buffers);

/** Return whether CUPTI has a buffer, or one of its threads still reads one to the tracer. */
bool sk_cupti_buffers_out(const struct sk_cupti_buffers *buffers);

/** Give a buffer back; its first `used` bytes are wiped. A buffer that is not of the pool is left
 * alone. */
void sk_cupti_buffers_give(struct sk_cupti_buffers *buffers, uint8_t *buffer, size_t used);

#endif
