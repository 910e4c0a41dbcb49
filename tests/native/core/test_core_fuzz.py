# SPDX-License-Identifier: Apache-2.0
"""The core under address and undefined-behaviour sanitizers, fed with torn bytes of every kind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    missing = [tool for tool in ("clang", "clang++", "cmake", "ninja") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    build = tmp_path_factory.mktemp("core-fuzz")
    compilers = ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++"]
    run("cmake", "-S", ".", "-B", str(build), "-G", "Ninja", "-DSTOKER_SANITIZE=ON", *compilers)
    run("ninja", "-C", str(build), "stoker_core_fuzz", "stoker_core_bounds")
    return build / "native" / "core"


@pytest.mark.parametrize("seed", range(6))
def test_torn_input_neither_crashes_nor_corrupts(harness: Path, seed: int) -> None:
    assert "placed" in run(str(harness / "stoker_core_fuzz"), str(seed), "3000")


def test_the_undo_journal_has_room_for_the_dearest_case_of_every_command(harness: Path) -> None:
    lines = run(str(harness / "stoker_core_bounds")).splitlines()
    assert {" ".join(line.split()[:-3]) for line in lines} >= {"node evicted", "gang of 16 placed"}
