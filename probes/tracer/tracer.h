/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What every GPU tracer inside a job has in common: the process's segment, slots of threads, names,
 * devices, clocks, and the mode that the agent wants.
 *
 * Relied on by the OpenCL layer, the CUPTI, rocprofiler and Level Zero tracers, each of which links
 * its own copy, so that two of them in one process have two segments. A tracer of this library
 * never waits but where the agent holds launches (sk_tracer_hold), never fails a call of the
 * application, and steps aside where it cannot trace.
 *
 * A tracer calls, in this order: sk_tracer_prepare once when it is loaded; sk_tracer_ready at the
 * first call that matters (a process that never gets there leaves no file), which begins the ticks
 * too; then, per call of the application, sk_tracer_mode and what the mode asks for.
 *
 * Memory: `sk_tracer` lies in pages that the kernel wipes in a forked child: there the tracer is
 * new, with a segment of its own, whatever way the child was forked. Threads: a slot belongs to one
 * thread at a time, which is the only producer of its ring, or to who harvests for it, one at a
 * time, if the tracer arranges that. Records may speak of other threads (`tid`), as those that a
 * vendor's profiler hands over later. Cost: sk_tracer_mode is one load; nothing below allocates,
 * locks or calls the kernel after a thread's first call, except a name seen for the first time and
 * memory for the first lap of a ring.
 */
#ifndef SK_TRACER_H
#define SK_TRACER_H

#include "tracer/clock.h"
#include "tracer/driver.h"

#include "records/throttle.h"
#include "records/ring.h"
#include "records/segment.h"

#include <pthread.h>
#include <stdbool.h>

enum sk_tracer_slot_state { SK_TRACER_SLOT_FREE, SK_TRACER_SLOT_OWNED, SK_TRACER_SLOT_LEFT };

/** The private side of a slot; a tracer that needs more embeds it as the first member and says so
 * in `slot_bytes`. */
struct sk_tracer_slot {
	struct sk_slot *shared;
	_Atomic uint64_t *counts;	  /* by name */
	struct sk_segment_copies *copies; /* by kind */
	uint32_t index;
	_Atomic uint32_t state; /* enum sk_tracer_slot_state */
	uint64_t populated;	/* cells of the ring that have memory */
	struct sk_ring ring;
};

/** What tells one tracer from another; the callbacks may be NULL. */
struct sk_tracer_options {
	uint32_t kind; /* enum sk_tracer_kind, with the flag for simulated devices */
	size_t slot_bytes;
	/** Begun dormant, no thread ticks until the tracer calls sk_tracer_wake: a second thread
	 * alone costs a program that has one about 25 ns a launch (PoCL 3.1, basic: its locks). */
	bool wakes;
	/** It calls sk_tracer_hold in its launches, which the agent must know. */
	bool holds;
	/** A slot has got a new owner, the calling thread. */
	void (*on_join)(struct sk_tracer_slot *slot);
	/** Its owner, the calling thread, ends. True when nothing is waiting: the slot may go on.
	 */
	bool (*on_leave)(struct sk_tracer_slot *slot);
	/** Its owner, the calling thread, waited in a launch from `from_ns` to `to_ns` because
	 * launches are held; in a mode that sees launches. Until it returns the reader settles
	 * nothing that is later than `from_ns`. */
	void (*on_held)(struct sk_tracer_slot *slot, uint64_t from_ns, uint64_t to_ns);
	/** What the vendor adds to the driver. NULL: a mode changes at once and nothing is
	 * harvested. */
	const struct sk_tracer_adapter *adapter;
};

enum sk_tracer_state { SK_TRACER_NEW, SK_TRACER_READY, SK_TRACER_FAILED };

struct sk_tracer {
	_Atomic uint64_t generation; /* of this process; 0: not ready */
	_Atomic uint32_t state;	     /* enum sk_tracer_state */
	_Atomic uint32_t mode;	     /* enum sk_mode in force; SK_MODE_OFF before it is ready */
	uint32_t started_mode;	     /* as the environment had it */
	uint32_t budget_ppm;
	bool populate; /* memory of the segment can be had ahead of its use */
	pthread_mutex_t lock;
	struct sk_segment *segment;
	size_t segment_bytes;
	uint64_t tick_at_ns;	   /* when the next tick is due, if sooner; of the tick thread */
	pthread_mutex_t tick_lock; /* held while the tick thread is in a driver */
	pthread_t ticks;
	_Atomic bool ticking;
	bool lapsed; /* launches are only counted since the lease has ended; of the tick thread */
	_Atomic uint32_t exiting;
	uint32_t open_phase; /* of the window that is open; of who calls sk_tracer_changed */
	uint64_t open_chosen_ns;
	uint64_t open_launches; /* that there were when it was opened */
	struct sk_tracer_driver driver;
	_Atomic(struct sk_tracer_slot *) slots[SK_SEGMENT_SLOTS];
};

