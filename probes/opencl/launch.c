/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a timed launch, and the launches of threads without a slot; see launch.h. */
#include "launch.h"

#include <sys/mman.h>

enum {
	GATHER = 32,	   /* launches that wait before the owner looks for finished ones */
	LOOK_NS = 2000000, /* the owner looks after this time at the latest; a kill can lose so much
			    */
};

void sk_cl_launch_unregistered(struct sk_cl_launch *launch)
{
	launch->before = NULL;
	/* A thread without a slot has no word that others could look at, so this is a full barrier.
	 */
	atomic_fetch_add_explicit(&sk_cl->unregistered, 1, memory_order_seq_cst);
}

/* Measure what counting one launch takes, on a scratch counter: two clock readings around each
 * launch would cost more than what they measure. */
static uint64_t try_untimed(struct sk_cl_thread *thread)
{
	enum { TIMES = 16 };
	struct sk_cl_launch launch;
	struct sk_cl_cell scratch = {.left = TIMES + 2, .pick = 1};
	_Atomic uint64_t counters[2] = {0};
	uint64_t from = sk_cl_thread_now(thread);

	for (int i = 0; i < TIMES; i++) {
		sk_cl_launch_enter(&launch, NULL);
		launch.timed = sk_cl_governor_take(thread, &scratch, &from);
		sk_tracer_add(&counters[0], 1);
		sk_tracer_add(&counters[1], launch.timed);
		sk_cl_launch_leave(&launch);
	}
	return (sk_cl_thread_now(thread) - from) / TIMES;
}

/* An untimed launch costs what counting it costs. An interrupt of a few us would make that look ten
 * times as large, and then no launch would be counted; it hardly hits both tries. */
void sk_cl_launch_measure_untimed(struct sk_cl_thread *thread, bool profiled)
{
	uint64_t one = try_untimed(thread), other = try_untimed(thread);
	uint64_t each = one < other ? one : other;

	if (each < 1000) /* otherwise the thread was pre-empted twice */
		thread->untimed_cost_ns += ((int32_t)each - (int32_t)thread->untimed_cost_ns) / 4;
	each = thread->untimed_cost_ns + (profiled ? sk_cl->driver_ns : 0);
	sk_tracer_add(&thread->base.shared->counters.tracer_ns, 1024 * each);
}

static bool make_lane(struct sk_cl_lane *lane)
{
	size_t bytes = (sk_cl_lane_mask() + 1) * sizeof(struct sk_cl_waiting);
	void *items = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (items == MAP_FAILED)
		return false;
	lane->items = items;
	return true;
}

/* Take out finished launches, when many wait or some have waited for long. */
static void look(struct sk_cl_thread *thread, unsigned index, uint64_t length, uint64_t now_ns)
{
	struct sk_cl_lane *lane = &thread->lanes[index];

	if (length < GATHER)
		lane->try_at = GATHER;
	if (length < lane->try_at && (length < 2 || now_ns < lane->tried_ns + LOOK_NS))
		return;
	lane->tried_ns = now_ns;
	sk_cl_harvest_lane(thread, index);
	lane->try_at = lane->tail - lane->head + GATHER;
}

/* Append to the lane; false when it has no room. */
static bool append(struct sk_cl_thread *thread, const struct sk_cl_queue *queue,
		   const struct sk_cl_waiting *waiting)
{
	struct sk_cl_lane *lane = &thread->lanes[queue->lane];
	uint64_t tail = atomic_load_explicit(&lane->tail, memory_order_relaxed);
	/* Pairs with the harvester's release: taken items may be overwritten. */
	uint64_t head = atomic_load_explicit(&lane->head, memory_order_acquire);

	if (tail - head > sk_cl_lane_mask() || (!lane->items && !make_lane(lane)))
		return false;
	lane->items[tail & sk_cl_lane_mask()] = *waiting;
	if (tail == head)
		sk_tracer_oldest(&thread->base, queue->lane, waiting->call_from_ns,
				 waiting->device);
	thread->lanes_waiting |= 1u << queue->lane;
	/* Pairs with the harvester's acquire: the item is filled. */
	atomic_store_explicit(&lane->tail, tail + 1, memory_order_release);
	look(thread, queue->lane, tail + 1 - head, waiting->call_from_ns);
	return true;
}

