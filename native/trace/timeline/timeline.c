/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline of a job's records and spans for Perfetto; see timeline.h. */
#include "trace/timeline/timeline.h"

#include "trace/timeline/call_name.h"
#include "trace/timeline/timeline_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PACKET_CLOCKS = 6,
	PACKET_INTERNED = 12,
	CLOCKS_CLOCK = 1,
	CLOCKS_PRIMARY = 2,
	CLOCK_ID = 1,
	CLOCK_NS = 2,
	CLOCK_ID_REALTIME = 1,
	CLOCK_ID_MONOTONIC = 3,
	INTERNED_NAME = 2,
	NAME_ID = 1,
	NAME_TEXT = 2,
	EVENT_FLOW = 47,
	EVENT_FLOW_END = 48,
	FLOWS = 512, /* of one call, so that its packet stays within its bounds */
};

const char *sk_trace_timeline_kind_name(unsigned kind)
{
	static const char *const NAMES[SK_COPY_KINDS] = {
		"read",	   "write",    "copy",	   "fill",    "map",	   "unmap",
		"migrate", "svm_copy", "svm_fill", "svm_map", "svm_unmap", "svm_migrate",
	};
	static const char *const HOST[SK_KINDS - SK_KIND_BARRIER] = {
		"barrier", "wait for the device", "user event", "profiler's own time",
		"launch held back"};

	if (kind >= SK_KIND_BARRIER && kind < SK_KINDS)
		return HOST[kind - SK_KIND_BARRIER];
	return kind < SK_COPY_KINDS && NAMES[kind] ? NAMES[kind] : "other";
}

void sk_trace_timeline_intern(struct timeline *line, uint64_t id, const char *text)
{
	struct sk_trace_perfetto *out = &line->out;

	sk_trace_perfetto_packet(out, 2);
	size_t interned = sk_trace_perfetto_begin(out, PACKET_INTERNED);
	size_t name = sk_trace_perfetto_begin(out, INTERNED_NAME);

	sk_trace_perfetto_number(out, NAME_ID, id);
	sk_trace_perfetto_text(out, NAME_TEXT, text);
	sk_trace_perfetto_end(out, name);
	sk_trace_perfetto_end(out, interned);
	sk_trace_perfetto_packet_end(out);
}

static void write_clock(struct sk_trace_perfetto *out, uint64_t id, uint64_t ns)
{
	size_t clock = sk_trace_perfetto_begin(out, CLOCKS_CLOCK);

	sk_trace_perfetto_number(out, CLOCK_ID, id);
	sk_trace_perfetto_number(out, CLOCK_NS, ns);
	sk_trace_perfetto_end(out, clock);
}

/* The trace's own time is CLOCK_MONOTONIC, tied to the wall clock at one moment. */
static void write_clocks(struct timeline *line, uint64_t now_ns, uint64_t realtime_ns)
{
	sk_trace_perfetto_packet(&line->out, 1);
	size_t clocks = sk_trace_perfetto_begin(&line->out, PACKET_CLOCKS);

	write_clock(&line->out, CLOCK_ID_MONOTONIC, now_ns);
	write_clock(&line->out, CLOCK_ID_REALTIME, realtime_ns);
	sk_trace_perfetto_number(&line->out, CLOCKS_PRIMARY, CLOCK_ID_MONOTONIC);
	sk_trace_perfetto_end(&line->out, clocks);
	sk_trace_perfetto_packet_end(&line->out);
}

static void write_names(struct timeline *line)
{
	static const char *const STATES[] = {"on CPU", "runnable", "blocked", "I/O or paging"};
	const struct sk_trace_fold_state *state = line->job->fold.state;

	for (unsigned row = 0; row < state->names_used; row++)
		sk_trace_timeline_intern(line, ID_KERNEL + row, state->names[row]);
	for (unsigned kind = 0; kind < SK_KINDS; kind++)
		sk_trace_timeline_intern(line, ID_COPY + kind, sk_trace_timeline_kind_name(kind));
	for (unsigned i = 0; i < 4; i++)
		sk_trace_timeline_intern(line, ID_STATE + i, STATES[i]);
}

