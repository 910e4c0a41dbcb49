/* SPDX-License-Identifier: Apache-2.0 */
/* The drain: folds the records of all segments, settles what is settled, and commits all of it. */
#include "records/throttle.h"
#include "trace/job/job_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void map_names(struct sk_trace_job *job, struct sk_trace_reader *reader,
		      struct sk_trace_fold_segment *segment)
{
	struct sk_segment *view = job->view;
	uint32_t from = segment->names_read, to = view->header.names;

	if (to <= from || sk_trace_reader_load_names(reader, view, from, to))
		return;
	for (uint32_t name = from; name < to; name++) {
		struct sk_segment_name *text = &view->names[name];

		if (!text->length)
			break; /* still being written */
		sk_trace_job_clean_text(text->text, sizeof(text->text));
		segment->names[name] =
			(uint16_t)(name ? sk_trace_fold_name(&job->fold, text->text) : 0);
		segment->names_read = name + 1;
		job->dirty = true;
	}
}

enum { TYPE_CPU = 1 << 1 }; /* CL_DEVICE_TYPE_CPU */

static void map_devices(struct sk_trace_job *job, struct sk_trace_fold_segment *segment)
{
	struct sk_segment *view = job->view;

	for (uint32_t row = 0; row < view->header.devices; row++) {
		struct sk_segment_device *from = &view->devices[row];
		struct sk_trace_fold_device *to;

		if (!from->ready)
			continue;
		if (!segment->devices[row]) {
			sk_trace_job_clean_text(from->id, sizeof(from->id));
			sk_trace_job_clean_text(from->name, sizeof(from->name));
			unsigned device = sk_trace_fold_device(&job->fold, from->id);

			if (device == SK_NO_DEVICE)
				continue;
			segment->devices[row] = (uint8_t)(device + 1);
			memcpy(state_of(job)->devices[device].name, from->name, sizeof(from->name));
			job->dirty = true;
		}
		to = &state_of(job)->devices[segment->devices[row] - 1];
		to->hosted = from->type == TYPE_CPU;
		sk_trace_job_clean_text(from->clock, sizeof(from->clock));
		memcpy(to->clock, from->clock, sizeof(to->clock));
		to->offset_ns = from->offset_ns;
		to->drift_ppb = from->drift_ppb;
		to->error_ns = from->error_ns > to->error_ns ? from->error_ns : to->error_ns;
	}
}

static int by_end(const void *left, const void *right)
{
	const struct sk_trace_interval *a = left, *b = right;

	return (a->to_ns > b->to_ns) - (a->to_ns < b->to_ns);
}

static void sweep_to(struct sk_trace_job *job, uint64_t frontier)
{
	uint64_t to = state_of(job)->window_to_ns;

	sk_trace_causes_sweep(&state_of(job)->causes, to && frontier > to ? to : frontier,
			      &job->input);
	job->dirty = true;
}

/* Settle the older part now, because too much is waiting. Late work is cut and counted. */
static void settle_by_force(struct sk_trace_job *job)
{
	struct sk_trace_causes_input *input = &job->input;
	size_t keep = SK_FOLD_INTERVALS / 2;

	qsort(input->intervals, input->interval_count, sizeof(*input->intervals), by_end);
	sweep_to(job, input->intervals[input->interval_count - keep].to_ns);
	/* Work behind the end of the window would stay for ever. */
	if (input->interval_count > keep)
		input->interval_count = keep;
}

void sk_trace_job_add_interval(struct sk_trace_job *job, const struct sk_trace_interval *interval)
{
	if (job->input.interval_count == SK_JOB_WAITING_INTERVALS)
		settle_by_force(job);
	job->input.intervals[job->input.interval_count++] = *interval;
}

static uint64_t earlier_call(uint64_t ns, uint64_t call_ns)
{
	return call_ns && call_ns < ns ? call_ns : ns;
}

/* Return a time before which no record of this segment can start any more. */
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

