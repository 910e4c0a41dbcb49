# SPDX-License-Identifier: Apache-2.0
"""Placement scores: the same in every build of them, and as a dumb computation has them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "native/core/policy/frag.c", Path(__file__).with_suffix(".c")]
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'native'}"]
SANITIZERS = "-fsanitize=address,undefined"
BUILDS = {
    "gcc": ["gcc", "-O2"],
    "gcc, one variant": ["gcc", "-O2", "-DSK_FRAG_ONE_VARIANT"],
    "clang": ["clang", "-O2"],
    "clang, sanitized": ["clang", "-O1", SANITIZERS, "-fno-sanitize-recover=all"],
}
SEEDS = ("1", "2", "3")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Build -> what each seed printed; every one was checked against the dumb computation."""
    missing = [tool for tool in ("gcc", "clang") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    folder = tmp_path_factory.mktemp("frag")
    printed: dict[str, list[str]] = {}
    for number, (name, (compiler, *flags)) in enumerate(BUILDS.items()):
        program = str(folder / f"frag{number}")
        run(compiler, *flags, *FLAGS, *map(str, SOURCES), "-o", program, "-lm")
        printed[name] = [run(program, seed) for seed in SEEDS]
    return printed


@pytest.mark.parametrize("build", BUILDS)
def test_scores_are_as_computed_dumbly(digests: dict[str, list[str]], build: str) -> None:
    assert all(len(each.strip()) == 16 for each in digests[build])
    assert len(set(digests[build])) == len(SEEDS)


def test_every_build_gives_the_same(digests: dict[str, list[str]]) -> None:
    assert len({tuple(each) for each in digests.values()}) == 1
