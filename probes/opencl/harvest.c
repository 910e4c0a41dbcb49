/* SPDX-License-Identifier: Apache-2.0 */
/* Finished launches become records: event stamps are read, mapped and put into the thread's ring.
 *
 * This is done where the application waits anyway, or when many launches have gathered. A query of
 * an event costs PoCL about 45 ns; a callback per event would run inside of the driver's own
 * threads.
 */
#include "epoch.h"

#include <string.h>

static const uint64_t UNSEEN = UINT64_C(1) << 40;

static bool take(struct sk_cl_thread *thread)
{
	return !atomic_flag_test_and_set_explicit(&thread->harvesting, memory_order_acquire);
}

static void give(struct sk_cl_thread *thread)
{
	atomic_flag_clear_explicit(&thread->harvesting, memory_order_release);
}

enum outcome { NOT_YET, STAMPED, FAILED, UNSTAMPED };

static bool ask(cl_event event, cl_profiling_info what, uint64_t *ret)
{
	return !sk_cl_next.clGetEventProfilingInfo(event, what, sizeof(*ret), ret, NULL);
}

/* Nothing is computed from the stamp of the submission, so no launch pays for reading it. */
static bool ask_stamps(cl_event event, struct sk_cl_stamps *ret)
{
	return ask(event, CL_PROFILING_COMMAND_END, &ret->end_ns) &&
	       ask(event, CL_PROFILING_COMMAND_START, &ret->start_ns) &&
	       ask(event, CL_PROFILING_COMMAND_QUEUED, &ret->queued_ns) && ret->queued_ns &&
	       ret->start_ns && ret->end_ns >= ret->start_ns &&
	       ret->end_ns - ret->start_ns < UNSEEN;
}

/* A driver gives stamps as soon as the command has finished, and not before, so the status is
 * queried only when there are no stamps. The command may finish between the two queries. */
static enum outcome read_stamps(cl_event event, struct sk_cl_stamps *ret)
{
	cl_int status = CL_QUEUED;

	if (ask_stamps(event, ret))
		return STAMPED;
	if (sk_cl_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
				      &status, NULL) ||
	    status < 0)
		return FAILED;
	if (status != CL_COMPLETE)
		return NOT_YET;
	return ask_stamps(event, ret) ? STAMPED : UNSTAMPED;
}

static void publish(struct sk_cl_thread *thread, const struct sk_cl_waiting *waiting,
		    const struct sk_cl_stamps *raw)
{
	bool host = waiting->kind >= SK_KIND_DEVICE_END;
	struct sk_record *record =
		host ? sk_tracer_cell(&thread->base)
		     : sk_tracer_reserve(&thread->base, raw->end_ns - raw->start_ns);

	if (!record) {
		if (host)
			sk_tracer_host_lost(&thread->base);
		return;
	}
	struct sk_cl_stamps at = sk_cl_clock_place(waiting->device, raw, waiting->call_from_ns,
						   waiting->call_from_ns + waiting->call_ns);

	record->queued_ns = at.queued_ns;
	record->submit_after = 0;
	record->correlation = waiting->correlation;
	record->start_ns = at.start_ns;
	record->end_ns = at.end_ns;
	if (waiting->kind == SK_KIND_BARRIER) /* a barrier keeps no device busy; its record spans
						 the time for which it held others back */
		record->start_ns = waiting->call_from_ns < record->end_ns ? waiting->call_from_ns
									  : record->end_ns;
	record->bytes = waiting->bytes;
	record->call_before = sk_tracer_length(waiting->call_from_ns, record->queued_ns);
	record->call_ns = waiting->call_ns;
	record->tid = thread->base.shared->tid;
	record->name = waiting->name;
	record->kind = waiting->kind;
	record->device = waiting->device;
	record->queue = waiting->queue;
	record->shift = waiting->shift;
	record->flags = 0;
	sk_tracer_commit(&thread->base);
}

static void publish_host(struct sk_cl_thread *thread, const struct sk_cl_host_span *span)
{
	struct sk_record *record = sk_tracer_cell(&thread->base);

	if (!record) {
		sk_tracer_host_lost(&thread->base);
		return;
	}
	*record = (struct sk_record){.queued_ns = span->from_ns,
				     .start_ns = span->from_ns,
				     .end_ns = span->to_ns,
				     .correlation = span->correlation,
				     .call_ns = sk_tracer_saturated(span->to_ns - span->from_ns),
				     .tid = thread->base.shared->tid,
				     .kind = span->kind,
				     .device = span->device,
				     .queue = span->queue,
				     .shift = span->shift};
	sk_tracer_commit(&thread->base);
}

/* Called with the ring taken. */
static void publish_deferred(struct sk_cl_thread *thread)
{
	uint32_t count = thread->deferred_count;

	for (uint32_t i = 0; i < count; i++)
		publish_host(thread, &thread->deferred[i]);
	if (count)
		thread->deferred_count = 0;
}

