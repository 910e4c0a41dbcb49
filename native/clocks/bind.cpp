/* SPDX-License-Identifier: Apache-2.0 */
/* The Python binding of the clock table: rows as tuples, and the line on its own, so that it can be
 * tested with clocks that no machine has. No logic. */

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

extern "C" {
#include "clocks/clocks.h"
}

namespace nb = nanobind;

namespace
{

/* (offset_ns, drift_ppb, error_ns, refreshed_ns, pairs, steps), or None before the first pair. */
nb::object to_row(const sk_clock_fit &fit)
{
	sk_clock_row row;

	if (!sk_clock_fit_row(&fit, &row))
		return nb::none();
	nb::object drift = row.has_drift ? nb::cast(row.drift_ppb) : nb::none();
	return nb::make_tuple(row.offset_ns, drift, row.error_ns, row.refreshed_ns, row.pairs,
			      row.steps);
}

struct Fit {
	sk_clock_fit fit{};

	bool add(uint64_t at_ns, uint64_t clock_ns, uint64_t error_ns)
	{
		sk_clock_pair pair{at_ns, clock_ns, error_ns};

		return sk_clock_fit_add(&fit, &pair);
	}

	nb::object row() const
	{
		return to_row(fit);
	}

	nb::object place(uint64_t clock_ns) const
	{
		sk_clock_row row;

		return sk_clock_fit_row(&fit, &row) ? nb::cast(sk_clock_row_place(&row, clock_ns))
						    : nb::none();
	}
};

struct Table {
	sk_clock_table table{};

	void refresh()
	{
		sk_clock_table_refresh(&table);
	}

	nb::list rows() const
	{
		nb::list rows;

		for (unsigned i = 0; i < SK_CLOCK_SOURCES; i++)
			rows.append(nb::make_tuple(sk_clock_name(sk_clock_source(i)),
						   to_row(table.fits[i])));
		return rows;
	}

	nb::tuple ticks() const
	{
		const sk_clock_ticks &found = table.ticks;

		return nb::make_tuple(found.hz, found.measured, found.why ? found.why : "");
	}
};

} /* namespace */

NB_MODULE(_clocks, module)
{
	nb::class_<Fit>(module, "Fit")
		.def(nb::init<>())
		.def("add", &Fit::add)
		.def("row", &Fit::row)
		.def("place", &Fit::place);
	nb::class_<Table>(module, "Table")
		.def(nb::init<>())
		.def("refresh", &Table::refresh)
		.def("rows", &Table::rows)
		.def("ticks", &Table::ticks);
}