extern struct sk_tracer *sk_tracer; /* NULL before sk_tracer_prepare, or when it failed */

/** Make the private state. False without STOKER_TRACE_DIR and a mode in STOKER_TRACE_MODE
 * (dormant, governed, full), or without memory: the tracer then stays out of every call. */
bool sk_tracer_prepare(const struct sk_tracer_options *options);

/** Make this process's segment, once, and begin the ticks: every 20 ms while there is work, every
 * 100 ms when quiet. They look at the control block and the lease, so a mode is in force, or the
 * end of the lease noticed, within 100 ms. False when there can be no segment. */
bool sk_tracer_ready(void);

/** With the option `wakes`, from a call of the application that finds another `wanted` in the
 * control block: a wish to be dormant is answered, any other begins the ticks. */
void sk_tracer_wake(void);

/** Take `tick_lock` while the process ends; false when a driver has had it for a second. */
bool sk_tracer_lock_at_exit(void);

/** Pages of zeros that are zeros again in a forked child, or NULL. Never given back. */
void *sk_tracer_pages(size_t bytes);

/** Give memory to a part of the segment now, so that a full disk is an answer and not a signal. */
bool sk_tracer_populate(void *from, size_t bytes);

/** CLOCK_MONOTONIC, in ns. */
uint64_t sk_tracer_now(void);

/** What is seen under a mode without a governor: SK_PHASE_BLIND while dormant, else all. */
static inline uint32_t sk_tracer_phase(uint32_t mode)
{
	return mode == SK_MODE_GOVERNED || mode == SK_MODE_FULL ? SK_PHASE_TIMED : SK_PHASE_BLIND;
}

/** True when a phase sees calls at all: they are counted, and perhaps timed. */
static inline bool sk_tracer_sees(uint32_t phase)
{
	return phase == SK_PHASE_TIMED || phase == SK_PHASE_COUNTED;
}

/** The mode in force, enum sk_mode. */
static inline uint32_t sk_tracer_mode(void)
{
	return atomic_load_explicit(&sk_tracer->mode, memory_order_relaxed);
}

/** The slow part of sk_tracer_hold. */
void sk_tracer_wait_for_turn(void);

/** Before a launch, and before anything that others could have to wait for: sleeps while the agent
 * holds launches, at most SK_THROTTLE_PERIOD_NS. Two loads, and no clock is read, where nothing is
 * held.
 */
static inline void sk_tracer_hold(void)
{
	/* The generation is stored after the segment, and 0 in a child that was just forked. */
	if (atomic_load_explicit(&sk_tracer->generation, memory_order_acquire) &&
	    __builtin_expect(atomic_load_explicit(&sk_tracer->segment->header.hold,
						  memory_order_relaxed) != 0,
			     0))
		sk_tracer_wait_for_turn();
}

struct sk_tracer_local {
	uint64_t generation;
	struct sk_tracer_slot *slot;
};
extern _Thread_local struct sk_tracer_local sk_tracer_here;

/** The slow part of sk_tracer_slot. */
struct sk_tracer_slot *sk_tracer_join(void);

/** The calling thread's slot, or NULL: no segment, or more threads than slots. */
static inline struct sk_tracer_slot *sk_tracer_slot(void)
{
	/* The generation is 0 in a child that was just forked, and never 0 in `sk_tracer_here`. */
	if (sk_tracer_here.generation && sk_tracer_here.generation == sk_tracer->generation)
		return sk_tracer_here.slot;
	return sk_tracer_join();
}

/** Has its thread ended while something was waiting? Then sk_tracer_free is due after that. */
static inline bool sk_tracer_has_left(struct sk_tracer_slot *slot)
{
	/* Pairs with the release in the ending thread: it appends no more. */
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SK_TRACER_SLOT_LEFT;
}

/** Give up a slot after on_leave had said that something was waiting. */
void sk_tracer_free(struct sk_tracer_slot *slot);

/** Row of a name in the segment; 0, "(other)", where there is no room. May lock. */
unsigned sk_tracer_name(const char *text);

