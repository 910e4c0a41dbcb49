/* SPDX-License-Identifier: Apache-2.0 */
/* CUPTI's buffers become records of the segment, in the thread that CUPTI hands them over in.
 *
 * The thread that has `decoding` is the producer of the ring that takes all records. A record is
 * kept if its call was entered while calls were timed. A record of an unknown call was launched
 * before that, or while the records of an earlier window were waited for; it is no loss, since that
 * call was not watched. Every other record that is not kept is counted.
 */
#include "cupti.h"
#include "records.h"

enum {
	LAST = 4, /* added to the count of flushes, so that no further record of a graph is waited
		     for */
	CALLS_ENOUGH = 64, /* calls before the bounds of a clock are reported */
	WAITS_ENOUGH = 16,
	CALLLESS_ENOUGH = 256, /* records without a call before they are accepted */
};

static struct sk_record *reserve(uint64_t ns)
{
	struct sk_record *record = sk_tracer_reserve(sk_cupti->home, ns);

	if (record)
		*record = (struct sk_record){0};
	return record;
}

/* The data of one record, of a call or of a graph's node. */
struct done {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t queued_ns; /* 0: not recorded */
	uint64_t submitted_ns;
	uint64_t bytes;
	uint32_t correlation;
	uint32_t context;
	uint32_t stream;
	int device;
	uint8_t kind;
	const char *name;
};

/* Report the bounds of clocks once they are close enough. Called with `decoding` held. */
static void publish_clocks(bool last)
{
	for (unsigned device = 0; device < SK_SEGMENT_DEVICES; device++) {
		const struct sk_cupti_bounds *bounds = &sk_cupti->bounds[device];
		int64_t before = bounds->after_call_ns, after = bounds->before_wait_ns;

		if (!bounds->calls || !bounds->waits ||
		    (!last && (bounds->calls < CALLS_ENOUGH || bounds->waits < WAITS_ENOUGH)))
			continue;
		before = before < 0 ? -before : before;
		after = after < 0 ? -after : after;
		sk_tracer_clock(device, "MONOTONIC by CUPTI", 0, 0,
				(uint64_t)(before > after ? before : after));
	}
}

/* Bound the clock from one side: the kernel cannot have begun before its call was entered. */
static void bound_by_call(unsigned device, const struct sk_cupti_join *join,
			  const struct done *done)
{
	struct sk_cupti_bounds *bounds = &sk_cupti->bounds[device];
	int64_t gap = (int64_t)(done->start_ns - join->entered_ns);

	sk_cupti->latest.end_ns = done->end_ns;
	sk_cupti->latest.correlation = done->correlation;
	sk_cupti->latest.context = done->context;
	sk_cupti->latest.stream = done->stream;
	sk_cupti->latest.tid = join->tid;
	sk_cupti->latest.device = (uint8_t)device;
	if (gap < 0)
		atomic_fetch_add_explicit(&sk_tracer->segment->header.clock_mismatches, 1,
					  memory_order_relaxed);
	if (!bounds->calls++ || gap < bounds->after_call_ns)
		bounds->after_call_ns = gap;
}

/* Bound the clock from the other side: the kernel has ended when a later wait of its thread for its
 * stream returned. */
static void bound_by_wait(const sk_cupti_wait_record *wait, uint32_t tid)
{
	struct sk_cupti_bounds *bounds = &sk_cupti->bounds[sk_cupti->latest.device];
	int64_t gap = (int64_t)(wait->end - sk_cupti->latest.end_ns);
	bool whole = wait->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
	bool stream = wait->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE &&
		      wait->streamId == sk_cupti->latest.stream;

	if (!(whole || stream) || sk_cupti->latest.tid != tid ||
	    wait->contextId != sk_cupti->latest.context ||
	    (int32_t)(wait->correlationId - sk_cupti->latest.correlation) <= 0)
		return;
	if (!bounds->waits++ || gap < bounds->before_wait_ns)
		bounds->before_wait_ns = gap;
}

/* Count a graph's node here, since it has no call. */
static void count_node(const struct done *done, unsigned name)
{
	if (done->kind == SK_KIND_KERNEL)
		sk_tracer_count_launch(sk_cupti->home, name);
	else
		sk_tracer_count_copy(sk_cupti->home, done->kind, done->bytes);
	sk_tracer_add(&sk_cupti->home->shared->counters.timed, 1);
}

