// SPDX-License-Identifier: Apache-2.0
//
// The Python face of the host probes: records to tuples and bytes. Relied on by probes/host.py
// alone. No logic: what a figure means is known to host.h and to that file. The interpreter's lock
// is held throughout, which also keeps two threads out of one host; every call is short.

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#define _Static_assert static_assert // the shared records are C
extern "C" {
#include "bpf/host.h"
#include "bpf/slots.h"
}

namespace nb = nanobind;

namespace
{

[[noreturn]] void raise_errno(int negative, const char *what)
{
	errno = -negative;
	PyErr_SetFromErrnoWithFilename(PyExc_OSError, what);
	throw nb::python_error();
}

nb::tuple to_tuple(const sk_times &times)
{
	nb::list delays;

	for (uint64_t count : times.delays)
		delays.append(count);
	return nb::make_tuple(times.ns[0], times.ns[1], times.ns[2], times.ns[3], times.switches,
			      times.wakeups, times.longest_delay_ns, nb::tuple(delays));
}

nb::tuple to_tuple(const sk_thread &thread)
{
	return nb::make_tuple(nb::make_tuple(thread.tid, thread.state, thread.detail,
					     thread.since_ns, thread.seen_ns),
			      to_tuple(thread.times));
}

nb::tuple to_tuple(const sk_reading &reading, const sk_job_reading &job)
{
	nb::list threads;

	for (uint32_t i = 0; i < job.count; i++)
		threads.append(to_tuple(reading.threads[reading.order[job.first + i]].thread));
	return nb::make_tuple(job.job, to_tuple(job.value.times), threads, job.value.ended,
			      job.unsettled);
}

nb::str to_text(const char *bytes, size_t room)
{
	size_t length = strnlen(bytes, room);
	PyObject *text = PyUnicode_DecodeUTF8(bytes, Py_ssize_t(length), "backslashreplace");

	if (!text)
		throw nb::python_error();
	return nb::steal<nb::str>(text);
}

// Exit code and signal as wait(2) splits its status; neither for events that are no exit.
nb::tuple to_tuple(const sk_process_event &event)
{
	bool exited =
		event.head.kind == SK_PROCESS_EXIT || event.head.kind == SK_PROCESS_THREAD_EXIT;
	int signal = event.wait_status & 0x7f;
	nb::object code = exited && !signal ? nb::object(nb::int_((event.wait_status >> 8) & 0xff))
					    : nb::none();
	nb::object died_of = exited && signal ? nb::object(nb::int_(signal)) : nb::none();

	return nb::make_tuple(event.head.kind, event.head.time_ns, event.job, event.head.pid,
			      event.tid, event.parent_pid, event.start_boot_ns,
			      to_text(event.comm, sizeof(event.comm)), code, died_of,
			      exited && (event.wait_status & 0x80) != 0,
			      (event.flags & SK_PROCESS_OOM_KILLED) != 0);
}

class Host
{
      public:
	explicit Host(const sk_host_options &options)
	{
		int error = sk_host_new(&options, &host_);

		if (error)
			raise_errno(error, "sizes of the host probes");
		groups_.resize(2 * SK_FULL_JOBS_MAX);
		slot_table_.resize(2 * SK_FULL_JOBS_MAX);
		slots_ = {slot_table_.data(), 2 * SK_FULL_JOBS_MAX - 1, 0};
	}

	~Host()
	{
		close();
	}

	Host(const Host &) = delete;
	Host &operator=(const Host &) = delete;

	nb::list attach()
	{
		sk_probe_state states[SK_PROBES] = {};
		nb::list answers;

		sk_host_attach(open(), states);
		for (int i = 0; i < SK_PROBES; i++)
			answers.append(nb::make_tuple(sk_probe_id(sk_probe(i)),
						      int(states[i].answer),
						      to_text(states[i].reason, SK_REASON_BYTES)));
		return answers;
	}

	int follow(uint64_t job, bool full)
	{
		return sk_host_follow(open(), job, full);
	}

	void unfollow(uint64_t job)
	{
		int error = sk_host_unfollow(open(), job);

		if (error)
			raise_errno(error, "forgetting the threads of a job");
	}

	nb::tuple read(uint64_t job)
	{
		sk_reading reading;
		int error = sk_host_read(open(), job, &reading);
		nb::list jobs;

		if (error)
			raise_errno(error, "reading the tables of the host probes");
		for (uint32_t i = 0; i < reading.job_count; i++)
			jobs.append(to_tuple(reading, reading.jobs[i]));
		return nb::make_tuple(reading.asked_ns, reading.now_ns, jobs);
	}

