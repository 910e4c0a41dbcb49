/* SPDX-License-Identifier: Apache-2.0 */
/* The account of how much of each process's time was seen: windows of its segment, checked and
 * joined. */
#include "trace/job/job_parts.h"

#include <string.h>

static enum sk_trace_cover cover_of(uint32_t mode, uint32_t phase)
{
	if (mode != SK_MODE_GOVERNED && mode != SK_MODE_FULL)
		return SK_COVER_DORMANT;
	if (phase == SK_PHASE_TIMED || !phase)
		return SK_COVER_TIMED;
	return phase == SK_PHASE_COUNTED ? SK_COVER_COUNTED : SK_COVER_BLIND;
}

static void hide_device(struct sk_trace_job *job, const struct sk_trace_fold_segment *segment,
			unsigned device, uint64_t from, enum sk_trace_cover cover)
{
	struct sk_trace_interval interval = {
		.from_ns = from,
		.to_ns = segment->covered_ns,
		.tid = segment->pid, /* its first thread */
		.device = (uint8_t)device,
		.busy = cover == SK_COVER_DORMANT ? SK_BUSY_UNKNOWN : SK_BUSY_UNSEEN,
		.flags = SK_INTERVAL_COVER,
	};

	sk_trace_job_add_interval(job, &interval);
}

/* Hide the time of the process's devices from `from_ns` on, which was not seen. Before its first
 * call that holds for every device of the job, including later ones. */
static void hide(struct sk_trace_job *job, const struct sk_trace_fold_segment *segment,
		 uint64_t from, enum sk_trace_cover cover)
{
	bool any = false;

	for (unsigned row = 0; row < SK_SEGMENT_DEVICES; row++)
		if (segment->devices[row]) {
			hide_device(job, segment, segment->devices[row] - 1u, from, cover);
			any = true;
		}
	for (unsigned device = 0; !any && device < state_of(job)->devices_used; device++)
		hide_device(job, segment, device, from, cover);
	if (!any)
		hide_device(job, segment, SK_CAUSES_DEVICES, from, cover);
}

static void finish_stretch(struct sk_trace_clusters *clusters,
			   const struct sk_trace_fold_segment *segment,
			   struct sk_trace_stretch stretch)
{
	const struct sk_trace_stretch *before = &segment->stretch_before;

	if (stretch.ns)
		sk_trace_clusters_add_stretch(clusters, before->ns ? before : NULL, &stretch);
}

/* Extend the seen stretch by `ns`, or end it: then all its windows are known. */
static void stretch_by(struct sk_trace_job *job, struct sk_trace_fold_segment *segment, uint64_t ns,
		       enum sk_trace_cover cover)
{
	struct sk_trace_stretch stretch = {segment->stretch_ns,
					   segment->counted - segment->counted_before};

	segment->tail_ns = cover == SK_COVER_BLIND ? segment->tail_ns + ns : 0;
	if (cover == SK_COVER_TIMED || cover == SK_COVER_COUNTED) {
		segment->stretch_ns += ns;
		return;
	}
	finish_stretch(&state_of(job)->clusters, segment, stretch);
	if (stretch.ns)
		segment->stretch_before = stretch;
	segment->stretch_ns = 0;
	segment->counted_before = segment->counted;
}

/* Give all time up to `to_ns` that is not known yet the level `cover`. */
static void cover_to(struct sk_trace_job *job, struct sk_trace_fold_segment *segment, uint64_t to,
		     enum sk_trace_cover cover)
{
	uint64_t from = segment->covered_ns;

	if (to <= from)
		return;
	segment->covered_ns = to;
	segment->cover_ns[cover] += to - from;
	stretch_by(job, segment, to - from, cover);
	state_of(job)->processes[segment->process].cover_ns[cover] += to - from;
	/* A fully seen time is found again after a crash, so a quiet job writes nothing. */
	job->dirty = job->dirty || cover != SK_COVER_TIMED;
	sk_trace_history_covered(
		&job->history,
		&(struct sk_trace_history_cover){
			.from_ns = from, .to_ns = to, .pid = segment->pid, .cover = cover});
	if (cover != SK_COVER_TIMED)
		hide(job, segment, from, cover);
}