/* Return the thousandths of the time of all processes in which no launch was counted. */
static unsigned unseen_milli(const struct sk_trace_fold_state *state)
{
	uint64_t unseen = 0, life = 0;

	for (unsigned row = 0; row < state->processes_used; row++) {
		const uint64_t *cover_ns = state->processes[row].cover_ns;

		for (int cover = 0; cover < SK_COVERS; cover++)
			life += cover_ns[cover];
		unseen += cover_ns[SK_COVER_BLIND] + cover_ns[SK_COVER_DORMANT];
	}
	/* Rounded up, so that a part is never shown as all. */
	return life ? (unsigned)(((unsigned __int128)unseen * 1000 + life - 1) / life) : 0;
}

/* Return where the timeline begins: with the job, or with the window of it that is written. */
static uint64_t begin_ns(const struct timeline *line)
{
	uint64_t origin_ns = line->job->fold.state->causes.origin_ns;

	return line->part.from_ns > origin_ns ? line->part.from_ns : origin_ns;
}

static void write_losses(struct timeline *line, const char *title)
{
	const struct sk_trace_fold_state *state = line->job->fold.state;
	uint64_t track = track_id(TRACK_LOSS, 0, 0), lost = 0;
	struct sk_trace_fold_counters sum;
	unsigned unseen = unseen_milli(state);
	char text[256], *more;

	sk_trace_job_counters(line->job, &sum);
	for (int loss = 0; loss < SK_LOSS_COUNT; loss++)
		lost += sum.loss[loss];
	snprintf(text, sizeof(text), "%s%slosses", title, *title ? ": " : "");
	sk_trace_perfetto_track(&line->out, track, 0, text);
	snprintf(text, sizeof(text), "nothing lost");
	if (lost)
		snprintf(text, sizeof(text), "%" PRIu64 " lost, by name in the arguments", lost);
	more = text + strlen(text);
	if (unseen)
		snprintf(more, sizeof(text) - (size_t)(more - text),
			 "; no launch was counted in %u.%u %% of the time", unseen / 10,
			 unseen % 10);
	sk_trace_timeline_intern(line, ID_LOSS, text);
	sk_trace_perfetto_event(&line->out, SK_PERFETTO_INSTANT, begin_ns(line), track, ID_LOSS);
	for (int loss = 0; loss < SK_LOSS_COUNT; loss++)
		sk_trace_perfetto_note(&line->out, sk_trace_loss_name((enum sk_trace_loss)loss),
				       sum.loss[loss]);
	sk_trace_perfetto_event_end(&line->out);
}

static const char *process_name(const struct sk_trace_fold_state *state, uint32_t pid)
{
	for (unsigned row = state->processes_used; row-- > 0;)
		if (state->processes[row].pid == pid)
			return state->processes[row].comm;
	return "process";
}

static int by_call(const void *left, const void *right)
{
	const struct sk_trace_event *a = left, *b = right;
	uint64_t x = a->queued_ns - a->call_before, y = b->queued_ns - b->call_before;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (x > y) - (x < y);
}

