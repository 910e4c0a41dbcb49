# SPDX-License-Identifier: Apache-2.0
"""The OpenCL layer switched in running programs: dormant, governed, full; the lease; results."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.probes.kernels.job_trace import JobTrace
from tests.probes.segment_view import BLIND, COUNTED, KERNEL, TIMED, SegmentView

HERE = Path(__file__).parent
TIMEOUT_S = 120
SWITCHES = int(os.environ.get("STOKER_SWITCHES", "100"))
"""A switch waits for a tick of the tracer, 20 ms; a whole node does a thousand of them, in
tests/product/test_switching.py."""
BARRIER, SYNC, USER_EVENT = 32, 33, 34

Compile = Callable[[str], Path]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compile one of the OpenCL programs beside this file."""
    folder = tmp_path_factory.mktemp("opencl_modes")

    def compile_now(name: str) -> Path:
        made = folder / name
        if not made.exists():
            flags = ["-O1", "-Wall", "-Werror", "-Wno-unused-parameter", "-pthread"]
            argv = ["cc", *flags, "-o", made, HERE / f"{name}.c", "-lOpenCL"]
            subprocess.run(argv, check=True)
        return made

    return compile_now


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    folder = tmp_path / "segments"
    folder.mkdir()
    return folder


def environment(folder: Path | None, mode: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OPENCL_", "STOKER_"))}
    if folder is None:
        return clean
    return clean | {
        "OPENCL_LAYERS": str(paths.library("libstoker-opencl.so")),
        "STOKER_TRACE_DIR": str(folder),
        "STOKER_TRACE_MODE": mode,
    }


@contextmanager
def running(folder: Path, mode: str, *argv: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A program that says so once it runs; killed at the end if it is still there."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, env=environment(folder, mode), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            yield process
        finally:
            process.kill()


def run(folder: Path | None, mode: str, *argv: str | Path) -> str:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, env=environment(folder, mode), stdout=pipe, stderr=pipe, text=True
    ) as process:
        return finished(process)


def finished(process: subprocess.Popen[str]) -> str:
    """Its output, once it was told that it is enough."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    return out


def calls(view: SegmentView) -> int:
    return view.counter("launches")


def wait_for_calls(view: SegmentView, more: int) -> None:
    until, goal = time.monotonic() + TIMEOUT_S, calls(view) + more
    while calls(view) < goal:
        assert time.monotonic() < until, "the program makes no more launches that count"
        time.sleep(0.001)


def test_the_tracer_counts_what_the_drivers_stamps_take(
    segments: Path, compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver reads the clock four times for a launch with profiling. What that takes cannot be
    measured inside of a call, and depends on the machine's clock, which is slow here: 2 us."""
    slow = tmp_path / "slow_clock.so"
    argv = ("cc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", slow, HERE / "slow_clock.c")
    subprocess.run(argv, check=True)
    program = compiled("switch_program")
    monkeypatch.setenv("LD_PRELOAD", str(slow))
    with running(segments, "full", program) as process:
        view = SegmentView(segments)
        wait_for_calls(view, 2000)
        each_ns = view.counter("tracer_ns") / calls(view)
        finished(process)
    assert each_ns > 4 * 2000


# --- results --------------------------------------------------------------------------------------


def test_switching_changes_no_result(segments: Path, compiled: Compile) -> None:
    """The program has queues of both orders, shared ones, pending user events, and ends some."""
    program = compiled("switch_program")
    untraced = run(None, "off", program, "60")
    with running(segments, "dormant", program) as process:
        view = SegmentView(segments)
        modes = ("full", "dormant", "governed", "full", "governed", "dormant")
        serial = 0
        until = time.monotonic() + TIMEOUT_S
        while view.switches < SWITCHES:
            assert process.poll() is None and time.monotonic() < until
            serial += 1
            view.want(modes[serial % len(modes)], serial=serial)
            time.sleep(0.02)
        out = finished(process)
    assert out.split() == untraced.split()[1:]
    assert calls(view) > SWITCHES
    assert view.counter("timed") > SWITCHES


@pytest.mark.parametrize("mode", ["dormant", "governed", "full"])
def test_each_mode_alone_changes_no_result(segments: Path, compiled: Compile, mode: str) -> None:
    program = compiled("switch_program")
    assert run(segments, mode, program, "60") == run(None, "off", program, "60")


def test_every_record_that_is_promised_comes(segments: Path, compiled: Compile) -> None:
    """After many switches timed = made + losses, and what was made is folded."""
    store = segments.parent / "store"
    store.mkdir()
    with running(segments, "dormant", compiled("switch_program")) as process:
        view = SegmentView(segments)
        with JobTrace.open(segments, store, "governed") as trace:
            for serial in range(1, 60):
                view.want(("full", "governed", "dormant")[serial % 3], serial=serial)
                time.sleep(0.025)
                trace.drain()
            finished(process)
            launches, timed = calls(view), view.counter("timed")
            summary = trace.finish()
    assert sum(row.count for row in summary.kernels) == launches
    assert summary.records is not None
    waits = sum(row.count for row in summary.events)
    lost = sum(summary.loss[name] for name in ("ring_full", "pending_full", "failed", "unstamped"))
    assert 0 < timed == summary.records.folded - waits + lost
    assert summary.loss["unfinished"] == summary.loss["records_damaged"] == 0


# --- modes and the lease --------------------------------------------------------------------------


def test_dormant_counts_nothing_until_it_is_told(segments: Path, compiled: Compile) -> None:
    with running(segments, "dormant", compiled("opencl_program"), "forever"):
        view = SegmentView(segments)
        time.sleep(0.3)
        assert view.mode == 3
        assert (calls(view), view.counter("timed")) == (0, 0)
        view.want("full", serial=1)
        view.wait_for_mode("full")
        wait_for_calls(view, 1000)
        assert view.counter("timed") > 900
        view.want("dormant", serial=2)
        view.wait_for_mode("dormant")
        time.sleep(0.05)
        before = calls(view)
        time.sleep(0.2)
        assert calls(view) == before


def wait_for_phase(view: SegmentView, phase: int) -> None:
    until = time.monotonic() + TIMEOUT_S
    while view.phase != phase:
        assert time.monotonic() < until, f"the tracer did not come to phase {phase}"
        time.sleep(0.002)


def batch(process: subprocess.Popen[str]) -> None:
    """The program makes one batch of launches."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


@pytest.mark.parametrize("mode", ["full", "governed"])
def test_an_agent_that_comes_late_costs_times_and_no_launch(
    segments: Path, compiled: Compile, mode: str
) -> None:
    """A batch between the end of the lease and the next one: counted, and named as not timed."""
    store = segments.parent / "store"
    store.mkdir()
    with running(segments, mode, compiled("opencl_program"), "batches", "256") as process:
        view = SegmentView(segments)
        with JobTrace.open(segments, store, "full") as trace:
            batch(process)
            view.want(mode, serial=1, lease_s=0.2)
            wait_for_phase(view, COUNTED)
            batch(process)
            view.want(mode, serial=2)
            wait_for_phase(view, TIMED)
            batch(process)
            trace.drain()
            assert process.stdin is not None
            process.stdin.close()
            process.wait(TIMEOUT_S)
            summary = trace.finish()
    (row,) = summary.kernels
    assert (row.count, row.unseen, row.estimate) == (3 * 256, 0, True)
    assert summary.coverage is not None
    assert summary.coverage.dormant_ns == 0 < summary.coverage.counted_ns
    if mode == "full":
        assert summary.loss["untimed"] == 256
        assert row.count == view.counter("timed") + summary.loss["untimed"]


def test_without_a_lease_it_times_nothing_and_is_dormant_later(
    segments: Path, compiled: Compile
) -> None:
    """The job goes on as after kill -9 of the agent, and nothing of it is timed any more."""
    with running(segments, "governed", compiled("opencl_program"), "forever") as process:
        view = SegmentView(segments)
        view.want("full", serial=1, lease_s=1.5)
        view.wait_for_mode("full")
        wait_for_phase(view, COUNTED)
        assert time.monotonic_ns() >= view.lease_ns
        timed = view.counter("timed")
        wait_for_calls(view, 1000)
        assert view.counter("timed") <= timed + 1  # the call that was under way
        view.want("full", serial=1, lease_s=-10)
        view.wait_for_mode("dormant")
        time.sleep(0.05)
        before = calls(view)
        time.sleep(0.2)
        assert calls(view) == before
        view.want("full", serial=2)
        view.wait_for_mode("full")
        wait_for_calls(view, 100)
        assert process.poll() is None


def test_a_wish_that_makes_no_sense_is_dormant(segments: Path, compiled: Compile) -> None:
    with running(segments, "full", compiled("opencl_program"), "forever") as process:
        view = SegmentView(segments)
        fd = os.open(view.path, os.O_WRONLY)
        os.pwrite(fd, b"\xff" * 16, 120)
        os.close(fd)
        view.wait_for_mode("dormant")
        assert process.poll() is None


def test_windows_follow_each_other_and_hold_their_records(
    segments: Path, compiled: Compile
) -> None:
    """Under `governed` a fast program is timed in windows; each record's call lies in one."""
    with running(segments, "dormant", compiled("opencl_program"), "forever"):
        view = SegmentView(segments)
        view.want("governed", serial=1, budget_ppm=1000)
        view.wait_for_mode("governed")
        until = time.monotonic() + TIMEOUT_S
        while sum(window.phase == TIMED for window in view.windows()) < 5:
            assert time.monotonic() < until
            time.sleep(0.02)
        view.want("dormant", serial=2)
        view.wait_for_mode("dormant")
        time.sleep(0.1)
    windows = view.windows()
    assert all(a.to_ns == b.from_ns for a, b in itertools.pairwise(windows))
    assert {window.phase for window in windows} >= {TIMED, BLIND}
    assert all(window.chosen_ns for window in windows if window.phase == COUNTED)
    timed = [(w.from_ns, w.to_ns) for w in windows if w.phase == TIMED]
    launches = [record for record in view.records() if record.kind == KERNEL]
    assert launches
    for record in launches:
        called = record.queued_ns - record.call_before
        # The clock of the stamps was put on this one with an error far below this.
        assert any(start - 1000 <= called < end + 1000 for start, end in timed)


def test_a_slow_program_is_timed_whole_under_governed(segments: Path, compiled: Compile) -> None:
    run(segments, "governed", compiled("opencl_program"), "slow", "40")
    view = SegmentView(segments)
    assert (calls(view), view.counter("timed")) == (40, 40)
    assert {window.phase for window in view.windows()} == {TIMED}


def test_the_cost_of_each_mode_can_be_measured(segments: Path) -> None:
    """SIM: on a driver that does nothing. What it costs is not a matter of a test."""
    program = paths.program("stoker-layer-cost")
    env = environment(segments, "dormant")
    del env["OPENCL_LAYERS"]
    out = subprocess.run(
        [program, paths.library("libstoker-opencl.so")], env=env, check=True, capture_output=True
    ).stdout
    found = json.loads(out)
    assert found.keys() == {
        "driver_ns", "dormant_ns", "blind_ns", "counted_ns", "governed_ns", "full_ns"
    }  # fmt: skip
    assert found["dormant_ns"] is not None
    assert found["full_ns"] is not None


# --- what is recorded -----------------------------------------------------------------------------


def test_waits_barriers_and_user_events_are_recorded(segments: Path, compiled: Compile) -> None:
    run(segments, "full", compiled("opencl_program"), "waits", "3")
    view = SegmentView(segments)
    records = view.records()
    kinds = [record.kind for record in records]
    assert kinds.count(KERNEL) == 3
    assert kinds.count(BARRIER) == 2
    assert kinds.count(USER_EVENT) == 1
    assert kinds.count(SYNC) == 3  # clFinish, clWaitForEvents, a blocking read
    (read,) = [record for record in records if record.kind == 0]
    calls_made = {record.correlation for record in records if record.kind < 32}
    assert len(calls_made) == 4, "a number for each call"
    waits = [record for record in records if record.kind == SYNC]
    assert read.correlation in {record.correlation for record in waits}
    assert {record.correlation for record in waits} <= calls_made | {
        record.correlation for record in records if record.kind == BARRIER
    }
    (gate,) = [record for record in records if record.kind == USER_EVENT]
    assert gate.end_ns - gate.start_ns > 1_000_000
    assert all(record.start_ns <= record.end_ns for record in records)


def test_a_command_that_goes_past_the_layer_pins_the_queues(
    segments: Path, compiled: Compile
) -> None:
    """Functions by address take the application's queue, so all commands go there from then on."""
    out = run(segments, "full", compiled("opencl_program"), "extension", "20")
    if out == "no such extension\n":
        pytest.skip("this OpenCL driver has no cl_khr_command_buffer")
    view = SegmentView(segments)
    assert view.command_buffers >= 1
    assert calls(view) == 40
    assert view.counter("timed") == 20
