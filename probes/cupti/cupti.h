/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The state that the files of the CUPTI tracer share, and which thread may touch which part.
 *
 * The CUDA driver loads the tracer (CUDA_INJECTION64_PATH). While the tracer looks, CUPTI calls it
 * at the calls listed in calls.h, in the application's threads (watch.c), and hands over filled
 * buffers, which become records of the segment (decode.c). subscription.c turns all of it on and
 * off, as adapter.c says. The tracer never waits for a device, never fails a call, never finalizes
 * CUPTI, and steps aside where another profiler has CUPTI's only place.
 *
 * Memory: `sk_cupti` lies in pages that the kernel wipes in a forked child, where the parent's CUDA
 * is gone as well. Threads: each group of fields names its threads.
 */
#ifndef SK_CUPTI_CUPTI_H
#define SK_CUPTI_CUPTI_H

#include "api.h"
#include "buffers.h"
#include "calls.h"
#include "joins.h"

#include "tracer/tracer.h"

#include <pthread.h>

enum {
	SK_CUPTI_CONTEXTS = 64,
	SK_CUPTI_NAMES = 1024,
	SK_CUPTI_SAMPLE = 64, /* one call of this many is measured */
};

/** Bounds of the distance between the clocks of host and device: a kernel begins after its call was
 * entered, and has ended when a wait for it returns. The smallest gap on either side bounds the
 * error. */
struct sk_cupti_bounds {
	int64_t after_call_ns;	/* smallest start minus entry */
	int64_t before_wait_ns; /* smallest return of a wait minus the end before it */
	uint64_t calls;
	uint64_t waits;
};

/** The cost of calls, summed by the threads that make them, one sample in SK_CUPTI_SAMPLE. */
struct sk_cupti_costs {
	_Atomic uint64_t calls;	 /* an estimate */
	_Atomic uint64_t own_ns; /* time of the samples in the tracer's own callbacks */
	_Atomic uint64_t samples;
	_Atomic uint64_t shortest_ns; /* sum of the shortest calls, one of each block */
	_Atomic uint64_t blocks;
};

/** The costs that were learned, in times of one call; 0: not yet. */
struct sk_cupti_learned {
	double timed_call_ns; /* the tracer's and CUPTI's callbacks */
	double counted_call_ns;
	double timed_length_ns; /* the call between its callbacks */
	double counted_length_ns;
	double callbacks_ns; /* CUPTI's own part of the callbacks; 0: not measured */
	double clock_ns;     /* one reading of our clock */
	double rate;	     /* calls per ns and thread at work */
};

struct sk_cupti {
	_Atomic uint32_t phase;			      /* enum sk_phase; 0: nothing is watched */
	_Atomic uint32_t captures;		      /* streams may be under capture into graphs */
	_Atomic bool graphs;			      /* a graph has one record */
	_Atomic uint64_t contexts[SK_CUPTI_CONTEXTS]; /* id << 8 | device row + 1 */
	_Atomic uint64_t names[SK_CUPTI_NAMES];	      /* 48 bits of a hash << 16 | row + 1 */
	struct sk_cupti_costs costs[SK_PHASE_BLIND + 1];

	/* Fields of the thread that has `decoding`. */
	pthread_mutex_t decoding;
	struct sk_tracer_slot *home; /* the slot whose ring takes the records of all threads */
	_Atomic uint64_t flushes;
	uint64_t joined;	     /* records that were joined with a call */
	_Atomic uint64_t nested;     /* joined records of calls inside of one of the runtime */
	_Atomic uint64_t by_runtime; /* records that were joined by the id of the runtime's call */
	uint64_t callless;	     /* records without a call, while no record had one */
	uint64_t evicted_seen;
	struct sk_cupti_bounds bounds[SK_SEGMENT_DEVICES];
	struct {
		uint64_t end_ns;
		uint32_t correlation;
		uint32_t context;
		uint32_t stream;
		uint32_t tid;
		uint8_t device;
	} latest; /* the latest kernel */

