/* SPDX-License-Identifier: Apache-2.0 */
/* The records of one ring, checked one by one and folded into rows, windows, intervals, the
 * timeline. */
#include "records/throttle.h"
#include "trace/job/job_parts.h"

static bool record_sensible(const struct sk_record *record,
			    const struct sk_trace_fold_segment *segment, uint64_t index)
{
	bool known = record->device < SK_SEGMENT_DEVICES && segment->devices[record->device];
	bool work = record->kind < SK_KIND_DEVICE_END && known;
	bool event = record->kind >= SK_KIND_BARRIER && record->kind < SK_KINDS &&
		     (known || record->device == SK_NO_DEVICE);

	return record->sequence == (uint32_t)index && (work || event) &&
	       record->name < SK_SEGMENT_NAMES && record->shift < SK_STAT_SHIFTS &&
	       record->start_ns <= record->end_ns && record->end_ns < UINT64_C(1) << 62;
}

static void keep_event(struct sk_trace_job *job, const struct sk_trace_fold_segment *segment,
		       const struct sk_record *record, unsigned device, unsigned name)
{
	struct sk_trace_event event = {
		.queued_ns = record->queued_ns,
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.bytes = record->bytes,
		.call_before = record->call_before,
		.call_ns = record->call_ns,
		.pid = segment->pid,
		.tid = record->tid,
		.name = (uint16_t)name,
		.kind = record->kind,
		.device = (uint8_t)device,
		.queue = record->queue,
		.shift = record->shift,
		.flags = record->flags,
		.correlation = record->correlation,
		.turn = state_of(job)->turns[name],
	};

	loss_of(job)[SK_LOSS_timeline_dropped] +=
		sk_trace_events_add(&job->events, job->store_fd, state_of(job)->records, &event);
}

/* No launch is throttled for longer than a period: beyond that the thread had other reasons to
 * wait. */
static void add_held(struct sk_trace_job *job, const struct sk_record *record)
{
	uint64_t most = record->start_ns + SK_THROTTLE_PERIOD_NS;
	struct sk_trace_thread_span held = {.from_ns = record->start_ns,
					    .to_ns = record->end_ns < most ? record->end_ns : most,
					    .tid = record->tid};

	if (!sk_trace_causes_add_held(&state_of(job)->causes, &held))
		return;
	if (job->input.span_count == SK_JOB_WAITING_SPANS)
		loss_of(job)[SK_LOSS_spans_dropped]++;
	else
		job->input.spans[job->input.span_count++] = held;
}

/* Fold an event of the host: it keeps no device busy, but is shown. */
static void fold_event(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
		       const struct sk_record *record)
{
	struct sk_trace_fold_event_sum *sum =
		&state_of(job)->events[record->kind - SK_KIND_BARRIER];

	sum->count++;
	sum->ns += record->end_ns - record->start_ns;
	segment->host_records++;
	if (record->kind == SK_KIND_HELD)
		add_held(job, record);
}

static bool is_in(const struct sk_trace_window_sums *window, uint64_t called)
{
	return called >= window->from_ns && called < window->to_ns;
}

/* Return the drawn window in which a call was made, or NULL. Most are in that of the one before. */
static struct sk_trace_window_sums *window_at(struct sk_trace_fold_segment *segment,
					      uint64_t called)
{
	struct sk_trace_window_sums *last = &segment->window[segment->filled % SK_WINDOWS_KEPT];

	if (is_in(last, called))
		return last;
	for (uint64_t i = segment->drawn; i-- > 0 && segment->drawn - i <= SK_WINDOWS_KEPT;)
		if (is_in(&segment->window[i % SK_WINDOWS_KEPT], called)) {
			segment->filled = i;
			return &segment->window[i % SK_WINDOWS_KEPT];
		}
	return NULL;
}

/* Add work to the drawn window in which it was called; false where that was in none. */
static bool add_to_window(struct sk_trace_fold_segment *segment, const struct sk_record *record,
			  uint64_t ns)
{
	struct sk_trace_window_sums *window =
		window_at(segment, record->queued_ns - record->call_before);

	if (!window)
		return false;
	window->busy_ns += ns << record->shift;
	window->launches += UINT64_C(1) << record->shift;
	return true;
}

/* Sums of one batch, which go into the process and the segment together. */
struct tally {
	uint64_t weighted;
	uint64_t weighted_ns[2];
	uint64_t drawn; /* the parts of these that were called in drawn windows */
	uint64_t drawn_ns[2];
};

static void add_tally(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
		      const struct tally *tally)
{
	struct sk_trace_fold_process *process = &state_of(job)->processes[segment->process];

	segment->weighted += tally->weighted;
	process->weighted += tally->weighted;
	process->weighted_ns[0] += tally->weighted_ns[0];
	process->weighted_ns[1] += tally->weighted_ns[1];
	process->drawn += tally->drawn;
	process->drawn_ns[0] += tally->drawn_ns[0];
	process->drawn_ns[1] += tally->drawn_ns[1];
}