static void lose_deferred(struct sk_cl_thread *thread)
{
	for (; thread->deferred_count; thread->deferred_count--)
		sk_tracer_host_lost(&thread->base);
}

void sk_cl_harvest_host(struct sk_cl_thread *thread, const struct sk_cl_host_span *span)
{
	/* The tick thread may have the ring just now; a call does not wait for it. */
	if (take(thread)) {
		publish_deferred(thread);
		publish_host(thread, span);
		give(thread);
	} else if (thread->deferred_count < SK_CL_DEFERRED) {
		thread->deferred[thread->deferred_count] = *span;
		thread->deferred_count++;
	} else {
		sk_tracer_host_lost(&thread->base);
	}
}

/* Harvest one launch; false while it has not finished. */
static bool harvest_one(struct sk_cl_thread *thread, struct sk_cl_waiting *waiting)
{
	struct sk_slot_counters *counters = &thread->base.shared->counters;
	struct sk_cl_stamps stamps;
	enum outcome outcome = read_stamps(waiting->event, &stamps);

	if (outcome == NOT_YET)
		return false;
	if (outcome == STAMPED) {
		publish(thread, waiting, &stamps);
	} else if (waiting->kind >= SK_KIND_DEVICE_END) {
		sk_tracer_host_lost(&thread->base);
	} else {
		sk_tracer_add(outcome == FAILED ? &counters->failed : &counters->unstamped, 1);
	}
	sk_cl_next.clReleaseEvent(waiting->event);
	return true;
}

/* Tell the segment's reader the lane's oldest launch without a record, after some were taken out.
 * The owner may append while another thread harvests for it. */
static void tell_oldest(struct sk_cl_thread *thread, unsigned index, uint64_t head)
{
	struct sk_cl_lane *lane = &thread->lanes[index];

	if (head == atomic_load_explicit(&lane->tail, memory_order_acquire)) {
		sk_tracer_oldest_ns(&thread->base, index, 0);
		/* Pairs with the owner, which stores the tail after the oldest: one of the two sees
		 * what the other did. */
		atomic_thread_fence(memory_order_seq_cst);
		if (head == atomic_load_explicit(&lane->tail, memory_order_acquire))
			return;
	}
	sk_tracer_oldest_ns(&thread->base, index,
			    lane->items[head & sk_cl_lane_mask()].call_from_ns);
}

/* Tell the reader the lane's oldest launch, in the owner itself, which does not append meanwhile.
 * An empty lane starts over, so a program that waits for every launch stays within a few cache
 * lines.
 */
static void tell_own_oldest(struct sk_cl_thread *thread, unsigned index, uint64_t head)
{
	struct sk_cl_lane *lane = &thread->lanes[index];

	if (head != atomic_load_explicit(&lane->tail, memory_order_relaxed)) {
		sk_tracer_oldest_ns(&thread->base, index,
				    lane->items[head & sk_cl_lane_mask()].call_from_ns);
		return;
	}
	sk_tracer_oldest_ns(&thread->base, index, 0);
	thread->lanes_waiting &= ~(1u << index);
	atomic_store_explicit(&lane->head, 0, memory_order_relaxed);
	atomic_store_explicit(&lane->tail, 0, memory_order_relaxed);
}

/* Return how many launches were taken out. */
static uint64_t harvest(struct sk_cl_thread *thread, unsigned index, bool own)
{
	struct sk_cl_lane *lane = &thread->lanes[index];
	uint64_t from = atomic_load_explicit(&lane->head, memory_order_relaxed), head = from;
	/* Pairs with the owner's release: items before the tail are filled. */
	uint64_t tail = atomic_load_explicit(&lane->tail, memory_order_acquire);

	while (head != tail && harvest_one(thread, &lane->items[head & sk_cl_lane_mask()]))
		head++;
	if (head == from) {
		if (own && head == tail) /* another thread has taken the last out */
			thread->lanes_waiting &= ~(1u << index);
		return 0;
	}
	/* Pairs with the owner's acquire: the items may be used again. */
	atomic_store_explicit(&lane->head, head, memory_order_release);
	if (own)
		tell_own_oldest(thread, index, head);
	else
		tell_oldest(thread, index, head);
	return head - from;
}

/* Measure now and then what one launch costs. */
static void measure(struct sk_cl_thread *thread, uint64_t began_ns, uint64_t count)
{
	uint64_t each = (sk_tracer_now() - began_ns) / count;

	/* A pre-empted thread is not the tracer's cost. */
	if (each < 20000)
		thread->harvest_cost_ns += ((int64_t)each - thread->harvest_cost_ns) / 8;
}

static void harvest_measured(struct sk_cl_thread *thread, unsigned lane)
{
	bool measured = (++thread->harvests & 63) == 0;
	uint64_t began = measured ? sk_tracer_now() : 0, count = harvest(thread, lane, true);

	if (measured && count)
		measure(thread, began, count);
	if (count)
		sk_tracer_add(&thread->base.shared->counters.tracer_ns,
			      count * thread->harvest_cost_ns);
	thread->credit_ns -= (int64_t)(count * thread->harvest_cost_ns);
}

