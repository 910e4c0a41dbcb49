/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * The timeline's tracks beside records and spans: readings of devices, and how much was seen.
 *
 * Only the newest entries are kept, in memory, so a timeline has those since the agent's last
 * start. Memory: about 500 KB, made with the first entry. Threads: one.
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

/** A stretch of time and how much of a process was seen in it. */
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

/** Add a reading to `*history`, which is made if it is NULL. Return the readings lost: pushed out,
 * or this one, for lack of a track or memory. */
unsigned sk_trace_history_read(struct sk_trace_history **history,
			       const struct sk_trace_history_track *track, uint64_t t_ns,
			       double value);

/** Add how much was seen of a process; it is joined to the entry before if nothing changed. */
void sk_trace_history_covered(struct sk_trace_history **history,
			      const struct sk_trace_history_cover *cover);

#endif
