/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The calls of CUDA that matter to a trace, by callback id: launches, copies, graphs, waits.
 *
 * Relied on by watch.c, which asks CUPTI for callbacks of these alone: a callback on every call of
 * a domain is what makes always-on tracing dear. What a call moves and where is read from its
 * arguments, whose layouts are NVIDIA's own (generated_cuda_meta.h).
 */
#ifndef SK_CUPTI_CALLS_H
#define SK_CUPTI_CALLS_H

#include <cupti.h>
#include <stdbool.h>
#include <stdint.h>

enum sk_call_class {
	SK_CALL_NONE,
	SK_CALL_LAUNCH,
	SK_CALL_GRAPH,
	SK_CALL_COPY,
	SK_CALL_WAIT,
	SK_CALL_CAPTURE,
};

/** How the size of a copy is found in its arguments. */
enum sk_call_size { SK_SIZE_NONE, SK_SIZE_BYTES, SK_SIZE_ROWS, SK_SIZE_2D, SK_SIZE_3D };

enum { SK_CALL_NO_STREAM = 0xffff, SK_CALL_LAUNCH_EX = 0xfffe };

struct sk_call {
	uint16_t cbid;
	uint8_t class;	/* enum sk_call_class */
	uint8_t kind;	/* enum sk_record_kind, of a copy */
	uint8_t size;	/* enum sk_call_size */
	uint8_t width;	/* bytes of one element, of a fill */
	uint16_t where; /* of the size or of the structure that has it */
	uint16_t stream;
	bool per_thread; /* stream 0 is the thread's own */
};

/** The call of the driver with this id, or NULL. */
const struct sk_call *sk_call_of_driver(uint32_t cbid);

/** Every call of the driver, and the ids of those of the runtime that lead to one. */
const struct sk_call *sk_calls_driver(unsigned *count);
const uint16_t *sk_calls_runtime(unsigned *count);

/** Bytes that a copy moves, as its arguments say. */
uint64_t sk_call_bytes(const struct sk_call *call, const void *arguments);

/** The stream of a call, or NULL where it has none. */
CUstream sk_call_stream(const struct sk_call *call, const void *arguments);

#endif
