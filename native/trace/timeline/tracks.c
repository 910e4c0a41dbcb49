/* SPDX-License-Identifier: Apache-2.0 */
/* Tracks of the timeline that show no device work: host events, levels of what was seen, readings.
 */
#include "trace/timeline/timeline_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_thread(const void *left, const void *right)
{
	const struct sk_trace_event *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

void sk_trace_timeline_host(struct timeline *line)
{
	uint64_t ends[SUBTRACKS] = {0};
	unsigned subtracks = 0;
	char name[48];

	qsort(line->host, line->host_count, sizeof(*line->host), by_thread);
	for (size_t i = 0; i < line->host_count; i++) {
		const struct sk_trace_event *event = &line->host[i];

		if (!i || event[-1].tid != event->tid) {
			memset(ends, 0, sizeof(ends));
			subtracks = 0;
		}
		unsigned sub = free_subtrack(ends, event->start_ns);
		uint64_t track = track_id(TRACK_HOST, event->tid, sub);
		uint64_t start = event->start_ns > ends[sub] ? event->start_ns : ends[sub];

		ends[sub] = event->end_ns > start ? event->end_ns : start;
		if (sub >= subtracks) {
			snprintf(name, sizeof(name), "thread %" PRIu32 " waits", event->tid);
			sk_trace_perfetto_track(&line->out, track, 0, name);
			subtracks = sub + 1;
		}
		sk_trace_perfetto_event(&line->out, SK_PERFETTO_BEGIN, start, track,
					(uint64_t)ID_COPY + event->kind);
		sk_trace_perfetto_event_end(&line->out);
		sk_trace_timeline_slice_end(line, ends[sub], track);
	}
}

static int by_process(const void *left, const void *right)
{
	const struct sk_trace_history_cover *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static void write_cover(struct timeline *line, const struct sk_trace_history_cover *cover,
			bool changed)
{
	uint64_t track = track_id(TRACK_COVER, 0, cover->pid);
	uint64_t name = (uint64_t)ID_COVER + cover->cover;
	uint64_t from = cover->from_ns, to = cover->to_ns;

	if (changed && from >= line->part.from_ns) {
		sk_trace_perfetto_event(&line->out, SK_PERFETTO_INSTANT, from,
					track_id(TRACK_COVER, 1, cover->pid), name);
		sk_trace_perfetto_event_end(&line->out);
	}
	from = from > line->part.from_ns ? from : line->part.from_ns;
	to = to < line->part.to_ns ? to : line->part.to_ns;
	sk_trace_perfetto_event(&line->out, SK_PERFETTO_BEGIN, from, track, name);
	sk_trace_perfetto_event_end(&line->out);
	sk_trace_timeline_slice_end(line, to, track);
}

static void name_covers(struct timeline *line, uint32_t pid)
{
	char name[48];

	snprintf(name, sizeof(name), "process %" PRIu32 " seen", pid);
	sk_trace_perfetto_track(&line->out, track_id(TRACK_COVER, 0, pid), 0, name);
	snprintf(name, sizeof(name), "process %" PRIu32 " switches", pid);
	sk_trace_perfetto_track(&line->out, track_id(TRACK_COVER, 1, pid), 0, name);
}

void sk_trace_timeline_covers(struct timeline *line)
{
	static const char *const NAMES[SK_COVERS] = {"timed", "counted", "blind", "dormant"};
	const struct sk_trace_history *history = line->job->history;
	uint64_t count = history ? history->covers : 0;

	count = count < SK_HISTORY_COVERS ? count : SK_HISTORY_COVERS;
	struct sk_trace_history_cover *covers = calloc(count + 1, sizeof(*covers));

	if (!covers)
		return;
	for (unsigned i = 0; i < SK_COVERS; i++)
		sk_trace_timeline_intern(line, ID_COVER + i, NAMES[i]);
	if (count)
		memcpy(covers, history->cover, count * sizeof(*covers));
	qsort(covers, count, sizeof(*covers), by_process);
	for (uint64_t i = 0, pid = 0; i < count; i++) {
		const struct sk_trace_history_cover *cover = &covers[i];
		bool first = !i || covers[i - 1].pid != cover->pid;

		bool last = i + 1 == count || covers[i + 1].pid != cover->pid;

		if (cover->to_ns <= line->part.from_ns || cover->from_ns >= line->part.to_ns)
			continue;
		if (first && last && cover->cover == SK_COVER_TIMED)
			continue; /* all was seen, which needs no track */
		if (pid != cover->pid)
			name_covers(line, cover->pid);
		pid = cover->pid;
		write_cover(line, cover, !first);
	}
	free(covers);
}

static void name_counters(struct timeline *line)
{
	const struct sk_trace_history *history = line->job->history;
	char name[128];

	for (uint32_t i = 0; i < history->tracks; i++) {
		snprintf(name, sizeof(name), "%s %s", history->track[i].device,
			 history->track[i].name);
		sk_trace_perfetto_counter(&line->out, track_id(TRACK_COUNTER, 0, i), name,
					  history->track[i].unit);
	}
}

void sk_trace_timeline_counters(struct timeline *line)
{
	const struct sk_trace_history *history = line->job->history;
	uint64_t to = history ? history->readings : 0;

	if (history)
		name_counters(line);
	for (uint64_t i = to > SK_HISTORY_READINGS ? to - SK_HISTORY_READINGS : 0; i < to; i++) {
		const struct sk_trace_history_reading *reading =
			&history->reading[i % SK_HISTORY_READINGS];

		if (reading->t_ns < line->part.from_ns || reading->t_ns >= line->part.to_ns)
			continue;
		sk_trace_perfetto_event(&line->out, SK_PERFETTO_COUNTER, reading->t_ns,
					track_id(TRACK_COUNTER, 0, reading->track), 0);
		sk_trace_perfetto_value(&line->out, reading->value);
		sk_trace_perfetto_event_end(&line->out);
	}
}
