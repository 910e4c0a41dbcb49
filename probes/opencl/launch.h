/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * One enqueue call, from its entry to its return: counted, and timed where that was chosen.
 *
 * Relied on by enqueue.c and copies.c:
 *     struct sk_launch launch;
 *     cl_event *event = sk_launch_begin(&launch, sk_thread_here(), kind, name, the_callers_event);
 *     cl_int error = next.clEnqueue...(..., event);
 *     sk_launch_end(&launch, queue, error, bytes);
 * A launch counts when the driver took it. The caller's event stays the caller's; where it wanted
 * none, the driver is asked for one that nobody else sees.
 */
#ifndef SK_OPENCL_LAUNCH_H
#define SK_OPENCL_LAUNCH_H

#include "governor.h"
#include "layer.h"

struct sk_launch {
	struct sk_thread *thread;
	cl_event *event; /* what the driver fills: the caller's or `own` */
	cl_event own;
	uint64_t entered_ns; /* 0: the tracer's own cost is not measured this time */
	uint64_t from_ns;
	uint16_t name;
	uint8_t kind;
	uint8_t shift;
	bool timed;
};

/** The driver refused: nothing is to come of this call. */
static inline void sk_launch_failed(const struct sk_launch *launch)
{
	if (launch->thread && launch->timed)
		atomic_store_explicit(&launch->thread->base.shared->calling_ns, 0,
				      memory_order_release);
}

/** The slow parts. */
void sk_launch_timed_end(struct sk_launch *launch, cl_command_queue queue, uint64_t bytes);
void sk_launch_measure_untimed(struct sk_thread *thread);

static inline cl_event *sk_launch_begin(struct sk_launch *launch, struct sk_thread *thread,
					unsigned kind, unsigned name, cl_event *event)
{
	struct sk_cell *cell;
	uint64_t now = 0;

	launch->thread = thread;
	launch->kind = (uint8_t)kind;
	launch->name = (uint16_t)name;
	launch->timed = false;
	if (!thread)
		return event;
	if (sk_tracer_mode() == SK_MODE_GOVERNED) {
		cell = &thread->cells[kind == SK_KIND_KERNEL ? name : SK_SEGMENT_NAMES + kind];
		launch->timed = sk_governor_take(thread, cell, &now);
		launch->shift = (uint8_t)cell->shift;
	} else {
		launch->timed = true;
		launch->shift = 0;
	}
	if (!launch->timed)
		return event;
	launch->event = event ? event : &launch->own;
	launch->own = NULL;
	launch->entered_ns = 0;
	if ((thread->samples & 63) == 63)
		launch->entered_ns = now = now ? now : sk_tracer_now();
	launch->from_ns = now && !launch->entered_ns ? now : sk_tracer_now();
	/* The device may begin before the call returns, so the reader must not settle this time. */
	atomic_store_explicit(&thread->base.shared->calling_ns, launch->from_ns,
			      memory_order_relaxed);
	return launch->event;
}

static inline void sk_launch_end(struct sk_launch *launch, cl_command_queue queue, cl_int error,
				 uint64_t bytes)
{
	struct sk_thread *thread = launch->thread;

	if (error) {
		sk_launch_failed(launch);
		return;
	}
	if (!thread) {
		sk_tracer_count_shared(launch->kind == SK_KIND_KERNEL,
				       launch->kind == SK_KIND_KERNEL ? launch->name : launch->kind,
				       bytes);
		return;
	}
	if (launch->kind == SK_KIND_KERNEL)
		sk_tracer_count_launch(&thread->base, launch->name);
	else
		sk_tracer_count_copy(&thread->base, launch->kind, bytes);
	if (launch->timed)
		sk_launch_timed_end(launch, queue, bytes);
	else if ((++thread->untimed & 1023) == 0)
		sk_launch_measure_untimed(thread);
}

#endif
