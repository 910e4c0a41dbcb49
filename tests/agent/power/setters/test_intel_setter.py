# SPDX-License-Identifier: Apache-2.0
"""An Intel card of two tiles: both are capped, recorded and restored; or the card as a whole.

The loader is a small one of these tests' own (tiles.c): cards of the simulated driver are one tile.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.agent.power.setters import record
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.state import host_facts
from stoker.native.paths import program

ROOT = Path(__file__).parents[4]
LAYOUT = struct.Struct("=4i4d")
ADDRESS = "0000:4d:00.0"
FOUND = LAYOUT.pack(0, 280_000, 260_000, 0, 900, 1000, 1600, 1500)
ACT = """
import json, pyzes
from stoker.agent.devices.intel import zes
from stoker.agent.power.setters.intel_setter import IntelSetter
assert zes.call(pyzes, "zesInit", 0) is None
driver, = zes.listed(pyzes, "zesDriverGet", None, pyzes.zes_driver_handle_t)
handle, = zes.listed(pyzes, "zesDeviceGet", driver, pyzes.zes_device_handle_t)
setter = IntelSetter(pyzes, handle, "0000:4d:00.0")
said = {"found": setter.found(), "limits": setter.limits(), "clocks": setter.clock_range(),
        "before": setter.power_limit_w()}
assert setter.set_power_limit(300) is None
assert "the device takes 200 to 600 W" in setter.set_power_limit(100).why
assert setter.set_clock_range(900, 1200) is None
said["after"] = setter.power_limit_w()
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the loader under the name by which the binding looks for it."""
    made = tmp_path_factory.mktemp("tiles") / "libze_loader.so.1"
    argv = ["cc", "-std=gnu11", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{ROOT / 'native'}"]
    argv += ["-Wl,-soname,/usr/lib/x86_64-linux-gnu/libze_loader.so.1", "-o", str(made)]
    subprocess.run([*argv, str(Path(__file__).with_name("tiles.c"))], check=True)
    return made


def run(loader: Path, state: Path, *argv: str | Path) -> str:
    environment = os.environ | {"LD_PRELOAD": str(loader), "TILES": str(state)}
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def acted(loader: Path, state: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(run(loader, state, sys.executable, "-c", ACT))
    return said


def restored(loader: Path, state: Path, found: list[Any]) -> bytes:
    where = record.path(state.parent)
    record.store(where, host_facts.boot_id(), [RecordedSetting(*each) for each in found])
    run(loader, state, program("stoker-restore"), "--record", where)
    assert not where.exists()
    return state.read_bytes()


def test_both_tiles_are_capped_recorded_and_restored(loader: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_bytes(FOUND)
    said = acted(loader, state)
    assert said["limits"] == [200, 600, 600] and said["clocks"] == [900, 1600, 50]
    assert (said["before"], said["after"]) == (540, 300)
    assert LAYOUT.unpack(state.read_bytes()) == (0, 150_000, 150_000, 0, 900, 900, 1200, 1200)
    assert said["found"] == [
        ["intel", ADDRESS, "limit_mw/0", 280_000],
        ["intel", ADDRESS, "limit_mw/1", 260_000],
        ["intel", ADDRESS, "clock_max_mhz/1", 1600],
        ["intel", ADDRESS, "clock_min_mhz/1", 900],
        ["intel", ADDRESS, "clock_max_mhz/2", 1500],
        ["intel", ADDRESS, "clock_min_mhz/2", 1000],
    ]
    assert restored(loader, state, said["found"]) == FOUND


def test_a_limit_of_the_whole_card_is_the_one_to_set(loader: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    before = LAYOUT.pack(550_000, 280_000, 260_000, 0, 900, 900, 1600, 1600)
    state.write_bytes(before)
    said = acted(loader, state)
    assert said["limits"] == [200, 600, 600]
    assert (said["before"], said["after"]) == (550, 300)
    assert LAYOUT.unpack(state.read_bytes())[:3] == (300_000, 280_000, 260_000)
    assert said["found"][0] == ["intel", ADDRESS, "limit_mw", 550_000]
    assert restored(loader, state, said["found"]) == before
