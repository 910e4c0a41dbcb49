/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One enqueue call, from its entry to its return: sent to the right queue, counted, and timed where
 * that was chosen.
 *
 * Relied on by enqueue.c, copies.c and order.c:
 *     struct sk_launch launch;
 *     cl_command_queue to = sk_launch_enter(&launch, the_callers_queue);
 *     cl_event *event = sk_launch_begin(&launch, kind, name, the_callers_event);
 *     cl_int error = next.clEnqueue...(to, ..., event);
 *     sk_launch_end(&launch, error, bytes);
 * A launch counts when the driver took it. The caller's event stays the caller's; where it wanted
 * none, the driver is asked for one that nobody else sees.
 * Cost while dormant: two stores and two loads; see turn.h for what they are for.
 */
#ifndef SK_OPENCL_LAUNCH_H
#define SK_OPENCL_LAUNCH_H

#include "governor.h"
#include "turn.h"

/* Of a call that is not seen there must be next to nothing, also in the least likely hook. */
#define SK_ALWAYS_INLINE static inline __attribute__((always_inline))

struct sk_launch {
	struct sk_thread *thread;
	struct sk_queue *row;	 /* NULL: not looked for, or not known */
	cl_command_queue before; /* the call that this one is made in, from a callback */
	uint64_t turn;
	cl_event *event; /* what the driver fills: the caller's or `own` */
	cl_event own;
	uint64_t entered_ns; /* 0: the tracer's own cost is not measured this time */
	uint64_t from_ns;
	uint64_t returned_ns;
	uint32_t correlation;
	uint16_t name;
	uint8_t kind;
	uint8_t shift;
	bool timed;
};

/** The slow parts. */
void sk_launch_timed_end(struct sk_launch *launch, uint64_t bytes);
void sk_launch_measure_untimed(struct sk_thread *thread, bool profiled);
void sk_launch_stranger(struct sk_launch *launch);
/** Under `full` it was counted alone. */
void sk_launch_untimed(const struct sk_launch *launch);
/** After a blocking call: its wait, if it was timed, and what has finished by now. */
void sk_launch_waited(const struct sk_launch *launch);

/** Where the command is to go. */
static inline cl_command_queue sk_launch_route(struct sk_launch *launch, cl_command_queue handle)
{
	struct sk_queue *row = sk_queue_find(handle);

	launch->row = row;
	if (!row)
		return handle;
	/* Pairs with the release in twin.c: `current` belongs to the turn. */
	if (atomic_load_explicit(&row->turn, memory_order_acquire) != launch->turn)
		sk_twin_follow(row, launch->thread, launch->turn);
	return atomic_load_explicit(&row->current, memory_order_relaxed);
}

/** The agent has written something that was not answered yet. */
static inline bool sk_launch_is_called(void)
{
	const struct sk_segment_header *header = &sk_tracer->segment->header;

	return atomic_load_explicit(&header->control.wanted, memory_order_relaxed) !=
	       atomic_load_explicit(&header->answer.applied, memory_order_relaxed);
}

SK_ALWAYS_INLINE cl_command_queue sk_launch_enter(struct sk_launch *launch, cl_command_queue handle)
{
	struct sk_thread *thread = sk_thread_here();

	launch->thread = thread;
	launch->row = NULL;
	launch->timed = false;
	if (thread) {
		launch->before = atomic_load_explicit(&thread->in_queue, memory_order_relaxed);
		atomic_store_explicit(&thread->in_queue, handle, memory_order_relaxed);
		/* The barrier between the two is run by whoever changes the turn. */
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		sk_launch_stranger(launch);
	}
	launch->turn = sk_turn_now();
	if (launch->turn & SK_TURN_PLAIN) {
		if (launch->turn & SK_TURN_ASLEEP && sk_launch_is_called())
			sk_tracer_wake();
		return handle;
	}
	return sk_launch_route(launch, handle);
}

/** Is the call counted? */
SK_ALWAYS_INLINE bool sk_launch_sees(const struct sk_launch *launch)
{
	return sk_turn_phase(launch->turn) == SK_PHASE_TIMED ||
	       sk_turn_phase(launch->turn) == SK_PHASE_COUNTED;
}

