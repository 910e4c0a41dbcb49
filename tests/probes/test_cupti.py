# SPDX-License-Identifier: Apache-2.0
"""The CUPTI tracer in programs on a simulated driver (SIM): what it records against the truth."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.probes.cupti_programs import IDS, TIMEOUT_S, Cuda, compiled, library
from tests.probes.segment_view import BLIND, KERNEL, TIMED, SegmentView

SAXPY, GEMM = "_Z5saxpyfPfS_", "_Z4gemmPfS_S_i"
READ, WRITE, COPY, FILL, GRAPH, WAIT = 0, 1, 2, 3, 17, 33
CUPTI, SIMULATED = 2, 0x80


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library()
    return compiled(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def cuda(built: Path, tmp_path: Path) -> Iterator[Cuda]:
    yield Cuda(built, tmp_path)


def test_every_kernel_copy_and_wait_is_recorded_once_and_exactly(cuda: Cuda) -> None:
    tid = cuda.run("mixed")["tid"]
    segment = cuda.segment
    assert segment.tracer == CUPTI | SIMULATED
    assert segment.launches() == {SAXPY: 10, GEMM: 5}
    assert segment.copies() == {
        READ: (1, 4096),
        WRITE: (3, 3 << 20),
        COPY: (1, 1 << 19),
        FILL: (1, 4096),
    }
    records = segment.records()
    lengths = Counter((r.kind, r.name, r.end_ns - r.start_ns) for r in records if r.kind < GRAPH)
    assert lengths == {
        (KERNEL, SAXPY, 20_000): 10,
        (KERNEL, GEMM, 100_000): 5,
        (WRITE, "(other)", (1 << 18) + 1): 3,
        (COPY, "(other)", (1 << 17) + 1): 1,
        (READ, "(other)", 1025): 1,
        (FILL, "(other)", 1025): 1,
    }
    assert {r.tid for r in records} == {tid}
    assert len([r for r in records if r.kind == WAIT]) == 4
    assert segment.counter("timed") == 21 and segment.counter("host_lost") == 0
    assert segment.vendor_dropped == segment.unjoined == 0
    assert segment.oldest() == 0


def test_times_lie_between_the_call_and_the_wait_on_the_clock_of_the_host(cuda: Cuda) -> None:
    before = time.monotonic_ns()
    cuda.run("mixed")
    after = time.monotonic_ns()
    segment = cuda.segment
    records = [r for r in segment.records() if r.kind <= KERNEL]
    assert all(before < r.queued_ns <= r.start_ns <= r.end_ns < after for r in records)
    assert all(r.call_ns for r in records)
    (device,) = segment.devices()
    assert (device.id, device.name) == (IDS[0], "SIM GPU 0")
    assert device.clock == "MONOTONIC by CUPTI"
    assert 0 < device.error_ns < 100_000_000
    assert segment.clock_mismatches == 0


def test_the_fold_agrees(cuda: Cuda) -> None:
    cuda.run("mixed")
    summary = cuda.fold()
    assert {(row.name, row.count, row.total_ns, row.estimate) for row in summary.kernels} == {
        (GEMM, 5, 500_000, False),
        (SAXPY, 10, 200_000, False),
    }
    assert {(row.name, row.count, row.bytes) for row in summary.copies} == {
        ("read", 1, 4096),
        ("write", 3, 3 << 20),
        ("copy", 1, 1 << 19),
        ("fill", 1, 4096),
    }
    assert [row.id for row in summary.devices] == [IDS[0]]
    assert summary.records is not None and summary.records.dropped == 0
    assert summary.records.made == summary.records.folded


def test_64_threads_on_two_devices_each_own_what_they_launched(cuda: Cuda) -> None:
    tids = cuda.run("many", "64", "200")["tids"]
    segment = cuda.segment
    kernels = [r for r in segment.records() if r.kind == KERNEL]
    assert Counter(r.tid for r in kernels) == dict.fromkeys(tids, 200)
    assert sum(segment.launches().values()) == 64 * 200
    assert segment.launches() == {SAXPY: 32 * 200, GEMM: 32 * 200}
    devices = [device.id for device in segment.devices()]
    assert sorted(devices) == sorted(IDS)
    assert all((devices[r.device] == IDS[0]) == (r.name == SAXPY) for r in kernels)
    assert len({r.queue for r in kernels}) == 64
    assert segment.vendor_dropped == 0


def test_a_graph_under_full_is_its_kernels(cuda: Cuda) -> None:
    tid = cuda.run("graph", "7", "5")["tid"]
    segment = cuda.segment
    assert segment.launches() == {GEMM: 1, SAXPY: 35}
    kernels = [r for r in segment.records() if r.name == SAXPY]
    assert len(kernels) == 35 and {r.end_ns - r.start_ns for r in kernels} == {10_000}
    assert set(Counter(r.correlation for r in kernels).values()) == {5}
    assert {r.tid for r in kernels} == {tid} and all(r.bytes for r in kernels)
    assert segment.counter("timed") == 36 and segment.oldest() == 0


def test_a_graph_under_governed_is_one(cuda: Cuda) -> None:
    tid = cuda.run("graph", "7", "5", mode="governed")["tid"]
    segment = cuda.segment
    assert segment.launches() == {GEMM: 1, "(graph)": 7}
    graphs = [r for r in segment.records() if r.kind == GRAPH]
    assert len(graphs) == 7 and {r.tid for r in graphs} == {tid}
    assert all(r.end_ns - r.start_ns >= 50_000 for r in graphs)


@pytest.mark.parametrize("mode", ["full", "governed"])
def test_a_launch_of_the_runtime_joins_by_the_runtimes_id(cuda: Cuda, mode: str) -> None:
    tid = cuda.run("runtime", "40", mode=mode)["tid"]
    kernels = [r for r in cuda.segment.records() if r.kind == KERNEL]
    assert len(kernels) == 40 and {r.tid for r in kernels} == {tid}
    assert all(r.call_ns for r in kernels)


def test_a_launch_of_the_runtime_joins_by_the_drivers_id(cuda: Cuda) -> None:
    cuda.env["SIM_CUDA_DRIVER_IDS"] = "1"
    tid = cuda.run("runtime", "4000")["tid"]
    kernels = [r for r in cuda.segment.records() if r.kind == KERNEL]
    assert len(kernels) == 4000 and {r.tid for r in kernels} == {tid}


def test_what_a_thread_of_cupti_has_when_the_program_ends_is_waited_for(cuda: Cuda) -> None:
    """A full buffer is out of CUPTI's hands and not in the tracer's yet: no flush brings it."""
    cuda.env["SIM_CUPTI_WORKER_NS"] = "20000000"
    cuda.run("runtime", "4000")
    assert len([r for r in cuda.segment.records() if r.kind == KERNEL]) == 4000
    assert cuda.segment.oldest() == 0


def test_what_comes_too_late_for_the_end_of_the_program_is_told(cuda: Cuda) -> None:
    cuda.env["SIM_CUPTI_WORKER_NS"] = "9000000000"
    cuda.run("runtime", "12000")
    summary = cuda.fold()
    assert summary.records is not None
    (kernels,), made = summary.kernels, summary.records.made
    assert kernels.count == 12000 and 0 < made < 12000
    assert summary.loss["unfinished"] == 12000 + 1 - made  # one is of a wait


def test_a_record_of_no_call_that_was_seen_is_counted(cuda: Cuda) -> None:
    cuda.env["SIM_CUDA_STRAY"] = "4"
    cuda.run("runtime", "400")
    segment = cuda.segment
    assert len([r for r in segment.records() if r.kind == KERNEL]) == 300
    assert segment.unjoined == 100 and segment.vendor_dropped == 0
    loss = cuda.fold().loss
    assert loss["unjoined"] == loss["unfinished"] == 100


def test_without_buffers_what_is_lost_is_counted(cuda: Cuda) -> None:
    """200 threads want a buffer each, of which there are 128."""
    cuda.run("many", "200", "50")
    segment = cuda.segment
    kernels = [r for r in segment.records() if r.kind == KERNEL]
    waits = [r for r in segment.records() if r.kind == WAIT]
    assert sum(segment.launches().values()) == 200 * 50
    assert len(kernels) + len(waits) + segment.vendor_dropped == 200 * 50 + 200


def test_another_profiler_that_was_first_keeps_its_place(cuda: Cuda) -> None:
    assert cuda.run("profiles", "1") == {"error": 0}
    segment = cuda.segment
    assert segment.holder == "a program"
    assert segment.records() == [] and segment.launches() == {}
    assert segment.mode == 3


def test_a_tool_that_holds_cupti_from_outside_is_named(cuda: Cuda) -> None:
    cuda.env["SIM_CUPTI_HOLDER"] = "Nsight Systems"
    cuda.run("mixed")
    assert cuda.segment.holder == "Nsight Systems"


@pytest.mark.parametrize(("mode", "error"), [("full", 39), ("dormant", 0)])
def test_a_profiler_that_comes_second_gets_the_place_of_a_dormant_tracer(
    cuda: Cuda, mode: str, error: int
) -> None:
    assert cuda.run("profiles", "0", mode=mode) == {"error": error}
    assert cuda.segment.holder == ""


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"SIM_CUPTI_VERSION": "16"}, "(libcupti is older than CUDA 11.6)"),
        ({"SIM_CUPTI_REFUSES": "10"}, "(CUPTI records no kernels: error 35)"),
    ],
)
def test_a_cupti_that_cannot_be_used_is_said(cuda: Cuda, env: dict[str, str], said: str) -> None:
    cuda.env.update(env)
    cuda.run("mixed")
    assert cuda.segment.holder == said
    assert cuda.segment.records() == []


def test_no_cupti_is_said_and_the_program_does_not_notice(cuda: Cuda, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "libcuda.so.1").symlink_to(cuda.built / "libcuda.so.1")
    for version in (".13", ".12", ".11.8", ""):  # this machine may have one of its own
        (alone / f"libcupti.so{version}").write_text("no library")
    cuda.env["LD_LIBRARY_PATH"] = str(alone)
    assert cuda.run("mixed")["value"] == 7
    assert cuda.segment.holder == "(libcupti.so.13 or .12 was not found)"


def test_cupti_is_found_where_the_agent_says(cuda: Cuda, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "libcuda.so.1").symlink_to(cuda.built / "libcuda.so.1")
    cuda.env["LD_LIBRARY_PATH"] = str(alone)
    cuda.env["STOKER_CUPTI"] = str(cuda.built / "libcupti.so.13")
    cuda.run("mixed")
    assert cuda.segment.holder == "" and cuda.segment.launches() == {SAXPY: 10, GEMM: 5}


def test_a_forked_child_that_uses_cuda_has_a_segment_of_its_own(cuda: Cuda) -> None:
    cuda.run("fork")
    summary = cuda.fold()
    assert [(row.name, row.count, row.total_ns) for row in summary.kernels] == [(SAXPY, 8, 8000)]


def test_a_killed_program_leaves_what_was_complete(cuda: Cuda) -> None:
    with cuda.start("die") as process:
        assert process.wait(TIMEOUT_S) == -signal.SIGKILL
    segment = cuda.segment
    assert segment.launches() == {SAXPY: 20, GEMM: 1}
    assert len([r for r in segment.records() if r.kind == KERNEL]) == 20
    (running,) = [segment.oldest()]
    assert running > max(r.end_ns for r in segment.records() if r.kind == KERNEL)


def test_dormant_sees_nothing(cuda: Cuda) -> None:
    cuda.run("mixed", mode="dormant")
    segment = cuda.segment
    assert segment.records() == [] and segment.launches() == {}
    assert {window.phase for window in segment.windows()} == {BLIND}


def test_switching_many_times_changes_nothing_and_counts_what_it_saw(cuda: Cuda) -> None:
    switches = int(os.environ.get("STOKER_SWITCHES", "100"))
    with cuda.start("loop", "500", "3000", mode="dormant") as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "ready\n"
        segment = cuda.segment
        for serial in range(1, switches + 1):
            mode = "full" if serial % 2 else "dormant"
            segment.want(mode, serial=serial)
            segment.wait_for_mode(mode)
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
    assert segment.switches == switches
    kernels = [r for r in segment.records() if r.kind == KERNEL]
    seen = sum(segment.launches().values())
    assert seen > switches / 4 and segment.counter("ring_full") == 0
    assert segment.unjoined == segment.vendor_dropped == 0  # calls outside were not to be seen
    assert len(kernels) == segment.counter("timed") - segment.counter("unstamped") == seen
    assert {r.end_ns - r.start_ns for r in kernels} == {3000}
    within_windows(segment)


def within_windows(segment: SegmentView) -> None:
    """Every record's call lies in a window in which everything was timed."""
    windows = segment.windows()
    first = windows[0].from_ns
    timed = [(w.from_ns, w.to_ns) for w in windows if w.phase == TIMED]
    calls = [r.queued_ns for r in segment.records() if r.kind == KERNEL and r.queued_ns >= first]
    slack = 100_000_000  # a call may be entered before a switch and be looked at after it
    assert [at for at in calls if not any(a - slack <= at <= b + slack for a, b in timed)] == []


