// SPDX-License-Identifier: Apache-2.0
//
// The Python face of the reader, for agent/devices/ alone: a plan as plain tuples in, snapshots
// and points out. No logic.

#include <cstring>
#include <memory>

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

extern "C" {
#include "devices/card_reader.h"
#include "devices/reader.h"
}

namespace nb = nanobind;

namespace
{

// (function, (argument, ...), bits of those that are places in the memory, bits of those that are
// times past, every, turn, offset, bytes)
void put_step(sk_reader_plan &plan, nb::tuple step)
{
	if (plan.steps >= SK_READER_STEPS)
		throw nb::value_error("more steps than a reader takes");
	if (step.size() != 8)
		throw nb::value_error("a step has eight parts");
	sk_reader_step &made = plan.step[plan.steps++];
	nb::tuple arguments = nb::cast<nb::tuple>(step[1]);

	made.function = nb::cast<uint64_t>(step[0]);
	made.inside = nb::cast<uint32_t>(step[2]);
	made.past = nb::cast<uint32_t>(step[3]);
	made.every = nb::cast<uint32_t>(step[4]);
	made.turn = nb::cast<uint32_t>(step[5]);
	made.offset = nb::cast<uint32_t>(step[6]);
	made.bytes = nb::cast<uint32_t>(step[7]);
	if (arguments.size() > SK_READER_ARGUMENTS)
		throw nb::value_error("more arguments than a reader passes");
	for (nb::handle argument : arguments)
		made.argument[made.arguments++] = nb::cast<uint64_t>(argument);
}

// (kind, step, offset, lag, scale, gaps)
void put_tap(sk_reader_plan &plan, nb::tuple tap)
{
	if (plan.taps >= SK_READER_TAPS)
		throw nb::value_error("more taps than a reader takes");
	if (tap.size() != 6)
		throw nb::value_error("a tap has six parts");
	sk_reader_tap &made = plan.tap[plan.taps++];

	made.kind = nb::cast<uint32_t>(tap[0]);
	made.step = nb::cast<uint32_t>(tap[1]);
	made.offset = nb::cast<uint32_t>(tap[2]);
	made.lag = nb::cast<uint32_t>(tap[3]);
	made.scale = nb::cast<double>(tap[4]);
	made.gaps = nb::cast<bool>(tap[5]);
}

class Reader
{
      public:
	Reader(nb::list steps, nb::list taps, nb::bytes memory, uint64_t period_ns,
	       uint64_t phase_ns, uint32_t slow)
	{
		auto whole = std::make_unique<sk_reader_plan>();
		sk_reader_plan &plan = *whole;

		for (nb::handle step : steps)
			put_step(plan, nb::cast<nb::tuple>(step));
		for (nb::handle tap : taps)
			put_tap(plan, nb::cast<nb::tuple>(tap));
		if (memory.size() > SK_READER_MEMORY)
			throw nb::value_error("more memory than a reader has");
		bytes = static_cast<uint32_t>(memory.size());
		plan.bytes = bytes;
		plan.period_ns = period_ns;
		plan.phase_ns = phase_ns;
		plan.slow = slow;
		std::memcpy(plan.memory, memory.c_str(), bytes);
		if (int failed = sk_reader_start(&plan, &reader))
			throw nb::value_error(failed == -22 ? "the plan leaves its bounds"
							    : "no thread for a reader");
		steps_n = plan.steps;
		taps_n = plan.taps;
	}

	~Reader()
	{
		stop();
	}

	void stop()
	{
		if (!reader)
			return;
		sk_reader *gone = reader;

		// From here on other Python threads find a reader that has nothing.
		reader = nullptr;
		nb::gil_scoped_release released;
		sk_reader_stop(gone);
	}

