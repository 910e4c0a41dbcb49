/* SPDX-License-Identifier: Apache-2.0 */
/* The Python binding of the probes over library calls. Attaching and detaching wait for the kernel,
 * so they release the interpreter's lock; the caller keeps two threads from doing either at once.
 */

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#define _Static_assert static_assert /* the shared records are C */
extern "C" {
#include "bpf/calls/calls.h"
}

namespace nb = nanobind;

namespace
{

/* offset, semaphore, call, entry only, parts of a collective's cookie */
using Site = std::tuple<uint64_t, uint64_t, uint32_t, bool, uint32_t>;

constexpr size_t CLOSERS = 16;

const char *const trap_names[SK_TRAPS] = {"nop5",   "push",    "nop1", "nop",
					  "branch", "endbr64", "other"};

[[noreturn]] void raise_errno(int negative, const char *what)
{
	errno = -negative;
	PyErr_SetFromErrnoWithFilename(PyExc_OSError, what);
	throw nb::python_error();
}

class Calls
{
      public:
	explicit Calls(bool one_by_one)
	{
		int error = sk_bpf_calls_new(one_by_one, &calls_);

		if (error)
			raise_errno(error, "memory for calls");
	}

	~Calls()
	{
		close();
	}

	Calls(const Calls &) = delete;
	Calls &operator=(const Calls &) = delete;

	nb::tuple load()
	{
		sk_bpf_probe_state state = {};

		sk_bpf_calls_load(open(), &state);
		return nb::make_tuple(int(state.answer), std::string(state.reason));
	}

	bool grouped() const
	{
		return sk_bpf_calls_grouped(open());
	}

	int attach(const std::string &path, uint32_t pid, const std::vector<Site> &sites)
	{
		std::vector<sk_bpf_call_site> list;
		sk_bpf_call_group *group = nullptr;
		sk_bpf_calls *calls = open();
		int error;

		for (const Site &site : sites)
			list.push_back({std::get<0>(site), std::get<1>(site), std::get<2>(site),
					std::get<3>(site), std::get<4>(site)});
		{
			nb::gil_scoped_release unlocked;
			error = sk_bpf_calls_attach(calls, path.c_str(), pid, list.data(),
						    uint32_t(list.size()), &group);
		}
		if (error)
			return error;
		groups_[++last_] = group;
		return last_;
	}

	void detach(int group)
	{
		auto found = groups_.find(group);
		sk_bpf_call_group *gone;

		if (found == groups_.end())
			return;
		gone = found->second;
		groups_.erase(found);
		nb::gil_scoped_release unlocked;
		sk_bpf_calls_detach(gone);
	}

	nb::list read()
	{
		const sk_bpf_call_reading *readings;
		uint32_t count;
		int error = sk_bpf_calls_read(open(), &readings, &count);
		nb::list rows;

		if (error)
			raise_errno(error, "reading the table of calls");
		for (uint32_t i = 0; i < count; i++) {
			const sk_call_times &times = readings[i].times;
			nb::list log2;

			for (uint64_t each : times.log2)
				log2.append(each);
			rows.append(nb::make_tuple(readings[i].key.pid, readings[i].key.call,
						   times.entered, times.returned, times.total_ns,
						   times.longest_ns, nb::tuple(log2)));
		}
		return rows;
	}

	void forget(uint32_t pid)
	{
		int error = sk_bpf_calls_forget(open(), pid);

		if (error)
			raise_errno(error, "forgetting the calls of a process");
	}

	nb::bytes collectives()
	{
		const sk_collective *records;
		size_t count = sk_bpf_calls_collectives(open(), &records);

		return nb::bytes(reinterpret_cast<const char *>(records), count * sizeof(*records));
	}

	nb::dict losses()
	{
		uint64_t lost[SK_CALL_LOSSES];
		nb::dict named;

		sk_bpf_calls_losses(open(), lost);
		named["calls.key"] = lost[SK_CALL_LOST_KEY];
		named["calls.frame"] = lost[SK_CALL_LOST_FRAME];
		named["calls.stray"] = lost[SK_CALL_STRAY];
		named["calls.ring"] = lost[SK_CALL_LOST_RING];
		return named;
	}

