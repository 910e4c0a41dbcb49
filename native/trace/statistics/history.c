/* SPDX-License-Identifier: Apache-2.0 */
/* Rings in memory of the timeline's further tracks; see history.h. */
#include "trace/statistics/history.h"

#include <stdlib.h>
#include <string.h>

enum { LOOK_BACK = 8 };

static struct sk_trace_history *ready(struct sk_trace_history **history)
{
	if (!*history)
		*history = calloc(1, sizeof(**history));
	return *history;
}

static uint32_t find_track(struct sk_trace_history *history,
			   const struct sk_trace_history_track *wanted)
{
	uint32_t at = 0;

	while (at < history->tracks && memcmp(&history->track[at], wanted, sizeof(*wanted)))
		at++;
	if (at == history->tracks && at < SK_HISTORY_TRACKS)
		history->track[history->tracks++] = *wanted;
	return at;
}

unsigned sk_trace_history_read(struct sk_trace_history **owner,
			       const struct sk_trace_history_track *track, uint64_t t_ns,
			       double value)
{
	struct sk_trace_history *history = ready(owner);
	uint32_t at = history ? find_track(history, track) : SK_HISTORY_TRACKS;

	if (at == SK_HISTORY_TRACKS)
		return 1;
	history->reading[history->readings++ % SK_HISTORY_READINGS] =
		(struct sk_trace_history_reading){.t_ns = t_ns, .value = value, .track = at};
	return history->readings > SK_HISTORY_READINGS;
}

void sk_trace_history_covered(struct sk_trace_history **owner,
			      const struct sk_trace_history_cover *cover)
{
	struct sk_trace_history *history = ready(owner);

	if (!history)
		return; /* the timeline only lacks this track */
	for (uint64_t i = history->covers; i-- > 0 && history->covers - i <= LOOK_BACK;) {
		struct sk_trace_history_cover *last = &history->cover[i % SK_HISTORY_COVERS];

		if (last->pid != cover->pid)
			continue;
		if (last->cover != cover->cover || last->to_ns != cover->from_ns)
			break;
		last->to_ns = cover->to_ns;
		return;
	}
	history->cover[history->covers++ % SK_HISTORY_COVERS] = *cover;
}