SK_ALWAYS_INLINE void sk_launch_leave(const struct sk_launch *launch)
{
	/* Pairs with the acquire in twin.c: the command is in its queue. */
	if (launch->thread)
		atomic_store_explicit(&launch->thread->in_queue, launch->before,
				      memory_order_release);
	else
		atomic_fetch_sub_explicit(&layer->strangers, 1, memory_order_release);
}

static inline bool sk_launch_can_time(const struct sk_launch *launch)
{
	return sk_turn_phase(launch->turn) == SK_PHASE_TIMED && launch->thread && launch->row &&
	       atomic_load_explicit(&launch->row->profiled, memory_order_relaxed) &&
	       launch->row->device != SK_NO_DEVICE;
}

/** The clock is read before it is made sure that the turn still is what it was: so the call began
 * within the window that its record will be taken for. */
static inline bool sk_launch_still(struct sk_launch *launch)
{
	struct sk_slot *slot = launch->thread->base.shared;

	/* The device may begin before the call returns, so the reader must not settle this time. */
	atomic_store_explicit(&slot->calling_ns, launch->from_ns, memory_order_relaxed);
	if (sk_turn_now() == launch->turn)
		return true;
	atomic_store_explicit(&slot->calling_ns, 0, memory_order_release);
	launch->timed = false;
	return false;
}

/* The event that the driver is to fill. */
static inline cl_event *sk_launch_choose(struct sk_launch *launch, cl_event *event)
{
	struct sk_thread *thread = launch->thread;
	uint64_t now = 0;

	launch->timed = true;
	if (launch->turn & SK_TURN_SAMPLED) {
		struct sk_cell *cell = &thread->cells[launch->kind == SK_KIND_KERNEL
							      ? launch->name
							      : SK_SEGMENT_NAMES + launch->kind];

		launch->timed = sk_governor_take(thread, cell, &now);
		launch->shift = (uint8_t)cell->shift;
	}
	if (!launch->timed)
		return event;
	launch->event = event ? event : &launch->own;
	launch->own = NULL;
	launch->entered_ns = 0;
	if ((thread->samples & 63) == 63)
		launch->entered_ns = now = now ? now : sk_tracer_now();
	launch->from_ns = now && !launch->entered_ns ? now : sk_tracer_now();
	return sk_launch_still(launch) ? launch->event : event;
}

SK_ALWAYS_INLINE cl_event *sk_launch_begin(struct sk_launch *launch, unsigned kind, unsigned name,
					   cl_event *event)
{
	if (!sk_launch_sees(launch))
		return event;
	launch->kind = (uint8_t)kind;
	launch->name = (uint16_t)name;
	launch->shift = 0;
	return sk_launch_can_time(launch) ? sk_launch_choose(launch, event) : event;
}

static inline void sk_launch_count(const struct sk_launch *launch, uint64_t bytes)
{
	struct sk_thread *thread = launch->thread;
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

static inline void sk_launch_seen(struct sk_launch *launch, cl_int error, uint64_t bytes)
{
	struct sk_thread *thread = launch->thread;

	if (error) {
		if (launch->timed)
			atomic_store_explicit(&thread->base.shared->calling_ns, 0,
					      memory_order_release);
		launch->timed = false;
		return;
	}
	sk_launch_count(launch, bytes);
	if (!thread)
		return;
	thread->last_timed = launch->timed;
	if (!launch->timed && sk_tracer_mode() == SK_MODE_FULL)
		sk_launch_untimed(launch);
	if (launch->timed)
		sk_launch_timed_end(launch, bytes);
	else if ((++thread->untimed & 1023) == 0)
		sk_launch_measure_untimed(thread, launch->row && launch->row->profiled);
}

SK_ALWAYS_INLINE void sk_launch_end(struct sk_launch *launch, cl_int error, uint64_t bytes)
{
	sk_launch_leave(launch);
	if (sk_launch_sees(launch))
		sk_launch_seen(launch, error, bytes);
}

#endif
