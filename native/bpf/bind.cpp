/* SPDX-License-Identifier: Apache-2.0 */
/* The Python binding of the host probes: records to tuples and bytes, without logic; host.h and
 * probes/host say what a figure means. The interpreter's lock is held throughout, which also keeps
 * two threads out of one host; every call is short. */

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#define _Static_assert static_assert /* the shared records are C */
extern "C" {
#include "bpf/host/host.h"
#include "bpf/threads/slots.h"
}

namespace nb = nanobind;

namespace
{

/* Names in the order of enum sk_producer. */
const char *const producers[SK_PRODUCERS] = {
	"host.span",	   "host.process_event", "host.thread_event", "host.thread",
	"host.job",	   "host.thread_end",	 "host.tally",	      "host.request",
	"host.gpu_job",	   "host.device_open",	 "host.refused_open", "host.oom_kill",
	"host.signal",	   "host.killed_exit",	 "host.xid",	      "host.stack",
	"host.stack_wait", "host.sleeper",
};

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
			      times.wakeups, times.longest_delay_ns, nb::tuple(delays),
			      times.fault_ns, times.memory_ns, times.minor_faults,
			      times.major_faults, times.irq_ns, times.softirq_ns, times.user_faults,
			      times.kernel_faults, times.handling_ns, times.stolen_ns);
}

nb::tuple to_tuple(const sk_thread_row &thread)
{
	return nb::make_tuple(nb::make_tuple(thread.tid, thread.state, thread.detail,
					     thread.since_ns, thread.seen_ns),
			      to_tuple(thread.times));
}

nb::tuple to_tuple(const sk_bpf_reading &reading, const sk_bpf_job_reading &job)
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

/* Exit code and signal are split as wait(2) says; both are None for an event that is no exit. */
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

nb::tuple to_tuple(const sk_notice &notice)
{
	return nb::make_tuple(notice.head.kind, notice.head.time_ns, notice.job, notice.head.pid,
			      notice.tid, notice.code, notice.from_pid, notice.flags, notice.major,
			      notice.minor, to_text(notice.name, sizeof(notice.name)),
			      to_text(notice.text, sizeof(notice.text)));
}

nb::list to_list(const sk_notice *notices, size_t count)
{
	nb::list all;

	for (size_t i = 0; i < count; i++)
		all.append(to_tuple(notices[i]));
	return all;
}

nb::tuple to_tuple(const sk_tally_key &key, const sk_tally &value)
{
	nb::list lengths;

	for (uint64_t count : value.lengths)
		lengths.append(count);
	return nb::make_tuple(key.job, key.what, key.pid, key.detail, value.count, value.ns,
			      value.longest_ns, value.amount, value.last, nb::tuple(lengths));
}

class Host
{
      public:
	explicit Host(const sk_bpf_host_options &options)
	{
		int error = sk_bpf_host_new(&options, &host_);

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
		sk_bpf_host_attach(open());
		return states();
	}

	nb::list states()
	{
		const sk_bpf_probe_state *all = sk_bpf_host_states(open());
		nb::list answers;

		for (int i = 0; i < SK_PROBES; i++)
			answers.append(nb::make_tuple(sk_bpf_probe_id(sk_bpf_probe(i)),
						      int(all[i].answer),
						      to_text(all[i].reason, SK_REASON_BYTES)));
		return answers;
	}

	int ask(uint64_t job, uint32_t what)
	{
		return sk_bpf_host_opt_in(open(), job, what);
	}

	nb::list critical()
	{
		const sk_notice *notices;
		size_t count = sk_bpf_host_critical(open(), &notices);

		return to_list(notices, count);
	}

	nb::list opens()
	{
		const sk_notice *notices;
		size_t count = sk_bpf_host_opens(open(), &notices);

		return to_list(notices, count);
	}

	nb::list tallies()
	{
		sk_bpf_tallies all;
		int error = sk_bpf_host_tallies(open(), &all);
		nb::list found;

		if (error)
			raise_errno(error, "reading the tallies of the host probes");
		for (uint32_t i = 0; i < all.count; i++)
			found.append(to_tuple(all.keys[i], all.values[i]));
		return found;
	}

	nb::list stack_waits(uint64_t job)
	{
		sk_bpf_stack_waits all;
		int error = sk_bpf_host_stack_waits(open(), &all);
		nb::list found;

		if (error)
			raise_errno(error, "reading the waits by stack");
		for (uint32_t i = 0; i < all.count; i++) {
			const sk_stack_key &key = all.keys[i];
			const sk_stack_wait &wait = all.values[i];

			if (key.job == job)
				found.append(nb::make_tuple(key.pid, key.call, key.kernel_stack,
							    key.user_stack, wait.count, wait.weight,
							    wait.ns, wait.longest_ns));
		}
		return found;
	}

	nb::list stack(int32_t id)
	{
		uint64_t addresses[SK_STACK_DEPTH];
		size_t depth = sk_bpf_host_stack(open(), id, addresses);
		nb::list found;

		for (size_t i = 0; i < depth; i++)
			found.append(addresses[i]);
		return found;
	}

	int follow(uint64_t job, bool full)
	{
		return sk_bpf_host_follow(open(), job, full);
	}

	void unfollow(uint64_t job)
	{
		int error = sk_bpf_host_unfollow(open(), job);

		if (error)
			raise_errno(error, "forgetting the threads of a job");
	}

