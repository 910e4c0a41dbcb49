/* SPDX-License-Identifier: Apache-2.0 */
/* Draining: the records of all segments folded, what is settled settled, all of it committed. */
#include "trace/job_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void map_names(struct sk_job *job, struct sk_reader *reader, struct sk_fold_segment *segment)
{
	struct sk_segment *view = job->view;
	uint32_t from = segment->names_read, to = view->header.names;

	if (to <= from || sk_reader_load_names(reader, view, from, to))
		return;
	for (uint32_t name = from; name < to; name++) {
		struct sk_segment_name *text = &view->names[name];

		if (!text->length)
			break; /* still being written */
		sk_job_clean_text(text->text, sizeof(text->text));
		segment->names[name] = (uint16_t)(name ? sk_fold_name(&job->fold, text->text) : 0);
		segment->names_read = name + 1;
		job->dirty = true;
	}
}

static void map_devices(struct sk_job *job, struct sk_fold_segment *segment)
{
	struct sk_segment *view = job->view;

	for (uint32_t row = 0; row < view->header.devices; row++) {
		struct sk_segment_device *from = &view->devices[row];
		struct sk_fold_device *to;

		if (!from->ready)
			continue;
		if (!segment->devices[row]) {
			sk_job_clean_text(from->id, sizeof(from->id));
			sk_job_clean_text(from->name, sizeof(from->name));
			unsigned device = sk_fold_device(&job->fold, from->id);

			if (device == SK_NO_DEVICE)
				continue;
			segment->devices[row] = (uint8_t)(device + 1);
			memcpy(state_of(job)->devices[device].name, from->name, sizeof(from->name));
			job->dirty = true;
		}
		to = &state_of(job)->devices[segment->devices[row] - 1];
		sk_job_clean_text(from->clock, sizeof(from->clock));
		memcpy(to->clock, from->clock, sizeof(to->clock));
		to->offset_ns = from->offset_ns;
		to->drift_ppb = from->drift_ppb;
		to->error_ns = from->error_ns > to->error_ns ? from->error_ns : to->error_ns;
	}
}

static int by_end(const void *left, const void *right)
{
	const struct sk_interval *a = left, *b = right;

	return (a->to_ns > b->to_ns) - (a->to_ns < b->to_ns);
}

static void sweep_to(struct sk_job *job, uint64_t frontier)
{
	uint64_t to = state_of(job)->window_to_ns;

	sk_causes_sweep(&state_of(job)->causes, to && frontier > to ? to : frontier, &job->input);
	job->dirty = true;
}

/* Too much waits to be settled: settle the older part now. What comes late is cut and counted. */
static void settle_by_force(struct sk_job *job)
{
	struct sk_causes_input *input = &job->input;
	size_t keep = SK_FOLD_INTERVALS / 2;

	qsort(input->intervals, input->interval_count, sizeof(*input->intervals), by_end);
	sweep_to(job, input->intervals[input->interval_count - keep].to_ns);
	/* What lies behind the end of the window would stay for ever. */
	if (input->interval_count > keep)
		input->interval_count = keep;
}

static void add_interval(struct sk_job *job, const struct sk_interval *interval)
{
	if (job->input.interval_count == SK_JOB_WAITING_INTERVALS)
		settle_by_force(job);
	job->input.intervals[job->input.interval_count++] = *interval;
}

static bool record_sensible(const struct sk_record *record, const struct sk_fold_segment *segment,
			    uint64_t index)
{
	return record->sequence == (uint32_t)index && record->kind <= SK_KIND_KERNEL &&
	       record->device < SK_SEGMENT_DEVICES && segment->devices[record->device] &&
	       record->name < SK_SEGMENT_NAMES && record->shift < SK_STAT_SHIFTS &&
	       record->start_ns <= record->end_ns && record->end_ns < UINT64_C(1) << 62;
}

static void keep_event(struct sk_job *job, const struct sk_fold_segment *segment,
		       const struct sk_record *record, unsigned device, unsigned name)
{
	struct sk_event event = {
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
	};

	loss_of(job)[SK_LOSS_timeline_dropped] +=
		sk_events_add(&job->events, job->store_fd, state_of(job)->records, &event);
}

