# SPDX-License-Identifier: Apache-2.0
"""The conditions of a job on its devices: names become ids, conditions become sentences.

Pure. Owns the matching of names with what the nodes report, and the words for a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from stoker.mesh.replica.works.core_request import models_meant
from stoker.mesh.replica.works.named_devices import named_devices
from stoker.native.errors import BadRequest
from stoker.scheduler.book import Book
from stoker.scheduler.conditions import (
    JOB_CONDITIONS_MAX,
    Clause,
    Comparison,
    arch_name,
    capability,
    capability_text,
    driver_bounds,
    preference,
    version_number,
    version_text,
)
from stoker.scheduler.figures import size
from stoker.scheduler.names import name_id, vendor_number
from stoker.scheduler.nouns import DeviceInfo, JobSpec, NodeReport
from stoker.scheduler.numa_plan import cpus_wanted
from stoker.scheduler.policies import VENDORS, Kind
from stoker.scheduler.wire_fields import Condition, Conditions
from stoker.scheduler.wire_names import Property, Relation

SHOWN = 8
LINK_ANY = 1
"""The bandwidth of a condition on links that names none."""
PARTITIONS = {"exclusive": 1, "mig": 2}
"""The core's number for whole cards and for partitions of cards."""
_NAMES = {
    Property.VENDOR: "vendor",
    Property.MODEL: "model",
    Property.MEMORY: "device memory",
    Property.COMPUTE: "compute capability",
    Property.ARCH: "architecture",
    Property.PROFILE: "partition profile",
    Property.DRIVER: "driver",
    Property.LINK: "a link",
    Property.NUMA: "",
    Property.PARTITION: "",
    Property.DEVICE: "",
    Property.LEVEL: "",
}
_WITHIN = "within "
"""The beginning of a preference for one domain of a level."""
_SIGNS = {Relation.IS: "", Relation.LEAST: ">= ", Relation.MOST: "<= "}


def conditions_of(
    spec: JobSpec, reports: Iterable[NodeReport], models: Iterable[str]
) -> Conditions:
    """Return the core's conditions of a spec; BadRequest for a name that nothing has.

    `models` are the names of all device models, for preferences.
    """
    if not asks(spec):
        return ()
    nodes = list(reports)
    devices = [d for report in nodes for d in report.devices if not d.gone]
    found = [*_required(spec, devices)]
    if spec.device_ids_mode == "require":
        found += named_devices(spec.device_ids, nodes, 0)
    if spec.topology == "required":
        found.append(_link(spec, 0))
    if spec.numa == "require":
        found.append(Condition(Property.NUMA, Relation.LEAST, cpus_wanted(spec)))
    if spec.within:
        found.append(_level(spec.within, 0))
    for rank, wish in enumerate(preferences(spec), 1):
        if isinstance(wish, Clause):
            found += _preferred(wish, rank, devices, list(models))
        elif wish == "device_ids":
            found += named_devices(spec.device_ids, nodes, rank)
        elif wish.startswith(_WITHIN):
            found.append(_level(wish.removeprefix(_WITHIN), rank))
        else:
            found.append(_link(spec, rank))
    if len(found) > JOB_CONDITIONS_MAX:
        raise BadRequest(
            f"its conditions come to {len(found)}, at most {JOB_CONDITIONS_MAX}",
            hint="a preference for a model counts once for each model that it means",
        )
    return tuple(found)


def asks(spec: JobSpec) -> bool:
    """Return True if the spec has a condition on its devices, or on their nodes together."""
    numbers = (spec.device_memory_least_bytes, spec.topology != "none", spec.numa == "require")
    names = (spec.vendors, spec.compute_least, spec.archs, spec.drivers, spec.profiles)
    levels = (spec.within, spec.prefer_within)
    return any((*numbers, *names, *levels, spec.prefer, spec.device_ids, spec.exclusivity))


def preferences(spec: JobSpec) -> tuple[Clause | str, ...]:
    """Return the preferences of a spec by rank: named devices, terms, a link, levels."""
    ids = spec.device_ids and spec.device_ids_mode == "prefer"
    linked = ("topology",) if spec.topology == "preferred" else ()
    levels = (_WITHIN + level for level in spec.prefer_within)
    return (*(("device_ids",) if ids else ()), *map(preference, spec.prefer), *linked, *levels)


