# SPDX-License-Identifier: Apache-2.0
"""The OpenCL layer in real programs on PoCL: exact, unnoticed, harmless where it cannot trace."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.probes.kernels.job_trace import JobTrace, Mode, TraceSummary
from stoker.probes.kernels.tracer_environment import layer_environment

HERE = Path(__file__).parents[1]
TIMEOUT_S = 60


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled opencl_program.c."""
    made = tmp_path_factory.mktemp("opencl") / "program"
    source = HERE / "opencl_program.c"
    argv = [
        "cc",
        "-O1",
        "-Wall",
        "-Werror",
        "-Wno-unused-parameter",
        "-pthread",
        "-o",
        made,
        source,
    ]
    subprocess.run([*argv, "-lOpenCL"], check=True)
    return made


@pytest.fixture(scope="session")
def library() -> Path:
    return paths.library("libstoker-opencl.so")


@dataclass
class Traced:
    """Runs programs under the layer and folds what they leave."""

    library: Path
    folder: Path
    store: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, mode: Mode) -> dict[str, str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OPENCL_", "STOKER_"))}
        return clean | layer_environment(self.library, self.folder, mode) | self.env

    def start(self, *argv: str | Path, mode: Mode = "full") -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            env=self.environment(mode),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *argv: str | Path, mode: Mode = "full") -> str:
        with self.start(*argv, mode=mode) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, err
        return out

    def finish(self, mode: Mode = "full") -> TraceSummary:
        with JobTrace.open(self.folder, self.store, mode) as trace:
            summary = trace.finish()
        counts = summary.records
        assert counts is not None
        assert counts.made == counts.folded + counts.dropped
        assert summary.loss["records_damaged"] == summary.loss["segments_damaged"] == 0
        return summary


@pytest.fixture
def traced(library: Path, tmp_path: Path) -> Traced:
    made = Traced(library, tmp_path / "segments", tmp_path / "store")
    made.folder.mkdir()
    made.store.mkdir()
    return made


@pytest.fixture
def basic(traced: Traced) -> Traced:
    """PoCL's driver without threads of its own, which survives a fork."""
    traced.env["POCL_DEVICES"] = "basic"
    return traced


def counts(summary: TraceSummary) -> dict[str, int]:
    return {row.name: row.count for row in summary.kernels}


def timed(summary: TraceSummary) -> int:
    """Records of launches and copies; the rest are waits, barriers and user events."""
    assert summary.records is not None
    return summary.records.folded - sum(row.count for row in summary.events)


def own_totals(out: str) -> dict[str, dict[str, int]]:
    totals = json.loads(out)
    totals.pop("device")
    return {name: total for name, total in totals.items() if total["count"]}


# --- exact ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("launches", [997, 100_003])
def test_every_launch_is_timed_under_full(traced: Traced, launches: int) -> None:
    demo = paths.program("stoker-demo-opencl")
    own = own_totals(traced.run(demo, "--json", "--launches", str(launches)))
    summary = traced.finish()
    (row,) = summary.kernels
    assert (row.name, row.count, row.estimate) == ("saxpy", launches, False)
    assert row.total_ns == pytest.approx(own["saxpy"]["total_ns"], rel=0.01)
    assert set(summary.loss.values()) == {0}


def test_kernels_and_copies_on_threads_and_queues(traced: Traced) -> None:
    demo = paths.program("stoker-demo-opencl")
    argv = ("--json", "--rounds", "5", "--threads", "3", "--queues", "2", "--elements", "4096")
    own = own_totals(traced.run(demo, *argv))
    summary = traced.finish()
    assert set(summary.loss.values()) == {0}
    rows = {row.name: row for row in (*summary.kernels, *summary.copies)}
    assert rows.keys() == own.keys()
    for name, total in own.items():
        assert rows[name].count == total["count"]
        assert rows[name].total_ns == pytest.approx(total["total_ns"], rel=0.01)
    writes = next(row for row in summary.copies if row.name == "write")
    assert writes.bytes == writes.count * 4096 * 4


def test_counts_are_exact_under_governed(traced: Traced) -> None:
    demo = paths.program("stoker-demo-opencl")
    with JobTrace.open(traced.folder, traced.store, "governed") as trace:
        process = traced.start(demo, "--json", "--launches", "100003", mode="governed")
        while process.poll() is None:
            time.sleep(0.02)
            trace.drain()
        process.communicate()
        summary = trace.finish()
    (row,) = summary.kernels
    assert row.count == 100_003
    assert row.total_ns > 0
    assert summary.records is not None
    assert row.estimate == (summary.records.folded < 100_003)
    assert row.error_ns > 0 or not row.estimate
    assert set(summary.loss.values()) == {0}


def test_few_launches_are_all_timed_under_governed(traced: Traced) -> None:
    demo = paths.program("stoker-demo-opencl")
    own = own_totals(traced.run(demo, "--json", "--rounds", "3", mode="governed"))
    for row in traced.finish("governed").kernels:
        assert not row.estimate
        assert (row.count, row.total_ns) == (own[row.name]["count"], own[row.name]["total_ns"])


