# SPDX-License-Identifier: Apache-2.0
"""The files of simulated AMD cards: what they say, what they take, what becomes of a dead card."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.native import _sim
from stoker.probes.simdriver import profiles, sysfs


@pytest.fixture
def node() -> _sim.Node:
    return profiles.node("8xMI300X")


def text(path: Path) -> str:
    return path.read_text().strip()


def values(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in (line.split() for line in path.open())}


def test_devices_are_found_as_the_kernel_shows_them(tmp_path: Path, node: _sim.Node) -> None:
    sysfs.SysfsTree(tmp_path, node).write()
    drm = tmp_path / "sys/class/drm"
    assert sorted(each.name for each in drm.iterdir() if each.name.startswith("card")) == [
        f"card{minor}" for minor in range(8)
    ]
    for card in range(8):
        model, device = node.truth(card)["model"], drm / f"card{card}/device"
        assert device.resolve().name == model["bus_id"].lower()[4:]
        by_address = tmp_path / "sys/bus/pci/devices" / device.resolve().name
        assert by_address.resolve() == device.resolve()
        assert (device / "driver").resolve().name == "amdgpu"
        assert text(device / "vendor") == "0x1002"
        assert int(text(device / "device"), 16) == model["pci_device"] >> 16
        assert int(text(device / "unique_id"), 16) == int(model["serial"], 16)
        assert text(device / "product_name") == model["name"]
        assert int(text(device / "numa_node")) == model["numa"]
        assert int(text(device / "mem_info_vram_total")) == model["memory_bytes"]
        assert (drm / f"renderD{128 + card}").resolve().parent.parent == device.resolve()


def test_sensors_are_what_the_card_answers(tmp_path: Path, node: _sim.Node) -> None:
    node.set_load(4, 0.7, 0.4, 0.2)
    tree = sysfs.SysfsTree(tmp_path, node)
    tree.write()
    node.advance(5_000_000_000)
    tree.refresh()
    device = tmp_path / "sys/class/drm/card4/device"
    hwmon, sensor = device / "hwmon/hwmon4", node.sensor(4)
    assert sensor is not None
    assert text(hwmon / "name") == "amdgpu"
    assert int(text(hwmon / "power1_input")) == sensor["power_mw"] * 1000
    assert int(text(hwmon / "temp2_input")) == sensor["temperature_mc"]
    assert int(text(hwmon / "freq1_input")) == sensor["clock_mhz"] * 1_000_000
    assert int(text(device / "gpu_busy_percent")) == sensor["busy_percent"] == 70
    assert text(device / "pp_dpm_sclk").endswith(f"{sensor['clock_mhz']}Mhz *")
    assert not (hwmon / "power1_average").exists()
    assert not (hwmon / "fan1_input").exists()


def test_a_cap_is_taken_within_the_cards_range(tmp_path: Path, node: _sim.Node) -> None:
    tree = sysfs.SysfsTree(tmp_path, node)
    tree.write()
    cap = tmp_path / "sys/class/drm/card1/device/hwmon/hwmon1/power1_cap"
    cap.write_text("300000000")
    tree.refresh()
    assert node.truth(1)["now"]["limit_mw"] == 300_000
    for wrong in ("1000", "900000000", "-5", "much"):
        cap.write_text(wrong)
        tree.refresh()
        assert (node.truth(1)["now"]["limit_mw"], text(cap)) == (300_000, "300000000")
    node.set_limit(1, 500_000)
    tree.refresh()
    assert (node.truth(1)["now"]["limit_mw"], text(cap)) == (500_000, "500000000")


def test_errors_and_pages_are_told(tmp_path: Path, node: _sim.Node) -> None:
    node.inject("ecc", 2, value=1, count=4)
    node.inject("pages", 2)
    node.advance(1)
    sysfs.SysfsTree(tmp_path, node).write()
    ras = tmp_path / "sys/class/drm/card2/device/ras"
    assert text(ras / "umc_err_count") == "ue: 4\nce: 0"
    assert [line[-1] for line in (ras / "gpu_vram_bad_pages").read_text().split("\n")[:2]] == list(
        "RP"
    )


def test_kfd_has_the_cards_their_links_and_processes(tmp_path: Path, node: _sim.Node) -> None:
    node.add_process(3, os.getpid(), 7 << 30, 0.5, "trainer")
    tree = sysfs.SysfsTree(tmp_path, node)
    tree.write()
    kfd = tmp_path / "sys/class/kfd/kfd"
    nodes = sorted(int(each.name) for each in (kfd / "topology/nodes").iterdir())
    assert nodes == list(range(10))  # two of the CPU
    card = values(kfd / "topology/nodes/5/properties")
    assert (card["gfx_target_version"], card["simd_count"]) == (90402, 304 * 4)
    assert card["drm_render_minor"] == 128 + 3
    links = sorted((kfd / "topology/nodes/5/io_links").iterdir())
    kinds = [values(link / "properties") for link in links]
    assert sorted(link["type"] for link in kinds) == [2] + [11] * 7
    assert {link["node_to"] for link in kinds if link["type"] == 11} == {2, 3, 4, 6, 7, 8, 9}
    gpu = int(text(kfd / "topology/nodes/5/gpu_id"))
    assert int(text(kfd / f"proc/{os.getpid()}/vram_{gpu}")) == 7 << 30
    node.end_process(3, os.getpid())
    tree.refresh()
    assert list((kfd / "proc").iterdir()) == []


def test_a_dead_card_has_empty_files_and_comes_back(tmp_path: Path, node: _sim.Node) -> None:
    tree = sysfs.SysfsTree(tmp_path, node)
    tree.write()
    node.inject("lost", 6, until_ns=2_000_000_000)
    node.advance(1_000_000_000)
    tree.refresh()
    device = tmp_path / "sys/class/drm/card6/device"
    assert (device / "gpu_metrics").read_bytes() == b""
    assert text(device / "hwmon/hwmon6/power1_input") == ""
    assert text(tmp_path / "sys/class/drm/card5/device/gpu_busy_percent") == "0"
    node.advance(2_000_000_000)
    tree.refresh()
    assert len((device / "gpu_metrics").read_bytes()) == 2208
    assert node.truth(6)["now"]["limit_mw"] == 750_000


def test_cards_of_other_vendors_are_not_there(tmp_path: Path) -> None:
    sysfs.SysfsTree(tmp_path, profiles.node("4xL40S")).write()
    assert not (tmp_path / "sys/class/drm").exists()
    mixed = profiles.node("mixed")
    sysfs.SysfsTree(tmp_path, mixed, 3).write()
    assert sorted(each.name for each in (tmp_path / "sys/class/drm").glob("card*")) == [
        "card0",
        "card1",
    ]
    first = tmp_path / "sys/class/drm/card0/device"
    assert len((first / "gpu_metrics").read_bytes()) == 120
    assert (first / "hwmon/hwmon0/power1_average").exists()
