/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The library that every GPU tracer inside a job links: the process's segment, slots of threads,
 * names, devices, clocks, and the mode that the agent wants.
 *
 * The OpenCL layer and the CUPTI, rocprofiler and Level Zero tracers each link a copy of their own,
 * so two of them in one process have two segments. A tracer of this library never waits, except
 * where the agent throttles launches (sk_tracer_throttle). It never fails a call of the
 * application, and it steps aside where it cannot trace.
 *
 * A tracer calls sk_tracer_prepare once when it is loaded. At the first call that matters it calls
 * sk_tracer_ready, which makes the segment and begins the ticks; a process that never gets there
 * leaves no file. At each call of the application it checks sk_tracer_mode or its own phase.
 *
 * Memory: `sk_tracer` lies in pages that the kernel wipes in a forked child, so the child's tracer
 * is new and has a segment of its own, whatever way the child was forked. Threads: a slot belongs
 * to one thread at a time. The only producer of its ring is this thread or, where the tracer
 * arranges that, the thread that harvests for it. Records may tell of other threads (`tid`), as
 * those that a vendor's profiler hands over later. Cost: sk_tracer_mode is one load. After a
 * thread's first call nothing here allocates, locks or calls the kernel, except for a name seen for
 * the first time and for memory of the first lap of a ring.
 */
#ifndef SK_TRACER_TRACER_H
#define SK_TRACER_TRACER_H

#include "tracer/clock.h"
#include "tracer/thread_clock.h"
#include "tracer/adapter.h"

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
	_Atomic uint64_t *counts;	  /* launches by row of the name */
	struct sk_segment_copies *copies; /* copies by kind */
	uint32_t index;
	_Atomic uint32_t state; /* enum sk_tracer_slot_state */
	uint64_t populated;	/* cells of the ring that have memory */
	struct sk_ring ring;
	struct sk_thread_clock clock; /* the owner's */
};

/** The properties of one tracer; the callbacks may be NULL. */
struct sk_tracer_options {
	uint32_t kind; /* enum sk_tracer_kind, with the flag of simulated devices */
	size_t slot_bytes;
	/** A tracer that begins dormant has no tick thread until it calls sk_tracer_wake: a second
	 * thread costs a single-threaded program 25 to 170 ns a launch (PoCL 3.1, basic: its
	 * locks).
	 */
	bool wakes;
	/** The tracer calls sk_tracer_throttle in its launches; the agent reads this in the
	 * segment. */
	bool throttles;
	/** A slot has a new owner, the calling thread. */
	void (*on_join)(struct sk_tracer_slot *slot);
	/** The slot's owner, the calling thread, ends. True when no record waits, so the slot may
	 * be reused. */
	bool (*on_leave)(struct sk_tracer_slot *slot);
	/** The slot's owner, the calling thread, waited in a launch from `from_ns` to `to_ns`
	 * because launches are throttled. It is called in modes that see launches. Until it returns
	 * the reader settles nothing that is later than `from_ns`. */
	void (*on_throttled)(struct sk_tracer_slot *slot, uint64_t from_ns, uint64_t to_ns);
	/** The vendor's part of the driver. NULL: a mode changes at once and nothing is harvested.
	 */
	const struct sk_tracer_adapter *adapter;
};

enum sk_tracer_state { SK_TRACER_NEW, SK_TRACER_READY, SK_TRACER_FAILED };

struct sk_tracer {
	_Atomic uint64_t generation; /* number of this process's tracer; 0: not ready */
	_Atomic uint32_t state;	     /* enum sk_tracer_state */
	_Atomic uint32_t mode;	     /* enum sk_mode in force; SK_MODE_OFF before it is ready */
	uint32_t started_mode;	     /* the mode in the environment */
	uint32_t budget_ppm;
	bool populate; /* the segment's memory can be had ahead of its use */
	bool counter;  /* threads may read the time by the CPU's counter */
	pthread_mutex_t lock;
	struct sk_segment *segment;
	size_t segment_bytes;
	uint64_t tick_at_ns; /* time of the next tick, if it is sooner than usual; tick thread */
	pthread_mutex_t tick_lock; /* held while the tick thread is in a driver */
	pthread_t ticks;
	_Atomic bool ticking;
	bool lapsed; /* the lease has ended, and launches are only counted; tick thread */
	_Atomic uint32_t exiting;
	uint32_t open_phase; /* phase of the open window; whoever calls sk_tracer_changed */
	uint64_t open_chosen_ns;
	uint64_t open_launches; /* launches so far when it was opened */
	struct sk_tracer_driver driver;
	_Atomic(struct sk_tracer_slot *) slots[SK_SEGMENT_SLOTS];
};

