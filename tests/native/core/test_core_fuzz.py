# SPDX-License-Identifier: Apache-2.0
"""The core under address and undefined-behaviour sanitizers, fed with torn bytes of every kind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.rounds import rounds

ROOT = Path(__file__).parents[3]
TARGETS = ("fuzz", "bounds", "libfuzzer")


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
    options = ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++", "-DSTOKER_SANITIZE=ON"]
    options += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-gline-tables-only"]
    run("cmake", "-S", ".", "-B", str(build), "-G", "Ninja", *options)
    run("ninja", "-C", str(build), *(f"stoker_core_{what}" for what in TARGETS))
    return build / "native" / "core"


@pytest.mark.rounds
@pytest.mark.parametrize("seed", range(1, 1 + rounds(1, 60)))
def test_torn_input_neither_crashes_nor_corrupts(harness: Path, seed: int) -> None:
    assert "placed" in run(str(harness / "stoker_core_fuzz"), str(seed), str(rounds(1000, 3000)))


def test_the_undo_journal_has_room_for_the_worst_case_of_every_command(harness: Path) -> None:
    lines = run(str(harness / "stoker_core_bounds")).splitlines()
    assert {" ".join(line.split()[:-3]) for line in lines} >= {"node evicted", "gang of 16 placed"}


@pytest.mark.rounds
def test_guided_bytes_neither_crash_nor_corrupt(harness: Path, tmp_path: Path) -> None:
    fuzzer, corpus = harness / "stoker_core_libfuzzer", f"-artifact_prefix={tmp_path}/"
    run(
        str(fuzzer),
        "-seed=3",
        f"-runs={rounds(1000, 50_000)}",
        "-max_len=40000",
        "-verbosity=0",
        corpus,
    )