/* The record of a blocking copy may come before its call has returned. */
static uint32_t length_of(const struct sk_cupti_join *join)
{
	return join->call_ns ? join->call_ns
			     : sk_tracer_saturated(sk_tracer_now() - join->entered_ns);
}

static void publish(const struct done *done, const struct sk_cupti_join *join, unsigned name,
		    unsigned device)
{
	struct sk_record *record = reserve(done->end_ns - done->start_ns);
	uint64_t entered_ns = join ? join->entered_ns : done->start_ns;
	uint64_t queued_ns = done->queued_ns > entered_ns ? done->queued_ns : entered_ns;

	if (!record)
		return;
	record->queued_ns = queued_ns < done->start_ns ? queued_ns : done->start_ns;
	record->start_ns = done->start_ns;
	record->end_ns = done->end_ns;
	record->bytes = done->bytes;
	record->submit_after = sk_tracer_length(record->queued_ns, done->submitted_ns);
	record->call_before = sk_tracer_length(entered_ns, record->queued_ns);
	record->call_ns = join ? length_of(join) : 0;
	record->tid = join ? join->tid : 0;
	record->correlation = done->correlation;
	record->name = (uint16_t)name;
	record->kind = done->kind;
	record->device = (uint8_t)device;
	record->queue = (uint16_t)done->stream;
	sk_tracer_commit(sk_cupti->home);
}

static void lose(uint64_t records)
{
	sk_tracer_add(&sk_tracer->segment->header.vendor_dropped, records);
}

/* Return whether a record without a call should have had one, because it was made in the latest
 * timed window. While kinds stay on for a window that is over, records of calls before and after it
 * come as well, which must not be counted. */
static bool is_missed(uint32_t correlation)
{
	return sk_cupti_joins_spans(&sk_cupti->joins, atomic_load(&sk_cupti->looked_from),
				    atomic_load(&sk_cupti->looked_to), correlation);
}

/* Records without a call are accepted only if no record was ever joined: then ids have another
 * meaning in this version, and the times are still useful. */
static bool is_wanted(const struct sk_cupti_join *join)
{
	return join || (!sk_cupti->joined && sk_tracer_mode() == SK_MODE_FULL &&
			sk_cupti->callless++ >= CALLLESS_ENOUGH);
}

static void take(const struct done *done)
{
	struct sk_cupti_join *join = sk_cupti_joins_find(&sk_cupti->joins, done->correlation);
	bool is_kernel = done->kind == SK_KIND_KERNEL || done->kind == SK_KIND_GRAPH;
	bool is_node = join && (join->flags & SK_CUPTI_JOIN_MANY);
	unsigned device, name = 0;

	if (!is_wanted(join)) {
		if (is_missed(done->correlation))
			sk_tracer_add(&sk_tracer->segment->header.unjoined, 1);
		return;
	}
	if (join)
		sk_cupti_joins_seen(&sk_cupti->joins, join, sk_cupti->flushes);
	if (is_kernel)
		name = sk_cupti_name(done->kind == SK_KIND_GRAPH ? "(graph)" : done->name);
	if (is_node || !join)
		count_node(done, name);
	if (!done->start_ns || done->end_ns < done->start_ns) {
		sk_tracer_add(&sk_cupti->home->shared->counters.unstamped, 1);
		return;
	}
	device = sk_cupti_context(done->context, false);
	if (device == SK_NO_DEVICE)
		device = sk_cupti_device(done->device);
	if (device == SK_NO_DEVICE) {
		sk_tracer_add(&sk_cupti->home->shared->counters.failed, 1);
		return;
	}
	sk_cupti_learn_context(done->context, device);
	if (join) {
		sk_cupti->joined++;
		sk_cupti->nested += join->alias != 0;
		sk_cupti->by_runtime += join->correlation != done->correlation;
		bound_by_call(device, join, done);
	}
	publish(done, join, name, device);
}