extern struct sk_tracer *sk_tracer; /* NULL before sk_tracer_prepare, or when it failed */

/** Make the private state. False without STOKER_TRACE_DIR, without a mode (dormant, governed, full)
 * in STOKER_TRACE_MODE, or without memory; the tracer then stays out of every call. */
bool sk_tracer_prepare(const struct sk_tracer_options *options);

/** Make this process's segment, once, and begin the ticks: every 20 ms while there is work, every
 * 100 ms otherwise. Ticks look at the control block and the lease, so a mode is in force, or the
 * end of the lease is noticed, within 100 ms. False when there can be no segment. */
bool sk_tracer_ready(void);

/** A call of the application has found another `wanted` in the control block, with the option
 * `wakes`. A wish to be dormant is answered at once; any other begins the ticks. */
void sk_tracer_wake(void);

/** Take `tick_lock` while the process ends; false when a driver has had it for a second. */
bool sk_tracer_lock_at_exit(void);

/** Return pages of zeros that are zeros again in a forked child, or NULL. They are never given
 * back. */
void *sk_tracer_pages(size_t bytes);

/** Give memory to a part of the segment now, so that a full disk is an answer and not a signal. */
bool sk_tracer_populate(void *from, size_t bytes);

/** Return CLOCK_MONOTONIC in ns. */
uint64_t sk_tracer_now(void);

/** Return the phase that a mode begins with: blind while dormant, otherwise timed. */
static inline uint32_t sk_tracer_phase(uint32_t mode)
{
	return mode == SK_MODE_GOVERNED || mode == SK_MODE_FULL ? SK_PHASE_TIMED : SK_PHASE_BLIND;
}

/** Return whether calls are counted in a phase; they may be timed as well. */
static inline bool sk_tracer_sees(uint32_t phase)
{
	return phase == SK_PHASE_TIMED || phase == SK_PHASE_COUNTED;
}

/** Return the mode in force, enum sk_mode. */
static inline uint32_t sk_tracer_mode(void)
{
	return atomic_load_explicit(&sk_tracer->mode, memory_order_relaxed);
}

/** The slow part of sk_tracer_throttle. */
void sk_tracer_wait_throttled(void);

/** Wait while the agent throttles launches, at most SK_THROTTLE_PERIOD_NS. A tracer calls this
 * before a launch, and before it takes anything that other threads may have to wait for. Where
 * launches are not throttled it takes two loads and reads no clock. */
static inline void sk_tracer_throttle(void)
{
	/* The generation is stored after the segment, and it is 0 in a child that was just forked.
	 */
	if (atomic_load_explicit(&sk_tracer->generation, memory_order_acquire) &&
	    __builtin_expect(atomic_load_explicit(&sk_tracer->segment->header.hold,
						  memory_order_relaxed) != 0,
			     0))
		sk_tracer_wait_throttled();
}

struct sk_tracer_local {
	uint64_t generation;
	struct sk_tracer_slot *slot;
};
extern _Thread_local struct sk_tracer_local sk_tracer_here;

/** The slow part of sk_tracer_slot. */
struct sk_tracer_slot *sk_tracer_join(void);

/** Return the calling thread's slot, or NULL: no segment, or more threads than slots. */
static inline struct sk_tracer_slot *sk_tracer_slot(void)
{
	/* The generation is 0 in a child that was just forked, and never 0 in `sk_tracer_here`. */
	if (sk_tracer_here.generation && sk_tracer_here.generation == sk_tracer->generation)
		return sk_tracer_here.slot;
	return sk_tracer_join();
}

/** Return whether the slot's thread has ended while a record waited. Then sk_tracer_free is due
 * once none waits. */
