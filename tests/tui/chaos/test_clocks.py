# SPDX-License-Identifier: Apache-2.0
"""A host's date is set for its own processes alone, while they run."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.tui.chaos import clocks
from stoker.tui.demo.network_hosts import Host

SAY = """
import sys, time
for line in sys.stdin:
    real, seen = time.clock_gettime_ns(time.CLOCK_REALTIME), time.time_ns()
    print(real, seen, time.monotonic_ns(), flush=True)
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    date = tmp_path / "date"
    date.write_bytes(struct.pack("=q", 0))
    variables = {"LD_PRELOAD": str(paths.library(clocks.LIBRARY)), "STOKER_SIM_DATE": str(date)}
    return Host("first", "10.0.0.1", tmp_path, "first", "sk1", variables)


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0, 0.25])
def test_the_date_of_a_running_process_is_set_and_no_other_clock(
    host: Host, ahead_s: float
) -> None:
    command = [sys.executable, "-c", SAY]
    with subprocess.Popen(
        command, env={**os.environ, **host.environment}, stdin=-1, stdout=-1, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def ahead() -> list[float]:
            """Return how far its dates and its CLOCK_MONOTONIC are from those here."""
            assert process.stdin is not None and process.stdout is not None
            before = time_of()
            process.stdin.write("\n")
            process.stdin.flush()
            said = [int(word) for word in process.stdout.readline().split()]
            after = time_of()
            bounds = zip(
                said, (*before[:1] * 2, before[1]), (*after[:1] * 2, after[1]), strict=True
            )
            return [0.0 if a <= x <= b else (x - (a if x < a else b)) / 1e9 for x, a, b in bounds]

        assert ahead() == [0, 0, 0]
        clocks.set_date(host, ahead_s)
        real, seen, monotonic = ahead()
        assert monotonic == 0
        for each in (real, seen):
            assert 0 < each / ahead_s <= 1
        clocks.set_date(host, 0.0)
        assert ahead() == [0, 0, 0]
        process.stdin.close()


def time_of() -> tuple[int, int]:
    return time.time_ns(), time.monotonic_ns()


def test_steps_go_both_ways_and_are_bounded() -> None:
    steps = [clocks.step(random.Random(seed)) for seed in range(200)]
    assert min(steps) < -600 and max(steps) > 600
    assert all(0.05 <= abs(each) <= clocks.STEPS_S[-1] for each in steps)
