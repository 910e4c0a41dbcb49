/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Plain structures of the simulation as Python dictionaries and back, by the table of fields.h.
 */
#ifndef SK_SIM_BIND_DICTS_H
#define SK_SIM_BIND_DICTS_H

#include <cstring>
#include <string>

#include <nanobind/nanobind.h>

extern "C" {
#include "sim/node/fields.h"
}

namespace nb = nanobind;

namespace
{

inline nb::object value_at(const char *at, sk_sim_type type)
{
	switch (type) {
	case SK_SIM_U32:
		return nb::int_(*reinterpret_cast<const uint32_t *>(at));
	case SK_SIM_I32:
		return nb::int_(*reinterpret_cast<const int32_t *>(at));
	case SK_SIM_U64:
		return nb::int_(*reinterpret_cast<const uint64_t *>(at));
	case SK_SIM_I64:
		return nb::int_(*reinterpret_cast<const int64_t *>(at));
	case SK_SIM_F64:
		return nb::float_(*reinterpret_cast<const double *>(at));
	case SK_SIM_TEXT:
		return nb::str(at);
	}
	return nb::none();
}

constexpr size_t widths[] = {4, 4, 8, 8, 8, 1};

inline nb::dict to_dict(const void *from, const sk_sim_fields &fields)
{
	nb::dict dict;

	for (size_t i = 0; i < fields.count; i++) {
		const sk_sim_field &f = fields.field[i];
		const char *at = static_cast<const char *>(from) + f.offset;
		nb::list list;

		if (f.count == 1 || f.type == SK_SIM_TEXT) {
			dict[f.name] = value_at(at, f.type);
			continue;
		}
		for (size_t k = 0; k < f.count; k++)
			list.append(value_at(at + k * widths[f.type], f.type));
		dict[f.name] = list;
	}
	return dict;
}

inline void text_to(char *at, const sk_sim_field &f, const std::string &text)
{
	if (text.size() >= f.count)
		throw nb::value_error((std::string(f.name) + ": text too long").c_str());
	std::memset(at, 0, f.count);
	std::memcpy(at, text.data(), text.size());
}

inline void value_to(char *at, const sk_sim_field &f, nb::handle value)
{
	switch (f.type) {
	case SK_SIM_U32:
		*reinterpret_cast<uint32_t *>(at) = nb::cast<uint32_t>(value);
		break;
	case SK_SIM_I32:
		*reinterpret_cast<int32_t *>(at) = nb::cast<int32_t>(value);
		break;
	case SK_SIM_U64:
		*reinterpret_cast<uint64_t *>(at) = nb::cast<uint64_t>(value);
		break;
	case SK_SIM_I64:
		*reinterpret_cast<int64_t *>(at) = nb::cast<int64_t>(value);
		break;
	case SK_SIM_F64:
		*reinterpret_cast<double *>(at) = nb::cast<double>(value);
		break;
	case SK_SIM_TEXT:
		text_to(at, f, nb::cast<std::string>(value));
		break;
	}
}

/* Members that the dictionary lacks stay as they are; a key that is no member is refused. */
inline void from_dict(void *to, const sk_sim_fields &fields, nb::dict dict)
{
	size_t taken = 0;

	for (size_t i = 0; i < fields.count; i++) {
		const sk_sim_field &f = fields.field[i];

		if (!dict.contains(f.name))
			continue;
		try {
			value_to(static_cast<char *>(to) + f.offset, f, dict[f.name]);
		} catch (const nb::cast_error &) {
			throw nb::type_error(
				(std::string("wrong type or range: ") + f.name).c_str());
		}
		taken++;
	}
	if (taken == dict.size())
		return;
	for (auto [key, value] : dict) {
		bool known = false;

		for (size_t i = 0; i < fields.count; i++)
			known = known || nb::cast<std::string>(key) == fields.field[i].name;
		if (!known)
			throw nb::key_error(nb::cast<std::string>(key).c_str());
	}
}

} /* namespace */

#endif
