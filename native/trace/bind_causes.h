/* SPDX-License-Identifier: Apache-2.0 */
/* Python's view of the causes of device time, for tests: one object that keeps its own input. */
#ifndef SK_TRACE_BIND_CAUSES_H
#define SK_TRACE_BIND_CAUSES_H

#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

extern "C" {
#include "trace/timeline/timeline.h"
}

namespace
{

namespace nb = nanobind;

struct Causes {
	std::unique_ptr<sk_trace_causes> body = std::make_unique<sk_trace_causes>();
	std::vector<sk_trace_interval> intervals;
	std::vector<sk_trace_thread_span> spans;

	explicit Causes(uint64_t origin_ns)
	{
		sk_trace_causes_init(body.get(), origin_ns);
	}

	void know(unsigned device)
	{
		sk_trace_causes_know(body.get(), device);
	}
	void called(uint64_t at_ns)
	{
		sk_trace_causes_called(body.get(), at_ns);
	}

	void busy(uint64_t from, uint64_t to, uint32_t tid, uint8_t device, uint8_t kind,
		  bool cover, uint64_t called_ns)
	{
		uint16_t flags = cover ? SK_INTERVAL_COVER : 0;

		intervals.push_back({from, to, tid, device, kind, flags, {called_ns}});
	}

	void unended(uint64_t from, uint64_t to, uint32_t tid, uint8_t device, uint32_t process)
	{
		intervals.push_back(
			{from, to, tid, device, SK_BUSY_UNKNOWN, SK_INTERVAL_UNENDED, {process}});
	}

	uint64_t unseen(unsigned device) const
	{
		return body->device[device].unseen_ns;
	}

	void span(uint64_t from, uint64_t to, uint32_t tid, uint16_t state, uint16_t detail)
	{
		sk_trace_thread_span span{from, to, tid, state, detail}, rest;

		if (sk_trace_causes_add_span(body.get(), &span, &rest) && rest.to_ns > rest.from_ns)
			spans.push_back(rest);
	}

	void held(uint64_t from, uint64_t to, uint32_t tid)
	{
		sk_trace_thread_span span{from, to, tid, 0, 0};

		if (sk_trace_causes_add_held(body.get(), &span))
			spans.push_back(span);
	}

	void peer(uint64_t from, uint64_t to, uint32_t tid)
	{
		sk_trace_thread_span span{from, to, tid, 0, 0};

		if (sk_trace_causes_add_peer(body.get(), &span))
			spans.push_back(span);
	}

	void sweep(uint64_t frontier)
	{
		std::vector<sk_trace_interval> scratch(intervals.size());
		sk_trace_causes_input input{intervals.data(), intervals.size(), spans.data(),
					    spans.size(), scratch.data()};

		sk_trace_causes_sweep(body.get(), frontier, &input);
		intervals.resize(input.interval_count);
		spans.resize(input.span_count);
	}

	uint64_t whole(uint64_t frontier, uint64_t young)
	{
		sk_trace_causes_input input{intervals.data(), intervals.size(), spans.data(),
					    spans.size(), nullptr};

		return sk_trace_causes_whole(body.get(), frontier, young, &input);
	}

	nb::tuple read(unsigned device, bool ended) const
	{
		uint64_t ns[SK_CAUSES];

		sk_trace_causes_read(body.get(), device, ended, ns);
		return nb::make_tuple(ns[0], ns[1], ns[2], ns[3], ns[4], ns[5], ns[6], ns[7], ns[8],
				      ns[9]);
	}

	bool check() const
	{
		return sk_trace_causes_check(body.get());
	}

	nb::tuple losses() const
	{
		return nb::make_tuple(body->late_intervals, body->late_ns, body->broken_spans,
				      body->threads_untracked);
	}
};

} /* namespace */

#endif
