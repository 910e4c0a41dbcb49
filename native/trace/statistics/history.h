/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * What the timeline shows beside records and spans: readings of devices, and how much was seen.
 *
 * Only the newest are kept, in memory: after a restart of the agent a timeline has those from then
 * on. Memory: about 500 KB, made by the first that is added. Threads: one.
 */
#ifndef SK_TRACE_STATISTICS_HISTORY_H
#define SK_TRACE_STATISTICS_HISTORY_H

#include "trace/statistics/windows.h"

#include <stdint.h>

enum { SK_HISTORY_TRACKS = 64, SK_HISTORY_READINGS = 1 << 14, SK_HISTORY_COVERS = 1 << 12 };

/** A named figure of a device, such as its power. */
struct sk_trace_history_track {
	char device[64];
	char name[32];
	char unit[16];
};

struct sk_trace_history_reading {
	uint64_t t_ns;
	double value;
	uint32_t track;
	uint32_t reserved;
};

/** What was seen of a process, from when to when. */
struct sk_trace_history_cover {
	uint64_t from_ns;
	uint64_t to_ns;
	uint32_t pid;
	uint32_t cover; /* enum sk_trace_cover */
};

struct sk_trace_history {
	uint32_t tracks;
	uint64_t readings; /* ever added */
	uint64_t covers;
	struct sk_trace_history_track track[SK_HISTORY_TRACKS];
	struct sk_trace_history_reading reading[SK_HISTORY_READINGS];
	struct sk_trace_history_cover cover[SK_HISTORY_COVERS];
};

/** Add a reading to `*history`, made when it is NULL. Returns readings lost: pushed out, or this
 * one, for want of a track or memory. */
unsigned sk_trace_history_read(struct sk_trace_history **history,
			       const struct sk_trace_history_track *track, uint64_t t_ns,
			       double value);

/** Add what was seen of a process; joined to the one before where nothing changed. */
void sk_trace_history_covered(struct sk_trace_history **history,
			      const struct sk_trace_history_cover *cover);

#endif
