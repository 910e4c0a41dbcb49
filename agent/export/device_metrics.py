# SPDX-License-Identifier: Apache-2.0
"""The metrics of a node's devices: every number that is read of a card, and which job holds it.

`node_metrics` adds them to the node's others. Pure. Invariant: a value that a driver does not give,
or that a card in trouble gave some time ago, has no point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stoker.agent.devices.fields import REASONS
from stoker.agent.devices.readings import CardReadings, Reading
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.otlp.otlp_encoder import Attributes, Number
from stoker.scheduler.names import DEFAULT_QUEUE
from stoker.scheduler.nouns import MILLI, DeviceInfo, DeviceSample

Point = tuple[str, Number]


class CardField(NamedTuple):
    """A field of a card as a point of a metric. `counts`: the field only grows."""

    field: str
    metric: str
    attributes: Attributes = ()
    counts: bool = False


def _throttled(field: str, reason: str) -> CardField:
    return CardField(field, "stoker.gpu.throttled", (("stoker.throttle", reason),), counts=True)


def _repair(field: str) -> CardField:
    return CardField(field, "stoker.gpu.memory.repairs", (("stoker.repair", field),))


def _errors(field: str, kind: str) -> CardField:
    return CardField(field, "hw.errors", (("error.type", kind),), counts=True)


_DIRECTION = "network.io.direction"
_PLACE = "hw.sensor_location"
ROWS: tuple[CardField, ...] = (
    CardField("memory_used_bytes", "hw.gpu.memory.usage"),
    CardField("energy_j", "hw.energy", counts=True),
    CardField("memory_temperature_c", "hw.temperature", ((_PLACE, "memory"),)),
    CardField("hotspot_temperature_c", "hw.temperature", ((_PLACE, "hotspot"),)),
    CardField(
        "temperature_slowdown_c", "hw.temperature.limit", (("hw.limit_type", "high.degraded"),)
    ),
    CardField(
        "temperature_shutdown_c", "hw.temperature.limit", (("hw.limit_type", "high.critical"),)
    ),
    CardField("pcie_tx_bytes", "hw.gpu.io", ((_DIRECTION, "transmit"),), counts=True),
    CardField("pcie_rx_bytes", "hw.gpu.io", ((_DIRECTION, "receive"),), counts=True),
    _errors("ecc_corrected", "corrected"),
    _errors("ecc_uncorrected", "uncorrected"),
    _errors("pcie_replays", "pcie_replay"),
    CardField("fan_ratio", "hw.fan.speed_ratio"),
    CardField("fan_rpm", "hw.fan.speed"),
    CardField("clock_hz", "stoker.gpu.clock", (("stoker.clock.domain", "compute"),)),
    CardField("memory_clock_hz", "stoker.gpu.clock", (("stoker.clock.domain", "memory"),)),
    CardField("clock_max_hz", "stoker.gpu.clock.limit", (("stoker.clock.domain", "compute"),)),
    CardField(
        "memory_clock_max_hz", "stoker.gpu.clock.limit", (("stoker.clock.domain", "memory"),)
    ),
    CardField("power_limit_w", "stoker.gpu.power.limit"),
    CardField("memory_busy_ratio", "stoker.gpu.memory.busy"),
    CardField("memory_bandwidth_ratio", "stoker.gpu.memory.bandwidth"),
    CardField("sm_ratio", "stoker.gpu.pipe", (("stoker.gpu.pipe", "sm"),)),
    CardField("tensor_ratio", "stoker.gpu.pipe", (("stoker.gpu.pipe", "tensor"),)),
    _throttled("throttle_power_ns", "power limit"),
    _throttled("throttle_thermal_ns", "thermal"),
    _throttled("throttle_hard_thermal_ns", "hard thermal"),
    _throttled("throttle_brake_ns", "power brake"),
    _throttled("throttle_sync_ns", "sync boost"),
    _throttled("throttle_board_ns", "board limit"),
    _throttled("throttle_reliability_ns", "reliability"),
    _throttled("throttle_ns", "any"),
    _repair("retired_pages"),
    _repair("retired_pending"),
    _repair("remapped_rows"),
    _repair("remap_pending"),
    _repair("remap_failed"),
    CardField("pcie_gen", "stoker.gpu.pcie.generation"),
    CardField("pcie_width", "stoker.gpu.pcie.lanes"),
)


def points(
    devices: Iterable[DeviceInfo],
    samples: Iterable[DeviceSample],
    cards: Iterable[CardReadings],
    start_ns: int,
) -> Iterator[Point]:
    """Yield the points of all devices. `start_ns`: when the agent began to read counters."""
    infos = {info.id: info for info in devices}
    names = {id: named(info) for id, info in infos.items()}
    for id, info in infos.items():
        yield from _standing(info, names[id], start_ns)
    for sample in samples:
        yield from _sampled(sample, names.get(sample.id, (("hw.id", sample.id),)))
    for card in cards:
        if card.state == "ok":
            yield from _card(card, names.get(card.id, (("hw.id", card.id),)), start_ns)


def allocations(devices: Iterable[DeviceInfo], starts: Iterable[StartRecord]) -> Iterator[Point]:
    """Yield a point for each device that a running task holds: its share of the device."""
    names = {info.id: named(info) for info in devices}
    for start in starts:
        for id in start.devices:
            at = (*names.get(id, (("hw.id", id),)), *holder(start))
            yield "stoker.device.allocation", Number(at, share(start))


def share(start: StartRecord) -> float:
    """Return the part of each of its devices that a start was given."""
    return min(1.0, start.gpu_milli / MILLI / max(1, len(start.devices)))


def holder(start: StartRecord) -> Attributes:
    """Return the attributes of the task that holds a device."""
    return (
        ("stoker.job.id", start.job),
        ("stoker.job.attempt", start.attempt),
        *((("stoker.job.task", start.task),) if start.task else ()),
        ("stoker.job.name", start.name),
        ("stoker.job.user", start.user),
        ("stoker.job.queue", start.queue or DEFAULT_QUEUE),
    )


def sole_holders(starts: Iterable[StartRecord]) -> Mapping[str, StartRecord]:
    """Return device -> the start that holds it, of devices that no other job holds as well."""
    found: dict[str, StartRecord | None] = {}
    for start in starts:
        for id in start.devices:
            before = found.setdefault(id, start)
            if before is not None and before.job != start.job:
                found[id] = None
    return {id: start for id, start in found.items() if start is not None}


def named(info: DeviceInfo) -> Attributes:
    """Return the attributes of a device; a simulated one says SIM."""
    return (
        ("hw.id", info.id),
        ("hw.name", f"{info.model} SIM" if info.sim else info.model),
        ("hw.type", info.kind),
        ("hw.vendor", info.vendor),
    )


def number(card: CardReadings, field: str) -> int | float | None:
    """Return the number of a field, 0 or 1 for a flag; None if it is absent or no number."""
    found = card.fields.get(field)
    if not isinstance(found, Reading) or not isinstance(found.value, int | float):
        return None
    return int(found.value) if isinstance(found.value, bool) else found.value


def _standing(info: DeviceInfo, names: Attributes, start_ns: int) -> Iterator[Point]:
    if info.memory_bytes is not None:
        yield "hw.gpu.memory.limit", Number(names, info.memory_bytes, start_ns)
    for state, active in (("ok", not info.unavailable), ("failed", bool(info.unavailable))):
        yield "hw.status", Number((*names, ("hw.state", state)), int(active), start_ns)


def _sampled(sample: DeviceSample, names: Attributes) -> Iterator[Point]:
    for name, value in (
        ("hw.gpu.utilization", sample.busy_ratio),
        ("hw.power", sample.power_w),
        ("hw.temperature", sample.temperature_c),
    ):
        if value is not None:
            yield name, Number(names, float(value))


def _card(card: CardReadings, names: Attributes, start_ns: int) -> Iterator[Point]:
    for row in ROWS:
        value = number(card, row.field)
        if value is not None:
            begin = start_ns if row.counts else 0
            yield row.metric, Number((*names, *row.attributes), value, begin)
    used, total = number(card, "memory_used_bytes"), number(card, "memory_total_bytes")
    if used is not None and total:
        yield "hw.gpu.memory.utilization", Number(names, used / total)
    yield from _reasons(card, names, start_ns)
    yield from _links(card, names, start_ns)
    processes = card.fields.get("processes")
    if isinstance(processes, Reading):
        yield "stoker.gpu.processes", Number(names, len(processes.value), start_ns)


def _reasons(card: CardReadings, names: Attributes, start_ns: int) -> Iterator[Point]:
    words = card.fields.get("throttle")
    if not isinstance(words, Reading):
        return
    for reason in REASONS:
        at = (*names, ("stoker.throttle", reason))
        yield "stoker.gpu.throttle", Number(at, int(reason in words.value), start_ns)


def _links(card: CardReadings, names: Attributes, start_ns: int) -> Iterator[Point]:
    """Yield sums over a card's links to other cards; a sum needs a value of each link."""
    links = card.fields.get("links")
    if not isinstance(links, Reading) or not links.value:
        return
    up = sum(bool(row["up"]) for row in links.value)
    for state, count in (("up", up), ("down", len(links.value) - up)):
        yield "stoker.gpu.links", Number((*names, ("stoker.link.state", state)), count, start_ns)
    for key, metric, more in (
        ("tx_bytes", "stoker.gpu.link.io", ((_DIRECTION, "transmit"),)),
        ("rx_bytes", "stoker.gpu.link.io", ((_DIRECTION, "receive"),)),
        ("errors", "stoker.gpu.link.errors", ()),
    ):
        values = [row[key] for row in links.value]
        if None not in values:
            yield metric, Number((*names, *more), sum(values), start_ns)
