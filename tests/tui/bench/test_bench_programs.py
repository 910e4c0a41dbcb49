# SPDX-License-Identifier: Apache-2.0
"""A bench that another program measures is one process, which a signal ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from product_node import wait_until


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("devices", "--seconds", "600"), b"stoker.agent.devices.bench"),
        (("trace", "--rounds", "1000"), b"bench_trace.run"),
    ],
)
def test_a_signal_ends_the_program_that_measures(words: tuple[str, ...], program: bytes) -> None:
    argv = [sys.executable, "-m", "stoker", "bench", *words]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        told = Path(f"/proc/{bench.pid}/cmdline")
        wait_until(lambda: program in told.read_bytes(), "it has become the program")
        bench.terminate()
    assert bench.returncode == -15