static void fold_record(struct sk_job *job, const struct sk_fold_segment *segment,
			const struct sk_record *record)
{
	bool kernel = record->kind == SK_KIND_KERNEL;
	unsigned name = kernel ? segment->names[record->name] : record->kind;
	unsigned device = segment->devices[record->device] - 1u;
	struct sk_fold_device *row = &state_of(job)->devices[device];
	uint64_t ns = record->end_ns - record->start_ns;
	struct sk_interval interval = {.from_ns = record->start_ns,
				       .to_ns = record->end_ns,
				       .tid = record->tid,
				       .device = (uint8_t)device,
				       .busy = kernel ? SK_BUSY_KERNEL : SK_BUSY_COPY};

	sk_stat_add(sk_fold_touch(&job->fold, kernel, name), ns, record->shift);
	*(kernel ? &row->kernel_ns : &row->copy_ns) += ns << record->shift;
	add_interval(job, &interval);
	keep_event(job, segment, record, device, name);
	state_of(job)->records++;
}

static void note_fill(struct sk_job *job, uint64_t waiting, uint32_t capacity)
{
	double fill = waiting < capacity ? (double)waiting / capacity : waiting > 0;

	job->fill = fill > job->fill ? fill : job->fill;
}

static void drain_ring(struct sk_job *job, struct sk_reader *reader,
		       struct sk_fold_segment *segment, unsigned slot)
{
	uint64_t head = job->view->slots[slot].head, tail = segment->tails[slot];

	note_fill(job, head - tail, job->view->slots[slot].ring_records);
	while (tail != head) {
		int count = sk_reader_records(reader, job->view, slot, tail, job->records,
					      SK_JOB_BATCH);

		if (count <= 0) {
			loss_of(job)[SK_LOSS_records_damaged]++;
			tail = head;
			break;
		}
		for (int i = 0; i < count; i++, tail++)
			if (record_sensible(&job->records[i], segment, tail))
				fold_record(job, segment, &job->records[i]);
			else
				loss_of(job)[SK_LOSS_records_damaged]++;
	}
	job->dirty = job->dirty || tail != segment->tails[slot];
	segment->tails[slot] = tail;
}

static uint64_t earlier_call(uint64_t ns, uint64_t call_ns)
{
	return call_ns && call_ns < ns ? call_ns : ns;
}

/* No record of this segment that is still to come starts before the result. */
static uint64_t oldest_of(const struct sk_segment *view, uint64_t now_ns)
{
	uint64_t oldest = now_ns;

	for (uint32_t slot = 0; slot < view->header.slots_used; slot++) {
		oldest = earlier_call(oldest, view->slots[slot].calling_ns);
		for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++)
			oldest = earlier_call(oldest, view->slots[slot].oldest_ns[lane]);
	}
	return oldest;
}

/* Launches in flight when their process ended: whether the device worked is not known. */
static void note_unfinished(struct sk_job *job, const struct sk_fold_segment *segment)
{
	for (uint32_t slot = 0; slot < job->view->header.slots_used; slot++)
		for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++) {
			const struct sk_slot *from = &job->view->slots[slot];
			uint8_t row = from->oldest_device[lane];

			if (!from->oldest_ns[lane] || row >= SK_SEGMENT_DEVICES ||
			    !segment->devices[row])
				continue;
			struct sk_interval interval = {.from_ns = from->oldest_ns[lane],
						       .to_ns = job->now_ns,
						       .tid = from->tid,
						       .device =
							       (uint8_t)(segment->devices[row] - 1),
						       .busy = SK_BUSY_UNKNOWN};
			if (interval.from_ns < interval.to_ns)
				add_interval(job, &interval);
		}
}

static uint64_t unfinished(const struct sk_fold_counters *counters)
{
	const uint64_t *loss = counters->loss;
	uint64_t done = counters->made + loss[SK_LOSS_pending_full] + loss[SK_LOSS_failed] +
			loss[SK_LOSS_unstamped];

	return counters->timed > done ? counters->timed - done : 0;
}

/* A segment's own counts go into the fold; its file is removed after the commit. */
static void retire(struct sk_job *job, unsigned row)
{
	struct sk_fold_state *state = state_of(job);
	struct sk_fold_segment *segment = &state->segments[row];
	struct sk_reader *reader = job->readers[row];

	reader->counters.loss[SK_LOSS_unfinished] = unfinished(&reader->counters);
	sk_fold_counters_add(&state->retired, &reader->counters);
	for (unsigned from = 0; from < SK_SEGMENT_ROWS; from++) {
		for (unsigned name = 0; name < SK_SEGMENT_NAMES; name++)
			if (reader->counts[from][name])
				sk_fold_touch(&job->fold, true, segment->names[name])->retired +=
					reader->counts[from][name];
		for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++)
			if (reader->copies[from][kind][0]) {
				struct sk_stat *stat = sk_fold_touch(&job->fold, false, kind);

				stat->retired += reader->copies[from][kind][0];
				stat->retired_bytes += reader->copies[from][kind][1];
			}
	}
	segment->state = SK_SEGMENT_RETIRED;
	sk_reader_close(reader);
	free(reader);
	job->readers[row] = NULL;
	job->dirty = true;
}

