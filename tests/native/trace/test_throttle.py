# SPDX-License-Identifier: Apache-2.0
"""The launch throttle of a segment: what it lets in and when, and that it can do no more.

All of it in C, in a program that is linked to the tracer: tests/native/trace/throttle.c.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("throttle") / "throttle"
    tracer = [*(ROOT / "probes" / "tracer").glob("*.c")]
    flags = [
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-O1",
        "-Wall",
        "-Werror",
        "-fsanitize=undefined",
        "-pthread",
    ]
    folders = [f"-I{ROOT / name}" for name in ("native", "probes")]
    subprocess.run(
        ["cc", *flags, *folders, "-o", made, HERE / "throttle.c", *tracer, "-lm"], check=True
    )
    return made


@pytest.mark.parametrize("case", ["words", "half", "watched", "gone", "hostile"])
def test_launches_are_held_by_a_word_and_no_longer(
    program: Path, tmp_path: Path, case: str
) -> None:
    mode = "full" if case == "watched" else "dormant"
    environment = {**os.environ, "STOKER_TRACE_DIR": str(tmp_path), "STOKER_TRACE_MODE": mode}
    done = subprocess.run(
        [program, case], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
