# SPDX-License-Identifier: Apache-2.0
"""Conditions on devices as people write them: versions, capabilities, comparisons, preferences.

Pure. Owns the numbers that the core compares: a version and a compute capability are one number
each, in whose order newer is higher. A text that says nothing sensible is a BadRequest.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler.wire_names import JOB_CONDITIONS_MAX, PREFERENCES_MAX, Property, Relation

__all__ = [
    "JOB_CONDITIONS_MAX",
    "PREFERENCES_MAX",
    "Clause",
    "Comparison",
    "arch_name",
    "capability",
    "capability_text",
    "driver_bounds",
    "preference",
    "version_number",
    "version_text",
]

_PART_BITS: Final = 20
_PART_MAX: Final = (1 << _PART_BITS) - 1
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){0,2}", re.ASCII)
_DRIVER = re.compile(r"(>=|<=|==|>|<|=|)\s*(\d{1,6}(?:\.\d{1,6}){0,2})", re.ASCII)
_CAPABILITY = re.compile(r"(\d{1,3})\.(\d{1,2})", re.ASCII)
_SM = re.compile(r"(?:sm|compute)_(\d{1,2})(\d)[a-z]?", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PREFERENCE = re.compile(r"(vendor|model|mem|compute|arch|driver|profile)\s*(>=|<=|>|<|==?)\s*(.+)")
PREFERENCES_SAID: Final = (
    "vendor=NAME, model=NAME, mem>=SIZE, compute>=X.Y, arch=NAME, driver>=VERSION or profile=NAME"
)
_WORDS: Final = {
    "vendor": Property.VENDOR,
    "model": Property.MODEL,
    "arch": Property.ARCH,
    "profile": Property.PROFILE,
}


class Comparison(NamedTuple):
    """A comparison of a figure of a device."""

    relation: Relation
    value: int


class Clause(NamedTuple):
    """One preference: a property with its name in `word`, or with the bounds of its figure."""

    property: Property
    word: str = ""
    bounds: tuple[Comparison, ...] = ()


def version_number(text: str) -> int:
    """Return the number of a version by its first three parts: "555.42.06"; 0 if it has none."""
    found = _VERSION.search(text)
    if found is None:
        return 0
    parts = [min(int(part), _PART_MAX) for part in found[0].split(".")]
    return _joined(parts + [0] * (3 - len(parts)))


def _joined(parts: list[int]) -> int:
    return parts[0] << 2 * _PART_BITS | parts[1] << _PART_BITS | parts[2]


def version_text(number: int) -> str:
    """Return a version as text, without zeros at its end: "555.42.6", "600"."""
    parts = [number >> 2 * _PART_BITS, number >> _PART_BITS & _PART_MAX, number & _PART_MAX]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return ".".join(map(str, parts))


def driver_bounds(text: str, field: str = "drivers") -> tuple[Comparison, ...]:
    """Return the bounds that a text such as ">=550", "<560" or "555.42" sets.

    A version stands for all that begin with it: "=550" is any 550, ">550" is 551 or newer.
    """
    found = _DRIVER.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"{field} {text[:40]!r} is no version: write >=550, <560 or 555.42")
    parts = [min(int(part), _PART_MAX) for part in found[2].split(".")]
    first = _joined(parts + [0] * (3 - len(parts)))
    last = _joined(parts + [_PART_MAX] * (3 - len(parts)))
    begin = (Comparison(Relation.LEAST, first), Comparison(Relation.MOST, last))
    bounds = {
        ">=": (Comparison(Relation.LEAST, first),),
        ">": (Comparison(Relation.LEAST, last + 1),),
        "<=": (Comparison(Relation.MOST, last),),
        "<": (Comparison(Relation.MOST, first - 1),),
    }
    if found[1] == "<" and first <= 1:
        raise BadRequest(f"{field} {text[:40]!r} leaves no version")
    return bounds.get(found[1], begin)


def capability(text: str, field: str = "compute_least") -> int:
    """Return the number of a compute capability such as 8.0."""
    found = _CAPABILITY.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise BadRequest(f"{field} {text[:40]!r} is no compute capability such as 8.0")
    return int(found[1]) << 16 | int(found[2])


def capability_text(number: int) -> str:
    """Return a compute capability as text."""
    return f"{number >> 16}.{number & 0xFFFF}"


def arch_name(text: str) -> str | Comparison:
    """Return an architecture in its one spelling; sm_90 is the compute capability 9.0."""
    found = _SM.fullmatch(text.strip().lower())
    if found is None:
        return text.strip().lower()
    return Comparison(Relation.IS, int(found[1]) << 16 | int(found[2]))


def preference(text: str) -> Clause:
    """Return the term of a preference: "vendor=amd", "driver>=550", "mem>=40G"."""
    found = _PREFERENCE.fullmatch(text.strip())
    if found is None:
        raise BadRequest(f"prefer {text[:60]!r} is none of {PREFERENCES_SAID}")
    name, sign, value = found[1], found[2], found[3].strip()
    if name == "driver":
        return Clause(Property.DRIVER, bounds=driver_bounds(f"{sign}{value}", "prefer driver"))
    if name in ("mem", "compute"):
        if sign != ">=":
            raise BadRequest(f"prefer {text[:60]!r}: {name} has a least value: {name}>={value}")
        if name == "mem":
            return Clause(Property.MEMORY, bounds=(Comparison(Relation.LEAST, _bytes(value)),))
        least = capability(value, "prefer compute")
        return Clause(Property.COMPUTE, bounds=(Comparison(Relation.LEAST, least),))
    if sign not in ("=", "=="):
        raise BadRequest(f"prefer {text[:60]!r}: a {name} is a name: {name}={value}")
    spelled = arch_name(value) if name == "arch" else value
    if isinstance(spelled, Comparison):
        return Clause(Property.COMPUTE, bounds=(spelled,))
    return Clause(_WORDS[name], spelled)


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = int(float(found[1]) * _SIZES[found[2].upper()]) if found is not None else 0
    if not 0 < size < 1 << 60:
        raise BadRequest(f"prefer mem {text[:40]!r} is not a size such as 512M or 40G")
    return size
