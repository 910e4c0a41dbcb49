# SPDX-License-Identifier: Apache-2.0
"""AMD cards without ROCm, from the files of a simulated node (SIM), against its true state."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.devices.amd import metrics
from stoker.agent.devices.amd.sysfs_card import SysfsCard
from stoker.agent.devices.amd.vendor import Amd
from stoker.agent.devices.readings import Absent, Reading
from stoker.agent.devices.samplers.sampler import sampled_of
from stoker.native import _sim
from stoker.probes.simdriver import profiles
from stoker.probes.simdriver.sysfs import SysfsTree


class NoBinding:
    """A binding whose library is missing, so that no call works."""

    class AmdSmiException(Exception):
        pass

    def amdsmi_init(self) -> None:
        raise self.AmdSmiException("Driver not loaded")


@pytest.fixture
def node() -> _sim.Node:
    made = profiles.node("8xMI300X", seed=3)
    made.set_load(0, 0.9, 0.4, 0.1)
    made.advance(3_000_000_000)
    return made


@pytest.fixture(params=[3, 7, 8])
def root(tmp_path: Path, node: _sim.Node, request: pytest.FixtureRequest) -> Path:
    SysfsTree(tmp_path, node, request.param).write()
    return tmp_path


def values(fields: Any) -> dict[str, Any]:
    return {name: each.value for name, each in fields.items() if isinstance(each, Reading)}


def test_a_card_is_what_its_files_say(root: Path, node: _sim.Node) -> None:
    scan = Amd({}, NoBinding(), root).scan()
    assert len(scan.devices) == 8
    assert "sysfs alone" in scan.missing[0] and "Driver not loaded" in scan.missing[0]
    sampled = sampled_of(scan.cards[0])
    sampled.round()
    found = values(sampled.readings().fields)
    truth, sensor = node.truth(0), node.sensor(0)
    assert sensor is not None
    model = truth["model"]
    assert scan.devices[0].memory_bytes == model["memory_bytes"]
    assert scan.devices[0].numa == model["numa"]
    assert scan.devices[0].link == scan.devices[7].link == 1
    assert {device.link_gbps for device in scan.devices} == {2 * model["link_gb_s"]}
    assert found["bus_id"] == model["bus_id"][-12:].lower()
    assert found["driver"] == model["driver"]
    assert found["power_w"] == pytest.approx(sensor["power_mw"] / 1000, abs=1.0)
    assert found["energy_j"] == pytest.approx(sensor["energy_mj"] / 1000, rel=1e-3)
    assert found["temperature_c"] == pytest.approx(sensor["temperature_mc"] / 1000, abs=1.0)
    assert found["busy_ratio"] == sensor["busy_percent"] / 100
    assert found["clock_hz"] == sensor["clock_mhz"] * 1_000_000
    assert found["power_limit_w"] == sensor["limit_mw"] / 1000
    assert found["power_limit_max_w"] == model["limit_max_mw"] / 1000
    assert found["memory_used_bytes"] == truth["now"]["memory_used"]
    assert found["pcie_gen_max"] == model["pcie_gen"]


def test_a_card_off_the_bus_is_lost_or_absent_and_never_zero(
    tmp_path: Path, node: _sim.Node
) -> None:
    tree = SysfsTree(tmp_path, node)
    tree.write()
    scan = Amd({}, NoBinding(), tmp_path).scan()
    sampled = sampled_of(scan.cards[0])
    sampled.round()
    node.inject("lost", 0)
    tree.refresh()
    fast = scan.cards[0].fast()
    assert values(fast) == {}


def test_limits_of_temperature_are_those_of_the_sensor_that_is_read(root: Path) -> None:
    card = Amd({}, NoBinding(), root).scan().cards[0]
    assert isinstance(card, SysfsCard)
    junction = values(card.once())["temperature_slowdown_c"]
    edge = {"label": "edge\n", "input": "60000\n", "crit": "95000\n", "emergency": "99000\n"}
    for name, text in edge.items():
        (card.hwmon() / f"temp1_{name}").write_text(text)
    found = values({**card.once(), **card.fast()})
    assert found["temperature_slowdown_c"] == junction != 95
    again = Amd({}, NoBinding(), root).scan().cards[0]
    found = values({**again.once(), **again.fast()})
    assert found["temperature_c"] == 60
    assert (found["temperature_slowdown_c"], found["temperature_shutdown_c"]) == (95, 99)


def test_times_throttled_are_absent_while_the_table_cannot_be_read(root: Path) -> None:
    card = Amd({}, NoBinding(), root).scan().cards[0]
    assert isinstance(card, SysfsCard)
    card.fast()
    read = card.steps()[3]()
    assert read.keys() == {name for name, _, _ in metrics.RESIDENCIES}
    card._folder.joinpath("gpu_metrics").write_bytes(b"")
    card.fast()
    for field in card.steps()[3]().values():
        assert isinstance(field, Absent) and field.why == "gpu_metrics has 0 bytes"


def test_processes_are_listed_and_no_file_of_theirs_stays_open(root: Path) -> None:
    card = Amd({}, NoBinding(), root).scan().cards[0]
    assert isinstance(card, SysfsCard)
    for pid in (41, 42, 43):
        folder = root / "sys/class/kfd/kfd/proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / f"vram_{card._kfd_id}").write_text("1048576\n")
    card.steps()[2]()
    assert sorted(card.pids) == [41, 42, 43]
    before = len(list(Path("/proc/self/fd").iterdir()))
    card.steps()[2]()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_card_that_was_found_anew_leaves_no_file_open(root: Path) -> None:
    vendor = Amd({}, NoBinding(), root)

    def opened() -> int:
        vendor.scan()
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    assert opened() == opened()


def test_without_cards_nothing_is_said(tmp_path: Path) -> None:
    scan = Amd({}, NoBinding(), tmp_path).scan()
    assert (scan.devices, scan.missing) == ((), ())
