/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the files of the OpenCL layer share: its one global state, threads, queues and clocks.
 *
 * The layer sits between a job's program and its OpenCL drivers (OPENCL_LAYERS). The application
 * has its queues as it asked for them. While launches are timed, their commands go to a twin of the
 * queue that has profiling (twin.c); the layer keeps a reference to the event of each launch it
 * times, and later turns the event's stamps into a record in the process's trace segment
 * (native/records/segment.h). It never waits, never blocks a call, and never fails one: where it
 * cannot trace it steps aside.
 *
 * Memory: `layer` lies in pages that the kernel wipes in a forked child, so a child starts anew
 * with a segment of its own whatever way it was forked; the parent's segment is not mapped there.
 * Threads: each application thread has a slot of its own. The tick thread harvests for threads
 * that make no calls; whoever holds a thread's `harvesting` flag is the producer of its ring.
 */
#ifndef SK_OPENCL_LAYER_H
#define SK_OPENCL_LAYER_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS

#include "tracer/tracer.h"

#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>
#include <pthread.h>
#include <stdbool.h>

enum {
	SK_QUEUES = 4096,
	SK_QUEUE_PROPERTIES = 16,
	SK_KERNEL_CACHE = 8192,
	SK_CELLS = SK_SEGMENT_NAMES + SK_KINDS,
	SK_DEFERRED = 4, /* waits of a thread that found its ring taken */
	SK_USER_EVENTS = 1024,
	SK_PROBES = 16, /* of the open-addressed tables */
};

/** A launch whose end has not been seen yet. */
struct sk_waiting {
	cl_event event;
	uint64_t call_from_ns;
	uint64_t bytes;
	uint32_t call_ns;
	uint32_t correlation;
	uint16_t name;
	uint16_t queue;
	uint8_t kind;
	uint8_t device;
	uint8_t shift;
};

/** Launches of one thread on the queues that share a lane, in order; the owner appends. */
struct sk_lane {
	struct sk_waiting *items; /* mapped at first use */
	uint64_t try_at;	  /* length at which the owner looks for finished ones */
	uint64_t tried_ns;	  /* the owner looked last, at an append */
	_Atomic uint64_t tail;	  /* appended; release by the owner */
	_Atomic uint64_t head;	  /* taken out; by the holder of `harvesting` */
};

/** Which launches of one kernel name are timed under `governed`; see governor.h. */
struct sk_cell {
	uint64_t began_ns;
	uint32_t left;
	uint32_t pick;
	uint32_t shift;
};

/** Something that a thread of the host did or had to wait for. */
struct sk_host_span {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t correlation;
	uint16_t queue;
	uint8_t kind;
	uint8_t device;
	uint8_t shift;
};

/** The private side of a slot. */
struct sk_thread {
	struct sk_tracer_slot base;
	_Atomic(cl_command_queue) in_queue; /* the application's, while a call is in the driver */
	uint32_t last_correlation;	    /* of its latest timed call */
	uint8_t last_shift;
	bool last_timed;	/* its latest counted call was timed */
	uint64_t seen_launches; /* as the tick thread has counted them; see adapter.c */
	uint32_t samples;	/* timed launches, to choose those whose own cost is measured */
	uint32_t harvests;	/* the same of harvests */
	uint64_t random;
	int64_t credit_ns; /* of tracer time, under `governed` */
	uint64_t refilled_ns;
	uint32_t cells_used;
	uint32_t untimed;
	uint32_t hook_cost_ns; /* moving averages, per timed launch */
	uint32_t harvest_cost_ns;
	uint32_t untimed_cost_ns;
	uint32_t lanes_waiting; /* bits of lanes that are not empty; of the owner */
	_Atomic uint64_t harvested;
	uint64_t harvested_before; /* as the last tick saw it */
	bool waited_before;	   /* launches waited at the last tick */
	atomic_flag harvesting;
	/* For the next moment in which the ring is free; of the owner, but at the process's end. */
	_Atomic uint32_t deferred_count;
	struct sk_host_span deferred[SK_DEFERRED];
	struct sk_lane lanes[SK_SEGMENT_LANES];
	struct sk_cell cells[SK_CELLS];
};

