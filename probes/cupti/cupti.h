/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the files of the CUPTI tracer share: one state, its parts, and who may touch which.
 *
 * The tracer is loaded by the CUDA driver (CUDA_INJECTION64_PATH). While it looks, CUPTI calls it
 * at the calls listed in calls.h, in the application's threads (watch.c), and hands over filled
 * buffers, which become records of the segment (decode.c). modes.c turns all of it on and off.
 * It never waits for a device, never fails a call, never finalizes CUPTI, and steps aside where
 * somebody else holds CUPTI's only place.
 *
 * Memory: `sk_cupti` lies in pages that the kernel wipes in a forked child, where CUDA of the
 * parent is gone as well. Threads: fields say whose they are.
 */
#ifndef SK_CUPTI_H
#define SK_CUPTI_H

#include "api.h"
#include "buffers.h"
#include "calls.h"
#include "joins.h"

#include "tracer/tracer.h"

#include <pthread.h>

enum {
	SK_CUPTI_CONTEXTS = 64,
	SK_CUPTI_NAMES = 1024,
	SK_CUPTI_SAMPLE = 64, /* one call of so many is measured */
};

/** Between the clocks of host and device: a kernel begins after its call was entered, and has
 * ended when a wait for it returns. The smallest gap on either side bounds the error. */
struct sk_cupti_bounds {
	int64_t after_call_ns;	/* smallest start minus entry */
	int64_t before_wait_ns; /* smallest return of a wait minus the end before it */
	uint64_t calls;
	uint64_t waits;
};

/** What calls cost, summed by the threads that make them, one sample in SK_CUPTI_SAMPLE. */
struct sk_cupti_costs {
	_Atomic uint64_t calls;	 /* an estimate */
	_Atomic uint64_t own_ns; /* of the samples, in the tracer's own callbacks */
	_Atomic uint64_t samples;
	_Atomic uint64_t shortest_ns; /* sum of the shortest call of each block of calls */
	_Atomic uint64_t blocks;
};

/** What was learned of them; 0: not yet. Times of one call. */
struct sk_cupti_learned {
	double timed_call_ns; /* the tracer's and CUPTI's callbacks */
	double counted_call_ns;
	double timed_length_ns; /* the call between them */
	double counted_length_ns;
	double callbacks_ns; /* of them CUPTI's own way to both callbacks; 0: not measured */
	double clock_ns;     /* one reading of our clock */
	double rate;	     /* calls per ns and thread at work */
};

struct sk_cupti {
	_Atomic uint32_t phase;			      /* enum sk_phase; 0: nothing is looked at */
	_Atomic uint32_t captures;		      /* streams may be under capture into graphs */
	_Atomic bool graphs;			      /* a graph has one record */
	_Atomic uint64_t contexts[SK_CUPTI_CONTEXTS]; /* id << 8 | device row + 1 */
	_Atomic uint64_t names[SK_CUPTI_NAMES];	      /* 48 bits of a hash << 16 | row + 1 */
	struct sk_cupti_costs costs[SK_PHASE_BLIND + 1];

	/* Of who holds `decoding`. */
	pthread_mutex_t decoding;
	struct sk_tracer_slot *home; /* its ring takes the records of all threads */
	_Atomic uint64_t flushes;
	uint64_t joined;	     /* records */
	_Atomic uint64_t nested;     /* of them, of calls inside of one of the runtime */
	_Atomic uint64_t by_runtime; /* of them, by the id of the runtime's call */
	uint64_t strangers;	     /* records without a call, while none had one */
	uint64_t evicted_seen;
	struct sk_cupti_bounds bounds[SK_SEGMENT_DEVICES];
	struct {
		uint64_t end_ns;
		uint32_t correlation;
		uint32_t context;
		uint32_t stream;
		uint32_t tid;
		uint8_t device;
	} latest; /* kernel */

	/* Of the tick thread, or of who holds its lock. */
	struct sk_cupti_api api;
	struct sk_cuda_api cuda;
	CUpti_SubscriberHandle subscriber;
	bool loaded;
	bool prepared;	 /* buffers and clock are CUPTI's */
	bool watching;	 /* callbacks are on */
	bool collecting; /* records are on */
	bool quiet;	 /* records were off for so long that none is under way */
	bool probed;	 /* what callbacks cost has been measured */
	bool ended;
	_Atomic bool runtime;	      /* the runtime's calls are watched as well */
	_Atomic uint64_t looked_from; /* first call of the latest timed window */
	_Atomic uint64_t looked_to;   /* and until its end; SK_JOINS_OPEN: it goes on */
	uint64_t closing_ns; /* since when the records of a window that is over are waited for */
	uint64_t off_ns;     /* since when records are off */
	uint64_t flushed_ns;
	uint64_t begin_ns;  /* what changes of phase took since the latest window was closed */
	uint64_t switch_ns; /* what one window took to begin and end */
	uint64_t tail_ns;   /* how long its records were waited for */
	uint64_t planned_ns;
	uint64_t planned_cpu_ns;
	unsigned count_tries;
	struct sk_cupti_learned learned;

	struct sk_buffers buffers;
	struct sk_joins joins;
};

extern struct sk_cupti *sk_cupti;

/* watch.c */

/** CUPTI's callback on calls. */
void CUPTIAPI sk_cupti_on_call(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			       const void *data);

/* rows.c */

/** Row of a kernel's name in the segment; 0 for NULL. */
unsigned sk_cupti_name(const char *name);
/** Row of the device with this number, or SK_NO_DEVICE. */
unsigned sk_cupti_device(int device);
/** Row of a context's device; the context may be of the calling thread, then it is asked. */
unsigned sk_cupti_context(uint32_t context, bool is_current);
/** What a record says: this context is on that device. */
void sk_cupti_learn_context(uint32_t context, unsigned device);

/* decode.c */

void CUPTIAPI sk_cupti_give_buffer(uint8_t **buffer, size_t *size, size_t *max_records);
void CUPTIAPI sk_cupti_take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				   size_t valid);
/** Ask CUPTI for what is complete (`forced`: for everything), then see what is still to come. */
void sk_cupti_flush(bool forced);
/** Whether one of the first `calls` calls has returned and lacks its record. */
bool sk_cupti_lacks(uint64_t calls);

/* costs.c */

/** From `now_ns` on calls are summed up. */
void sk_cupti_learn_from(uint64_t now_ns);
/** Take in what calls have cost since the latest time. */
void sk_cupti_learn(uint64_t now_ns);
/** What timing adds to one call, its record included. */
double sk_cupti_timed_ns(void);
/** What was learned, as the driver takes it. */
struct sk_tracer_call_costs sk_cupti_costs_now(void);

/* subscription.c */

/** Load libcupti, once; false when the tracer has stepped aside. */
bool sk_cupti_load(void);
/** Callbacks on; false when CUPTI is not to be had. */
bool sk_cupti_watch(void);
/** Callbacks off and CUPTI's place free. */
void sk_cupti_unwatch(void);
/** Records on, a graph as one record or as its nodes; false when CUPTI refuses. */
bool sk_cupti_enable_kinds(bool graphs);
void sk_cupti_disable_kinds(void);
/** The runtime's callbacks off, once it is known that no record needs them. */
void sk_cupti_drop_runtime(void);

/* adapter.c */

extern const struct sk_tracer_adapter sk_cupti_adapter;
/** Do what the started mode asks for; with `tick_lock` held. */
void sk_cupti_begin(void);
/** The process or CUPTI ends: the last records; with `tick_lock` held. */
void sk_cupti_finish(void);

#endif