def preference_words(spec: JobSpec) -> tuple[str, ...]:
    """Return the preferences as words, by rank."""
    terms = iter(spec.prefer)
    said = {"device_ids": f"one of the devices {', '.join(spec.device_ids)}"}
    said["topology"] = "a link between its devices"
    if spec.min_link_gbps:
        said["topology"] += f" of {spec.min_link_gbps} GB/s"
    said |= {_WITHIN + level: f"nodes of one {level}" for level in spec.prefer_within}
    return tuple(said[w] if isinstance(w, str) else next(terms) for w in preferences(spec))


def _link(spec: JobSpec, rank: int) -> Condition:
    return Condition(Property.LINK, Relation.LEAST, spec.min_link_gbps or LINK_ANY, rank)


def _level(key: str, rank: int) -> Condition:
    return Condition(Property.LEVEL, Relation.IS, name_id(key), rank)


def _required(spec: JobSpec, devices: list[DeviceInfo]) -> Iterator[Condition]:
    for vendor in spec.vendors:
        yield _named(Property.VENDOR, vendor, devices)
    if spec.device_memory_least_bytes:
        yield Condition(Property.MEMORY, Relation.LEAST, spec.device_memory_least_bytes)
    if spec.compute_least:
        yield Condition(Property.COMPUTE, Relation.LEAST, capability(spec.compute_least))
    for arch in spec.archs:
        name = arch_name(arch)
        if isinstance(name, Comparison):
            yield Condition(Property.COMPUTE, *name)
        else:
            yield _named(Property.ARCH, name, devices)
    for driver in spec.drivers:
        for bound in driver_bounds(driver):
            yield Condition(Property.DRIVER, *bound)
    for profile in spec.profiles:
        yield _named(Property.PROFILE, profile, devices)
    if spec.exclusivity in PARTITIONS and spec.exclusivity != "shared":
        yield Condition(Property.PARTITION, Relation.IS, PARTITIONS[spec.exclusivity])


def _preferred(
    clause: Clause, rank: int, devices: list[DeviceInfo], models: list[str]
) -> Iterator[Condition]:
    for bound in clause.bounds:
        yield Condition(clause.property, *bound, rank)
    if clause.property == Property.MODEL:
        for model in models_meant((clause.word,), models):
            yield Condition(Property.MODEL, Relation.IS, name_id(model), rank)
    elif clause.word:
        yield _named(clause.property, clause.word, devices)._replace(rank=rank)


def _named(which: Property, word: str, devices: list[DeviceInfo]) -> Condition:
    """Return the condition that a property has this name; BadRequest if no device has it."""
    known = words_of(which, devices)
    if which == Property.VENDOR:
        known = sorted({*known, *VENDORS})
    found = next((name for name in known if name.lower() == word.strip().lower()), None)
    if found is None:
        there = ", ".join(known[:SHOWN]) or "none"
        raise BadRequest(f"no device has {_NAMES[which]} {word!r}", hint=f"There are: {there}")
    number = vendor_number(found) if which == Property.VENDOR else name_id(found)
    return Condition(which, Relation.IS, number)


def words_of(which: Property, devices: Iterable[DeviceInfo]) -> list[str]:
    """Return the names that a property has among devices, sorted."""
    return sorted({word for device in devices if (word := _word(which, device))})


def _word(which: Property, device: DeviceInfo) -> str:
    match which:
        case Property.VENDOR:
            return device.vendor
        case Property.MODEL:
            return device.model
        case Property.ARCH:
            return device.arch
        case Property.PROFILE:
            return device.profile
        case _:
            return ""