	// Straight into what Python gets: what a plan may have at most is too much to clear each
	// time.
	nb::tuple snapshot()
	{
		int32_t code[SK_READER_STEPS];
		nb::list codes;

		if (!reader)
			return nb::make_tuple(0, 0, codes, nb::bytes("", 0));
		nb::bytes memory = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, bytes));
		auto into = reinterpret_cast<uint8_t *>(PyBytes_AsString(memory.ptr()));
		sk_reader_moment found = sk_reader_copy(reader, code, into);

		for (uint32_t i = 0; i < steps_n; i++)
			codes.append(code[i]);
		return nb::make_tuple(found.rounds, found.t_ns, codes, memory);
	}

	nb::tuple state()
	{
		if (!reader)
			return nb::make_tuple(-1, 0, 0, 0, 0, 0, 0);
		struct sk_reader_state found = sk_reader_state(reader);

		return nb::make_tuple(found.doing, found.since_ns, found.rounds, found.late,
				      found.missed, found.calls, found.codes);
	}

	nb::tuple latest()
	{
		double values[SK_READER_TAPS];
		nb::list made;
		uint64_t rounds = reader ? sk_reader_latest(reader, values) : 0;

		for (uint32_t i = 0; reader && i < taps_n; i++)
			made.append(values[i]);
		return nb::make_tuple(rounds, made);
	}

	nb::list points(uint32_t tap, int64_t since_ns, uint32_t most)
	{
		int64_t t_ns[SK_READER_POINTS];
		double values[SK_READER_POINTS];
		nb::list made;

		if (tap >= taps_n)
			throw nb::index_error("no such tap");
		uint32_t count =
			reader ? sk_reader_points(reader, tap, since_ns, most, t_ns, values) : 0;

		for (uint32_t i = 0; i < count; i++)
			made.append(nb::make_tuple(t_ns[i], values[i]));
		return made;
	}

	// Levels are (tap, level), bits (step, offset, mask).
	void watch(int bell, nb::list levels, nb::list bits, uint32_t rest)
	{
		struct sk_reader_guard guard[SK_READER_GUARDS] {
		};
		uint32_t count = 0;

		if (levels.size() + bits.size() > SK_READER_GUARDS)
			throw nb::value_error("more guards than a reader has");
		for (nb::handle each : levels) {
			nb::tuple level = nb::cast<nb::tuple>(each);

			guard[count].tap = nb::cast<uint32_t>(level[0]);
			guard[count++].level = nb::cast<double>(level[1]);
		}
		for (nb::handle each : bits) {
			nb::tuple told = nb::cast<nb::tuple>(each);

			guard[count].tap = SK_READER_TAPS;
			guard[count].step = nb::cast<uint32_t>(told[0]);
			guard[count].offset = nb::cast<uint32_t>(told[1]);
			guard[count++].mask = nb::cast<uint64_t>(told[2]);
		}
		if (reader && sk_reader_watch(reader, bell, rest, count, guard))
			throw nb::value_error("a guard leaves the plan");
	}

	uint64_t rings()
	{
		return reader ? sk_reader_rings(reader) : 0;
	}

      private:
	sk_reader *reader = nullptr;
	uint32_t bytes = 0, steps_n = 0, taps_n = 0;
};

const sk_device_vendor &vendor_of(const char *name)
{
	const sk_device_vendor *found = sk_device_vendor_named(name);

	if (!found)
		throw nb::value_error("no vendor of that name");
	return *found;
}

// Load the vendor's library; the driver may block.
void open_library(const sk_device_vendor &vendor)
{
	char why[256] = "";
	int failed = 0;

	{
		nb::gil_scoped_release released;

		failed = vendor.open ? vendor.open(why, sizeof(why)) : 0;
	}
	if (failed)
		throw std::runtime_error(why);
}

class CardReader
{
      public:
	CardReader(const char *name, uint64_t handle, uint64_t period_ns, uint64_t phase_ns)
	{
		const sk_device_vendor &vendor = vendor_of(name);

		open_library(vendor);
		if (sk_device_reader_start(&vendor, reinterpret_cast<void *>(handle), period_ns,
					   phase_ns, &reader))
			throw nb::value_error("a reader cannot be started");
		copied = std::make_unique<sk_device_record>();
	}

