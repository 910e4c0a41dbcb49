# SPDX-License-Identifier: Apache-2.0
"""The driver of tracers: modes, phases, windows, budget and watermark, by a C program.

The adapter of tests/probes/tracer/driver.c does nothing but note what the driver tells it, and the
program chooses the times of the ticks.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("driver") / "driver"
    sources = [HERE / "tracer" / "driver.c", *(ROOT / "probes" / "tracer").glob("*.c")]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-fsanitize=undefined"]
    folders = [f"-I{ROOT / name}" for name in ("native", "probes")]
    subprocess.run(["cc", *flags, *folders, "-pthread", "-o", made, *sources], check=True)
    return made


@pytest.mark.parametrize("case", ["modes", "periods", "followed", "batches"])
def test_the_driver_tells_what_its_adapter_has_applied(
    program: Path, tmp_path: Path, case: str
) -> None:
    env = os.environ | {"STOKER_TRACE_DIR": str(tmp_path), "STOKER_TRACE_MODE": "dormant"}
    done = subprocess.run(
        [program, case], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