/* Give a level to time before `to_ns` that no window describes: it is known for the tracer's start,
 * but not for a lost window. */
static void cover_hole(struct sk_trace_job *job, struct sk_trace_fold_segment *segment, uint64_t to)
{
	cover_to(job, segment, to,
		 segment->windows_read ? SK_COVER_DORMANT
				       : cover_of(segment->window_mode, SK_PHASE_TIMED));
}

static void finish_window(struct sk_trace_clusters *clusters, struct sk_trace_window_sums *before,
			  const struct sk_trace_window_sums *window)
{
	if (!window->to_ns || window->to_ns == UINT64_MAX)
		return;
	sk_trace_clusters_add(clusters, before->to_ns ? before : NULL, window);
	*before = *window;
}

static struct sk_trace_window_sums *newest(struct sk_trace_fold_segment *segment)
{
	return segment->drawn ? &segment->window[(segment->drawn - 1) % SK_WINDOWS_KEPT] : NULL;
}

/* Take in a drawn window, closed or (`to_ns` UINT64_MAX) open. */
static void draw_window(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
			uint64_t from, uint64_t to)
{
	struct sk_trace_window_sums *window = newest(segment);

	if (window && window->from_ns == from) {
		window->to_ns = to;
		return;
	}
	window = &segment->window[segment->drawn++ % SK_WINDOWS_KEPT];
	finish_window(&state_of(job)->clusters, &segment->before, window);
	*window = (struct sk_trace_window_sums){.from_ns = from, .to_ns = to};
}

void sk_trace_job_clusters(const struct sk_trace_job *job, struct sk_trace_clusters *ret)
{
	const struct sk_trace_fold_state *state = job->fold.state;

	*ret = state->clusters;
	for (unsigned row = 0; row < state->segments_used; row++)
		if (job->readers[row])
			sk_trace_job_finish_windows(&state->segments[row], job->readers[row], ret);
}

void sk_trace_job_finish_windows(const struct sk_trace_fold_segment *segment,
				 const struct sk_trace_reader *reader,
				 struct sk_trace_clusters *ret)
{
	uint64_t calls = reader->counters.launches + reader->counters.copies;
	struct sk_trace_stretch open = {segment->stretch_ns, calls - segment->counted_before};
	struct sk_trace_window_sums before = segment->before;

	for (unsigned i = 0; i < SK_WINDOWS_KEPT; i++)
		finish_window(ret, &before,
			      &segment->window[(segment->drawn + i) % SK_WINDOWS_KEPT]);
	finish_stretch(ret, segment, open);
	sk_trace_clusters_add_tail(ret, segment->tail_ns);
}

static bool window_sensible(const struct sk_window *window, uint64_t index, uint64_t now_ns)
{
	return window->sequence == (uint32_t)index && window->phase >= SK_PHASE_TIMED &&
	       window->phase <= SK_PHASE_BLIND && window->from_ns < window->to_ns &&
	       window->to_ns <= now_ns + 1000 * MS;
}

static void take_window(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
			const struct sk_window *window)
{
	bool drawn = window->chosen_ns != 0;
	uint32_t mode =
		window->phase == SK_PHASE_BLIND && !drawn ? SK_MODE_DORMANT : SK_MODE_GOVERNED;

	cover_hole(job, segment, window->from_ns);
	if (drawn && window->phase == SK_PHASE_TIMED)
		draw_window(job, segment, window->from_ns, window->to_ns);
	cover_to(job, segment, window->to_ns, cover_of(mode, window->phase));
	segment->counted += window->launches;
	state_of(job)->retired.windows++;
}

