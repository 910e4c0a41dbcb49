/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The calls of CUDA that matter to a trace, by callback id: launches, copies, graphs, waits.
 *
 * The tracer asks CUPTI for callbacks of these calls alone; callbacks on every call of a domain
 * would make tracing too expensive to be always on. The bytes and the stream of a call are read
 * from its arguments, whose layouts are NVIDIA's own (generated_cuda_meta.h). Memory: constant
 * tables. Threads: any.
 */
#ifndef SK_CUPTI_CALLS_H
#define SK_CUPTI_CALLS_H

#include <cupti.h>
#include <stdbool.h>
#include <stdint.h>

enum sk_cupti_call_class {
	SK_CUPTI_CALL_NONE,
	SK_CUPTI_CALL_LAUNCH,
	SK_CUPTI_CALL_GRAPH,
	SK_CUPTI_CALL_COPY,
	SK_CUPTI_CALL_WAIT,
	SK_CUPTI_CALL_CAPTURE,
};

/** The place of a copy's size in its arguments. */
enum sk_cupti_call_size {
	SK_CUPTI_SIZE_NONE,
	SK_CUPTI_SIZE_BYTES,
	SK_CUPTI_SIZE_ROWS,
	SK_CUPTI_SIZE_2D,
	SK_CUPTI_SIZE_3D
};

enum { SK_CUPTI_CALL_NO_STREAM = 0xffff, SK_CUPTI_CALL_LAUNCH_EX = 0xfffe };

struct sk_cupti_call {
	uint16_t cbid;
	uint8_t class;	/* enum sk_cupti_call_class */
	uint8_t kind;	/* enum sk_record_kind of a copy */
	uint8_t size;	/* enum sk_cupti_call_size */
	uint8_t width;	/* bytes of one element of a fill */
	uint16_t where; /* offset of the size, or of the structure that has it */
	uint16_t stream;
	bool per_thread; /* stream 0 means the thread's own stream */
};

/** Return the driver's call with this id, or NULL. */
const struct sk_cupti_call *sk_cupti_call_of_driver(uint32_t cbid);

/** Return every call of the driver, or the ids of the runtime's calls that lead to one. */
const struct sk_cupti_call *sk_cupti_calls_driver(unsigned *count);
const uint16_t *sk_cupti_calls_runtime(unsigned *count);

/** Return the bytes that a copy moves, by its arguments. */
uint64_t sk_cupti_call_bytes(const struct sk_cupti_call *call, const void *arguments);

/** Return the stream of a call, or NULL where it has none. */
CUstream sk_cupti_call_stream(const struct sk_cupti_call *call, const void *arguments);

#endif