	~CardReader()
	{
		stop();
	}

	void stop()
	{
		if (!reader)
			return;
		sk_device_reader *gone = reader;

		// From here on other Python threads find a reader that has nothing.
		reader = nullptr;
		nb::gil_scoped_release released;
		sk_device_reader_stop(gone);
	}

	void renew()
	{
		if (reader)
			sk_device_reader_renew(reader);
	}

	// Rows of lists as far as they are filled.
	template <typename Row> nb::bytes rows(const Row *row, uint32_t id)
	{
		const sk_device_field &field = copied->field[id];
		size_t count = field.code ? 0 : static_cast<size_t>(field.value);

		return nb::bytes(reinterpret_cast<const char *>(row), count * sizeof(Row));
	}

	nb::tuple snapshot()
	{
		sk_device_moment found{};

		if (reader)
			found = sk_device_reader_copy(reader, copied.get());
		if (!found.rounds)
			return nb::make_tuple(0, 0, 0, nb::bytes("", 0), nb::bytes("", 0),
					      nb::bytes("", 0));
		return nb::make_tuple(found.rounds, found.t_ns, found.slow_ns,
				      nb::bytes(reinterpret_cast<const char *>(copied->field),
						sizeof(copied->field)),
				      rows(copied->link, SK_DEVICE_LINKS),
				      rows(copied->process, SK_DEVICE_PROCESSES));
	}

	nb::tuple state()
	{
		if (!reader)
			return nb::make_tuple(-1, 0, 0, 0, 0, 0, 0);
		struct sk_device_state found = sk_device_reader_state(reader);

		return nb::make_tuple(found.doing, found.since_ns, found.rounds, found.late,
				      found.missed, found.calls, found.changes);
	}

	nb::list latest()
	{
		double values[SK_DEVICE_FIELDS];
		nb::list made;

		if (!reader || !sk_device_reader_latest(reader, values))
			return made;
		for (double value : values)
			made.append(value);
		return made;
	}

	nb::list points(uint32_t field, int64_t since_ns, uint32_t most)
	{
		int64_t t_ns[SK_DEVICE_POINTS];
		double values[SK_DEVICE_POINTS];
		nb::list made;
		uint32_t count = reader ? sk_device_reader_points(reader, field, since_ns, most,
								  t_ns, values)
					: 0;

		for (uint32_t i = 0; i < count; i++)
			made.append(nb::make_tuple(t_ns[i], values[i]));
		return made;
	}

	void watch(int eventfd, nb::list levels, uint32_t rest)
	{
		double level[SK_DEVICE_FIELDS];

		for (double &each : level)
			each = NAN;
		for (nb::handle each : levels) {
			nb::tuple pair = nb::cast<nb::tuple>(each);
			uint32_t field = nb::cast<uint32_t>(pair[0]);

			if (field >= SK_DEVICE_FIELDS)
				throw nb::index_error("no such field");
			level[field] = nb::cast<double>(pair[1]);
		}
		if (reader && sk_device_reader_watch(reader, eventfd, rest, level))
			throw nb::value_error("rest is 0");
	}

	uint64_t wakeups()
	{
		return reader ? sk_device_reader_wakeups(reader) : 0;
	}

      private:
	sk_device_reader *reader = nullptr;
	std::unique_ptr<sk_device_record> copied;
};

nb::list calls(const char *name)
{
	const sk_device_vendor &vendor = vendor_of(name);
	nb::list made;

	for (uint32_t i = 0; i < vendor.calls; i++)
		made.append(nb::str(vendor.call[i]));
	return made;
}

double second_s(const char *name, uint64_t handle)
{
	const sk_device_vendor &vendor = vendor_of(name);
	int64_t ns = 0;

	open_library(vendor);
	{
		nb::gil_scoped_release released;

		ns = sk_device_second_ns(&vendor, reinterpret_cast<void *>(handle));
	}
	if (ns < 0)
		throw nb::value_error("the card cannot be read");
	return static_cast<double>(ns) / 1e9;
}