def test_a_ring_that_nobody_reads_counts_what_it_drops(traced: Traced, program: Path) -> None:
    traced.run(program, "launch", "140000")
    summary = traced.finish()
    assert counts(summary) == {"alpha": 140_000}
    # The program's one wait is a record as well: it has a place of the ring, or is lost itself.
    lost = summary.loss["ring_full"] + summary.loss["host_lost"]
    assert lost == 140_000 + 1 - (1 << 17)
    assert summary.kernels[0].estimate


def test_times_are_on_the_monotonic_clock(traced: Traced, program: Path) -> None:
    before = time.monotonic_ns()
    with JobTrace.open(traced.folder, traced.store, "full") as trace:
        trace.set_window(before)
        traced.run(program, "launch", "20")
        after = time.monotonic_ns()
        summary = trace.finish(after)
        timeline = traced.store / "timeline"
        trace.write_timeline(timeline)
    (device,) = summary.devices
    assert device.causes.kernel_ns == summary.kernels[0].total_ns
    assert summary.clock is not None
    assert summary.clock.source.startswith("CLOCK_MONOTONIC")
    assert summary.clock.error_ns < 1_000_000
    assert summary.loss["clock_mismatches"] == 0


# --- unnoticed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["off", "governed", "full"])
@pytest.mark.parametrize(
    "what", ["profiling", "properties", "events", "errors", "copies", "handles"]
)
def test_the_application_sees_what_the_specification_says(
    traced: Traced, program: Path, what: str, mode: Mode
) -> None:
    traced.run(program, what, mode=mode)
    if mode != "off":
        assert set(traced.finish(mode).loss.values()) == {0}


def test_copies_of_every_kind_and_their_bytes(traced: Traced, program: Path) -> None:
    traced.run(program, "copies")
    rows = {row.name: (row.count, row.bytes) for row in traced.finish().copies}
    assert rows == {
        "write": (1, 100),
        "read": (2, 200 + 64),
        "copy": (1, 300),
        "fill": (1, 400),
        "map": (1, 500),
        "unmap": (1, 0),
        "migrate": (1, 4096),
    }


def test_refused_calls_do_not_count(traced: Traced, program: Path) -> None:
    traced.run(program, "errors")
    summary = traced.finish()
    assert counts(summary) == {"alpha": 1}
    assert not summary.copies


def test_a_handle_used_again_has_its_new_name(traced: Traced, program: Path) -> None:
    traced.run(program, "kernels", "500")
    assert counts(traced.finish()) == {"alpha": 250, "beta": 250}


def test_a_queue_that_is_held_up_does_not_hold_up_another(traced: Traced, program: Path) -> None:
    traced.run(program, "held-up", "200")
    summary = traced.finish()
    assert counts(summary) == {"alpha": 401}
    assert set(summary.loss.values()) == {0}


# --- threads and processes ------------------------------------------------------------------------


def test_threads_that_end_leave_their_counts(traced: Traced, program: Path) -> None:
    traced.run(program, "serial-threads", "100")
    summary = traced.finish()
    assert counts(summary) == {"alpha": 1000}
    assert set(summary.loss.values()) == {0}


def test_more_threads_than_slots_are_counted_exactly(traced: Traced, program: Path) -> None:
    traced.run(program, "threads", "70")
    summary = traced.finish()
    assert counts(summary) == {"alpha": 700}
    refused = summary.loss["threads_refused"]
    assert refused == 700 - timed(summary)
    assert refused % 10 == 0
    assert refused <= 60


def test_a_forked_child_has_a_segment_of_its_own(basic: Traced, program: Path) -> None:
    basic.run(program, "fork", "10")
    assert len(list(basic.folder.iterdir())) == 2
    summary = basic.finish()
    assert counts(summary) == {"alpha": 14}
    lost = {name: n for name, n in summary.loss.items() if n}
    assert lost == {"untimed": 3}, "the child's, in a queue that its parent made"


def test_a_program_that_is_executed_has_a_segment_of_its_own(traced: Traced, program: Path) -> None:
    traced.run(program, "exec", "10")
    assert sorted(path.name[-6:] for path in traced.folder.iterdir()) == ["-0.seg", "-1.seg"]
    assert counts(traced.finish()) == {"alpha": 15}


def test_a_program_that_closes_every_descriptor(traced: Traced, program: Path) -> None:
    traced.run(program, "close-all", "10")
    assert counts(traced.finish()) == {"alpha": 20}


def test_what_has_finished_is_told_while_the_program_sleeps(traced: Traced, program: Path) -> None:
    with JobTrace.open(traced.folder, traced.store, "full") as trace:
        process = traced.start(program, "sleep", "10")
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asleep\n"
            deadline = time.monotonic() + TIMEOUT_S
            folded = 0
            while folded < 10 and time.monotonic() < deadline:
                time.sleep(0.01)
                folded += trace.drain().records
        finally:
            process.kill()
            process.communicate()
        assert folded == 10
        assert set(trace.finish().loss.values()) == {0}


