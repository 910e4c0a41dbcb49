# SPDX-License-Identifier: Apache-2.0
"""Points of devices from readings of cards and from records of starts."""

from __future__ import annotations

from typing import Any

from stoker.agent.devices.fields import TABLE, complete, reading
from stoker.agent.devices.readings import CardReadings, State
from stoker.agent.export import device_metrics
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.otlp import metric_names
from stoker.probes.otlp.otlp_encoder import Number
from stoker.scheduler.nouns import DeviceInfo, DeviceSample

LINKS = [
    {"up": True, "tx_bytes": 5, "rx_bytes": 7, "errors": None},
    {"up": False, "tx_bytes": 1, "rx_bytes": 2, "errors": 0},
]
LISTS = {"links": LINKS, "processes": [{"pid": 1}], "throttle": ["idle"]}


def card(id: str = "GPU-1", state: State = "ok", **values: Any) -> CardReadings:
    """A card with these readings and no others."""
    fields = {name: reading(name, value, 5) for name, value in values.items()}
    return CardReadings(id, 9, complete(fields, "not read"), state)


def everything() -> CardReadings:
    """A card with a different number in every numeric field."""
    numbers = {spec.name: i for i, spec in enumerate(TABLE, 1) if spec.unit}
    return card(**{**numbers, "ecc_enabled": True, **LISTS})


def start(job: int = 1, devices: tuple[str, ...] = ("GPU-1",), **fields: Any) -> StartRecord:
    given = {"gpu_milli": 1000, "name": "train", "user": "alice", **fields}
    return StartRecord(job, 1, 0, 0, 0, given.pop("uid", 1000), 5.0, devices=devices, **given)


def told(*cards: CardReadings) -> dict[tuple[str, Any], Number]:
    infos = (DeviceInfo("GPU-1", "nvidia", "H200", memory_bytes=100),)
    found = device_metrics.points(infos, (DeviceSample("GPU-1", 0.5),), cards, 3)
    return {(name, point.attributes[4:]): point for name, point in found}


def test_every_number_that_is_read_has_a_point_or_a_reason() -> None:
    """Fields left out are those told in another way, and those that say no more than another."""
    rows = {row.field for row in device_metrics.ROWS}
    others = {
        "power_w", "power_average_w", "energy_power_w", "power_samples_w",  # one power: hw.power
        "temperature_c", "busy_ratio",  # from the sample, as placements see them
        "memory_total_bytes", "memory_free_bytes",  # limit and usage
        "power_limit_min_w", "power_limit_max_w", "power_limit_default_w", "units",
        "memory_temperature_max_c", "pcie_gen_max", "pcie_width_max", "clock_limit_hz",
        "ecc_corrected_total", "ecc_uncorrected_total",  # of the card's life, not of this boot
    }  # fmt: skip
    numeric = {spec.name for spec in TABLE if spec.unit}
    assert numeric - others == rows & numeric


def test_values_and_units_are_those_that_were_read() -> None:
    read = everything()
    found = told(read)
    for row in device_metrics.ROWS:
        point = found[row.metric, row.attributes]
        assert point.value == read.number(row.field) and point.start_ns == (3 if row.counts else 0)
    used, total = read.number("memory_used_bytes"), read.number("memory_total_bytes")
    assert used and total
    assert found["hw.gpu.memory.utilization", ()].value == used / total
    assert found["hw.gpu.utilization", ()].value == 0.5
    assert found["stoker.gpu.processes", ()].value == 1


def test_links_are_summed_only_where_each_tells_a_value() -> None:
    found = told(everything())
    sent = ("stoker.gpu.link.io", (("network.io.direction", "transmit"),))
    assert found[sent].value == 6
    assert ("stoker.gpu.link.errors", ()) not in found
    assert found["stoker.gpu.links", (("stoker.link.state", "up"),)].value == 1


def test_each_reason_to_throttle_is_there_while_the_driver_tells_any() -> None:
    found = told(everything())
    reasons = {
        at[0][1]: p.value for (name, at), p in found.items() if name == "stoker.gpu.throttle"
    }
    assert reasons.pop("idle") == 1 and set(reasons.values()) == {0}
    assert not [name for name, _ in told(card(clock_hz=5)) if name == "stoker.gpu.throttle"]


def test_absent_and_old_readings_have_no_point() -> None:
    assert ("hw.energy", ()) not in told(card(clock_hz=5))
    hung = CardReadings("GPU-1", 9, everything().fields, "hung", "no answer")
    names = {name for name, _ in told(hung)}
    assert names == {"hw.gpu.memory.limit", "hw.status", "hw.gpu.utilization"}


def test_every_point_is_in_the_table() -> None:
    for name, point in device_metrics.points((), (), (everything(),), 1):
        known = metric_names.BY_NAME[name].attributes
        assert {attribute for attribute, _ in point.attributes} <= set(known)


def test_a_share_of_a_device_names_its_holder() -> None:
    infos = (DeviceInfo("GPU-1", "nvidia", "H200", sim=True),)
    whole = start(1, ("GPU-1", "GPU-2"), gpu_milli=2000, queue="q")
    part = start(2, ("GPU-1",), gpu_milli=250)
    points = [p for _, p in device_metrics.allocations(infos, (whole, part))]
    assert [point.value for point in points] == [1.0, 1.0, 0.25]
    at = dict(points[0].attributes)
    assert at["hw.name"] == "H200 SIM" and at["stoker.job.queue"] == "q"
    assert dict(points[2].attributes)["stoker.job.queue"] == "default"
    assert device_metrics.sole_holders((whole, part)) == {"GPU-2": whole}
    both = (start(3), start(3))
    assert device_metrics.sole_holders(both) == {"GPU-1": both[0]}, "two tasks of one job"