static void add_weighted(struct tally *tally, bool copy, const struct sk_record *record,
			 uint64_t ns, bool drawn)
{
	uint64_t launches = UINT64_C(1) << record->shift;

	tally->weighted += launches;
	tally->weighted_ns[copy] += ns << record->shift;
	tally->drawn += drawn ? launches : 0;
	tally->drawn_ns[copy] += drawn ? ns << record->shift : 0;
}

static void note_slowest(struct sk_trace_job *job, const struct sk_record *record, unsigned name)
{
	struct sk_trace_job_slowest *kept = &job->slowest[name];
	uint64_t ns = record->end_ns - record->start_ns;
	uint8_t turn = state_of(job)->turns[name];

	if (ns < kept->ns && turn == kept->turn &&
	    record->end_ns <= kept->end_ns + SK_JOB_SLOWEST_NS)
		return;
	*kept = (struct sk_trace_job_slowest){.ns = ns, .end_ns = record->end_ns, .turn = turn};
}

static void fold_work(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
		      const struct sk_record *record, unsigned device, unsigned name,
		      struct tally *tally)
{
	bool copy = record->kind < SK_COPY_KINDS;
	struct sk_trace_fold_device *row = &state_of(job)->devices[device];
	uint64_t ns = record->end_ns - record->start_ns;
	struct sk_trace_interval interval = {.from_ns = record->start_ns,
					     .to_ns = record->end_ns,
					     .tid = record->tid,
					     .device = (uint8_t)device,
					     .busy = copy ? SK_BUSY_COPY : SK_BUSY_KERNEL};

	if (row->hosted)
		interval.called_ns = record->queued_ns - record->call_before;

	bool drawn = segment->drawn && add_to_window(segment, record, ns);

	sk_trace_stat_add(sk_trace_fold_touch(&job->fold, !copy, name), ns, record->shift,
			  drawn ? SK_STAT_DRAWN : SK_STAT_WHOLE);
	if (!copy)
		note_slowest(job, record, name);
	row->busy_ns[copy] += ns;
	row->weighted_ns[copy] += ns << record->shift;
	add_weighted(tally, copy, record, ns, drawn);
	if (!copy && !name && record->name) { /* it has no row, and may earn one */
		job->nameless[record->name] += ns << record->shift;
		job->nameless_any = true;
	}
	sk_trace_job_add_interval(job, &interval);
}

static void fold_record(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
			const struct sk_record *record, bool keep, struct tally *tally)
{
	unsigned device = record->device < SK_SEGMENT_DEVICES
				  ? segment->devices[record->device] - 1u
				  : SK_NO_DEVICE;
	unsigned name = record->kind;

	if (record->kind >= SK_KIND_BARRIER) {
		fold_event(job, segment, record);
	} else {
		if (record->kind >= SK_COPY_KINDS)
			name = segment->names[record->name];
		fold_work(job, segment, record, device, name, tally);
	}
	if (keep)
		keep_event(job, segment, record, device, name);
	state_of(job)->records++;
}

/* Let names without a row that took device time just now contend for one. */
void sk_trace_job_contend(struct sk_trace_job *job, struct sk_trace_reader *reader,
			  struct sk_trace_fold_segment *segment)
{
	for (unsigned name = 1; job->nameless_any && name < SK_SEGMENT_NAMES; name++) {
		struct sk_segment_name *text = &job->view->names[name];
		uint64_t ns = job->nameless[name];

		job->nameless[name] = 0;
		if (!ns || sk_trace_reader_load_names(reader, job->view, name, name + 1) ||
		    !text->length)
			continue;
		sk_trace_job_clean_text(text->text, sizeof(text->text));
		segment->names[name] = (uint16_t)sk_trace_fold_contend(&job->fold, text->text, ns);
	}
	job->nameless_any = false;
}

static void note_fill(struct sk_trace_job *job, uint64_t waiting, uint32_t capacity)
{
	double fill = waiting < capacity ? (double)waiting / capacity : waiting > 0;

	job->fill = fill > job->fill ? fill : job->fill;
}

/* Return whether a record stays in the timeline: one that later records of this drain would push
 * out is not written. */
static bool kept(const struct sk_trace_job *job, uint64_t behind)
{
	return behind < SK_EVENTS_CAPACITY && !job->no_timeline;
}

void sk_trace_job_drain_ring(struct sk_trace_job *job, struct sk_trace_reader *reader,
			     struct sk_trace_fold_segment *segment, unsigned slot)
{
	uint64_t head = job->view->slots[slot].head, tail = segment->tails[slot];

	note_fill(job, head - tail, job->view->slots[slot].ring_records);
	while (tail != head) {
		struct tally tally = {0};
		int count = sk_trace_reader_records(reader, job->view, slot, tail, job->records,
						    SK_JOB_BATCH);

		if (count <= 0) {
			loss_of(job)[SK_LOSS_records_damaged]++;
			tail = head;
			break;
		}
		for (int i = 0; i < count; i++, tail++)
			if (record_sensible(&job->records[i], segment, tail))
				fold_record(job, segment, &job->records[i], kept(job, head - tail),
					    &tally);
			else
				loss_of(job)[SK_LOSS_records_damaged]++;
		add_tally(job, segment, &tally);
	}
	job->dirty = job->dirty || tail != segment->tails[slot];
	segment->tails[slot] = tail;
}