/* Count launches in flight when their process ended: it is not known whether the device worked. */
static void note_unfinished(struct sk_trace_job *job, const struct sk_trace_fold_segment *segment)
{
	for (uint32_t slot = 0; slot < job->view->header.slots_used; slot++)
		for (unsigned lane = 0; lane < SK_SEGMENT_LANES; lane++) {
			const struct sk_slot *from = &job->view->slots[slot];
			uint8_t row = from->oldest_device[lane];

			if (!from->oldest_ns[lane] || row >= SK_SEGMENT_DEVICES ||
			    !segment->devices[row])
				continue;
			struct sk_trace_interval interval = {
				.from_ns = from->oldest_ns[lane],
				.to_ns = job->now_ns,
				.tid = from->tid,
				.device = (uint8_t)(segment->devices[row] - 1),
				.busy = SK_BUSY_UNKNOWN,
				.flags = SK_INTERVAL_UNENDED,
				.process = segment->pid};
			if (interval.from_ns < interval.to_ns)
				sk_trace_job_add_interval(job, &interval);
		}
}

static uint64_t unfinished(const struct sk_trace_fold_counters *counters)
{
	const uint64_t *loss = counters->loss;
	uint64_t done = counters->made - counters->host_records + loss[SK_LOSS_pending_full] +
			loss[SK_LOSS_failed] + loss[SK_LOSS_unstamped];

	return counters->timed > done ? counters->timed - done : 0;
}

static void retire_counts(struct sk_trace_job *job, const struct sk_trace_fold_segment *segment,
			  const struct sk_trace_reader *reader, double unseen)
{
	for (unsigned from = 0; from < SK_SEGMENT_ROWS; from++) {
		for (unsigned name = 0; name < SK_SEGMENT_NAMES; name++) {
			uint64_t count = reader->counts[from][name];

			if (!count)
				continue;
			struct sk_trace_stat *stat =
				sk_trace_fold_touch(&job->fold, true, segment->names[name]);

			stat->retired += count;
			stat->retired_unseen += unseen * (double)count;
		}
		for (unsigned kind = 0; kind < SK_COPY_KINDS; kind++) {
			const uint64_t *copies = reader->copies[from][kind];

			if (!copies[0])
				continue;
			struct sk_trace_stat *stat = sk_trace_fold_touch(&job->fold, false, kind);

			stat->retired += copies[0];
			stat->retired_bytes += copies[1];
			stat->retired_unseen += unseen * (double)copies[0];
		}
	}
}

/* Move a segment's own counts into the fold; its file is removed after the commit. */
static void retire(struct sk_trace_job *job, unsigned row)
{
	struct sk_trace_fold_state *state = state_of(job);
	struct sk_trace_fold_segment *segment = &state->segments[row];
	struct sk_trace_reader *reader = job->readers[row];
	struct sk_trace_fold_process *process = &state->processes[segment->process];
	uint64_t calls = reader->counters.launches + reader->counters.copies;
	double unseen = sk_trace_job_unseen(reader, segment);

	reader->counters.host_records = segment->host_records;
	reader->counters.loss[SK_LOSS_unfinished] = unfinished(&reader->counters);
	sk_trace_fold_counters_add(&state->retired, &reader->counters);
	retire_counts(job, segment, reader, unseen);
	process->launches += reader->counters.launches;
	process->copies += reader->counters.copies;
	process->tracer_ns += reader->counters.tracer_ns;
	process->unseen += (uint64_t)(unseen * (double)calls + 0.5);
	sk_trace_job_finish_windows(segment, reader, &state->clusters);
	segment->state = SK_SEGMENT_RETIRED;
	sk_trace_reader_close(reader);
	free(reader);
	job->readers[row] = NULL;
	job->dirty = true;
}