static void take_kernel(const sk_cupti_kernel_record *from)
{
	take(&(struct done){
		.start_ns = from->start,
		.end_ns = from->end,
		.queued_ns = from->queued,
		.submitted_ns = from->submitted,
		.bytes = from->graphId,
		.correlation = from->correlationId,
		.context = from->contextId,
		.stream = from->streamId,
		.device = (int)from->deviceId,
		.kind = SK_KIND_KERNEL,
		.name = from->name,
	});
}

static uint8_t kind_of(uint8_t copy_kind)
{
	switch (copy_kind) {
	case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
	case CUPTI_ACTIVITY_MEMCPY_KIND_HTOA:
		return SK_KIND_WRITE;
	case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
	case CUPTI_ACTIVITY_MEMCPY_KIND_ATOH:
		return SK_KIND_READ;
	default:
		return SK_KIND_COPY;
	}
}

/* Take a copy; the three kinds of records name these fields alike. A copy by a call has the call's
 * kind, so that counts and times match; one of a graph has its own. */
#define TAKE_COPY(from, own_kind)                                                                  \
	do {                                                                                       \
		const struct sk_cupti_join *join =                                                 \
			sk_cupti_joins_find(&sk_cupti->joins, (from)->correlationId);              \
                                                                                                   \
		take(&(struct done){                                                               \
			.start_ns = (from)->start,                                                 \
			.end_ns = (from)->end,                                                     \
			.bytes = (from)->bytes,                                                    \
			.correlation = (from)->correlationId,                                      \
			.context = (from)->contextId,                                              \
			.stream = (from)->streamId,                                                \
			.device = (int)(from)->deviceId,                                           \
			.kind = join && join->kind < SK_COPY_KINDS ? join->kind : (own_kind),      \
		});                                                                                \
	} while (0)

static void take_graph(const sk_cupti_graph_record *from)
{
	take(&(struct done){
		.start_ns = from->start,
		.end_ns = from->end,
		.bytes = from->graphId,
		.correlation = from->correlationId,
		.context = from->contextId,
		.stream = from->streamId,
		.device = (int)from->deviceId,
		.kind = SK_KIND_GRAPH,
	});
}

/* Return a cell for a record that is no work of a device; a missing one is counted. */
static struct sk_record *reserve_of_host(bool sensible)
{
	struct sk_record *record = sensible ? sk_tracer_cell(sk_cupti->home) : NULL;

	if (record)
		*record = (struct sk_record){0};
	else
		sk_tracer_host_lost(sk_cupti->home);
	return record;
}

/* Take a wait of the host. A stream's wait for an event is not a time of the host. */
static void take_wait(const sk_cupti_wait_record *from)
{
	struct sk_cupti_join *join = sk_cupti_joins_find(&sk_cupti->joins, from->correlationId);
	bool stamped = from->start && from->end >= from->start;
	struct sk_record *record;

	if (from->type == CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT ||
	    (!join && !is_missed(from->correlationId)))
		return;
	if (join && stamped)
		bound_by_wait(from, join->tid);
	record = reserve_of_host(join && stamped);
	if (!record)
		return;
	record->queued_ns = record->start_ns = from->start;
	record->end_ns = from->end;
	record->call_ns = join->call_ns;
	record->tid = join->tid;
	record->correlation = from->correlationId;
	record->kind = SK_KIND_SYNC;
	record->device = (uint8_t)sk_cupti_context(from->contextId, false);
	record->queue = (uint16_t)from->streamId;
	sk_tracer_commit(sk_cupti->home);
}

/* Return whether the overhead is CUPTI's; lazy loading and full command buffers are the driver's.
 */
static bool is_cuptis(CUpti_ActivityOverheadKind kind)
{
	return kind == CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH ||
	       kind == CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION ||
	       kind == CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE ||
	       kind == CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST ||
	       kind == CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT;
}

static void take_overhead(const sk_cupti_overhead_record *from)
{
	struct sk_record *record;

	bool stamped = from->start && from->end >= from->start;

	if (!is_cuptis(from->overheadKind))
		return;
	if (stamped)
		sk_tracer_add(&sk_tracer->segment->header.profiler_ns, from->end - from->start);
	record = reserve_of_host(stamped);
	if (!record)
		return;
	record->queued_ns = record->start_ns = from->start;
	record->end_ns = from->end;
	record->kind = SK_KIND_OVERHEAD;
	record->device = SK_NO_DEVICE;
	sk_tracer_commit(sk_cupti->home);
}

