/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One enqueue call, from its entry to its return: it is sent to the right queue, counted, and timed
 * where that was chosen.
 *
 * The hooks of enqueue.c, copies.c and order.c are all of this form:
 *
 *     struct sk_cl_launch launch;
 *     cl_command_queue to = sk_cl_launch_enter(&launch, the_callers_queue);
 *     cl_event *event = sk_cl_launch_begin(&launch, kind, name, the_callers_event);
 *     cl_int error = sk_cl_next.clEnqueue...(to, ..., event);
 *     sk_cl_launch_end(&launch, error, bytes);
 *
 * A launch counts when the driver took it. The caller's event stays the caller's; where it wanted
 * none, the driver fills one that the application never sees. Memory: the caller's stack. Threads:
 * any. Cost while dormant: two stores and two loads, which epoch.h explains.
 */
#ifndef SK_OPENCL_LAUNCH_H
#define SK_OPENCL_LAUNCH_H

#include "governor.h"
#include "epoch.h"

/* A call that is not seen must cost next to nothing in every hook, so these are always inlined. */
#define SK_CL_ALWAYS_INLINE static inline __attribute__((always_inline))

struct sk_cl_launch {
	struct sk_cl_thread *thread;
	struct sk_cl_queue *row; /* NULL: not looked up, or not known */
	cl_command_queue
		before; /* queue of the call around this one, when it is made from a callback */
	uint64_t epoch;
	cl_event *event; /* the event that the driver fills: the caller's or `own` */
	cl_event own;
	uint64_t entered_ns; /* 0: the tracer's own cost is not measured in this call */
	uint64_t from_ns;
	uint64_t returned_ns;
	uint32_t correlation;
	uint16_t name;
	uint8_t kind;
	uint8_t shift;
	bool timed;
};

/** Finish a timed launch: keep its event and account for the tracer's time. */
void sk_cl_launch_timed_end(struct sk_cl_launch *launch, uint64_t bytes);
void sk_cl_launch_measure_untimed(struct sk_cl_thread *thread, bool profiled);
void sk_cl_launch_unregistered(struct sk_cl_launch *launch);
/** Note a launch that was only counted under `full`. */
void sk_cl_launch_untimed(const struct sk_cl_launch *launch);
/** Record the wait of a blocking call, if it was timed, and harvest what has finished. */
void sk_cl_launch_waited(const struct sk_cl_launch *launch);

/** Return the queue that the command is sent to. */
static inline cl_command_queue sk_cl_launch_route(struct sk_cl_launch *launch,
						  cl_command_queue handle)
{
	struct sk_cl_queue *row = sk_cl_queue_find(handle);

	launch->row = row;
	if (!row)
		return handle;
	/* Pairs with the release in shadow.c: `current` belongs to the epoch. */
	if (atomic_load_explicit(&row->epoch, memory_order_acquire) != launch->epoch)
		sk_cl_shadow_follow(row, launch->thread, launch->epoch);
	return atomic_load_explicit(&row->current, memory_order_relaxed);
}

/** Return whether the agent has written a word that was not answered yet. */
static inline bool sk_cl_launch_is_called(void)
{
	const struct sk_segment_header *header = &sk_tracer->segment->header;

	return atomic_load_explicit(&header->control.wanted, memory_order_relaxed) !=
	       atomic_load_explicit(&header->answer.applied, memory_order_relaxed);
}

SK_CL_ALWAYS_INLINE cl_command_queue sk_cl_launch_enter(struct sk_cl_launch *launch,
							cl_command_queue handle)
{
	struct sk_cl_thread *thread = sk_cl_thread_here();

	launch->thread = thread;
	launch->row = NULL;
	launch->timed = false;
	if (thread) {
		launch->before = atomic_load_explicit(&thread->in_queue, memory_order_relaxed);
		atomic_store_explicit(&thread->in_queue, handle, memory_order_relaxed);
		/* The barrier between the store and the load is run by the thread that changes the
		 * epoch. */
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		sk_cl_launch_unregistered(launch);
	}
	launch->epoch = sk_cl_epoch_now();
	if (launch->epoch & SK_CL_EPOCH_PLAIN) {
		if (launch->epoch & SK_CL_EPOCH_ASLEEP && sk_cl_launch_is_called())
			sk_tracer_wake();
		return handle;
	}
	return sk_cl_launch_route(launch, handle);
}

/** Return whether the call is counted. */
SK_CL_ALWAYS_INLINE bool sk_cl_launch_sees(const struct sk_cl_launch *launch)
{
	return sk_cl_epoch_phase(launch->epoch) == SK_PHASE_TIMED ||
	       sk_cl_epoch_phase(launch->epoch) == SK_PHASE_COUNTED;
}

