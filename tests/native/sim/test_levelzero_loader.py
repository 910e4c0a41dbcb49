# SPDX-License-Identifier: Apache-2.0
"""The distribution's own Level Zero loader with the simulated driver, called by a C program."""

from __future__ import annotations

import os
import subprocess
from ctypes.util import find_library
from pathlib import Path

import pytest
from spawned import compile_c

from stoker.native.paths import library
from stoker.probes.simdriver import profiles

SOURCE = Path(__file__).with_name("levelzero_caller.c")
UNSUPPORTED, UNINITIALIZED = "error 78000003", "error 78000001"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not find_library("ze_loader") or not Path("/usr/include/level_zero/ze_api.h").exists():
        pytest.skip("libze-dev is not installed: there is no real loader to try")
    return compile_c(tmp_path_factory.mktemp("ze") / "caller", str(SOURCE), "-lze_loader")


def run(program: Path, node: Path, **environment: str) -> dict[str, str]:
    driver = str(library("sim/levelzero/libze_stoker.so.1"))
    told = {"ZE_ENABLE_ALT_DRIVERS": driver, "STOKER_SIM_NODE": str(node)} | environment
    done = subprocess.run(
        [program], env=os.environ | told, capture_output=True, text=True, check=False, timeout=60
    )
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_the_real_loader_takes_the_driver(program: Path, tmp_path: Path) -> None:
    node = profiles.node("4xMax1550", tmp_path / "node", virtual=True)
    node.set_load(3, 1.0, 0.5, 0.1)
    node.advance(3_000_000_000)
    sensor = node.sensor(3)
    assert sensor is not None
    assert run(program, tmp_path / "node", ZES_ENABLE_SYSMAN="1") == {
        "init": "0",
        "drivers": "1",
        "devices": "4",
        "name": node.truth(3)["model"]["name"],
        "context": UNSUPPORTED,
        "domains": "1",
        "energy": str(sensor["energy_mj"] * 1000),
        "celsius": str(sensor["temperature_mc"] // 1000),
        "fans": "0",
        "diagnostics": UNSUPPORTED,
    }
    assert node.calls()["zeContextCreate"] == (1, 1)


def test_sysman_has_to_be_asked_for(program: Path, tmp_path: Path) -> None:
    profiles.node("4xMax1550", tmp_path / "node", virtual=True)
    said = run(program, tmp_path / "node", ZES_ENABLE_SYSMAN="0")
    assert (said["devices"], said["domains"]) == ("4", UNINITIALIZED)


def test_a_node_without_such_cards_has_no_driver(program: Path, tmp_path: Path) -> None:
    profiles.node("4xL40S", tmp_path / "node", virtual=True)
    assert run(program, tmp_path / "node") == {"init": UNINITIALIZED}
