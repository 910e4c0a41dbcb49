/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The state that the files of the OpenCL layer share: one global object, threads, queues and
 * clocks.
 *
 * The layer sits between a job's program and its OpenCL drivers (OPENCL_LAYERS). The application
 * has its queues as it asked for them. While launches are timed, their commands go to a shadow
 * queue, which has profiling (shadow.c). The layer keeps a reference to the event of each launch it
 * times, and later makes a record of the event's stamps in the process's trace segment. It never
 * waits, never blocks a call and never fails one; where it cannot trace it steps aside.
 *
 * Memory: `sk_cl` lies in pages that the kernel wipes in a forked child, so a child begins with a
 * segment of its own, whatever way it was forked; the parent's segment is not mapped there.
 * Threads: each application thread has a slot of its own. The tick thread harvests for threads that
 * make no calls; the thread that has set `harvesting` is the producer of the ring.
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
	SK_CL_QUEUES = 4096,
	SK_CL_QUEUE_PROPERTIES = 16,
	SK_CL_KERNEL_CACHE = 8192,
	SK_CL_CELLS = SK_SEGMENT_NAMES + SK_KINDS,
	SK_CL_DEFERRED = 4, /* waits that are kept while another thread has the ring */
	SK_CL_USER_EVENTS = 1024,
	SK_CL_PROBES = 16, /* in an open-addressed table */
};