SK_CL_ALWAYS_INLINE void sk_cl_launch_leave(const struct sk_cl_launch *launch)
{
	/* Pairs with the acquire in shadow.c: the command is in its queue. */
	if (launch->thread)
		atomic_store_explicit(&launch->thread->in_queue, launch->before,
				      memory_order_release);
	else
		atomic_fetch_sub_explicit(&sk_cl->unregistered, 1, memory_order_release);
}

static inline bool sk_cl_launch_can_time(const struct sk_cl_launch *launch)
{
	return sk_cl_epoch_phase(launch->epoch) == SK_PHASE_TIMED && launch->thread &&
	       launch->row && atomic_load_explicit(&launch->row->profiled, memory_order_relaxed) &&
	       launch->row->device != SK_NO_DEVICE;
}

/** Return whether the epoch is still the same after the clock was read. If it is, the call began
 * within the window that its record belongs to. */
static inline bool sk_cl_launch_still(struct sk_cl_launch *launch)
{
	struct sk_slot *slot = launch->thread->base.shared;

	/* The device may begin before the call returns, so the reader must not settle this time
	 * yet. */
	atomic_store_explicit(&slot->calling_ns, launch->from_ns, memory_order_relaxed);
	if (sk_cl_epoch_now() == launch->epoch)
		return true;
	atomic_store_explicit(&slot->calling_ns, 0, memory_order_release);
	launch->timed = false;
	return false;
}

/* Return the event that the driver is to fill. */
static inline cl_event *sk_cl_launch_choose(struct sk_cl_launch *launch, cl_event *event)
{
	struct sk_cl_thread *thread = launch->thread;
	uint64_t now = 0;

	launch->timed = true;
	if (launch->epoch & SK_CL_EPOCH_SAMPLED) {
		struct sk_cl_cell *cell = &thread->cells[launch->kind == SK_KIND_KERNEL
								 ? launch->name
								 : SK_SEGMENT_NAMES + launch->kind];

		launch->timed = sk_cl_governor_take(thread, cell, &now);
		launch->shift = (uint8_t)cell->shift;
	}
	if (!launch->timed)
		return event;
	launch->event = event ? event : &launch->own;
	launch->own = NULL;
	launch->entered_ns = 0;
	if ((thread->samples & 63) == 63)
		launch->entered_ns = now = now ? now : sk_cl_thread_now(thread);
	launch->from_ns = now && !launch->entered_ns ? now : sk_cl_thread_now(thread);
	return sk_cl_launch_still(launch) ? launch->event : event;
}

SK_CL_ALWAYS_INLINE cl_event *sk_cl_launch_begin(struct sk_cl_launch *launch, unsigned kind,
						 unsigned name, cl_event *event)
{
	if (!sk_cl_launch_sees(launch))
		return event;
	launch->kind = (uint8_t)kind;
	launch->name = (uint16_t)name;
	launch->shift = 0;
	return sk_cl_launch_can_time(launch) ? sk_cl_launch_choose(launch, event) : event;
}

static inline void sk_cl_launch_count(const struct sk_cl_launch *launch, uint64_t bytes)
{
	struct sk_cl_thread *thread = launch->thread;
	bool kernel = launch->kind == SK_KIND_KERNEL;

	if (!kernel && launch->kind >= SK_COPY_KINDS)
		return;
	if (!thread)
		sk_tracer_count_shared(kernel, kernel ? launch->name : launch->kind, bytes);
	else if (kernel)
		sk_tracer_count_launch(&thread->base, launch->name);
	else
		sk_tracer_count_copy(&thread->base, launch->kind, bytes);
}

static inline void sk_cl_launch_seen(struct sk_cl_launch *launch, cl_int error, uint64_t bytes)
{
	struct sk_cl_thread *thread = launch->thread;

	if (error) {
		if (launch->timed)
			atomic_store_explicit(&thread->base.shared->calling_ns, 0,
					      memory_order_release);
		launch->timed = false;
		return;
	}
	sk_cl_launch_count(launch, bytes);
	if (!thread)
		return;
	thread->last_timed = launch->timed;
	if (!launch->timed && sk_tracer_mode() == SK_MODE_FULL)
		sk_cl_launch_untimed(launch);
	if (launch->timed)
		sk_cl_launch_timed_end(launch, bytes);
	else if ((++thread->untimed & 1023) == 0)
		sk_cl_launch_measure_untimed(thread, launch->row && launch->row->profiled);
}

SK_CL_ALWAYS_INLINE void sk_cl_launch_end(struct sk_cl_launch *launch, cl_int error, uint64_t bytes)
{
	sk_cl_launch_leave(launch);
	if (sk_cl_launch_sees(launch))
		sk_cl_launch_seen(launch, error, bytes);
}

#endif