static inline bool sk_tracer_has_left(struct sk_tracer_slot *slot)
{
	/* Pairs with the release in the ending thread, which appends no more. */
	return atomic_load_explicit(&slot->state, memory_order_acquire) == SK_TRACER_SLOT_LEFT;
}

/** Give up a slot for which on_leave has returned false. */
void sk_tracer_free(struct sk_tracer_slot *slot);

/** Return the row of a name in the segment; 0, "(other)", where there is no room. May lock. */
unsigned sk_tracer_name(const char *text);

/** Return the row of the device with this id, made when it is new, or SK_NO_DEVICE. `type` has bits
 * of cl_device_type (4 GPU, 2 CPU, 8 accelerator); `id` is the name in the agent's inventory. May
 * lock. */
unsigned sk_tracer_device(const char *id, const char *name, uint32_t type);

/** Tell how the stamps of a device's records were put on CLOCK_MONOTONIC. */
void sk_tracer_clock(unsigned device, const char *clock, int64_t offset_ns, int64_t drift_ppb,
		     uint64_t error_ns);

/** Add to a counter that has one writer at a time: a load and a store suffice, since the reader
 * only needs whole words. */
static inline void sk_tracer_add(_Atomic uint64_t *counter, uint64_t more)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/** Count a launch that the driver took; from the owner of the slot. */
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

/** Count a launch or a copy of a thread without a slot; it is counted as refused, too. */
void sk_tracer_count_shared(bool kernel, unsigned row, uint64_t bytes);

/** Give memory to the next cells of the ring's first lap; false where there is none. */
bool sk_tracer_more_cells(struct sk_tracer_slot *slot);

/** Return the cell of the next record, which the ring's producer fills and commits. NULL when the
 * ring is full; the caller counts that. */
static inline struct sk_record *sk_tracer_cell(struct sk_tracer_slot *slot)
{
	if (slot->ring.head < slot->populated || slot->ring.head > slot->ring.mask ||
	    sk_tracer_more_cells(slot))
		return sk_ring_reserve(&slot->ring);
	return NULL;
}

/** Return the cell of a launch or a copy. NULL when the ring is full, which is counted as
 * `ring_full` with `lost_ns`, the device time that goes unrecorded. */
static inline struct sk_record *sk_tracer_reserve(struct sk_tracer_slot *slot, uint64_t lost_ns)
{
	struct sk_record *cell = sk_tracer_cell(slot);

	if (!cell) {
		sk_tracer_add(&slot->shared->counters.ring_full, 1);
		sk_tracer_add(&slot->shared->counters.lost_ns, lost_ns);
	}
	return cell;
}

/** Count a wait, barrier or user event that gets no record; from any thread. */
static inline void sk_tracer_host_lost(struct sk_tracer_slot *slot)
{
	atomic_fetch_add_explicit(&slot->shared->counters.host_lost, 1, memory_order_relaxed);
}

static inline void sk_tracer_commit(struct sk_tracer_slot *slot)
{
	sk_ring_commit(&slot->ring);
	/* The ring is larger than the caches: fetch the next cell's line before the next launch. */
	__builtin_prefetch(&slot->ring.cells[slot->ring.head & slot->ring.mask], 1);
}

/** Tell the reader when the oldest call of a lane was made that still waits for its record, so that
 * it settles nothing later; 0: none waits. */
static inline void sk_tracer_oldest_ns(struct sk_tracer_slot *slot, unsigned lane, uint64_t ns)
{
	/* The word follows the records it stands for: pairs with the reader's fence between the
	 * two. */
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

/** Close the open window and begin the next: mode and phase are in force from `at_ns` on.
 * `chosen_ns` is the length of the period that the window was drawn for, 0 where nothing is drawn.
 */
void sk_tracer_changed(uint32_t mode, uint32_t phase, uint64_t at_ns, uint64_t chosen_ns);

/** Return the launches and copies counted so far, and in `ret_tracer_ns` the time that the tracer
 * itself has taken. */
uint64_t sk_tracer_launches(uint64_t *ret_tracer_ns);

/** Stay dormant for good and name the reason in the segment, as another profiler in the only place.
 */
void sk_tracer_step_aside(const char *holder);

#endif