	nb::dict spans()
	{
		const sk_job_span *records;
		size_t count = sk_host_spans(open(), &records);
		nb::dict by_job;

		homeless_ += sk_spans_count(records, count, &slots_, groups_.data());
		for (uint32_t i = 0; i < slots_.count; i++) {
			PyObject *bytes = PyBytes_FromStringAndSize(
				nullptr, Py_ssize_t(groups_[i].count * sizeof(sk_span)));

			if (!bytes)
				throw nb::python_error();
			groups_[i].spans = reinterpret_cast<sk_span *>(PyBytes_AsString(bytes));
			by_job[nb::int_(groups_[i].job)] = nb::steal<nb::bytes>(bytes);
		}
		sk_spans_scatter(records, count, &slots_, groups_.data());
		return by_job;
	}

	nb::list events()
	{
		const sk_process_event *records;
		size_t count = sk_host_events(open(), &records);
		nb::list events;

		for (size_t i = 0; i < count; i++)
			events.append(to_tuple(records[i]));
		return events;
	}

	nb::dict made()
	{
		nb::dict named;

		look();
		named["host.span"] = counters_[SK_PRODUCER_SPAN].made;
		named["host.process_event"] = counters_[SK_PRODUCER_PROCESS_EVENT].made;
		named["host.thread_event"] = counters_[SK_PRODUCER_THREAD_EVENT].made;
		named["host.thread"] = counters_[SK_PRODUCER_THREAD].made;
		named["host.job"] = counters_[SK_PRODUCER_JOB].made;
		named["host.thread_end"] = counters_[SK_PRODUCER_ENDED].made;
		return named;
	}

	nb::dict dropped()
	{
		nb::dict named;

		look();
		named["host.span"] = counters_[SK_PRODUCER_SPAN].lost + homeless_;
		named["host.process_event"] = counters_[SK_PRODUCER_PROCESS_EVENT].lost;
		named["host.thread_event"] = counters_[SK_PRODUCER_THREAD_EVENT].lost;
		named["host.thread"] = counters_[SK_PRODUCER_THREAD].lost;
		named["host.job"] = counters_[SK_PRODUCER_JOB].lost;
		named["host.thread_end"] = counters_[SK_PRODUCER_ENDED].lost;
		named["host.job_expired"] = expired_;
		return named;
	}

	void begin_cost()
	{
		why_no_cost_ = sk_host_cost_begin(open());
	}

	nb::tuple end_cost()
	{
		sk_program_cost costs[SK_PROBES];
		uint64_t window_ns = 0;
		size_t count = 0;
		nb::list programs;
		int error = sk_host_cost_end(open(), &window_ns, costs, &count);

		if (error)
			return nb::make_tuple(0, programs, why_not(error));
		for (size_t i = 0; i < count; i++)
			programs.append(nb::make_tuple(sk_probe_id(costs[i].probe), costs[i].run_ns,
						       costs[i].runs));
		return nb::make_tuple(window_ns, programs, nb::str(""));
	}

	void close()
	{
		sk_host_free(host_);
		host_ = nullptr;
	}

      private:
	sk_host *open() const
	{
		if (!host_)
			throw nb::value_error("the host probes are closed");
		return host_;
	}

	void look()
	{
		sk_host_counters(open(), counters_, &expired_);
	}

	std::string why_not(int error) const
	{
		if (why_no_cost_)
			return std::string("BPF_ENABLE_STATS: ") + strerror(-why_no_cost_);
		return error == -ENODATA ? "no measuring window was opened" : strerror(-error);
	}

	sk_host *host_ = nullptr;
	std::vector<sk_span_group> groups_;
	std::vector<sk_slot> slot_table_;
	sk_slots slots_ = {};
	sk_counter counters_[SK_PRODUCERS] = {};
	uint64_t expired_ = 0;
	uint64_t homeless_ = 0;
	int why_no_cost_ = 0;
};

} // namespace

NB_MODULE(_bpf, m)
{
	nb::class_<Host>(m, "Host")
		.def(
			"__init__",
			[](Host *self, uint64_t jobs_cgroup, uint32_t jobs_level, uint32_t threads,
			   uint32_t jobs, uint32_t span_ring_bytes, uint32_t event_ring_bytes) {
				new (self) Host({jobs_cgroup, jobs_level, threads, jobs,
						 span_ring_bytes, event_ring_bytes});
			},
			nb::arg("jobs_cgroup"), nb::arg("jobs_level"), nb::kw_only(),
			nb::arg("threads"), nb::arg("jobs"), nb::arg("span_ring_bytes"),
			nb::arg("event_ring_bytes"))
		.def("attach", &Host::attach)
		.def("follow", &Host::follow, nb::arg("job"), nb::arg("full"))
		.def("unfollow", &Host::unfollow, nb::arg("job"))
		.def("read", &Host::read, nb::arg("job"))
		.def("spans", &Host::spans)
		.def("events", &Host::events)
		.def("made", &Host::made)
		.def("dropped", &Host::dropped)
		.def("begin_cost", &Host::begin_cost)
		.def("end_cost", &Host::end_cost)
		.def("close", &Host::close);
}