void sk_cl_harvest_lane(struct sk_cl_thread *thread, unsigned lane)
{
	if (!take(thread))
		return;
	harvest_measured(thread, lane);
	give(thread);
}

void sk_cl_harvest_all(struct sk_cl_thread *thread)
{
	if (!take(thread))
		return;
	publish_deferred(thread);
	for (uint32_t lanes = thread->lanes_waiting; lanes; lanes &= lanes - 1)
		harvest_measured(thread, (unsigned)__builtin_ctz(lanes));
	sk_tracer_add(&thread->harvested, 1);
	give(thread);
}

bool sk_cl_harvest_for(struct sk_cl_thread *thread)
{
	if (!take(thread))
		return false;
	for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++)
		if (thread->lanes[lane].head != thread->lanes[lane].tail)
			harvest(thread, lane, false);
	give(thread);
	return true;
}

/* Callbacks of the tracer library and of the adapter. */

static struct sk_cl_thread *thread_of(uint32_t index)
{
	/* Pairs with the release that publishes a new slot. */
	return (struct sk_cl_thread *)atomic_load_explicit(&sk_tracer->slots[index],
							   memory_order_acquire);
}

static bool has_waiting(const struct sk_cl_thread *thread)
{
	for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++)
		if (thread->lanes[lane].head != thread->lanes[lane].tail)
			return true;
	return false;
}

void sk_cl_harvest_join(struct sk_tracer_slot *slot)
{
	struct sk_cl_thread *thread = (struct sk_cl_thread *)slot;

	sk_cl_epoch_begin();
	thread->in_queue = NULL;
	thread->last_timed = false;
	thread->random = sk_tracer_now() * UINT64_C(0x9e3779b97f4a7c15) | 1;
	/* These guesses are soon replaced by measured values. */
	thread->hook_cost_ns = 300;
	thread->harvest_cost_ns = 300;
	thread->untimed_cost_ns = 10;
	thread->credit_ns = 0;
	thread->refilled_ns = 0;
	memset(thread->cells, 0, sizeof(thread->cells));
	thread->cells_used = 0;
	thread->lanes_waiting = 0;
	thread->deferred_count = 0;
}

bool sk_cl_harvest_leave(struct sk_tracer_slot *slot)
{
	struct sk_cl_thread *thread = (struct sk_cl_thread *)slot;

	sk_cl_harvest_all(thread);
	lose_deferred(thread);
	return !has_waiting(thread);
}

void sk_cl_harvest_held(struct sk_tracer_slot *slot, uint64_t from_ns, uint64_t to_ns)
{
	const struct sk_cl_host_span span = {
		.from_ns = from_ns, .to_ns = to_ns, .kind = SK_KIND_HELD, .device = SK_NO_DEVICE};

	sk_cl_harvest_host((struct sk_cl_thread *)slot, &span);
}

/* Harvest for a thread, unless it looks after itself: it has harvested since the latest tick, or
 * nothing waited then. It may be about to harvest, and would find the ring taken by a tick thread
 * that has lost its processor. Returns whether launches wait, whoever harvests them. */
static bool look_after(struct sk_cl_thread *thread)
{
	uint64_t now = thread->harvested;
	bool waiting = has_waiting(thread), moved = now != thread->harvested_before;
	bool left_alone = waiting && thread->waited_before && !moved;

	thread->harvested_before = now;
	thread->waited_before = waiting;
	if (left_alone && sk_cl_harvest_for(thread) && sk_tracer_has_left(&thread->base) &&
	    !has_waiting(thread))
		sk_tracer_free(&thread->base);
	return waiting;
}

bool sk_cl_harvest_threads(void)
{
	bool waiting = false;

	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS && !sk_tracer->exiting; index++) {
		struct sk_cl_thread *thread = thread_of(index);

		if (thread)
			waiting |= look_after(thread);
	}
	return waiting;
}

static struct sk_cl_thread *thread_here(void)
{
	bool here = sk_tracer_here.generation && sk_tracer_here.generation == sk_tracer->generation;

	return here ? (struct sk_cl_thread *)sk_tracer_here.slot : NULL;
}

void sk_cl_harvest_exit(void)
{
	if (thread_here())
		sk_cl_harvest_all(thread_here());
	for (uint32_t index = 0; index < SK_SEGMENT_SLOTS; index++)
		if (thread_of(index)) {
			sk_cl_harvest_for(thread_of(index));
			lose_deferred(thread_of(index));
		}
}

void sk_cl_harvest_after_wait(void)
{
	struct sk_cl_thread *thread = thread_here();

	if (thread && (thread->lanes_waiting || thread->deferred_count))
		sk_cl_harvest_all(thread);
}