/** A queue of the application and its twin. What is not atomic is written under `turn_lock`. */
struct sk_queue {
	_Atomic(cl_command_queue) handle;  /* the application's, as it asked for it */
	_Atomic(cl_command_queue) current; /* where commands go: `handle` or `twin` */
	_Atomic uint64_t turn;		   /* the turn that it follows; see turn.h */
	cl_command_queue twin;		   /* with profiling; made at first need */
	cl_event barrier;		   /* latest one, where order is not the queue's */
	cl_context context;
	cl_device_id on;
	uint64_t made_turn;
	_Atomic uint32_t references; /* the application's */
	uint16_t number;
	uint8_t device; /* SK_NO_DEVICE: counted, not timed */
	uint8_t lane;
	_Atomic bool profiled; /* `current` has profiling */
	bool pinned;	       /* `current` stays what it is */
	bool used;	       /* it may have commands in it */
	bool unordered;
	uint8_t property_count;
	cl_queue_properties properties[SK_QUEUE_PROPERTIES]; /* as the application gave them */
};

/** A user event that was not yet set. */
struct sk_user_event {
	cl_event event;
	uint64_t made_ns;
};

/** How the stamps of one device are put on CLOCK_MONOTONIC; see clock.c. */
struct sk_clock {
	_Atomic uint32_t version; /* odd while it changes */
	_Atomic int32_t id;	  /* row of the table of clocks, from 1, or enum sk_clock_source */
	_Atomic uint64_t reference_ns;
	_Atomic int64_t offset_ns;
	_Atomic int64_t drift_ppb;
	_Atomic uint64_t error_ns;
	_Atomic uint64_t refreshed_ns;
	_Atomic uint32_t misses;
	atomic_flag changing;
};

enum sk_clock_source { SK_CLOCK_UNKNOWN = 0, SK_CLOCK_BY_CALLS = -1 };

struct sk_layer {
	pthread_mutex_t lock; /* of the cache of kernels; taken before the tracer's own */
	cl_device_id devices[SK_SEGMENT_DEVICES]; /* by row in the segment */
	struct sk_clock clocks[SK_SEGMENT_DEVICES];
	_Atomic uint64_t turn;	    /* what is seen of calls from now on; see turn.h */
	_Atomic uint64_t settled;   /* the same, once every thread has noticed */
	_Atomic uint32_t strangers; /* threads without a slot that are in the driver */
	_Atomic uint32_t correlations;
	_Atomic uint32_t twins; /* queues on their twin now */
	bool has_fence;		/* of all threads: membarrier(2) */
	_Atomic uint32_t pin_new;
	_Atomic uint32_t share; /* the tracer's part of a thread's time is one of so many */
	pthread_mutex_t turn_lock;
	uint64_t looked_ns; /* when launches were counted last; of the tick thread */
	double rate;	    /* launches per ns of the busiest thread */
	double counted_ns;  /* what one of its launches takes that is only counted */
	uint32_t queues_made;
	_Atomic uint64_t kernels[SK_KERNEL_CACHE]; /* handle in the low 48 bits, name above */
	struct sk_queue queues[SK_QUEUES];
	_Atomic(cl_command_queue) twin_handles[SK_QUEUES];
	uint16_t twin_rows[SK_QUEUES];
	pthread_mutex_t user_lock;
	_Atomic uint32_t user_count;
	struct sk_user_event user_events[SK_USER_EVENTS];
};

/** What the driver takes for an event and its stamps, which cannot be measured from inside of a
 * call: 45 ns for profiling and 12 ns for an event in PoCL 3.1, by a loop with and without. */
enum { SK_DRIVER_COST_NS = 57 };

extern struct sk_layer *layer;
extern struct _cl_icd_dispatch next; /* the driver's, or the next layer's, functions */

/** The calling thread's slot, or NULL: no segment, or more threads than slots. */
static inline struct sk_thread *sk_thread_here(void)
{
	return (struct sk_thread *)sk_tracer_slot();
}

/* clock.c */

/** Put the queued, submit and start stamps of one launch on CLOCK_MONOTONIC, and learn from it:
 * its queued stamp lies within its call, which is [from_ns, to_ns]. */
void sk_clock_place(unsigned device, const uint64_t raw_ns[3], uint64_t from_ns, uint64_t to_ns,
		    uint64_t ret[3]);

/* queue.c */

