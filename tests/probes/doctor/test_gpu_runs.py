# SPDX-License-Identifier: Apache-2.0
"""The check of a GPU machine, whole, on a simulated driver (SIM); and where there is none."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.native import paths
from tests.probes.cupti_programs import compiled, library


def check(*arguments: str | Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STOKER_")}
    return subprocess.run(
        [sys.executable, "-m", "stoker.probes.doctor.gpu_runs", *map(str, arguments)],
        env=clean | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_without_a_driver_it_says_so_in_one_line() -> None:
    if ctypes.util.find_library("cuda"):
        pytest.skip("this machine has a CUDA driver")
    done = check(env={})
    assert done.returncode == 2
    assert done.stderr.startswith("gpu-check: the NVIDIA driver is not on this machine")
    assert len(done.stderr.splitlines()) == 1


def test_on_a_simulated_driver_every_truth_holds(tmp_path: Path) -> None:
    """Comparisons with a truth pass; performance targets of a simulated device mean nothing."""
    library()
    paths.program("stoker-bench-cuda")
    built = compiled(tmp_path)
    said = tmp_path / "check.json"
    done = check(
        *("--rates", "1000", "--seconds", "0.2", "--rounds", "1", "--switches", "6"),
        *("--json", said),
        env={"LD_LIBRARY_PATH": str(built), "STOKER_CUPTI": str(built / "libcupti.so.13")},
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(said.read_text())
    lines = {line["name"]: line for line in found["lines"]}
    assert "CUDA driver (SIM)" in lines
    targets = {name for name in lines if name.startswith(("1,", "9")) or name == "clock error"}
    wrong = [n for n, line in lines.items() if line["verdict"] == "FAIL" and n not in targets]
    assert wrong == [], done.stdout
    assert lines["kernels of graphs counted"]["verdict"] == "PASS"
    assert lines["batch: trace against CUDA events"]["verdict"] == "PASS"
    assert [point["mode"] for point in found["curve"]] == ["dormant", "governed", "full"]
    assert all(run["dropped"] == 0 for run in found["runs"])