static void check_alive(struct sk_trace_job *job, struct sk_trace_reader *reader,
			const struct sk_trace_fold_segment *segment)
{
	if (job->ended) {
		reader->dead = true;
	} else if (reader->holds_back || job->now_ns - reader->checked_ns >= 500 * MS) {
		reader->dead = !sk_trace_reader_process_runs(segment->pid, segment->starttime);
		reader->checked_ns = job->now_ns;
	}
}

/* Delay settling to the time before which all records of this segment are in its rings. */
static void hold_back(struct sk_trace_job *job, struct sk_trace_reader *reader,
		      struct sk_trace_fold_segment *segment, uint64_t *watermark)
{
	uint64_t covered = sk_trace_job_cover(job, reader, segment);

	if (reader->dead)
		return;
	uint64_t oldest = oldest_of(job->view, job->now_ns);

	reader->holds_back = oldest < job->now_ns;
	oldest = covered < oldest ? covered : oldest;
	*watermark = oldest < *watermark ? oldest : *watermark;
}

static int load(struct sk_trace_job *job, struct sk_trace_reader *reader,
		struct sk_trace_fold_segment *segment, uint64_t *watermark)
{
	int error = sk_trace_reader_load(reader, job->view);

	if (error)
		return error;
	map_devices(job, segment);
	hold_back(job, reader, segment, watermark);
	/* Load the heads after the oldest launches in flight: those that left the list are in a
	 * ring. */
	error = sk_trace_reader_load_slots(reader, job->view);
	if (error)
		return error;
	if (job->view->header.created_ns < job->now_ns)
		sk_trace_causes_called(&state_of(job)->causes, job->view->header.created_ns);
	map_devices(job, segment);
	map_names(job, reader, segment);
	error = sk_trace_reader_load_counts(reader, job->view);
	sk_trace_job_clean_text(reader->answer.holder, sizeof(reader->answer.holder));
	return error;
}

/* Renew the lease after a third of it, or at once if the request has changed. */
static void tell_tracer(struct sk_trace_job *job, struct sk_trace_reader *reader)
{
	uint64_t lease = job->now_ns + job->lease_ns;

	if (!job->wanted ||
	    (reader->wanted == job->wanted && lease < reader->lease_ns + job->lease_ns / 3))
		return;
	loss_of(job)[SK_LOSS_segments_damaged] +=
		sk_trace_reader_control(reader, job->wanted, lease) != 0;
}

/* Handle a control block that has changed: only the job can have written it, to be observed less.
 * It is written again, and the tracer's windows say what was not seen meanwhile. */
static void check_control(struct sk_trace_job *job, struct sk_trace_reader *reader)
{
	const struct sk_segment_control *control = &job->view->header.control;

	if (!reader->wanted ||
	    (control->wanted == reader->wanted && control->lease_ns == reader->lease_ns))
		return;
	loss_of(job)[SK_LOSS_control_changed]++;
	reader->wanted = 0;
	job->dirty = true;
}

/* Note that the tracer's lease has expired: it has been dormant since then. */
static void note_lapse(struct sk_trace_job *job)
{
	const struct sk_segment_control *control = &job->view->header.control;

	if (!job->wanted || !control->lease_ns || control->lease_ns >= job->now_ns ||
	    (control->wanted & 0xff) == SK_MODE_DORMANT)
		return;
	loss_of(job)[SK_LOSS_leases_lapsed]++;
	job->dirty = true;
}

void sk_trace_job_control(struct sk_trace_job *job, uint32_t mode, uint32_t budget_ppm,
			  uint64_t lease_ns, uint64_t now_ns)
{
	uint32_t said = mode | budget_ppm << 8;

	job->now_ns = now_ns;
	job->lease_ns = lease_ns;
	if (!job->wanted) /* an earlier agent may have requested counting */
		job->control_serial = (uint32_t)(now_ns >> 10);
	if (!job->wanted || (uint32_t)job->wanted != said)
		job->wanted = said | (uint64_t)++job->control_serial << 32;
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row])
			tell_tracer(job, job->readers[row]);
}

