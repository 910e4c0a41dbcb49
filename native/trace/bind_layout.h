/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of the shared records, for tests that read segments byte by byte. */
#ifndef SK_TRACE_BIND_LAYOUT_H
#define SK_TRACE_BIND_LAYOUT_H

#include <cstddef>

#include <nanobind/nanobind.h>

extern "C" {
#include "trace/timeline/timeline.h"
}

namespace
{

nanobind::dict layout()
{
	nanobind::dict at;

	at["segment"] = sizeof(sk_segment);
	at["slots"] = offsetof(sk_segment, slots);
	at["slot"] = sizeof(sk_slot);
	at["slot_tail"] = offsetof(sk_slot, tail);
	at["slot_tid"] = offsetof(sk_slot, tid);
	at["slot_counters"] = offsetof(sk_slot, counters);
	at["slot_oldest"] = offsetof(sk_slot, oldest_ns);
	at["slot_oldest_device"] = offsetof(sk_slot, oldest_device);
	at["devices"] = offsetof(sk_segment, devices);
	at["device"] = sizeof(sk_segment_device);
	at["names"] = offsetof(sk_segment, names);
	at["name"] = sizeof(sk_segment_name);
	at["window"] = offsetof(sk_segment, window);
	at["windows_kept"] = (int)SK_SEGMENT_WINDOWS;
	at["control"] = offsetof(sk_segment_header, control);
	at["answer"] = offsetof(sk_segment_header, answer);
	at["windows"] = offsetof(sk_segment_header, windows);
	at["window_from"] = offsetof(sk_segment_header, window_from_ns);
	at["vendor"] = offsetof(sk_segment_header, profiler_ns);
	at["copies"] = offsetof(sk_segment, copies);
	at["counts"] = offsetof(sk_segment, counts);
	at["record"] = sizeof(sk_record);
	at["event"] = sizeof(sk_trace_event);
	at["timeline_file_max"] = (int)SK_TIMELINE_RECORDS;
	at["event_name"] = offsetof(sk_trace_event, name);
	at["event_queue"] = offsetof(sk_trace_event, queue);
	at["event_shift"] = offsetof(sk_trace_event, shift);
	at["event_correlation"] = offsetof(sk_trace_event, correlation);
	at["version"] = (int)SK_SEGMENT_VERSION;
	at["segments_max"] = (int)SK_FOLD_SEGMENTS;
	at["timeline_max"] = (int)SK_EVENTS_CAPACITY;
	return at;
}

} /* namespace */

#endif
