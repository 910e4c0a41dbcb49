# SPDX-License-Identifier: Apache-2.0
"""A thread's own reading of CLOCK_MONOTONIC: never back, and never far from the clock.

The C program tests/probes/tracer/thread_clock.c reads simulated counters and the real one.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROBES = HERE.parents[1] / "probes"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("thread_clock") / "thread_clock"
    sources = [HERE / "tracer" / "thread_clock.c", PROBES / "tracer" / "thread_clock.c"]
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"]
    flags += ["-fsanitize=undefined", f"-I{PROBES}"]
    subprocess.run(["cc", *flags, "-o", made, *sources], check=True)
    return made


def test_readings_follow_any_clock_and_counter(program: Path) -> None:
    """1,000 simulated machines, half of them with counters that jump and change their rate."""
    done = subprocess.run([program, "simulated"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_readings_follow_this_machines_clock(program: Path) -> None:
    done = subprocess.run([program, "real"], capture_output=True, text=True, check=False)
    if done.stdout == "absent\n":
        pytest.skip("the kernel of this machine does not keep time by the CPU's counter")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
