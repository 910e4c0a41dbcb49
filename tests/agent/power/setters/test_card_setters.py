# SPDX-License-Identifier: Apache-2.0
"""Setters on the unmodified bindings over simulated drivers (SIM), in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.power.setters.card_setters import SysfsSetter
from stoker.agent.power.setters.record import RecordedSetting
from stoker.native import _sim
from stoker.probes.simdriver import libraries, profiles

Sensors = list[dict[str, int] | None]
NVIDIA = """
import json, pynvml, sys
from stoker.agent.power.setters.card_setters import NvidiaSetter
pynvml.nvmlInit()
found = {}
for index in range(pynvml.nvmlDeviceGetCount()):
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    setter = NvidiaSetter(pynvml, handle, pynvml.nvmlDeviceGetUUID(handle))
    found[index] = {
        "power": pynvml.nvmlDeviceGetFieldValues(handle, [186])[0].value.uiVal,
        "energy": pynvml.nvmlDeviceGetTotalEnergyConsumption(handle),
        "temperature": pynvml.nvmlDeviceGetTemperature(handle, 0),
        "clock": pynvml.nvmlDeviceGetClockInfo(handle, 1),
        "busy": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory": pynvml.nvmlDeviceGetUtilizationRates(handle).memory,
        "limits": setter.limits(), "clocks": setter.clock_range(),
        "limit": setter.power_limit_w(), "found": setter.found(),
    }
    bad = setter.set_power_limit(5000)
    found[index]["bad"] = bad.why
    assert setter.set_power_limit(found[index]["limits"][0] + 50) is None
    assert setter.set_clock_range(600, 1200) is None
print(json.dumps(found))
"""
AMD = """
import json, amdsmi
from stoker.agent.power.setters.card_setters import AmdSetter
amdsmi.amdsmi_init()
found = {}
for index, handle in enumerate(amdsmi.amdsmi_get_processor_handles()):
    address = amdsmi.amdsmi_get_gpu_device_bdf(handle)
    setter = AmdSetter(amdsmi, handle, address)
    bad = setter.set_power_limit(1)
    found[index] = {"limits": setter.limits(), "found": setter.found(), "bad": bad.why}
    assert setter.set_power_limit(found[index]["limits"][0] + 50) is None
    found[index]["limit"] = setter.power_limit_w()
print(json.dumps(found))
"""
INTEL = """
import ctypes, json, pyzes
from stoker.agent.devices.intel import zes
from stoker.agent.power.setters.intel_setter import IntelSetter
assert zes.call(pyzes, "zesInit", 0) is None
found = {}
for driver in zes.listed(pyzes, "zesDriverGet", None, pyzes.zes_driver_handle_t):
    for handle in zes.listed(pyzes, "zesDeviceGet", driver, pyzes.zes_device_handle_t):
        setter = IntelSetter(pyzes, handle, "0000:00:00.0")
        bad = setter.set_power_limit(1)
        each = {"limits": setter.limits(), "clocks": setter.clock_range(), "bad": bad.why,
                "found": setter.found()}
        assert setter.set_power_limit(each["limits"][0] + 50) is None
        assert setter.set_clock_range(each["clocks"][0], each["clocks"][1] - 300) is None
        if len(found) == 3:
            assert setter.reset_clocks() is None
        each["limit"] = setter.power_limit_w()
        found[len(found)] = each