static void pay(struct sk_cl_launch *launch, uint64_t returned_ns)
{
	struct sk_cl_thread *thread = launch->thread;

	if (launch->entered_ns) {
		/* The time between two readings includes one reading. Every launch has two
		 * readings, so the other one stands for it, and the driver's part is added. */
		uint64_t each = launch->from_ns - launch->entered_ns + sk_cl_thread_now(thread) -
				returned_ns;

		if (each < 20000) { /* otherwise the thread was pre-empted */
			each += sk_cl->driver_ns;
			thread->hook_cost_ns += (int32_t)((int64_t)each - thread->hook_cost_ns) / 8;
		}
	}
	thread->samples++;
	thread->credit_ns -= thread->hook_cost_ns;
	sk_tracer_add(&thread->base.shared->counters.tracer_ns, thread->hook_cost_ns);
}

static void keep_event(struct sk_cl_launch *launch, uint64_t bytes)
{
	struct sk_cl_thread *thread = launch->thread;
	struct sk_slot_counters *counters = &thread->base.shared->counters;
	cl_event event = *launch->event;

	if (!event)
		return;
	if (launch->event != &launch->own)
		sk_cl_next.clRetainEvent(event);
	launch->correlation =
		atomic_fetch_add_explicit(&sk_cl->correlations, 1, memory_order_relaxed) + 1;
	thread->last_correlation = launch->correlation;
	thread->last_shift = launch->shift;
	struct sk_cl_waiting waiting = {
		.event = event,
		.call_from_ns = launch->from_ns,
		.bytes = bytes,
		.call_ns = sk_tracer_saturated(launch->returned_ns - launch->from_ns),
		.correlation = launch->correlation,
		.name = launch->name,
		.queue = launch->row->number,
		.kind = launch->kind,
		.device = launch->row->device,
		.shift = launch->shift,
	};

	atomic_store_explicit(&counters->seen_ns, launch->returned_ns, memory_order_relaxed);
	bool host = launch->kind >= SK_KIND_DEVICE_END;

	if (!host)
		sk_tracer_add(&counters->timed, 1);
	if (append(thread, launch->row, &waiting))
		return;
	if (host)
		sk_tracer_host_lost(&thread->base);
	else
		sk_tracer_add(&counters->pending_full, 1);
	sk_cl_next.clReleaseEvent(event);
}

void sk_cl_launch_timed_end(struct sk_cl_launch *launch, uint64_t bytes)
{
	launch->returned_ns = sk_cl_thread_now(launch->thread);
	keep_event(launch, bytes);
	/* The store follows that of the lane's oldest call, so the reader sees this launch in one
	 * of the two. */
	atomic_store_explicit(&launch->thread->base.shared->calling_ns, 0, memory_order_release);
	pay(launch, launch->returned_ns);
}

void sk_cl_launch_untimed(const struct sk_cl_launch *launch)
{
	if (launch->kind < SK_KIND_DEVICE_END)
		sk_tracer_add(&launch->thread->base.shared->counters.untimed, 1);
}

void sk_cl_launch_waited(const struct sk_cl_launch *launch)
{
	if (launch->timed) {
		const struct sk_cl_host_span span = {.from_ns = launch->from_ns,
						     .to_ns = launch->returned_ns,
						     .correlation = launch->correlation,
						     .queue = launch->row->number,
						     .kind = SK_KIND_SYNC,
						     .device = launch->row->device,
						     .shift = launch->shift};

		sk_cl_harvest_host(launch->thread, &span);
	}
	sk_cl_harvest_after_wait();
}