static void check_alive(struct sk_job *job, struct sk_reader *reader,
			const struct sk_fold_segment *segment)
{
	if (job->ended) {
		reader->dead = true;
	} else if (reader->holds_back || job->now_ns - reader->checked_ns >= 500 * MS) {
		reader->dead = !sk_reader_process_runs(segment->pid, segment->starttime);
		reader->checked_ns = job->now_ns;
	}
}

static int load(struct sk_job *job, struct sk_reader *reader, struct sk_fold_segment *segment,
		uint64_t *watermark)
{
	int error = sk_reader_load(reader, job->view);

	if (error)
		return error;
	if (!reader->dead) {
		uint64_t oldest = oldest_of(job->view, job->now_ns);

		reader->holds_back = oldest < job->now_ns;
		*watermark = oldest < *watermark ? oldest : *watermark;
	}
	/* Heads after the oldest launches in flight: what left that list meanwhile is in a ring. */
	error = sk_reader_load_slots(reader, job->view);
	if (error)
		return error;
	if (job->view->header.created_ns < job->now_ns)
		sk_causes_called(&state_of(job)->causes, job->view->header.created_ns);
	map_devices(job, segment);
	map_names(job, reader, segment);
	return sk_reader_load_counts(reader, job->view);
}

static void drain_segment(struct sk_job *job, unsigned row, uint64_t *watermark)
{
	struct sk_fold_segment *segment = &state_of(job)->segments[row];
	struct sk_reader *reader = job->readers[row];

	check_alive(job, reader, segment);
	int error = load(job, reader, segment, watermark);

	if (error) {
		loss_of(job)[SK_LOSS_segments_damaged]++;
		retire(job, row); /* with what was last known of it */
		return;
	}
	for (uint32_t slot = 0; slot < job->view->header.slots_used; slot++)
		drain_ring(job, reader, segment, slot);
	if (!reader->dead)
		return;
	note_unfinished(job, segment);
	retire(job, row);
}

/* A segment known from before the agent's restart. */
static void reopen(struct sk_job *job, unsigned row)
{
	struct sk_fold_segment *segment = &state_of(job)->segments[row];
	struct sk_reader *reader = calloc(1, sizeof(*reader));
	char name[64];

	sk_reader_name(segment->pid, segment->starttime, segment->number, name);
	int error = reader ? sk_reader_open(reader, job->folder_fd, name, job->owner, job->view)
			   : -ENOMEM;

	if (!error) {
		job->readers[row] = reader;
		return;
	}
	free(reader);
	if (error == -ENOMEM || error == -EMFILE || error == -ENFILE)
		return; /* tried again at the next drain */
	loss_of(job)[SK_LOSS_segments_damaged]++;
	segment->state = SK_SEGMENT_FREE;
	job->dirty = true;
}

static uint64_t drain_segments(struct sk_job *job)
{
	struct sk_fold_state *state = state_of(job);
	uint64_t watermark = job->now_ns;

	for (unsigned row = 0; row < state->segments_used; row++) {
		if (state->segments[row].state != SK_SEGMENT_LIVE)
			continue;
		if (!job->readers[row])
			reopen(job, row);
		if (job->readers[row])
			drain_segment(job, row, &watermark);
		else if (state->segments[row].state == SK_SEGMENT_LIVE)
			watermark = state->causes.frontier_ns;
	}
	return watermark;
}

/* Settle what no record and no span can change any more. */
static void settle(struct sk_job *job, uint64_t watermark)
{
	struct sk_causes *causes = &state_of(job)->causes;
	struct sk_causes_input *input = &job->input;
	uint64_t frontier = watermark;

	if (causes->spans_seen && !job->ended) {
		/* Spans come a little later than records, but not for ever. */
		uint64_t patience = job->now_ns > 2000 * MS ? job->now_ns - 2000 * MS : 0;
		uint64_t told = job->spans_to_ns > patience ? job->spans_to_ns : patience;

		frontier = told < frontier ? told : frontier;
	}
	bool work = input->interval_count || input->span_count;

	if (work || frontier > causes->frontier_ns + 1000 * MS || job->ended)
		sweep_to(job, frontier);
	if (input->interval_count > SK_FOLD_INTERVALS)
		settle_by_force(job);
}