nb::str write_setting(const char *name, uint64_t handle, const char *what, uint64_t value)
{
	const sk_device_vendor &vendor = vendor_of(name);
	char why[256] = "";

	open_library(vendor);
	{
		nb::gil_scoped_release released;

		if (!vendor.write(reinterpret_cast<void *>(handle), what, value, why, sizeof(why)))
			why[0] = 0;
	}
	return nb::str(why);
}

} // namespace

NB_MODULE(_devices, m)
{
	nb::set_leak_warnings(false); // a process may end while cards are read

	static const char *const kinds[] = {"real", "whole", "flag", "bits", "list"};
	nb::list fields;
#define X(id, name, kind) fields.append(nb::make_tuple(#name, kinds[SK_DEVICE_##kind]));
	SK_DEVICE_FIELD_TABLE(X)
#undef X
	m.attr("FIELDS") = fields;
	m.attr("SLOW") = static_cast<int>(SK_DEVICE_SLOW);
	m.def("calls", &calls);
	m.def("second_s", &second_s);
	m.def("write", &write_setting);
	nb::class_<CardReader>(m, "CardReader")
		.def(nb::init<const char *, uint64_t, uint64_t, uint64_t>(), nb::arg("vendor"),
		     nb::arg("handle"), nb::arg("period_ns"), nb::arg("phase_ns") = 0)
		.def("stop", &CardReader::stop)
		.def("renew", &CardReader::renew)
		.def("snapshot", &CardReader::snapshot)
		.def("state", &CardReader::state)
		.def("latest", &CardReader::latest)
		.def("points", &CardReader::points, nb::arg("field"), nb::arg("since_ns") = 0,
		     nb::arg("most") = static_cast<uint32_t>(SK_DEVICE_POINTS))
		.def("watch", &CardReader::watch, nb::arg("eventfd"), nb::arg("levels"),
		     nb::arg("rest") = 1)
		.def("wakeups", &CardReader::wakeups);
	m.attr("U16") = static_cast<int>(SK_READER_U16);
	m.attr("U32") = static_cast<int>(SK_READER_U32);
	m.attr("U64") = static_cast<int>(SK_READER_U64);
	m.attr("I32") = static_cast<int>(SK_READER_I32);
	m.attr("F64") = static_cast<int>(SK_READER_F64);
	m.attr("NVML") = static_cast<int>(SK_READER_NVML);
	m.attr("SAMPLES") = static_cast<int>(SK_READER_SAMPLES);
	m.attr("RATE") = static_cast<int>(SK_READER_RATE);
	m.attr("STEPS") = static_cast<int>(SK_READER_STEPS);
	m.attr("POINTS") = static_cast<int>(SK_READER_POINTS);
	m.attr("GUARDS") = static_cast<int>(SK_READER_GUARDS);
	nb::class_<Reader>(m, "Reader")
		.def(nb::init<nb::list, nb::list, nb::bytes, uint64_t, uint64_t, uint32_t>(),
		     nb::arg("steps"), nb::arg("taps"), nb::arg("memory"), nb::arg("period_ns"),
		     nb::arg("phase_ns") = 0, nb::arg("slow") = 0)
		.def("stop", &Reader::stop)
		.def("snapshot", &Reader::snapshot)
		.def("state", &Reader::state)
		.def("latest", &Reader::latest)
		.def("watch", &Reader::watch, nb::arg("bell"), nb::arg("levels"), nb::arg("bits"),
		     nb::arg("rest") = 1)
		.def("rings", &Reader::rings)
		.def("points", &Reader::points, nb::arg("tap"), nb::arg("since_ns") = 0,
		     nb::arg("most") = static_cast<uint32_t>(SK_READER_POINTS));
}