/* Return the bytes of a record that are read; 0 for a kind that was not requested. */
static size_t least_of(CUpti_ActivityKind kind)
{
	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return SK_CUPTI_KERNEL_BYTES;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return SK_CUPTI_MEMCPY_BYTES;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return SK_CUPTI_PEER_BYTES;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return SK_CUPTI_MEMSET_BYTES;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		return SK_CUPTI_GRAPH_BYTES;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return SK_CUPTI_WAIT_BYTES;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		return SK_CUPTI_OVERHEAD_BYTES;
	default:
		return 0;
	}
}

/* Take one record; `left` is the number of valid bytes from its beginning on. */
static void take_record(const CUpti_Activity *record, size_t left)
{
	if (left < least_of(record->kind)) {
		lose(1);
		return;
	}
	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		take_kernel((const void *)record);
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		TAKE_COPY((const sk_cupti_memcpy_record *)record,
			  kind_of(((const sk_cupti_memcpy_record *)record)->copyKind));
		break;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		TAKE_COPY((const sk_cupti_peer_record *)record, SK_KIND_COPY);
		break;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		TAKE_COPY((const sk_cupti_memset_record *)record, SK_KIND_FILL);
		break;
	case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
		take_graph((const void *)record);
		break;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		take_wait((const void *)record);
		break;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		take_overhead((const void *)record);
		break;
	default:
		break;
	}
}

/* Take all records of a buffer. If CUPTI cannot read one, those behind it are lost as well; their
 * number is not known, so one is counted. */
static void take_records(uint8_t *buffer, size_t valid)
{
	CUpti_Activity *record = NULL;
	CUptiResult error;

	while (!(error = sk_cupti->api.next_record(buffer, valid, &record)))
		take_record(record, (size_t)(buffer + valid - (uint8_t *)record));
	if (error != CUPTI_ERROR_MAX_LIMIT_REACHED)
		lose(1);
}

/* Count what CUPTI lost for want of a buffer or of device memory. Called with `decoding` held. */
static void count_dropped(void)
{
	uint64_t evicted = atomic_load(&sk_cupti->joins.evicted);
	size_t dropped = 0;

	if (!sk_cupti->api.dropped_records(NULL, 0, &dropped) && dropped)
		lose(dropped);
	if (evicted > sk_cupti->evicted_seen) {
		lose(evicted - sk_cupti->evicted_seen);
		sk_cupti->evicted_seen = evicted;
	}
}

void CUPTIAPI sk_cupti_give_buffer(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*buffer = sk_cupti_buffers_take(&sk_cupti->buffers);
	*size = *buffer ? SK_CUPTI_BUFFER_BYTES : 0;
	*max_records = 0;
}

void CUPTIAPI sk_cupti_take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				   size_t valid)
{
	/* A forked child has no home, and what comes there is the parent's. */
	if (buffer && sk_cupti->home) {
		pthread_mutex_lock(&sk_cupti->decoding);
		if (valid)
			take_records(buffer, valid);
		count_dropped();
		pthread_mutex_unlock(&sk_cupti->decoding);
	}
	if (buffer)
		sk_cupti_buffers_give(&sk_cupti->buffers, buffer, valid);
}

void sk_cupti_flush(bool forced)
{
	uint32_t context;

	sk_cupti->api.flush_all(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
	pthread_mutex_lock(&sk_cupti->decoding);
	sk_cupti->flushes += forced ? LAST : 1;
	count_dropped();
	publish_clocks(forced);
	context = sk_cupti_joins_sweep(&sk_cupti->joins, sk_cupti->flushes, sk_cupti->quiet);
	if (context)
		atomic_store_explicit(&sk_cupti->home->shared->oldest_device[0],
				      (uint8_t)sk_cupti_context(context, false),
				      memory_order_relaxed);
	pthread_mutex_unlock(&sk_cupti->decoding);
}

bool sk_cupti_is_missing(uint64_t calls)
{
	bool missing;

	pthread_mutex_lock(&sk_cupti->decoding);
	missing = sk_cupti_joins_is_missing(&sk_cupti->joins, calls);
	pthread_mutex_unlock(&sk_cupti->decoding);
	return missing;
}