static void keep_waiting(struct sk_job *job)
{
	struct sk_fold_state *state = state_of(job);
	size_t spans = job->input.span_count;

	state->intervals_used = (uint32_t)job->input.interval_count;
	state->spans_used = (uint32_t)(spans < SK_FOLD_SPANS ? spans : SK_FOLD_SPANS);
	memcpy(state->intervals, job->input.intervals,
	       state->intervals_used * sizeof(struct sk_interval));
	memcpy(state->waiting, job->input.spans, state->spans_used * sizeof(struct sk_thread_span));
}

/* After the commit: rings may be filled again, and files of the retired are not needed. */
static void tell_producers(struct sk_job *job)
{
	struct sk_fold_state *state = state_of(job);

	for (unsigned row = 0; row < state->segments_used; row++) {
		struct sk_fold_segment *segment = &state->segments[row];
		struct sk_reader *reader = job->readers[row];
		char name[64];

		for (unsigned slot = 0; reader && slot < SK_SEGMENT_SLOTS; slot++)
			if (reader->told[slot] != segment->tails[slot] &&
			    !sk_reader_consume(reader, slot, segment->tails[slot]))
				reader->told[slot] = segment->tails[slot];
		if (segment->state != SK_SEGMENT_RETIRED || job->folder_fd < 0)
			continue;
		sk_reader_name(segment->pid, segment->starttime, segment->number, name);
		/* The row is used again only when no file of its name can be folded twice. */
		if (!unlinkat(job->folder_fd, name, 0) || errno == ENOENT)
			segment->state = SK_SEGMENT_FREE;
	}
}

static int commit(struct sk_job *job)
{
	struct sk_fold_state *state = state_of(job);

	if (!state->segments_seen)
		return 0; /* nothing to keep: no file for a job that never calls a GPU */
	if (job->dirty) {
		loss_of(job)[SK_LOSS_timeline_dropped] +=
			sk_events_flush(&job->events, job->store_fd);
		loss_of(job)[SK_LOSS_timeline_spans_dropped] +=
			sk_events_flush(&job->spans, job->store_fd);
		keep_waiting(job);
		int error = sk_fold_commit(&job->fold, job->store_fd);

		if (error)
			return error;
		job->dirty = false;
	}
	tell_producers(job);
	return 0;
}

static void describe(struct sk_job *job, uint64_t records_before, struct sk_job_drained *ret)
{
	struct sk_fold_state *state = state_of(job);
	struct sk_fold_counters sum;

	memset(ret, 0, sizeof(*ret));
	sk_job_counters(job, &sum);
	ret->records = state->records - records_before;
	ret->lost = sum.loss[SK_LOSS_ring_full] + sum.loss[SK_LOSS_pending_full] +
		    sum.loss[SK_LOSS_unstamped] + sum.loss[SK_LOSS_unfinished] +
		    sum.loss[SK_LOSS_failed] + sum.loss[SK_LOSS_records_damaged];
	ret->fill = job->fill;
	for (unsigned row = 0; row < state->segments_used; row++)
		ret->segments += state->segments[row].state == SK_SEGMENT_LIVE;
	for (unsigned t = 0; t < state->causes.threads; t++)
		if (state->causes.thread[t].launched)
			ret->tids[ret->tids_used++] = state->causes.thread[t].tid;
}

int sk_job_drain(struct sk_job *job, uint64_t now_ns, struct sk_job_drained *ret)
{
	uint64_t before = state_of(job)->records;

	job->now_ns = now_ns;
	job->fill = 0;
	int error = 0;

	if (!state_of(job)->finished) {
		sk_job_scan(job);
		settle(job, drain_segments(job));
		error = commit(job);
	}
	describe(job, before, ret);
	return error;
}

int sk_job_finish(struct sk_job *job, uint64_t to_ns, struct sk_job_drained *ret)
{
	struct sk_fold_state *state = state_of(job);

	if (state->finished)
		return sk_job_drain(job, to_ns, ret);
	uint64_t before = state->records;

	sk_job_set_window_to(job, to_ns);
	job->ended = true;
	job->folder_quiet = false;
	job->now_ns = state->window_to_ns;
	job->fill = 0;
	sk_job_scan(job);
	drain_segments(job);
	settle(job, state->window_to_ns);
	job->input.interval_count = job->input.span_count = 0; /* behind the window's end */
	state->finished = 1;
	job->dirty = true;
	int error = commit(job);

	if (error) /* may be tried again */
		state->finished = 0;
	describe(job, before, ret);
	return error;
}
