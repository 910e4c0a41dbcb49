/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of the vendor's profiler become records of the segment.
 *
 * The stamps are of the clock that rocprofiler_get_timestamp reads, CLOCK_BOOTTIME in the known
 * versions. It is compared with CLOCK_MONOTONIC as any other clock, so another clock would do. The
 * runtime does not tell how well it puts the device's counter on that clock, so that is not in the
 * error. A stamp from before its call is wrong, and is counted.
 */
#include "tool.h"

#include <string.h>
#include <time.h>

static const uint64_t SECOND = 1000000000;
static const uint64_t SLACK_NS = 1000;

static bool read_vendor(void *state, uint64_t *ret)
{
	return !sk_rocp.call.timestamp(ret);
}

/* Return the name of the clock of the system whose reading agrees. */
static const char *recognise(const struct sk_clock_pair *pair)
{
	static const struct {
		enum sk_clock_source source;
		const char *name;
	} KNOWN[] = {
		{SK_CLOCK_BOOTTIME, "rocprofiler, BOOTTIME"},
		{SK_CLOCK_MONOTONIC_RAW, "rocprofiler, RAW"},
		{SK_CLOCK_REALTIME, "rocprofiler, REALTIME"},
	};

	for (size_t i = 0; i < sizeof(KNOWN) / sizeof(KNOWN[0]); i++) {
		struct sk_clock_pair own;

		if (!sk_clock_read(KNOWN[i].source, NULL, 8, &own))
			continue;
		int64_t apart = (int64_t)(pair->at_ns - pair->clock_ns) -
				(int64_t)(own.at_ns - own.clock_ns);

		if (apart < (int64_t)SLACK_NS && apart > -(int64_t)SLACK_NS)
			return KNOWN[i].name;
	}
	return "rocprofiler";
}

void sk_rocp_fit(uint64_t now_ns)
{
	struct sk_clock_pair pair;

	if (sk_rocp.fitted_ns && now_ns - sk_rocp.fitted_ns < SECOND)
		return;
	if (!sk_clock_bracket(read_vendor, NULL, 8, &pair))
		return;
	pthread_mutex_lock(&sk_rocp.lock);
	sk_clock_fit_add(&sk_rocp.fit, &pair);
	sk_clock_fit_row(&sk_rocp.fit, &sk_rocp.row);
	if (!sk_rocp.clock)
		sk_rocp.clock = recognise(&pair);
	pthread_mutex_unlock(&sk_rocp.lock);
	sk_rocp.fitted_ns = now_ns;
}

/* The slot and the mapping of clocks for one batch. */
struct batch {
	struct sk_tracer_slot *slot;
	struct sk_clock_row clock;
	uint64_t newest_call_ns;
	bool has_clock;
};

static void tell_clock(unsigned device, const struct batch *batch)
{
	sk_tracer_clock(device, sk_rocp.clock ? sk_rocp.clock : "rocprofiler",
			batch->clock.offset_ns, batch->clock.has_drift ? batch->clock.drift_ppb : 0,
			batch->clock.error_ns);
}

/* The fields that the two kinds of records share. */
struct span {
	uint64_t ticket;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t bytes;
	uint64_t agent;
	uint64_t correlation;
	uint16_t name;
	uint16_t queue;
	uint8_t kind;
};

static void fill(struct sk_record *record, const struct span *span,
		 const struct sk_rocp_ticket *ticket, const struct batch *batch, unsigned device)
{
	*record = (struct sk_record){
		.queued_ns = ticket->queued_ns,
		.start_ns = sk_clock_row_place(&batch->clock, span->start_ns),
		.end_ns = sk_clock_row_place(&batch->clock, span->end_ns),
		.bytes = span->bytes,
		.correlation = (uint32_t)span->correlation,
		.call_ns = ticket->call_ns,
		.tid = ticket->tid,
		.name = span->name,
		.kind = span->kind,
		.device = (uint8_t)device,
		.queue = span->queue,
	};
}

static void count_dropped(uint64_t records)
{
	atomic_fetch_add_explicit(&sk_tracer->segment->header.vendor_dropped, records,
				  memory_order_relaxed);
}