/* Return whether the present throttle word has this share and stays valid long enough. */
static bool has_word(const struct sk_trace_job *job, const struct sk_trace_reader *reader)
{
	uint64_t later = job->now_ns + SK_THROTTLE_VALID_NS - SK_THROTTLE_VALID_NS / 4;

	return sk_throttle_share(reader->throttle) == job->throttle &&
	       (!job->throttle || sk_throttle_until(reader->throttle) > later);
}

static void hold_launches(struct sk_trace_job *job, struct sk_trace_reader *reader)
{
	if (reader->answer.holds && !has_word(job, reader))
		loss_of(job)[SK_LOSS_segments_damaged] +=
			sk_trace_reader_throttle(
				reader, sk_throttle_word(job->throttle,
							 job->now_ns + SK_THROTTLE_VALID_NS)) != 0;
}

void sk_trace_job_throttle(struct sk_trace_job *job, uint32_t share, uint64_t now_ns)
{
	job->now_ns = now_ns;
	job->throttle = share < SK_THROTTLE_WHOLE ? share : 0;
	for (unsigned row = 0; row < SK_FOLD_SEGMENTS; row++)
		if (job->readers[row])
			hold_launches(job, job->readers[row]);
}

static void drain_segment(struct sk_trace_job *job, unsigned row, uint64_t *watermark)
{
	struct sk_trace_fold_segment *segment = &state_of(job)->segments[row];
	struct sk_trace_reader *reader = job->readers[row];

	check_alive(job, reader, segment);
	int error = load(job, reader, segment, watermark);

	if (error) {
		loss_of(job)[SK_LOSS_segments_damaged]++;
		retire(job, row); /* with the last known counts */
		return;
	}
	for (uint32_t slot = 0; slot < job->view->header.slots_used; slot++)
		sk_trace_job_drain_ring(job, reader, segment, slot);
	sk_trace_job_contend(job, reader, segment);
	if (!reader->dead) {
		check_control(job, reader);
		note_lapse(job);
		tell_tracer(job, reader);
		hold_launches(job, reader);
		return;
	}
	note_unfinished(job, segment);
	retire(job, row);
}