/** A launch whose end has not been seen yet. */
struct sk_cl_waiting {
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
struct sk_cl_lane {
	struct sk_cl_waiting *items; /* mapped at first use */
	uint64_t try_at;       /* number of launches at which the owner looks for finished ones */
	uint64_t tried_ns;     /* time of the owner's latest look, at an append */
	_Atomic uint64_t tail; /* launches appended; the owner stores it with release */
	_Atomic uint64_t head; /* launches taken out; written by the thread that has `harvesting` */
};

/** The choice of launches of one kernel name under `governed`; see governor.h. */
struct sk_cl_cell {
	uint64_t began_ns;
	uint32_t left;
	uint32_t pick;
	uint32_t shift;
};

/** A span in which a thread of the host did something or waited. */
struct sk_cl_host_span {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t correlation;
	uint16_t queue;
	uint8_t kind;
	uint8_t device;
	uint8_t shift;
};

/** The private side of a slot. */
struct sk_cl_thread {
	struct sk_tracer_slot base;
	_Atomic(cl_command_queue)
		in_queue;	   /* the application's queue, while a call is in the driver */
	uint32_t last_correlation; /* number of the thread's latest timed call */
	uint8_t last_shift;
	bool last_timed;	/* the thread's latest counted call was timed */
	uint64_t seen_launches; /* as of the tick thread's latest count; see adapter.c */
	uint32_t samples;  /* timed launches; some are chosen to measure the tracer's own cost */
	uint32_t harvests; /* harvests; some are chosen to be measured */
	uint64_t random;
	int64_t credit_ns; /* time that the tracer may spend, under `governed` */
	uint64_t refilled_ns;
	uint32_t cells_used;
	uint32_t untimed;
	uint32_t hook_cost_ns; /* moving averages for each timed launch */
	uint32_t harvest_cost_ns;
	uint32_t untimed_cost_ns;
	uint32_t lanes_waiting; /* one bit for each lane that is not empty; the owner's */
	_Atomic uint64_t harvested;
	uint64_t harvested_before; /* value at the latest tick */
	bool waited_before;	   /* launches waited at the latest tick */
	atomic_flag harvesting;
	/* Spans that wait for the ring to be free; the owner's, until the process ends. */
	_Atomic uint32_t deferred_count;
	struct sk_cl_host_span deferred[SK_CL_DEFERRED];
	struct sk_cl_lane lanes[SK_SEGMENT_LANES];
	struct sk_cl_cell cells[SK_CL_CELLS];
};

/** A queue of the application and its shadow. Fields that are not atomic are written under
 * `queue_lock`. */
struct sk_cl_queue {
	_Atomic(cl_command_queue) handle;  /* the application's queue, as it asked for it */
	_Atomic(cl_command_queue) current; /* the queue that commands go to: `handle` or `shadow` */
	_Atomic uint64_t epoch;		   /* the epoch that the queue follows; see epoch.h */
	cl_command_queue shadow;	   /* queue with profiling, made when it is first needed */
	cl_event barrier;		   /* latest barrier of a queue out of order */
	cl_context context;
	cl_device_id on;
	uint64_t made_epoch;
	_Atomic uint32_t references; /* references of the application */
	uint16_t number;
	uint8_t device; /* SK_NO_DEVICE: counted, not timed */
	uint8_t lane;
	_Atomic bool profiled; /* `current` has profiling */
	bool pinned;	       /* `current` stays what it is */
	bool used;	       /* the queue may have commands in it */
	bool unordered;
	uint8_t property_count;
	cl_queue_properties properties[SK_CL_QUEUE_PROPERTIES]; /* the application's properties */
};

/** A user event that is not set yet. */
struct sk_cl_user_event {
	cl_event event;
	uint64_t made_ns;
};

/** The mapping of one device's stamps to CLOCK_MONOTONIC; see clock.c. */
struct sk_cl_clock {
	_Atomic uint32_t version; /* odd while it changes */
	_Atomic int32_t id; /* row of the table of clocks, from 1, or enum sk_cl_clock_source */
	_Atomic uint64_t reference_ns;
	_Atomic int64_t offset_ns;
	_Atomic int64_t drift_ppb;
	_Atomic uint64_t error_ns;
	_Atomic uint64_t refreshed_ns;
	_Atomic uint32_t misses;
	atomic_flag changing;
};

enum sk_cl_clock_source { SK_CL_CLOCK_UNKNOWN = 0, SK_CL_CLOCK_BY_CALLS = -1 };

struct sk_cl_layer {
	pthread_mutex_t lock; /* for the cache of kernels; taken before the tracer's own lock */
	cl_device_id devices[SK_SEGMENT_DEVICES]; /* by row in the segment */
	struct sk_cl_clock clocks[SK_SEGMENT_DEVICES];
	_Atomic uint64_t epoch;	       /* the current epoch; see epoch.h */
	_Atomic uint64_t settled;      /* the latest epoch that every thread has noticed */
	_Atomic uint32_t unregistered; /* threads without a slot that are in the driver now */
	_Atomic uint32_t correlations;
	_Atomic uint32_t shadows; /* queues that are on their shadow now */
	_Atomic bool unordered;	  /* a queue out of order has had a shadow */
	bool has_fence;		  /* there is a barrier on all threads, membarrier(2) */
	_Atomic uint32_t pin_new;
	_Atomic uint32_t share; /* the tracer may take 1 / share of a thread's time */
	pthread_mutex_t queue_lock;
	uint64_t looked_ns;		/* time of the latest count of launches; tick thread */
	double rate;			/* launches per ns of the busiest thread */
	double counted_ns;		/* cost of a launch of that thread that is only counted */
	double timed_ns;		/* cost of one that is timed, with its record */
	_Atomic int64_t credit_most_ns; /* the most that a thread may save up */
	_Atomic uint32_t driver_ns;	/* what the driver takes for an event and its stamps */
	uint32_t queues_made;
	_Atomic uint64_t kernels[SK_CL_KERNEL_CACHE]; /* handle in the low 48 bits, name above */
	struct sk_cl_queue queues[SK_CL_QUEUES];
	_Atomic(cl_command_queue) shadow_handles[SK_CL_QUEUES];
	uint16_t shadow_rows[SK_CL_QUEUES];
	pthread_mutex_t user_lock;
	_Atomic uint32_t user_count;
	struct sk_cl_user_event user_events[SK_CL_USER_EVENTS];
};

/** The driver's time for an event and its stamps cannot be measured inside of a call. In PoCL 3.1,
 * by loops with and without them, an event takes 10 to 13 ns, and profiling 72 to 84 ns where a
 * reading of the clock takes 22.5: a command is stamped four times. */
enum { SK_CL_EVENT_COST_NS = 12, SK_CL_STAMPS = 4 };

extern struct sk_cl_layer *sk_cl;
extern struct _cl_icd_dispatch sk_cl_next; /* the driver's, or the next layer's, functions */

/** Return the calling thread's slot, or NULL: no segment, or more threads than slots. */
static inline struct sk_cl_thread *sk_cl_thread_here(void)
{
	return (struct sk_cl_thread *)sk_tracer_slot();
}

/** Return the time of CLOCK_MONOTONIC in ns, as the slot's owner reads it. */
static inline uint64_t sk_cl_thread_now(struct sk_cl_thread *thread)
{
	return sk_thread_clock_now(&thread->base.clock);
}

/* clock.c */

/** Stamps of one command. */
struct sk_cl_stamps {
	uint64_t queued_ns;
	uint64_t start_ns;
	uint64_t end_ns;
};

/** Return the queued and start stamps of one launch on CLOCK_MONOTONIC; the end follows the start
 * by the device's own length, whatever the mapping of clocks does meanwhile. The queued stamp lies
 * within the call [from_ns, to_ns], which also refines the mapping. */
struct sk_cl_stamps sk_cl_clock_place(unsigned device, const struct sk_cl_stamps *raw,
				      uint64_t from_ns, uint64_t to_ns);

/* queue.c */

static inline size_t sk_cl_queue_place(const void *handle)
{
	return (size_t)(((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}

/** Return the row of a queue of the application, or NULL. */
static inline struct sk_cl_queue *sk_cl_queue_find(cl_command_queue handle)
{
	size_t place = sk_cl_queue_place(handle);

	for (size_t i = 0; i < SK_CL_PROBES; i++) {
		struct sk_cl_queue *queue = &sk_cl->queues[(place + i) % SK_CL_QUEUES];

		/* Pairs with the release in queue.c: the row is filled. */
		if (atomic_load_explicit(&queue->handle, memory_order_acquire) == handle)
			return queue;
	}
	return NULL;
}

void sk_cl_queue_hook(struct _cl_icd_dispatch *table);
cl_command_queue CL_API_CALL sk_cl_queue_create_with(cl_context context, cl_device_id device,
						     const cl_queue_properties *properties,
						     cl_int *error);

/* shadow.c */

/** Let the queue follow `epoch`. The calling thread has noted its call in `in_queue`, or in
 * `unregistered` if it has no slot. */
void sk_cl_shadow_follow(struct sk_cl_queue *queue, struct sk_cl_thread *thread, uint64_t epoch);
/** Send all queues' commands to the application's queues, now and for good. */
void sk_cl_shadow_pin_all(void);
/** Send one queue's commands to the application's queue for good; with `queue_lock` held. */
void sk_cl_shadow_pin(struct sk_cl_queue *queue);
/** Return the queue of the application whose shadow this is, or NULL. */
struct sk_cl_queue *sk_cl_shadow_owner(cl_command_queue shadow);
/** Objects to release once no lock is held, because a driver may run commands in a release. */
struct sk_cl_leftover {
	cl_command_queue shadow;
	cl_event barrier;
};
/** Forget a queue that the application has released; with `queue_lock` held. */
struct sk_cl_leftover sk_cl_shadow_forget(struct sk_cl_queue *queue);
void sk_cl_shadow_let_go(const struct sk_cl_leftover *left);

/* epoch.c */

/** Make the first epoch; a further call does nothing. */
void sk_cl_epoch_begin(void);
/** Begin an epoch, in force for all calls that begin from then on; tick thread. */
void sk_cl_epoch_change(uint32_t mode, uint32_t phase);
/** Settle the epoch, so that queues may follow it; tick thread. */
void sk_cl_epoch_settle(void);
/** Let calls skip the look-up of queues once no queue is on its shadow. */
void sk_cl_epoch_simplify(void);

/* adapter.c */

extern const struct sk_tracer_adapter sk_cl_adapter;

/* order.c */

void sk_cl_order_hook(struct _cl_icd_dispatch *table);
/** Return another address for a function by name, where the layer stands before it; otherwise NULL.
 */
void *sk_cl_order_extension(const char *name);

/* wait.c */

void sk_cl_wait_hook(struct _cl_icd_dispatch *table);

/* device.c */

/** Return the row of a device in the segment, or SK_NO_DEVICE; with `queue_lock` held. */
unsigned sk_cl_device_row(cl_device_id device);

/* kernel.c */

/** Return the row of the kernel's name in the segment. */
unsigned sk_cl_kernel_name(cl_kernel kernel);
void sk_cl_kernel_hook(struct _cl_icd_dispatch *table);

/* harvest.c */

/** Make records of the calling thread's finished launches. */
void sk_cl_harvest_all(struct sk_cl_thread *thread);
void sk_cl_harvest_lane(struct sk_cl_thread *thread, unsigned lane);
/** Harvest after a call that has waited, if the calling thread is traced. */
void sk_cl_harvest_after_wait(void);
/** Harvest for a thread that makes no call; false when it is busy itself. */
bool sk_cl_harvest_for(struct sk_cl_thread *thread);

/** Record a span; from the owner of the slot. */
void sk_cl_harvest_host(struct sk_cl_thread *thread, const struct sk_cl_host_span *span);

/** Callbacks of the tracer library: a thread joins, leaves, was throttled; the process ends. */
void sk_cl_harvest_join(struct sk_tracer_slot *slot);
bool sk_cl_harvest_leave(struct sk_tracer_slot *slot);
void sk_cl_harvest_held(struct sk_tracer_slot *slot, uint64_t from_ns, uint64_t to_ns);
/** Harvest for threads that do not look after themselves; true when launches wait. */
bool sk_cl_harvest_threads(void);
void sk_cl_harvest_exit(void);

/* enqueue.c, copies.c */

void sk_cl_enqueue_hook(struct _cl_icd_dispatch *table);
void sk_cl_copies_hook(struct _cl_icd_dispatch *table);

/** Replace an entry of the table where the driver has one. */
#define SK_CL_HOOK(table, function, hook)                                                          \
	do {                                                                                       \
		if (sk_cl_next.function)                                                           \
			(table)->function = (hook);                                                \
	} while (0)

/** Return the mask of a lane's places: as many launches as the largest ring has records. */
static inline uint64_t sk_cl_lane_mask(void)
{
	return (sk_tracer->started_mode == SK_MODE_FULL ? SK_SEGMENT_RING_LARGE
							: SK_SEGMENT_RING_SMALL) -
	       1;
}

#endif