class NamedCondition(NamedTuple):
    """A condition as the core's reasons name it, with the kinds of devices that were requested."""

    which: Property
    relation: Relation
    kinds: int

    @classmethod
    def of(cls, name: int) -> NamedCondition:
        """Read kinds << 16 | property << 8 | relation."""
        return cls(Property(name >> 8 & 0xFF), Relation(name & 0xFF), name >> 16)

    @property
    def device(self) -> str:
        """The word for such a device: "device", "CPU device"."""
        return "CPU device" if self.kinds == Kind.CPU else "device"

    def among(self, book: Book) -> list[DeviceInfo]:
        """Return the devices of these kinds that are there."""
        return [d for d in _devices(book) if not d.gone and _kind_of(d) & self.kinds]


def _kind_of(device: DeviceInfo) -> int:
    return Kind.CPU if device.kind == "cpu" else Kind.GPU


def sentence_of(book: Book, name: int, value: int) -> str:
    """Return a condition as words: "driver >= 550", "architecture gfx942"; `name` is that of a
    NamedCondition."""
    which, relation, _ = NamedCondition.of(name)
    if which in _SENTENCES:
        return _SENTENCES[which](value)
    return f"{_NAMES[which]} {_SIGNS[relation]}{_value(book, which, value)}"


def words(book: Book, name: int, value: int, have: int, count: int) -> str:
    """Return that `count` of `have` devices do not meet a condition; with no count, that none does
    and `have` is the nearest."""
    if count and NamedCondition.of(name).which in _IS:
        return f"devices that are not {sentence_of(book, name, value)}: {count} of {have}"
    if count:
        return f"devices that do not have {sentence_of(book, name, value)}: {count} of {have}"
    return not_met(book, name, value, have)


def not_met(book: Book, name: int, value: int, nearest: int) -> str:
    """Return that no device meets a condition, and what there is instead."""
    named = NamedCondition.of(name)
    which, relation, _ = named
    text = f"no {named.device} has {sentence_of(book, name, value)}"
    if which == Property.LINK:
        return f"{text}; the widest has {nearest} GB/s" if nearest > LINK_ANY else text
    if which == Property.NUMA:
        return f"{text}; the most are {nearest}" if nearest else f"{text}: {NUMA_UNKNOWN}"
    if which in _SENTENCES:
        return f"no {named.device} is {_SENTENCES[which](value)}"
    if relation == Relation.IS:
        return text + _there(words_of(which, named.among(book)), _value(book, which, value))
    if not nearest:
        return f"{text}: no node knows the {_NAMES[which]} of its devices"
    word = "highest" if relation == Relation.LEAST else "lowest"
    return f"{text}; the {word} is {_value(book, which, nearest)}"


def _there(names: list[str], wanted: str) -> str:
    """Return what devices of the requested kinds have instead; what is there only on nodes that the
    job does not accept is told so."""
    if wanted in names:
        return " on the nodes that it accepts"
    return f"; there are: {', '.join(names[:SHOWN])}" if names else ""


def _value(book: Book, which: Property, value: int) -> str:
    if which == Property.MEMORY:
        return size(value)
    if which == Property.COMPUTE:
        return capability_text(value)
    if which == Property.DRIVER:
        # The text is the spelling of a device that has exactly this version, if there is one.
        spelled = (d.driver for d in _devices(book) if version_number(d.driver) == value)
        return next(spelled, version_text(value))
    number = vendor_number if which == Property.VENDOR else name_id
    words = (*words_of(which, _devices(book)), *VENDORS)
    return next((word for word in words if number(word) == value), "that is not known here")


NUMA_UNKNOWN = "no node knows the NUMA node of its devices and CPUs of it for jobs"


def _near_words(value: int) -> str:
    return f"{value} CPU{'s' * (value > 1)} in its NUMA node for jobs"


def _link_words(value: int) -> str:
    return "a link to another" if value == LINK_ANY else f"a link of {value} GB/s to another"


_IS = frozenset({Property.PARTITION, Property.DEVICE})
"""Properties of which one says what a device is, not what it has."""
_SENTENCES: dict[Property, Callable[[int], str]] = {
    Property.LINK: _link_words,
    Property.NUMA: _near_words,
    Property.PARTITION: lambda value: "a whole card" if value == 1 else "a partition of a card",
    Property.DEVICE: lambda value: "one of those that are named",
}


def _devices(book: Book) -> list[DeviceInfo]:
    return [device for report in book.nodes.values() for device in report.devices]
