/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Parts that all functions of the simulated libcuda.so.1 share: results, the gate, devices,
 * contexts, streams, and memory that is charged to a card.
 *
 * Numbers and records are those of cuda.h (CUDA 13); tests/native/sim/test_cuda_layout.py compares
 * them. Invariant: between a begin that returned 0 and its end the node is locked and nobody else
 * of this process is inside, so statics of the files here need no other lock.
 */
#ifndef SK_SIM_CUDA_LIBRARY_H
#define SK_SIM_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/cuda/told.h"
#include "sim/node/node.h"

#define SK_CUDA __attribute__((visibility("default"))) int

enum sk_cuda_result {
	SK_CUDA_SUCCESS = 0,
	SK_CUDA_INVALID_VALUE = 1,
	SK_CUDA_OUT_OF_MEMORY = 2,
	SK_CUDA_NOT_INITIALIZED = 3,
	SK_CUDA_NO_DEVICE = 100,
	SK_CUDA_INVALID_DEVICE = 101,
	SK_CUDA_INVALID_CONTEXT = 201,
	SK_CUDA_ALREADY_MAPPED = 208,
	SK_CUDA_FILE_NOT_FOUND = 301,
	SK_CUDA_INVALID_HANDLE = 400,
	SK_CUDA_NOT_FOUND = 500,
	SK_CUDA_NOT_READY = 600,
	SK_CUDA_NOT_PERMITTED = 800,
	SK_CUDA_NOT_SUPPORTED = 801,
	SK_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
	SK_CUDA_UNKNOWN = 999,
};

enum { SK_CUDA_VERSION = 13000, SK_CUDA_GRANULARITY = 2 << 20 };

struct sk_cuda_location {
	uint32_t type; /* 1: a device */
	int32_t id;
};

struct sk_cuda_allocation {
	uint32_t type; /* 1: pinned */
	uint32_t requested_handles;
	struct sk_cuda_location location;
	void *unused;
	uint8_t flags[8];
};

struct sk_cuda_access {
	struct sk_cuda_location location;
	uint32_t flags; /* 0 none, 1 read, 3 read and write */
};

struct sk_cuda_launch {
	uint32_t grid[3], block[3], shared_bytes;
	void *stream;
	void *attributes;
	uint32_t attribute_count;
};

struct sk_cuda_stream {
	uint32_t used;
	uint32_t id;	/* unique among streams and contexts of the process */
	uint32_t flags; /* 1: does not wait for the default stream */
	int32_t priority;
	struct sk_cuda_context *context;
	uint64_t done_ns; /* time on the node's clock at which its work ends */
};

struct sk_cuda_context {
	uint32_t used;
	uint32_t id;
	uint32_t device, flags;
	uint32_t references; /* of a primary context */
	struct sk_cuda_stream standard;
};

/** Begin a call of a device of this process (UINT32_MAX: of none); 0: the node is locked. */
int sk_cuda_begin(const char *function, uint32_t device);
/** Begin a call in the current context. */
int sk_cuda_begin_context(const char *function, struct sk_cuda_context **ret);
/** End a call; returns `result`. */
int sk_cuda_end(int result);

/** Within a call, unlock the node for work on memory alone, and lock it again. */
void sk_cuda_pause(void);
void sk_cuda_resume(void);

struct sk_sim_node *sk_cuda_node(void);
struct sk_sim_card *sk_cuda_card(uint32_t device);

/** Return the MIG instance that a device is, or NULL if it is a whole card. */
const struct sk_sim_partition *sk_cuda_part(uint32_t device);
uint32_t sk_cuda_count(void);
struct sk_cuda_context *sk_cuda_current(void);

/** Charge memory of this process to a device; OUT_OF_MEMORY if it has no more. */
int sk_cuda_charge(uint32_t device, uint64_t bytes);
void sk_cuda_discharge(uint32_t device, uint64_t bytes);

/** Find the stream of a handle in the current context, the default one for 0, 1 and 2; or NULL. */
struct sk_cuda_stream *sk_cuda_stream(struct sk_cuda_context *context, void *handle);
/** Put work into a stream; returns the time at which it ends. Waits for fences before it. */
uint64_t sk_cuda_enqueue(struct sk_cuda_stream *stream, uint64_t ns);
/** Return the time at which work would begin that is put into a stream now. */
uint64_t sk_cuda_enqueue_time(const struct sk_cuda_stream *stream);

/** Pass the fences of a stream (NULL: of all in the context) that can be passed; returns whether
 * none is left. */
bool sk_cuda_pass_fences(const struct sk_cuda_context *context, const struct sk_cuda_stream *at);
/** Wait, without the lock, until none is left. */
void sk_cuda_wait_fences(const struct sk_cuda_context *context, const struct sk_cuda_stream *at);
/** Forget the fences of what is destroyed. */
void sk_cuda_drop_fences(const struct sk_cuda_context *context, const struct sk_cuda_stream *at);
/** Put the fences of one stream into another, which waits for it. */
void sk_cuda_copy_fences(const struct sk_cuda_stream *from, struct sk_cuda_stream *to);
/** Wait until a time, without the lock. Virtual time is advanced. */
void sk_cuda_wait(uint64_t until_ns);
/** Return the time at which all work of a context ends. */
uint64_t sk_cuda_all_done_ns(struct sk_cuda_context *context);
/** Destroy all streams of a context. */
void sk_cuda_streams_drop(struct sk_cuda_context *context);

/** Load the device's card until a kernel ends. */
void sk_cuda_busy(uint32_t device, uint64_t until_ns);

/** Return whether all of a range is memory of this process on one device, and on which. */
bool sk_cuda_is_device(uint64_t address, uint64_t bytes, uint32_t *ret);
bool sk_cuda_is_mapped(uint64_t address, uint64_t bytes, uint32_t *ret);

/** A call for a profiler: sk_cuda_call_begin, then one of the ends, which return `result`. All are
 * called without the node's lock. `arguments` are 8 bytes each, except for two of 4 that follow
 * each other; little-endian machines alone. */
struct sk_cuda_call {
	const struct sk_cuda_listener *to;
	struct sk_cuda_told told;
	uint64_t shared, begun_ns;
	uint32_t id;
	int result;
};

void sk_cuda_call_begin(struct sk_cuda_call *call, uint32_t id, const char *function,
			const void *arguments, const char *kernel);
int sk_cuda_call_end(struct sk_cuda_call *call, int result);
int sk_cuda_call_end_work(struct sk_cuda_call *call, int result, struct sk_cuda_work *work);
int sk_cuda_call_end_wait(struct sk_cuda_call *call, int result, uint32_t kind, uint32_t stream);

/** Report work that was put into a stream, with its duration; called with the node locked. */
void sk_cuda_work_in(struct sk_cuda_work *work, uint32_t kind, const struct sk_cuda_stream *stream,
		     uint64_t ns);

/** The next number of a stream or context. */
uint32_t sk_cuda_new_id(void);
/** Load the profiler's library that the environment names, once. */
void sk_cuda_inject(void);

/** Return whether an address that a caller gave is an element of an array of this library. */
#define SK_CUDA_IS_OF(array, at)                                                                   \
	((uintptr_t)(at) - (uintptr_t)(array) < sizeof(array) &&                                   \
	 ((uintptr_t)(at) - (uintptr_t)(array)) % sizeof((array)[0]) == 0)

/** An exported function that does nothing. */
int sk_cuda_absent(const char *function);

#endif
