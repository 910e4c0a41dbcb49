// SPDX-License-Identifier: Apache-2.0
//
// Binding of the reader and of the vendors' setters for agent/devices/ and agent/power/. It copies
// records and points out and passes settings in, without logic of its own.

#include <cmath>
#include <memory>
#include <stdexcept>

#include <nanobind/nanobind.h>

extern "C" {
#include "devices/card_reader.h"
}

namespace nb = nanobind;

namespace
{

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

		// Other Python threads see no reader from here on.
		reader = nullptr;
		nb::gil_scoped_release released;
		sk_device_reader_stop(gone);
	}

	void renew()
	{
		if (reader)
			sk_device_reader_renew(reader);
	}

	// Returns the filled rows of a list of the record, packed.
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
		for (double value : values) {
			if (std::isnan(value))
				made.append(nb::none());
			else
				made.append(value);
		}
		return made;
	}

	// No call is under way, and no code has changed since this number of changes.
	bool calm(int64_t changes)
	{
		if (!reader)
			return false;
		struct sk_device_state found = sk_device_reader_state(reader);

		return found.doing < 0 && static_cast<int64_t>(found.changes) == changes;
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
	m.attr("FAULTS") = static_cast<int>(SK_DEVICE_FAULTS);
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
		.def("calm", &CardReader::calm, nb::arg("changes"))
		.def("points", &CardReader::points, nb::arg("field"), nb::arg("since_ns") = 0,
		     nb::arg("most") = static_cast<uint32_t>(SK_DEVICE_POINTS))
		.def("watch", &CardReader::watch, nb::arg("eventfd"), nb::arg("levels"),
		     nb::arg("rest") = 1)
		.def("wakeups", &CardReader::wakeups);
}