static inline size_t sk_queue_place(const void *handle)
{
	return (size_t)(((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

/** The row of a queue of the application, or NULL. */
static inline struct sk_queue *sk_queue_find(cl_command_queue handle)
{
	size_t place = sk_queue_place(handle);

	for (size_t i = 0; i < SK_PROBES; i++) {
		struct sk_queue *queue = &layer->queues[(place + i) % SK_QUEUES];

		/* Pairs with the release in queue.c: the row is filled. */
		if (atomic_load_explicit(&queue->handle, memory_order_acquire) == handle)
			return queue;
	}
	return NULL;
}

void sk_queue_hook(struct _cl_icd_dispatch *table);
cl_command_queue CL_API_CALL sk_queue_create_with(cl_context context, cl_device_id device,
						  const cl_queue_properties *properties,
						  cl_int *error);

/* twin.c */

/** Let the queue follow `turn`; from a call that has said so in `in_queue`, or as a stranger. */
void sk_twin_follow(struct sk_queue *queue, struct sk_thread *thread, uint64_t turn);
/** All queues go back to what the application has, and stay there. */
void sk_twin_pin_all(void);
/** The same of one; with `turn_lock` held. */
void sk_twin_pin(struct sk_queue *queue);
/** The queue of the application that this is the twin of, or NULL. */
struct sk_queue *sk_twin_owner(cl_command_queue twin);
/** What is to be released of a queue, once no lock is held: a driver may run commands in it. */
struct sk_leftover {
	cl_command_queue twin;
	cl_event barrier;
};
/** The application has released the queue: with `turn_lock` held. */
struct sk_leftover sk_twin_forget(struct sk_queue *queue);
void sk_twin_let_go(const struct sk_leftover *left);

/* turn.c */

/** What is seen of calls from the first one on. Doing it again does nothing. */
void sk_turn_begin(void);
/** From the tick thread: another mode or phase, in force for all calls that begin after it. */
void sk_turn_change(uint32_t mode, uint32_t phase);
/** From the tick thread: the segment tells of it, so queues may follow. */
void sk_turn_settle(void);
/** Once no queue is on its twin, calls need not look. */
void sk_turn_simplify(void);

/* adapter.c */

extern const struct sk_tracer_adapter sk_opencl_adapter;

/* order.c */

void sk_order_hook(struct _cl_icd_dispatch *table);
/** Another address for a function by name, where the layer stands before it; else NULL. */
void *sk_order_extension(const char *name);

/* wait.c */

void sk_wait_hook(struct _cl_icd_dispatch *table);

/* device.c */

/** Row of a device in the segment, or SK_NO_DEVICE. With `turn_lock` held. */
unsigned sk_device_row(cl_device_id device);

/* kernel.c */

/** Row of the kernel's name in the segment. */
unsigned sk_kernel_name(cl_kernel kernel);
void sk_kernel_hook(struct _cl_icd_dispatch *table);

/* harvest.c */

/** Turn finished launches of the calling thread into records. */
void sk_harvest_all(struct sk_thread *thread);
void sk_harvest_lane(struct sk_thread *thread, unsigned lane);
/** After a call that has waited, if the calling thread is traced. */
void sk_harvest_after_wait(void);
/** The same for a thread that is not calling; false when it is busy itself. */
bool sk_harvest_for(struct sk_thread *thread);

/** Record it; from the owner of the slot. */
void sk_harvest_host(struct sk_thread *thread, const struct sk_host_span *span);

/** What the tracer library calls: a thread joins, leaves, was held; a tick; the process's end. */
void sk_harvest_join(struct sk_tracer_slot *slot);
bool sk_harvest_leave(struct sk_tracer_slot *slot);
void sk_harvest_held(struct sk_tracer_slot *slot, uint64_t from_ns, uint64_t to_ns);
/** Harvest for threads that do not look after themselves; true when launches wait. */
bool sk_harvest_threads(void);
void sk_harvest_exit(void);

/* enqueue.c, copies.c */

void sk_enqueue_hook(struct _cl_icd_dispatch *table);
void sk_copies_hook(struct _cl_icd_dispatch *table);

/** Replace an entry where the driver has one. */
#define SK_HOOK(table, function, hook)                                                             \
	do {                                                                                       \
		if (next.function)                                                                 \
			(table)->function = (hook);                                                \
	} while (0)

/** A lane has room for as many launches as the largest ring has for records. */
static inline uint64_t sk_lane_mask(void)
{
	return (sk_tracer->started_mode == SK_MODE_FULL ? SK_SEGMENT_RING_LARGE
							: SK_SEGMENT_RING_SMALL) -
	       1;
}

#endif