	/* The kernel needs its time for each link; the waits of several threads overlap. */
	void close()
	{
		std::vector<sk_bpf_call_group *> groups;
		std::atomic<size_t> next = 0;
		std::vector<std::thread> closers;
		sk_bpf_calls *calls = calls_;

		for (auto &each : groups_)
			groups.push_back(each.second);
		groups_.clear();
		calls_ = nullptr; /* a caller meanwhile learns that it is closed */
		nb::gil_scoped_release unlocked;
		auto detach = [&] {
			for (size_t i; (i = next++) < groups.size();)
				sk_bpf_calls_detach(groups[i]);
		};
		try {
			for (size_t i = 1; i < groups.size() && i < CLOSERS; i++)
				closers.emplace_back(detach);
		} catch (const std::system_error &) {
			/* No more threads can be started: the present ones do all of it. */
		}
		detach();
		for (std::thread &closer : closers)
			closer.join();
		sk_bpf_calls_free(calls);
	}

      private:
	sk_bpf_calls *open() const
	{
		if (!calls_)
			throw nb::value_error("the probes over calls are closed");
		return calls_;
	}

	sk_bpf_calls *calls_ = nullptr;
	std::map<int, sk_bpf_call_group *> groups_;
	int last_ = 0;
};

nb::tuple trap_costs()
{
	sk_bpf_trap_cost costs[SK_TRAPS] = {};
	sk_bpf_probe_state state = {};
	sk_bpf_calls *calls = nullptr;
	nb::dict named;
	int error = sk_bpf_calls_new(false, &calls);

	if (error)
		raise_errno(error, "memory for calls");
	sk_bpf_calls_load(calls, &state);
	if (state.answer == SK_ANSWER_ATTACHED) {
		nb::gil_scoped_release unlocked;
		error = sk_bpf_trap_costs(calls, costs);
	}
	sk_bpf_calls_free(calls);
	if (state.answer != SK_ANSWER_ATTACHED)
		return nb::make_tuple(named, std::string(state.reason));
	if (error)
		return nb::make_tuple(named, std::string(strerror(-error)));
	for (int i = 0; i < SK_TRAPS; i++)
		named[trap_names[i]] = nb::make_tuple(costs[i].both_ns, costs[i].entry_ns);
	return nb::make_tuple(named, std::string());
}

} /* namespace */

NB_MODULE(_calls, m)
{
	nb::set_leak_warnings(false); /* at exit a thread of the agent may still own one */
	m.attr("SITES_MAX") = SK_CALL_SITES_MAX;
	m.attr("KEYS_MAX") = SK_CALL_KEYS_MAX;
	m.attr("BUCKETS") = SK_CALL_BUCKETS;
	m.attr("COLLECTIVE") = SK_CALL_COLLECTIVE;
	m.attr("UNIQUE_ID") = SK_CALL_UNIQUE_ID;
	m.attr("HANDLE_SHIFT") = SK_CALL_HANDLE_SHIFT;
	m.attr("NUMBER_SHIFT") = SK_CALL_NUMBER_SHIFT;
	m.attr("MADE_SHIFT") = SK_CALL_MADE_SHIFT;
	m.def("trap_costs", &trap_costs);
	nb::class_<Calls>(m, "Calls")
		.def(nb::init<bool>(), nb::arg("one_by_one") = false)
		.def("load", &Calls::load)
		.def_prop_ro("grouped", &Calls::grouped)
		.def("attach", &Calls::attach, nb::arg("path"), nb::arg("pid"), nb::arg("sites"))
		.def("detach", &Calls::detach, nb::arg("group"))
		.def("read", &Calls::read)
		.def("collectives", &Calls::collectives)
		.def("forget", &Calls::forget, nb::arg("pid"))
		.def("losses", &Calls::losses)
		.def("close", &Calls::close);
}