static void publish(struct batch *batch, const struct span *span,
		    const struct sk_rocp_ticket *ticket)
{
	if (!batch->slot) { /* more threads than slots: there is no ring to put it into */
		count_dropped(1);
		return;
	}
	struct sk_slot_counters *counters = &batch->slot->shared->counters;
	unsigned device = sk_rocp_device_row(span->agent);

	if (!batch->has_clock || span->end_ns < span->start_ns || !span->start_ns ||
	    device == SK_NO_DEVICE) {
		sk_tracer_add(&counters->unstamped, 1);
		return;
	}
	tell_clock(device, batch);
	struct sk_record *record = sk_tracer_reserve(batch->slot, span->end_ns - span->start_ns);

	if (!record)
		return; /* the tracer library has counted it */
	fill(record, span, ticket, batch, device);
	if (record->start_ns + SLACK_NS + batch->clock.error_ns < ticket->queued_ns)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.clock_mismatches, 1,
					  memory_order_relaxed);
	sk_tracer_commit(batch->slot);
}

static void take(struct batch *batch, const struct span *span)
{
	struct sk_rocp_ticket ticket;

	/* A launch without a ticket was counted when it was made, as pending_full or
	 * threads_refused. One that was given up since then was counted as dropped. */
	if (!sk_rocp_tickets_settle(&sk_rocp.tickets, span->ticket, &ticket))
		return;
	if (ticket.queued_ns > batch->newest_call_ns)
		batch->newest_call_ns = ticket.queued_ns;
	publish(batch, span, &ticket);
}

/* A record of an older layout is shorter than what is read, and is skipped. */
static bool is_whole(uint64_t bytes, size_t needed)
{
	if (bytes < needed)
		count_dropped(1);
	return bytes >= needed;
}

static void take_kernel(struct batch *batch, const struct sk_rocp_kernel_record *record)
{
	if (!is_whole(record->size, sizeof(*record)))
		return;
	uint64_t id = record->dispatch.kernel_id;
	const struct span span = {
		.ticket = record->correlation.external.value,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.agent = record->dispatch.agent.handle,
		.correlation = record->correlation.internal,
		.name = id < SK_ROCP_KERNELS ? sk_rocp.kernels[id] : 0,
		.queue = (uint16_t)record->dispatch.queue.handle,
		.kind = SK_KIND_KERNEL,
	};

	take(batch, &span);
}

static void take_copy(struct batch *batch, const struct sk_rocp_copy_record *record)
{
	if (!is_whole(record->size, sizeof(*record)))
		return;
	const struct span span = {
		.ticket = record->correlation.external.value,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.bytes = record->bytes,
		.agent = sk_rocp_copy_agent(record->operation, record->to.handle,
					    record->from.handle),
		.correlation = record->correlation.internal,
		.kind = (uint8_t)sk_rocp_copy_kind(record->operation),
	};

	take(batch, &span);
}

/* The profiler counts what it has dropped since the buffer was made, but not which launches those
 * were. As many of the oldest launches without a record are given up, so that the reader does not
 * wait for them. */
static void note_dropped(struct batch *batch, uint64_t dropped)
{
	uint64_t more = dropped >= sk_rocp.dropped_seen ? dropped - sk_rocp.dropped_seen : dropped;

	sk_rocp.dropped_seen = dropped;
	if (!more)
		return;
	count_dropped(more);
	sk_rocp_tickets_lose(&sk_rocp.tickets, more, batch->newest_call_ns);
}

void sk_rocp_on_buffer(struct sk_rocp_id context, struct sk_rocp_id buffer,
		       struct sk_rocp_header **headers, size_t count, void *data, uint64_t dropped)
{
	struct batch batch = {0};
	uint64_t from = sk_tracer_clock_ns(CLOCK_THREAD_CPUTIME_ID);

	if (!sk_tracer || sk_tracer->state != SK_TRACER_READY)
		return;
	batch.slot = sk_tracer_slot();
	pthread_mutex_lock(&sk_rocp.lock);
	batch.clock = sk_rocp.row;
	batch.has_clock = sk_rocp.fit.count != 0;
	for (size_t i = 0; i < count; i++) {
		if (headers[i]->category != SK_ROCP_CATEGORY_TRACING)
			continue;
		if (headers[i]->kind == SK_ROCP_BUFFER_KERNEL_DISPATCH)
			take_kernel(&batch, headers[i]->payload);
		else if (headers[i]->kind == SK_ROCP_BUFFER_MEMORY_COPY)
			take_copy(&batch, headers[i]->payload);
	}
	note_dropped(&batch, dropped);
	pthread_mutex_unlock(&sk_rocp.lock);
	sk_tracer_spent(from);
}