static int by_queue(const void *left, const void *right)
{
	const struct sk_trace_event *a = left, *b = right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	if (a->queue != b->queue)
		return a->queue < b->queue ? -1 : 1;
	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* Return an id that joins a call to its launches and does not depend on the order. */
static uint64_t flow_of(const struct sk_trace_event *event)
{
	return (event->queued_ns << 20) ^ ((uint64_t)event->tid << 4) ^ event->queue ^
	       (uint64_t)event->correlation << 32 ^ event->start_ns << 8;
}

static uint64_t name_of(const struct sk_trace_event *event)
{
	if (event->kind >= SK_COPY_KINDS && event->kind < SK_KIND_DEVICE_END)
		return (uint64_t)ID_KERNEL + event->name;
	return (uint64_t)ID_COPY + event->kind;
}

void sk_trace_timeline_slice_end(struct timeline *line, uint64_t ns, uint64_t track)
{
	sk_trace_perfetto_event(&line->out, SK_PERFETTO_END, ns, track, 0);
	sk_trace_perfetto_event_end(&line->out);
}

/* Return whether both are of one call, such as a graph with records of its kernels. */
static bool same_call(const struct sk_trace_event *a, const struct sk_trace_event *b)
{
	return a->pid == b->pid && a->tid == b->tid && a->correlation == b->correlation &&
	       a->queued_ns - a->call_before == b->queued_ns - b->call_before &&
	       a->call_ns == b->call_ns;
}

/* Write one track per thread, with the time of each call. Calls of one thread do not overlap. */
static void write_calls(struct timeline *line)
{
	const struct sk_trace_fold_state *state = line->job->fold.state;
	const struct sk_trace_event *last = NULL;
	char name[32];

	qsort(line->events, line->event_count, sizeof(*line->events), by_call);
	for (size_t i = 0; i < line->event_count; i++) {
		const struct sk_trace_event *event = &line->events[i];
		uint64_t thread = track_id(TRACK_THREAD, 0, event->tid);
		uint64_t from = event->queued_ns - event->call_before;

		if (!last || last->pid != event->pid)
			sk_trace_perfetto_process(&line->out,
						  track_id(TRACK_PROCESS, 0, event->pid),
						  event->pid, process_name(state, event->pid));
		if (!last || last->pid != event->pid || last->tid != event->tid) {
			snprintf(name, sizeof(name), "thread %" PRIu32, event->tid);
			sk_trace_perfetto_thread(&line->out, thread, event->pid, event->tid, name);
		}
		sk_trace_perfetto_event(&line->out, SK_PERFETTO_BEGIN, from, thread,
					name_of(event));
		sk_trace_perfetto_fixed(&line->out, EVENT_FLOW, flow_of(event));
		for (unsigned more = 1; more < FLOWS && i + 1 < line->event_count &&
					same_call(event, &line->events[i + 1]);
		     more++)
			sk_trace_perfetto_fixed(&line->out, EVENT_FLOW,
						flow_of(&line->events[++i]));
		sk_trace_perfetto_event_end(&line->out);
		sk_trace_timeline_slice_end(line, from + event->call_ns, thread);
		last = event;
	}
}

static void write_work(struct timeline *line, const struct sk_trace_event *event, uint64_t track,
		       uint64_t start)
{
	struct sk_trace_perfetto *out = &line->out;

	sk_trace_perfetto_event(out, SK_PERFETTO_BEGIN, start, track, name_of(event));
	sk_trace_perfetto_fixed(out, EVENT_FLOW_END, flow_of(event));
	sk_trace_perfetto_note(
		out, "waited_ns",
		event->start_ns > event->queued_ns ? event->start_ns - event->queued_ns : 0);
	if (event->kind != SK_KIND_KERNEL)
		sk_trace_perfetto_note(out, "bytes", event->bytes);
	if (event->shift)
		sk_trace_perfetto_note(out, "stands_for_launches", UINT64_C(1) << event->shift);
	sk_trace_perfetto_event_end(out);
	sk_trace_timeline_slice_end(line, event->end_ns > start ? event->end_ns : start, track);
}

static void write_queues(struct timeline *line)
{
	const struct sk_trace_event *last = NULL;
	uint64_t ends[SUBTRACKS] = {0};
	unsigned subtracks = 0;
	char name[32];

	qsort(line->events, line->event_count, sizeof(*line->events), by_queue);
	for (size_t i = 0; i < line->event_count; i++) {
		const struct sk_trace_event *event = &line->events[i];

		if (!last || last->device != event->device || last->queue != event->queue) {
			memset(ends, 0, sizeof(ends));
			subtracks = 0;
		}
		unsigned sub = free_subtrack(ends, event->start_ns);
		uint64_t track =
			track_id(TRACK_QUEUE, event->device, (uint64_t)event->queue << 4 | sub);
		uint64_t start = event->start_ns > ends[sub] ? event->start_ns : ends[sub];

		if (sub >= subtracks) {
			snprintf(name, sizeof(name), "queue %u", event->queue);
			sk_trace_perfetto_track(&line->out, track,
						track_id(TRACK_DEVICE, 0, event->device), name);
			subtracks = sub + 1;
		}
		write_work(line, event, track, start);
		ends[sub] = event->end_ns > start ? event->end_ns : start;
		last = event;
	}
}

static void write_devices(struct timeline *line)
{
	const struct sk_trace_fold_state *state = line->job->fold.state;
	char name[256];

	for (unsigned row = 0; row < state->devices_used; row++) {
		snprintf(name, sizeof(name), "%s %s", state->devices[row].id,
			 state->devices[row].name);
		sk_trace_perfetto_track(&line->out, track_id(TRACK_DEVICE, 0, row), 0, name);
	}
}

static int by_tid(const void *left, const void *right)
{
	const struct sk_trace_thread_span *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static uint64_t state_name(struct timeline *line, const struct sk_trace_thread_span *span,
			   uint8_t known[SYSCALLS])
{
	char text[48];

	if (span->state != 3 || span->detail >= SYSCALLS)
		return ID_STATE + span->state - 1u;
	if (!known[span->detail]) {
		const char *call = sk_trace_call_name(span->detail);

		if (call)
			snprintf(text, sizeof(text), "blocked in %s", call);
		else
			snprintf(text, sizeof(text), "blocked in system call %u", span->detail);
		sk_trace_timeline_intern(line, ID_SYSCALL + span->detail, text);
		known[span->detail] = 1;
	}
	return ID_SYSCALL + span->detail;
}

static void write_states(struct timeline *line)
{
	uint8_t known[SYSCALLS] = {0};
	uint32_t last = 0;
	char name[48];

	qsort(line->spans, line->span_count, sizeof(*line->spans), by_tid);
	for (size_t i = 0; i < line->span_count; i++) {
		const struct sk_trace_thread_span *span = &line->spans[i];
		uint64_t track = track_id(TRACK_STATE, 0, span->tid);

		if (span->state < 1 || span->state > 4)
			continue; /* never written for want of room */
		if (span->tid != last) {
			snprintf(name, sizeof(name), "thread %" PRIu32 " state", span->tid);
			sk_trace_perfetto_track(&line->out, track, 0, name);
		}
		last = span->tid;
		uint64_t id = state_name(line, span, known);

		sk_trace_perfetto_event(&line->out, SK_PERFETTO_BEGIN, span->from_ns, track, id);
		sk_trace_perfetto_event_end(&line->out);
		sk_trace_timeline_slice_end(line, span->to_ns, track);
	}
}

/* Keep only what touches the part; spans are cut to it, so that sleeping threads do not stretch it.
 */
static void keep_part(struct timeline *line, struct sk_trace_timeline_part part)
{
	size_t events = 0, spans = 0;

	for (size_t i = 0; i < line->event_count; i++) {
		const struct sk_trace_event *event = &line->events[i];

		if (event->queued_ns - event->call_before < part.to_ns &&
		    event->end_ns >= part.from_ns)
			line->events[events++] = *event;
	}
	for (size_t i = 0; i < line->span_count; i++) {
		struct sk_trace_thread_span span = line->spans[i];

		if (span.from_ns >= part.to_ns || span.to_ns <= part.from_ns)
			continue;
		if (span.from_ns < part.from_ns)
			span.from_ns = part.from_ns;
		if (span.to_ns > part.to_ns)
			span.to_ns = part.to_ns;
		line->spans[spans++] = span;
	}
	line->event_count = events;
	line->span_count = spans;
	line->part = part;
}

/* Put device work first and host events behind it. */
static void part_host(struct timeline *line)
{
	size_t work = 0;

	for (size_t i = 0; i < line->event_count; i++) {
		struct sk_trace_event *event = &line->events[i];

		/* The row belongs to another name by now. */
		if (event->turn != line->job->fold.state->turns[event->name % SK_FOLD_NAMES])
			event->name = 0;
		if (event->kind >= SK_KIND_DEVICE_END)
			continue;
		struct sk_trace_event swap = line->events[work];

		line->events[work++] = *event;
		*event = swap;
	}
	line->host = line->events + work;
	line->host_count = line->event_count - work;
	line->event_count = work;
}

static int load_file(struct timeline *line, int fd)
{
	const size_t most = SK_TIMELINE_RECORDS * sizeof(*line->events);
	size_t bytes = 0;

	line->events = malloc(most);
	if (!line->events)
		return -ENOMEM;
	while (bytes < most) {
		ssize_t got = pread(fd, (char *)line->events + bytes, most - bytes, (off_t)bytes);

		if (got < 0)
			return -errno;
		if (!got)
			break;
		bytes += (size_t)got;
	}
	line->event_count = bytes / sizeof(*line->events);
	return 0;
}

static int load_kept(struct timeline *line)
{
	int events;

	line->events = calloc(SK_EVENTS_CAPACITY, sizeof(*line->events));
	if (!line->events)
		return -ENOMEM;
	events = sk_trace_events_read(&line->job->events, line->job->store_fd,
				      line->job->fold.state->records, line->events);
	line->event_count = events < 0 ? 0 : (size_t)events;
	return events < 0 ? events : 0;
}

static int load(struct timeline *line, int events_fd)
{
	const struct sk_trace_fold_state *state = line->job->fold.state;
	int error = events_fd < 0 ? load_kept(line) : load_file(line, events_fd), spans;

	if (error)
		return error;
	line->spans = calloc(SK_EVENTS_CAPACITY, sizeof(*line->spans));
	if (!line->spans)
		return -ENOMEM;
	spans = sk_trace_events_read(&line->job->spans, line->job->store_fd, state->spans,
				     line->spans);
	if (spans < 0)
		return spans;
	line->span_count = (size_t)spans;
	return 0;
}

static int write_all(struct timeline *line, const char *title, uint64_t now_ns,
		     uint64_t realtime_ns)
{
	write_clocks(line, now_ns, realtime_ns);
	write_names(line);
	write_losses(line, title);
	write_devices(line);
	write_calls(line);
	write_states(line);
	write_queues(line);
	sk_trace_timeline_host(line);
	sk_trace_timeline_covers(line);
	sk_trace_timeline_counters(line);
	return sk_trace_perfetto_finish(&line->out);
}

int sk_trace_timeline_write(struct sk_trace_job *job, int fd, const char *title,
			    struct sk_trace_timeline_part part, uint64_t now_ns,
			    uint64_t realtime_ns, struct sk_trace_timeline_stats *ret)
{
	struct timeline *line = calloc(1, sizeof(*line));

	if (!line)
		return -ENOMEM;
	line->job = job;
	sk_trace_perfetto_init(&line->out, fd);
	int error = load(line, part.events_fd);

	if (!error)
		keep_part(line, part);
	part_host(line);
	if (!error)
		error = write_all(line, title, now_ns, realtime_ns);
	*ret = (struct sk_trace_timeline_stats){.records = line->event_count + line->host_count,
						.spans = line->span_count,
						.bytes = line->out.bytes};
	free(line->events);
	free(line->spans);
	free(line);
	return error;
}
