# SPDX-License-Identifier: Apache-2.0
"""Launches of a real OpenCL program held back: they wait, they go on, and results stay right."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.native.errors import BadRequest
from stoker.probes.kernels.job_trace import HOLD_WHOLE, JobTrace, TracerAnswer

HERE = Path(__file__).parents[1]
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Threads on queues in and out of order, whose results are known and printed as a hash."""
    made = tmp_path_factory.mktemp("hold") / "switch_program"
    flags = ["-O1", "-Wall", "-Werror", "-Wno-unused-parameter", "-pthread"]
    subprocess.run(["cc", *flags, "-o", made, HERE / "switch_program.c", "-lOpenCL"], check=True)
    return made


@pytest.fixture
def held(program: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], JobTrace]]:
    """The program, dormant, and its fold."""
    segments, store = tmp_path / "segments", tmp_path / "store"
    segments.mkdir()
    store.mkdir()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("OPENCL_", "STOKER_"))},
        "OPENCL_LAYERS": str(paths.library("libstoker-opencl.so")),
        "STOKER_TRACE_DIR": str(segments),
        "STOKER_TRACE_MODE": "dormant",
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [program], env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            trace = JobTrace.open(segments, store, "dormant", owner_uid=os.geteuid())
            yield process, trace
            trace.close()
        finally:
            process.kill()


def answer(trace: JobTrace) -> TracerAnswer:
    trace.drain()
    (found,) = trace.answer()
    return found


def wait_until(trace: JobTrace, so: Callable[[TracerAnswer], bool]) -> TracerAnswer:
    until = time.monotonic() + TIMEOUT_S
    while not so(found := answer(trace)):
        assert time.monotonic() < until, found
        time.sleep(0.01)
    return found


def test_launches_wait_and_no_result_changes(
    program: Path, held: tuple[subprocess.Popen[str], JobTrace]
) -> None:
    process, trace = held
    first = answer(trace)
    assert (first.holds, first.hold_share, first.held) == (True, 0, 0)
    trace.hold(HOLD_WHOLE // 4)
    found = wait_until(trace, lambda each: each.held > 50)
    assert found.hold_share == HOLD_WHOLE // 4
    assert found.hold_until_ns > time.monotonic_ns()
    assert found.held_ns > 0
    trace.hold(HOLD_WHOLE)
    assert answer(trace).hold_share == 0
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    alone = subprocess.run([program, "60"], capture_output=True, text=True, check=True).stdout
    assert alone.endswith(out)


def test_a_hold_that_nobody_renews_ends(
    held: tuple[subprocess.Popen[str], JobTrace], tmp_path: Path
) -> None:
    _, trace = held
    trace.drain()
    trace.hold(HOLD_WHOLE // 2)
    found = answer(trace)
    time.sleep(max(found.hold_until_ns - time.monotonic_ns(), 0) / 1e9 + 0.1)  # no drain: dead
    with next((tmp_path / "segments").glob("*.seg")).open("rb") as segment:
        segment.seek(288)
        _, before, _ = (int.from_bytes(segment.read(8), "little") for _ in range(3))
        time.sleep(0.2)
        segment.seek(296)
        assert int.from_bytes(segment.read(8), "little") == before


@pytest.mark.parametrize("share", [0, -1, HOLD_WHOLE + 1])
def test_shares_that_are_none_are_refused(
    held: tuple[subprocess.Popen[str], JobTrace], share: int
) -> None:
    with pytest.raises(BadRequest):
        held[1].hold(share)