	nb::tuple read(uint64_t job)
	{
		sk_bpf_reading reading;
		int error = sk_bpf_host_read(open(), job, &reading);
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
		size_t count = sk_bpf_host_spans(open(), &records);
		nb::dict by_job;

		homeless_ += sk_bpf_spans_count(records, count, &slots_, groups_.data());
		for (uint32_t i = 0; i < slots_.count; i++) {
			PyObject *bytes = PyBytes_FromStringAndSize(
				nullptr, Py_ssize_t(groups_[i].count * sizeof(sk_span)));

			if (!bytes)
				throw nb::python_error();
			groups_[i].spans = reinterpret_cast<sk_span *>(PyBytes_AsString(bytes));
			by_job[nb::int_(groups_[i].job)] = nb::steal<nb::bytes>(bytes);
		}
		sk_bpf_spans_scatter(records, count, &slots_, groups_.data());
		return by_job;
	}

	bool rest()
	{
		return sk_bpf_host_rest(open());
	}

	nb::list events()
	{
		const sk_process_event *records;
		size_t count = sk_bpf_host_events(open(), &records);
		nb::list events;

		for (size_t i = 0; i < count; i++)
			events.append(to_tuple(records[i]));
		return events;
	}

	nb::dict made()
	{
		nb::dict named;

		look();
		for (int i = 0; i < SK_PRODUCERS; i++)
			named[producers[i]] = counters_[i].made;
		return named;
	}

	nb::dict dropped()
	{
		nb::dict named;

		look();
		for (int i = 0; i < SK_PRODUCERS; i++)
			named[producers[i]] = counters_[i].lost;
		named[producers[SK_PRODUCER_SPAN]] = counters_[SK_PRODUCER_SPAN].lost + homeless_;
		named["host.job_expired"] = expired_;
		return named;
	}

	void begin_cost()
	{
		why_no_cost_ = sk_bpf_host_cost_begin(open());
	}

	nb::tuple end_cost()
	{
		sk_bpf_program_cost costs[SK_PROBES];
		uint64_t window_ns = 0;
		size_t count = 0;
		nb::list programs;
		int error = sk_bpf_host_cost_end(open(), &window_ns, costs, &count);

		if (error)
			return nb::make_tuple(0, programs, why_not(error));
		for (size_t i = 0; i < count; i++)
			programs.append(nb::make_tuple(sk_bpf_probe_id(costs[i].probe),
						       costs[i].run_ns, costs[i].runs));
		return nb::make_tuple(window_ns, programs, nb::str(""));
	}

	void close()
	{
		sk_bpf_host_free(host_);
		host_ = nullptr;
	}

      private:
	sk_bpf_host *open() const
	{
		if (!host_)
			throw nb::value_error("the host probes are closed");
		return host_;
	}

	void look()
	{
		sk_bpf_host_counters(open(), counters_, &expired_);
	}

	std::string why_not(int error) const
	{
		if (why_no_cost_)
			return std::string("BPF_ENABLE_STATS: ") + strerror(-why_no_cost_);
		return error == -ENODATA ? "no measuring window was opened" : strerror(-error);
	}

	sk_bpf_host *host_ = nullptr;
	std::vector<sk_bpf_span_group> groups_;
	std::vector<sk_bpf_slot> slot_table_;
	sk_bpf_slots slots_ = {};
	sk_counter counters_[SK_PRODUCERS] = {};
	uint64_t expired_ = 0;
	uint64_t homeless_ = 0;
	int why_no_cost_ = 0;
};

} /* namespace */

NB_MODULE(_bpf, m)
{
	nb::class_<Host>(m, "Host")
		.def(
			"__init__",
			[](Host *self, uint64_t jobs_cgroup, uint32_t jobs_level,
			   int jobs_directory, uint32_t threads, uint32_t jobs, uint32_t tallies,
			   uint32_t span_ring_bytes, uint32_t event_ring_bytes,
			   uint32_t notice_ring_bytes, uint64_t stack_ns,
			   const std::string &btf_path) {
				new (self) Host({jobs_cgroup, jobs_level, jobs_directory, threads,
						 jobs, tallies, span_ring_bytes, event_ring_bytes,
						 notice_ring_bytes, stack_ns, btf_path.c_str()});
			},
			nb::arg("jobs_cgroup"), nb::arg("jobs_level"), nb::kw_only(),
			nb::arg("jobs_directory"), nb::arg("threads"), nb::arg("jobs"),
			nb::arg("tallies"), nb::arg("span_ring_bytes"), nb::arg("event_ring_bytes"),
			nb::arg("notice_ring_bytes"), nb::arg("stack_ns"), nb::arg("btf_path"))
		.def("attach", &Host::attach)
		.def("states", &Host::states)
		.def("ask", &Host::ask, nb::arg("job"), nb::arg("what"))
		.def("critical", &Host::critical)
		.def("opens", &Host::opens)
		.def("tallies", &Host::tallies)
		.def("stack_waits", &Host::stack_waits, nb::arg("job"))
		.def("stack", &Host::stack, nb::arg("id"))
		.def("follow", &Host::follow, nb::arg("job"), nb::arg("full"))
		.def("unfollow", &Host::unfollow, nb::arg("job"))
		.def("read", &Host::read, nb::arg("job"))
		.def("spans", &Host::spans)
		.def("rest", &Host::rest)
		.def("events", &Host::events)
		.def("made", &Host::made)
		.def("dropped", &Host::dropped)
		.def("begin_cost", &Host::begin_cost)
		.def("end_cost", &Host::end_cost)
		.def("close", &Host::close);
}