/** Row of the device with this id, made when new, or SK_NO_DEVICE. `type`: cl_device_type bits (4
 * GPU, 2 CPU, 8 accelerator); `id` as the agent's inventory names the device. May lock. */
unsigned sk_tracer_device(const char *id, const char *name, uint32_t type);

/** How the stamps of a device's records were put on CLOCK_MONOTONIC. */
void sk_tracer_clock(unsigned device, const char *clock, int64_t offset_ns, int64_t drift_ppb,
		     uint64_t error_ns);

/** One writer at a time, so a load and a store do; the reader wants whole words only. */
static inline void sk_tracer_add(_Atomic uint64_t *counter, uint64_t more)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/** Count a launch or a copy that the driver took; from the owner of the slot. */
static inline void sk_tracer_count_launch(struct sk_tracer_slot *slot, unsigned name)
{
	sk_tracer_add(&slot->counts[name], 1);
	sk_tracer_add(&slot->shared->counters.launches, 1);
}

static inline void sk_tracer_count_copy(struct sk_tracer_slot *slot, unsigned kind, uint64_t bytes)
{
	sk_tracer_add(&slot->copies[kind].count, 1);
	sk_tracer_add(&slot->copies[kind].bytes, bytes);
	sk_tracer_add(&slot->shared->counters.copies, 1);
}

/** The same for a thread without a slot; counted as refused. */
void sk_tracer_count_shared(bool kernel, unsigned row, uint64_t bytes);

/** Memory for the next cells of the ring's first lap; false where there is none. */
bool sk_tracer_more_cells(struct sk_tracer_slot *slot);

/** The cell of the next record, to be filled and committed by the ring's producer; NULL when the
 * ring is full, which is for the caller to count. */
static inline struct sk_record *sk_tracer_cell(struct sk_tracer_slot *slot)
{
	if (slot->ring.head < slot->populated || slot->ring.head > slot->ring.mask ||
	    sk_tracer_more_cells(slot))
		return sk_ring_reserve(&slot->ring);
	return NULL;
}

/** The same for a launch or a copy, counted as `ring_full` with `lost_ns`, the time of a device
 * that goes unrecorded. */
static inline struct sk_record *sk_tracer_reserve(struct sk_tracer_slot *slot, uint64_t lost_ns)
{
	struct sk_record *cell = sk_tracer_cell(slot);

	if (!cell) {
		sk_tracer_add(&slot->shared->counters.ring_full, 1);
		sk_tracer_add(&slot->shared->counters.lost_ns, lost_ns);
	}
	return cell;
}

/** A wait, barrier or user event gets no record; from any thread. */
static inline void sk_tracer_host_lost(struct sk_tracer_slot *slot)
{
	atomic_fetch_add_explicit(&slot->shared->counters.host_lost, 1, memory_order_relaxed);
}

static inline void sk_tracer_commit(struct sk_tracer_slot *slot)
{
	sk_ring_commit(&slot->ring);
	/* The ring is larger than the caches: have the next cell's line by the next launch. */
	__builtin_prefetch(&slot->ring.cells[slot->ring.head & slot->ring.mask], 1);
}

/** Tell the reader when the oldest call of a lane was made that still waits for its record, so that
 * it settles nothing later; 0: none waits. */
static inline void sk_tracer_oldest_ns(struct sk_tracer_slot *slot, unsigned lane, uint64_t ns)
{
	/* After the records it stands for: pairs with the reader's fence between the two. */
	atomic_store_explicit(&slot->shared->oldest_ns[lane], ns, memory_order_release);
}

/** Tell the reader the lane's device as well, SK_NO_DEVICE where it is not known. */
static inline void sk_tracer_oldest(struct sk_tracer_slot *slot, unsigned lane, uint64_t ns,
				    unsigned device)
{
	atomic_store_explicit(&slot->shared->oldest_device[lane], (uint8_t)device,
			      memory_order_relaxed);
	sk_tracer_oldest_ns(slot, lane, ns);
}

/** Mode and phase are in force from `at_ns` on: closes the open window and begins the next. */
void sk_tracer_changed(uint32_t mode, uint32_t phase, uint64_t at_ns, uint64_t chosen_ns);

/** Launches and copies that were counted so far, and what the tracer itself has taken. */
uint64_t sk_tracer_launches(uint64_t *ret_tracer_ns);

/** Another profiler has the only place: said in the segment, and the tracer stays dormant. */
void sk_tracer_step_aside(const char *holder);

#endif
