/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Events that a simulated CUDA driver reports to a profiler in its process: calls as they begin and
 * end, work as it is put into a stream, and waits of the host; and fences for a simulated library
 * whose work other processes take part in.
 *
 * Numbers and the layout of a call are CUPTI's; native/sim/cupti/layouts.h compares them.
 * Invariant: the listener is called in the program's thread, with no lock of the driver held.
 */
#ifndef SK_SIM_CUDA_TOLD_H
#define SK_SIM_CUDA_TOLD_H

#include <stdint.h>

enum { SK_CUDA_DRIVER = 1 }; /* the domain of its calls */

/** Calls, with CUPTI's numbers. */
enum sk_cuda_id {
	SK_CUDA_ID_VERSION = 2,
	SK_CUDA_ID_CONTEXT_WAIT = 17,
	SK_CUDA_ID_EVENT_WAIT = 121,
	SK_CUDA_ID_STREAM_WAIT = 126,
	SK_CUDA_ID_FILL8_ASYNC = 216,
	SK_CUDA_ID_FILL16_ASYNC = 218,
	SK_CUDA_ID_FILL32_ASYNC = 220,
	SK_CUDA_ID_FILL8 = 249,
	SK_CUDA_ID_FILL16 = 250,
	SK_CUDA_ID_FILL32 = 251,
	SK_CUDA_ID_WRITE = 276,
	SK_CUDA_ID_WRITE_ASYNC = 277,
	SK_CUDA_ID_READ = 278,
	SK_CUDA_ID_READ_ASYNC = 279,
	SK_CUDA_ID_MOVE = 280,
	SK_CUDA_ID_MOVE_ASYNC = 281,
	SK_CUDA_ID_COPY = 305,
	SK_CUDA_ID_COPY_ASYNC = 306,
	SK_CUDA_ID_LAUNCH = 307,
	SK_CUDA_ID_LAUNCH_COOPERATIVE = 477,
	SK_CUDA_ID_LAUNCH_EX = 652,
	SK_CUDA_ID_CONTEXT_WAIT_V2 = 800,
};

enum sk_cuda_work_kind {
	SK_CUDA_WORK_COPY = 1,
	SK_CUDA_WORK_FILL = 2,
	SK_CUDA_WORK_KERNEL = 10,
	SK_CUDA_WORK_GRAPH = 51,
};

enum sk_cuda_wait_kind { SK_CUDA_WAIT_EVENT = 1, SK_CUDA_WAIT_STREAM = 3, SK_CUDA_WAIT_CONTEXT };

/** A call, at its beginning or end. */
struct sk_cuda_told {
	uint32_t ends;
	const char *function;
	const void *arguments; /* one after the other, as NVIDIA's `..._params` have them */
	const void *result;
	const char *kernel;
	void *context;
	uint32_t context_id;
	uint64_t *shared; /* the profiler's data, from the beginning of a call to its end */
	uint32_t correlation;
};

/** Work that a device did or will have done. */
struct sk_cuda_work {
	uint32_t kind;	  /* enum sk_cuda_work_kind; 0: none */
	const char *name; /* valid for ever */
	uint64_t start;	  /* in the clock of the device */
	uint64_t end;
	uint64_t bytes;
	uint8_t copy_kind; /* CUpti_ActivityMemcpyKind */
	uint32_t correlation;
	uint32_t context;
	uint32_t stream;
	uint32_t device;
	uint32_t graph;
};

/** A host wait that has returned. */
struct sk_cuda_waited {
	uint32_t kind; /* enum sk_cuda_wait_kind */
	uint64_t took_ns;
	uint32_t correlation;
	uint32_t context;
	uint32_t stream;
};

struct sk_cuda_listener {
	void (*on_call)(uint32_t domain, uint32_t id, const void *told);
	void (*on_work)(const struct sk_cuda_work *work);
	void (*on_wait)(const struct sk_cuda_waited *wait);
	int (*wants_graphs)(void); /* as one work each */
};

/** Register the listener, which stays for ever. */
void stoker_sim_cuda_listen(const struct sk_cuda_listener *listener);

/** Return in how many ns the work behind a fence ends; negative: nobody can tell yet. It is called
 * with the node locked, so it waits for nothing, and calls no driver. */
typedef int64_t stoker_sim_cuda_look(void *data);

/** Put a fence into a stream of the current context, for work whose end others decide. CUresult. */
int stoker_sim_cuda_fence(void *stream, stoker_sim_cuda_look *look, void *data);

/** In how many ns a stream has done what it can do without others. CUresult. */
int stoker_sim_cuda_left(void *stream, uint64_t *ret);

/** The clock of the devices, ns. */
uint64_t stoker_sim_cuda_now(void);

#endif