@pytest.mark.parametrize("mode", ["governed", "full"])
def test_a_job_killed_in_the_middle(traced: Traced, program: Path, mode: Mode) -> None:
    with JobTrace.open(traced.folder, traced.store, mode) as trace:
        for _ in range(3):
            process = traced.start(program, "forever", mode=mode)
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            time.sleep(0.1)
            trace.drain()
            process.send_signal(signal.SIGKILL)
            process.communicate()
        summary = trace.finish()
    assert summary.records is not None
    assert summary.records.made == summary.records.folded > 100
    (row,) = summary.kernels
    in_flight = summary.loss["unfinished"]
    assert in_flight <= 3 * 100
    assert row.count >= timed(summary)
    if mode == "full":
        # A launch is counted before it is timed; each process may have died in between.
        assert 0 <= row.count - timed(summary) - in_flight <= 3
    others = {name: count for name, count in summary.loss.items() if count}
    assert others.keys() <= {"unfinished"}, others
    assert not list(traced.folder.iterdir())


# --- loaders and refusals -------------------------------------------------------------------------

PYOPENCL = """
import numpy as np, pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
program = cl.Program(context, "__kernel void twice(__global float *a) {"
                     " a[get_global_id(0)] *= 2; }").build()
host = np.ones(64, np.float32)
buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
for _ in range(30):
    program.twice(queue, host.shape, None, buffer)
cl.enqueue_copy(queue, host, buffer)
assert host[0] == 2.0 ** 30
print([line.split()[-1] for line in open("/proc/self/maps") if "libOpenCL" in line][0])
"""


def test_the_loader_inside_of_the_pyopencl_wheel(traced: Traced) -> None:
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    vendors = Path("/etc/OpenCL/vendors")
    traced.env |= {"OCL_ICD_VENDORS": str(vendors), "PYOPENCL_NO_CACHE": "1"}
    loader = traced.run(sys.executable, "-W", "ignore", "-c", PYOPENCL).strip()
    assert "pyopencl" in loader, "not the bundled loader"
    summary = traced.finish()
    assert counts(summary) == {"twice": 30}
    assert [(row.name, row.count, row.bytes) for row in summary.copies] == [("read", 1, 256)]
    assert set(summary.loss.values()) == {0}


def test_the_layer_needs_no_loader_of_its_own(library: Path) -> None:
    needed = subprocess.run(
        ["readelf", "-d", library], check=True, capture_output=True, text=True
    ).stdout
    assert re.findall(r"NEEDED.*\[(\S+?)\]", needed) == ["libc.so.6"]


@pytest.mark.parametrize("missing", ["STOKER_TRACE_DIR", "STOKER_TRACE_MODE"])
def test_no_environment_no_trace(traced: Traced, program: Path, missing: str) -> None:
    traced.env[missing] = ""
    traced.run(program, "launch")
    assert not list(traced.folder.iterdir())


def test_a_folder_that_is_not_there(traced: Traced, program: Path) -> None:
    traced.env["STOKER_TRACE_DIR"] = str(traced.folder / "nowhere")
    traced.run(program, "profiling")


def test_files_may_not_grow(traced: Traced, program: Path) -> None:
    """Beyond RLIMIT_FSIZE a write is a signal: the layer must not try."""
    shell = f"ulimit -f 40000; exec {program} launch 10"
    traced.run("/bin/sh", "-c", shell)
    assert not list(traced.folder.iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.getuid():
        pytest.skip("needs root to mount a small tmpfs")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.needs_root
def test_memory_that_runs_out_costs_records_and_not_the_job(
    traced: Traced, program: Path, small_disk: Path
) -> None:
    traced.folder = small_disk
    traced.run(program, "launch", "50000")
    summary = traced.finish()
    assert counts(summary) == {"alpha": 50_000}
    assert summary.records is not None
    assert 0 < summary.records.folded < 50_000
    assert summary.loss["ring_full"] == 50_000 - summary.records.folded


@pytest.mark.needs_root
def test_no_memory_at_all_is_no_trace(traced: Traced, program: Path, small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * (1 << 20))
    traced.folder = small_disk
    traced.run(program, "launch", "100")
    assert [path.name for path in small_disk.iterdir()] == ["filler"]


def test_the_lister_names_devices(program: Path) -> None:
    out = subprocess.run(
        [paths.program("stoker-opencl-list")], check=True, capture_output=True, text=True
    ).stdout
    devices = json.loads(out)
    assert {"id", "index", "platform", "name", "vendor", "version", "driver_version"} | {
        "type", "memory_bytes", "compute_units", "clock_mhz", "available"
    } == set(devices[0])  # fmt: skip
    assert devices[0]["id"] == "pocl-0"
    assert devices[0]["memory_bytes"] > 1 << 20


def test_no_platform_is_an_empty_list() -> None:
    env = {**os.environ, "OCL_ICD_VENDORS": "/nowhere", "OPENCL_VENDOR_PATH": "/nowhere"}
    out = subprocess.run(
        [paths.program("stoker-opencl-list")], env=env, check=True, capture_output=True, text=True
    ).stdout
    assert json.loads(out) == []
