/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The private state of the rocprofiler tracer, shared by its parts; tool.c describes the whole.
 *
 * Memory: one static object, made before the runtime calls back. Threads: fields that an
 * application's thread and the delivering thread share are atomic; the rest belongs to the thread
 * that is named.
 */
#ifndef SK_ROCPROFILER_TOOL_H
#define SK_ROCPROFILER_TOOL_H

#include "abi.h"
#include "tickets.h"

#include "clocks/clocks.h"
#include "tracer/tracer.h"

enum {
	SK_ROCP_KERNELS = 8192, /* kernel ids whose names are known; the rest are "(other)" */
	SK_ROCP_AGENTS = 64,
	SK_ROCP_BUFFER_BYTES = 1 << 20, /* about 5,000 records */
	SK_ROCP_BUFFER_CALL_AT = SK_ROCP_BUFFER_BYTES / 2,
	/* The cost that the vendor's profiler adds to a dispatch cannot be measured from inside, so
	 * windows are planned with these assumptions, for a timed dispatch and for a counted one.
	 */
	SK_ROCP_ASSUMED_NS = 4000,
	SK_ROCP_ASSUMED_COUNT_NS = 300,
};

struct sk_rocp_device {
	uint64_t agent;
	char id[64];
	char name[128];
	uint32_t type;
	_Atomic uint32_t row; /* row of the segment + 1; 0: not looked up yet */
};

struct sk_rocp_tool {
	struct sk_rocp call;
	struct sk_rocp_id names;  /* context of the names of kernels; always on */
	struct sk_rocp_id counts; /* context in which every launch is seen in its thread */
	struct sk_rocp_id times;  /* context in which launches are timed; records come in batches */
	struct sk_rocp_id buffer;
	bool configured;
	uint64_t generation; /* generation of the process in which it was configured */
	bool counting;	     /* tick thread and start-up */
	bool timing;
	_Atomic uint32_t finished; /* the runtime goes down and must not be called any more */
	_Atomic uint16_t kernels[SK_ROCP_KERNELS]; /* row of the name by kernel id */
	struct sk_rocp_device devices[SK_ROCP_AGENTS];
	uint32_t device_count;
	/* Fields of the thread that has `lock`: the delivering thread for a batch, the tick thread
	 * for a look. */
	pthread_mutex_t lock;
	uint64_t dropped_seen;
	struct sk_clock_fit fit;
	struct sk_clock_row row;
	const char *clock;
	/* Fields of the tick thread. */
	uint64_t fitted_ns;
	struct sk_rocp_tickets tickets;
};

extern struct sk_rocp_tool sk_rocp;

/** Return whether the tool is set up, the runtime is there, and the process is not a forked child.
 */
static inline bool sk_rocp_is_here(void)
{
	return sk_rocp.configured && !sk_rocp.finished &&
	       sk_rocp.generation ==
		       atomic_load_explicit(&sk_tracer->generation, memory_order_relaxed);
}

/* launches.c, in the application's threads */
void sk_rocp_on_symbol(struct sk_rocp_callback_record record, union sk_rocp_data *own, void *data);
void sk_rocp_on_launch(struct sk_rocp_callback_record record, union sk_rocp_data *own, void *data);
void sk_rocp_on_copy(struct sk_rocp_callback_record record, union sk_rocp_data *own, void *data);
int sk_rocp_on_request(uint64_t tid, struct sk_rocp_id context, uint32_t kind, int32_t operation,
		       uint64_t internal, union sk_rocp_data *external, void *data);

/* records.c, in the thread that delivers */
void sk_rocp_on_buffer(struct sk_rocp_id context, struct sk_rocp_id buffer,
		       struct sk_rocp_header **headers, size_t count, void *data, uint64_t dropped);
/** Compare the profiler's clock with CLOCK_MONOTONIC, at most once a second. */
void sk_rocp_fit(uint64_t now_ns);

/* devices.c */
void sk_rocp_find_devices(void);
/** Return the row of an agent in the segment, or SK_NO_DEVICE. May lock at the first time. */
unsigned sk_rocp_device_row(uint64_t agent);
/** Return the agent that a copy keeps busy: the device among the two. */
uint64_t sk_rocp_copy_agent(uint32_t operation, uint64_t to, uint64_t from);
/** Return the segment's kind for a copy of this direction. */
unsigned sk_rocp_copy_kind(uint32_t operation);

/* adapter.c */
extern const struct sk_tracer_adapter sk_rocp_adapter;

#endif
