# SPDX-License-Identifier: Apache-2.0
"""Ring and reader in C under address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """check.c with the whole of native/trace, assertions on."""
    made = tmp_path_factory.mktemp("trace") / "check"
    parts = sorted((ROOT / "native/trace").glob("*/*.c"))
    sources = [str(path) for path in parts]
    sources.append(str(Path(__file__).with_name("check.c")))
    flags = ["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    flags += ["-D_GNU_SOURCE", f"-I{ROOT / 'native'}", "-pthread"]
    argv = ["cc", *flags, *sources, "-o", str(made), "-lm"]
    done = subprocess.run([*argv, *SANITIZERS], capture_output=True, text=True, check=False)
    if "cannot find" in done.stderr and "asan" in done.stderr:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_producer_one_consumer(check: Path) -> None:
    assert run(check, "ring", "0.5").startswith("consumed")


def test_a_killed_producer_leaves_whole_records(check: Path) -> None:
    assert run(check, "killed", "1") == "killed 40\n"


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_in_segments(check: Path, tmp_path: Path, seed: int) -> None:
    assert run(check, "fuzz", tmp_path, str(seed), "400").startswith("fuzzed 400")