static void take_windows(struct sk_trace_job *job, struct sk_trace_reader *reader,
			 struct sk_trace_fold_segment *segment)
{
	uint64_t made = job->view->header.windows;

	if (made < segment->windows_read || sk_trace_reader_load_windows(reader, job->view)) {
		loss_of(job)[SK_LOSS_windows_damaged]++;
		segment->windows_read = made;
		return;
	}
	if (made - segment->windows_read > SK_SEGMENT_WINDOWS) {
		loss_of(job)[SK_LOSS_windows_lost] +=
			made - segment->windows_read - SK_SEGMENT_WINDOWS;
		segment->windows_read = made - SK_SEGMENT_WINDOWS;
	}
	for (; segment->windows_read != made; segment->windows_read++) {
		const struct sk_window *window =
			&job->view->window[segment->windows_read % SK_SEGMENT_WINDOWS];

		if (window_sensible(window, segment->windows_read, job->now_ns))
			take_window(job, segment, window);
		else
			loss_of(job)[SK_LOSS_windows_damaged]++;
	}
	job->dirty = true;
}

/* Take the open window up to the earlier look, until which it certainly was the same. */
static void take_open(struct sk_trace_job *job, struct sk_trace_fold_segment *segment,
		      const struct sk_trace_reader_open *open, uint64_t to)
{
	enum sk_trace_cover cover =
		open->from_ns ? cover_of(open->mode, open->phase) : SK_COVER_DORMANT;

	if (open->drawn && open->mode == SK_MODE_GOVERNED && cover == SK_COVER_TIMED)
		draw_window(job, segment, open->from_ns, UINT64_MAX);
	cover_hole(job, segment, open->from_ns < to ? open->from_ns : to);
	cover_to(job, segment, to, cover);
}

static bool same_open(const struct sk_trace_reader_open *before,
		      const struct sk_trace_reader_open *open)
{
	return before->seen_ns && before->windows == open->windows &&
	       before->from_ns == open->from_ns && before->mode == open->mode &&
	       before->phase == open->phase && before->drawn == open->drawn;
}

/* Return whether unseen time of an open window is to be taken in: once a second, because each part
 * of it has to be settled and committed, even for an idle job. */
static bool is_due(const struct sk_trace_fold_segment *segment,
		   const struct sk_trace_reader_open *open)
{
	return cover_of(open->mode, open->phase) == SK_COVER_TIMED ||
	       open->seen_ns >= segment->covered_ns + 1000 * MS;
}

static void begin(struct sk_trace_job *job, struct sk_trace_fold_segment *segment)
{
	uint64_t made = job->view->header.created_ns, origin = state_of(job)->causes.origin_ns;

	segment->window_mode = job->view->header.mode;
	made = made < job->now_ns ? made : job->now_ns;
	segment->covered_ns = made > origin ? made : origin;
}

uint64_t sk_trace_job_cover(struct sk_trace_job *job, struct sk_trace_reader *reader,
			    struct sk_trace_fold_segment *segment)
{
	const struct sk_segment_header *header = &job->view->header;
	struct sk_trace_reader_open open = {.windows = header->windows,
					    .from_ns = header->window_from_ns,
					    .mode = header->answer.mode,
					    .phase = header->answer.phase,
					    .drawn = header->window_drawn,
					    .seen_ns = job->now_ns};

	if (!segment->covered_ns)
		begin(job, segment);
	if (!open.windows && !open.from_ns) { /* a tracer that never changes its mode */
		cover_to(job, segment, job->now_ns, cover_of(segment->window_mode, SK_PHASE_TIMED));
		return job->now_ns;
	}
	if (open.windows != segment->windows_read)
		take_windows(job, reader, segment);
	if (reader->dead)
		take_open(job, segment, &open, job->now_ns);
	else if (same_open(&reader->open, &open) && is_due(segment, &reader->open))
		take_open(job, segment, &open, reader->open.seen_ns);
	reader->open = open;
	return segment->covered_ns;
}