def test_the_tracer_is_dormant_when_the_lease_ends(cuda: Cuda) -> None:
    with cuda.start("loop", "1000", "3000", mode="full") as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        segment = cuda.segment
        segment.want("full", serial=1, lease_s=0.5)
        assert segment.wait_for_mode("dormant") >= segment.lease_ns
        seen = sum(segment.launches().values())
        time.sleep(0.3)
        assert sum(segment.launches().values()) == seen
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0


def test_governed_looks_in_windows_when_looking_is_dear(cuda: Cuda) -> None:
    """At will, a hundred thousand launches a second are far beyond what 0.1 % pays for."""
    with cuda.start("loop", "0", "100", mode="governed") as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        segment = cuda.segment
        segment.want("governed", serial=1, budget_ppm=1000)
        time.sleep(3)
        process.stdin.close()
        assert process.wait(TIMEOUT_S) == 0
    windows = segment.windows()
    total = windows[-1].to_ns - windows[0].from_ns
    timed = sum(w.to_ns - w.from_ns for w in windows if w.phase == TIMED)
    assert timed < total / 2
    assert any(w.chosen_ns for w in windows)
    assert [r.name for r in segment.records()].count(SAXPY) > 100


def test_governed_times_everything_that_is_cheap(cuda: Cuda) -> None:
    with cuda.start("loop", "200", "3000", mode="governed") as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        time.sleep(1.5)
        process.stdin.close()
        out = process.stdout.read()
        assert process.wait(TIMEOUT_S) == 0
    made = int(out.split(":")[1].strip(" }\n"))
    segment = cuda.segment
    assert segment.launches() == {SAXPY: made}
    assert len([r for r in segment.records() if r.kind == KERNEL]) == made