/* Open again a segment that an earlier agent knew. */
static void reopen(struct sk_trace_job *job, unsigned row)
{
	struct sk_trace_fold_segment *segment = &state_of(job)->segments[row];
	struct sk_trace_reader *reader = calloc(1, sizeof(*reader));
	char name[64];

	sk_trace_reader_name(segment->pid, segment->starttime, segment->number, name);
	int error =
		reader ? sk_trace_reader_open(reader, job->folder_fd, name, job->owner, job->view)
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

static uint64_t drain_segments(struct sk_trace_job *job)
{
	struct sk_trace_fold_state *state = state_of(job);
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

/* Settle time that no record and no span can change any more. */
static void settle(struct sk_trace_job *job, uint64_t watermark)
{
	struct sk_trace_causes *causes = &state_of(job)->causes;
	struct sk_trace_causes_input *input = &job->input;
	uint64_t frontier = watermark;

	if (causes->spans_seen && !job->ended) {
		/* Spans come a little later than records, but the wait for them is bounded. */
		uint64_t fed = job->fed_ns && job->fed_ns < job->now_ns ? job->fed_ns : job->now_ns;
		uint64_t patience = fed > 2000 * MS ? fed - 2000 * MS : 0;
		uint64_t told = job->spans_to_ns > patience ? job->spans_to_ns : patience;

		frontier = told < frontier ? told : frontier;
	}
	if (job->waits_to_ns && !job->ended) {
		uint64_t patience = job->now_ns > 2000 * MS ? job->now_ns - 2000 * MS : 0;
		uint64_t told = job->waits_to_ns > patience ? job->waits_to_ns : patience;

		frontier = told < frontier ? told : frontier;
	}
	bool work = input->interval_count || input->span_count;

	if (!job->ended && input->span_count < SK_FOLD_SPANS / 2)
		frontier = sk_trace_causes_whole(causes, frontier, 1000 * MS, input);
	if (work || frontier > causes->frontier_ns + 1000 * MS || job->ended)
		sweep_to(job, frontier);
	if (input->interval_count > SK_FOLD_INTERVALS)
		settle_by_force(job);
}

static void keep_waiting(struct sk_trace_job *job)
{
	struct sk_trace_fold_state *state = state_of(job);
	size_t spans = job->input.span_count;

	state->intervals_used = (uint32_t)job->input.interval_count;
	state->spans_used = (uint32_t)(spans < SK_FOLD_SPANS ? spans : SK_FOLD_SPANS);
	memcpy(state->intervals, job->input.intervals,
	       state->intervals_used * sizeof(struct sk_trace_interval));
	memcpy(state->waiting, job->input.spans,
	       state->spans_used * sizeof(struct sk_trace_thread_span));
}

/* Release ring space and remove retired files; only after the commit. */
static void tell_producers(struct sk_trace_job *job)
{
	struct sk_trace_fold_state *state = state_of(job);

	for (unsigned row = 0; row < state->segments_used; row++) {
		struct sk_trace_fold_segment *segment = &state->segments[row];
		struct sk_trace_reader *reader = job->readers[row];
		char name[64];

		for (unsigned slot = 0; reader && slot < SK_SEGMENT_SLOTS; slot++)
			if (reader->told[slot] != segment->tails[slot] &&
			    !sk_trace_reader_consume(reader, slot, segment->tails[slot]))
				reader->told[slot] = segment->tails[slot];
		if (segment->state != SK_SEGMENT_RETIRED || job->folder_fd < 0)
			continue;
		sk_trace_reader_name(segment->pid, segment->starttime, segment->number, name);
		/* The row is free only when no file of its name can be folded twice. */
		if (!unlinkat(job->folder_fd, name, 0) || errno == ENOENT)
			segment->state = SK_SEGMENT_FREE;
	}
}

static int commit(struct sk_trace_job *job)
{
	struct sk_trace_fold_state *state = state_of(job);

	if (!state->segments_seen)
		return 0; /* a job that never calls a GPU needs no file */
	if (job->dirty) {
		loss_of(job)[SK_LOSS_timeline_dropped] +=
			sk_trace_events_flush(&job->events, job->store_fd);
		loss_of(job)[SK_LOSS_timeline_spans_dropped] +=
			sk_trace_events_flush(&job->spans, job->store_fd);
		keep_waiting(job);
		int error = sk_trace_fold_commit(&job->fold, job->store_fd);

		if (error)
			return error;
		job->dirty = false;
	}
	tell_producers(job);
	return 0;
}

static void describe(struct sk_trace_job *job, uint64_t records_before,
		     struct sk_trace_job_drained *ret)
{
	struct sk_trace_fold_state *state = state_of(job);
	struct sk_trace_fold_counters sum;

	memset(ret, 0, sizeof(*ret));
	sk_trace_job_counters(job, &sum);
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

int sk_trace_job_drain(struct sk_trace_job *job, uint64_t now_ns, struct sk_trace_job_drained *ret)
{
	uint64_t before = state_of(job)->records;

	job->now_ns = now_ns;
	job->fill = 0;
	int error = 0;

	if (!state_of(job)->finished) {
		sk_trace_job_scan(job);
		settle(job, drain_segments(job));
		error = commit(job);
	}
	describe(job, before, ret);
	return error;
}

int sk_trace_job_finish(struct sk_trace_job *job, uint64_t to_ns, struct sk_trace_job_drained *ret)
{
	struct sk_trace_fold_state *state = state_of(job);

	if (state->finished)
		return sk_trace_job_drain(job, to_ns, ret);
	uint64_t before = state->records;

	sk_trace_job_set_window_to(job, to_ns);
	job->ended = true;
	job->folder_quiet = false;
	job->now_ns = state->window_to_ns;
	job->fill = 0;
	sk_trace_job_scan(job);
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