print(json.dumps(found))
"""


def answers(script: str, path: Path, vendor: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=libraries.environment(path, [vendor]),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def h200(tmp_path_factory: pytest.TempPathFactory) -> tuple[_sim.Node, Sensors, dict[str, Any]]:
    """The node, what its sensors said, and what the bindings then answered and set."""
    path = tmp_path_factory.mktemp("sim") / "node"
    node = profiles.node("8xH200", path, virtual=True, seed=2)
    node.set_open(True)
    for card in range(8):
        node.set_load(card, 0.2 + 0.1 * card, 0.3, 0.2)
    node.advance(20_000_000_000)
    sensors = [node.sensor(card) for card in range(8)]
    return node, sensors, answers(NVIDIA, path, 1)


def test_pynvml_reads_what_the_simulation_gives_the_loop(
    h200: tuple[_sim.Node, Sensors, dict[str, Any]],
) -> None:
    _, sensors, answered = h200
    for index, found in answered.items():
        sensor = sensors[int(index)]
        assert sensor is not None
        assert found["power"] == sensor["power_instant_mw"]
        assert found["energy"] == sensor["energy_mj"]
        assert found["temperature"] == (sensor["temperature_mc"] + 500) // 1000
        assert found["clock"] == sensor["clock_mhz"]
        assert (found["busy"], found["memory"]) == (
            sensor["busy_percent"],
            sensor["memory_busy_percent"],
        )
        assert found["limit"] == sensor["limit_mw"] / 1000


def test_nvidia_limits_and_clocks_are_set_within_the_cards_range(
    h200: tuple[_sim.Node, Sensors, dict[str, Any]],
) -> None:
    node, _, answered = h200
    for index, found in answered.items():
        truth = node.truth(int(index))
        model, now = truth["model"], truth["now"]
        low, _, high = found["limits"]
        assert (low * 1000, high * 1000) == (model["limit_min_mw"], model["limit_max_mw"])
        assert found["clocks"][1] == model["clock_max_mhz"]
        assert f"the device takes {low:g} to {high:g} W" in found["bad"]
        assert now["limit_mw"] == model["limit_min_mw"] + 50_000
        assert (now["locked_min_mhz"], now["locked_max_mhz"]) == (600, 1200)
        assert found["found"][0][2:] == ["limit_mw", model["limit_default_mw"]]


def test_amd_caps_are_set_within_the_cards_range(tmp_path: Path) -> None:
    node = profiles.node("8xMI300X", tmp_path / "node", seed=2)
    node.set_open(True)
    found = answers(AMD, tmp_path / "node", 2)
    assert len(found) == 8
    for index, each in found.items():
        truth = node.truth(int(index))
        assert truth["now"]["limit_mw"] == truth["model"]["limit_min_mw"] + 50_000
        assert each["limit"] * 1000 == pytest.approx(truth["now"]["limit_mw"])
        assert "the device takes" in each["bad"]
        assert each["found"][0][2:] == ["cap_uw", truth["model"]["limit_default_mw"] * 1000]


def test_intel_limits_and_clocks_are_set_within_the_cards_range(tmp_path: Path) -> None:
    node = profiles.node("4xMax1550", tmp_path / "node", seed=2)
    node.set_open(True)
    node.lock_clocks(3, 1000, 1200)  # an operator's own
    found = answers(INTEL, tmp_path / "node", 3)
    assert len(found) == 4
    for index, each in found.items():
        truth = node.truth(int(index))
        model, now = truth["model"], truth["now"]
        assert now["limit_mw"] == model["limit_min_mw"] + 50_000
        assert each["limit"] * 1000 == pytest.approx(now["limit_mw"])
        operators = index == "3"
        high = 1200 if operators else model["clock_max_mhz"]
        low = 1000 if operators else round(each["clocks"][0])
        assert now["locked_max_mhz"] == (1200 if operators else model["clock_max_mhz"] - 300)
        assert now["locked_min_mhz"] == low
        assert "the device takes" in each["bad"]
        assert [entry[2:] for entry in each["found"]] == [
            ["limit_mw", model["limit_default_mw"]],
            ["clock_max_mhz/0", high],
            ["clock_min_mhz/0", low],
        ]


def test_an_amdgpu_limit_goes_on_record_by_the_cards_own_folder(tmp_path: Path) -> None:
    """The number of its hwmon is another when amdgpu was loaded again."""
    device = tmp_path / "devices" / "0000:03:00.0"
    hwmon = device / "hwmon" / "hwmon4"
    hwmon.mkdir(parents=True)
    (hwmon / "power1_cap").write_text("220000000\n")
    link = tmp_path / "card0"
    link.symlink_to(device)
    setter = SysfsSetter(link / "hwmon" / "hwmon4")
    assert setter.found() == [RecordedSetting("hwmon", str(device), "cap_uw", 220_000_000)]