	/* Fields of the tick thread, or of the thread that has its lock. */
	struct sk_cupti_api api;
	struct sk_cupti_cuda cuda;
	CUpti_SubscriberHandle subscriber;
	bool loaded;
	bool prepared;	 /* CUPTI has buffers and the clock */
	bool watching;	 /* callbacks are on */
	bool collecting; /* records are on */
	bool quiet;	 /* records have been off for so long that none is under way */
	bool probed;	 /* the cost of callbacks has been measured */
	bool ended;
	_Atomic bool runtime;	      /* the runtime's calls are watched as well */
	_Atomic uint64_t looked_from; /* first call of the latest timed window */
	_Atomic uint64_t looked_to;   /* first call after it; SK_CUPTI_JOINS_OPEN: it goes on */
	uint64_t closing_ns; /* when a window ended whose records are waited for; 0: none */
	uint64_t off_ns;     /* when records were switched off */
	uint64_t flushed_ns;
	uint64_t begin_ns;  /* time of the changes of phase since the latest window was closed */
	uint64_t switch_ns; /* time to begin and end one window */
	uint64_t tail_ns;   /* how long its records were waited for */
	uint64_t planned_ns;
	uint64_t planned_cpu_ns;
	unsigned count_tries;
	struct sk_cupti_learned learned;

	struct sk_cupti_buffers buffers;
	struct sk_cupti_joins joins;
};

extern struct sk_cupti *sk_cupti;

/* watch.c */

/** CUPTI's callback on calls. */
void CUPTIAPI sk_cupti_on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			       const void *data);

/* rows.c */

/** Return the row of a kernel's name in the segment; 0 for NULL. */
unsigned sk_cupti_name(const char *name);
/** Return the row of the device with this number, or SK_NO_DEVICE. */
unsigned sk_cupti_device(int device);
/** Return the row of a context's device. `is_current`: the context is the calling thread's, so CUDA
 * can be queried. */
unsigned sk_cupti_context(uint32_t context, bool is_current);
/** Note that a record names this device for a context. */
void sk_cupti_learn_context(uint32_t context, unsigned device);

/* decode.c */

void CUPTIAPI sk_cupti_give_buffer(uint8_t **buffer, size_t *size, size_t *max_records);
void CUPTIAPI sk_cupti_take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				   size_t valid);
/** Ask CUPTI for complete records (`forced`: for all), then find out what is still to come. */
void sk_cupti_flush(bool forced);
/** Return whether one of the first `calls` calls has returned without having its record. */
bool sk_cupti_is_missing(uint64_t calls);

/* costs.c */

/** Begin to sum up calls at `now_ns`. */
void sk_cupti_learn_from(uint64_t now_ns);
/** Take in the cost of calls since the latest time. */
void sk_cupti_learn(uint64_t now_ns);
/** Return the time that timing adds to one call, its record included. */
double sk_cupti_timed_ns(void);
/** Return the learned costs in the driver's form. */
struct sk_tracer_call_costs sk_cupti_costs_now(void);

/* subscription.c */

/** Load libcupti, once; false when the tracer has stepped aside. */
bool sk_cupti_load(void);
/** Switch callbacks on; false if CUPTI is unavailable. */
bool sk_cupti_watch(void);
/** Switch callbacks off and leave CUPTI's place. */
void sk_cupti_unwatch(void);
/** Switch records on, with one record for a graph or one for each node; false when CUPTI refuses.
 */
bool sk_cupti_enable_kinds(bool graphs);
void sk_cupti_disable_kinds(void);
/** Switch the runtime's callbacks off, once it is known that no record needs them. */
void sk_cupti_drop_runtime(void);

/* adapter.c */

extern const struct sk_tracer_adapter sk_cupti_adapter;
/** Begin in the mode that the environment names; with `tick_lock` held. */
void sk_cupti_begin(void);
/** Decode the last records: the process or CUPTI ends. With `tick_lock` held. */
void sk_cupti_finish(void);

#endif
