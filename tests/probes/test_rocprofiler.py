# SPDX-License-Identifier: Apache-2.0
"""The rocprofiler tracer in programs on a simulated ROCm (SIM): what it records against the truth.

The runtime of tests/probes/rocprofiler keeps the rules of rocprofiler-sdk 1.x that the tracer
relies on; no AMD device is needed, and none is looked at.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.probes.kernels.job_trace import JobTrace, Mode
from tests.probes.segment_view import BLIND, COUNTED, KERNEL, TIMED
from tests.probes.simulated import Traced, Truth, compile_pair

HERE = Path(__file__).parent / "rocprofiler"
NAMES = ("saxpy", "_Z6reducePf", "idle")
READ, WRITE = 0, 1


def compiled(folder: Path, *defines: str) -> Path:
    """The simulated runtime and a program on it."""
    return compile_pair(HERE, folder, "librocprofiler-sdk.so.1", *defines)


def tracing(program: Path, folder: Path) -> Traced:
    library = str(paths.library("libstoker-rocprofiler.so"))
    return Traced(program, folder, {"ROCP_TOOL_LIBRARIES": library})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("rocm"))


@pytest.fixture
def traced(program: Path, tmp_path: Path) -> Iterator[Traced]:
    folder = tmp_path / "segments"
    folder.mkdir()
    made = tracing(program, folder)
    yield made
    made.close()


def counted(truths: list[Truth]) -> dict[str, int]:
    return dict(Counter(NAMES[truth.kernel] for truth in truths if truth.kernel < 100))


def name_and_kind(truth: Truth) -> tuple[str, int]:
    if truth.kernel < 100:
        return NAMES[truth.kernel], KERNEL
    return "(other)", {102: WRITE, 103: READ}[truth.kernel]


def test_every_launch_and_copy_is_recorded_with_its_thread_device_and_times(traced: Traced) -> None:
    truths = traced.run(4, 300, 20_000, 50, 6)
    view = traced.view()
    error = max(device.error_ns for device in view.devices())
    assert view.tracer == 0x83  # rocprofiler, simulated
    assert view.launches() == counted(truths)
    wrote = [truth.bytes for truth in truths if truth.kernel == 102]
    assert view.copies()[WRITE] == (len(wrote), sum(wrote))
    records = view.records()
    assert len(records) == len(truths) == view.counter("timed") == 4 * 306
    # Stamps of one device rise in the truth and in the records: so they belong to each other.
    for device in (0, 1):
        ours = [r for r in records if view.devices()[r.device].id == f"amd-{device}"]
        theirs = [t for t in truths if t.device == device]
        for record, truth in zip(sorted(ours, key=lambda r: r.start_ns), theirs, strict=True):
            assert record.tid == truth.tid
            assert (record.name, record.kind) == name_and_kind(truth)
            assert record.bytes == truth.bytes
            assert abs(record.start_ns - truth.start_ns) <= error + 1
            assert abs(record.end_ns - truth.end_ns) <= error + 1
            assert truth.called_ns <= record.queued_ns <= record.start_ns + error
    assert len({record.correlation for record in records}) == len(records)
    assert view.clock_mismatches == view.vendor_dropped == view.counter("unstamped") == 0
    assert view.oldest() == 0


def test_the_fold_takes_it_as_any_trace(traced: Traced, tmp_path: Path) -> None:
    mode: Mode = "full"
    store = tmp_path / "store"
    store.mkdir()
    with JobTrace.open(traced.folder, store, mode) as trace:
        truths = traced.run(2, 200, 30_000, 100, 4)
        summary = trace.finish()
    assert {row.name: row.count for row in summary.kernels} == counted(truths)
    busy = sum(truth.end_ns - truth.start_ns for truth in truths if truth.kernel < 100)
    # Both stamps of a kernel are placed to a nanosecond.
    assert abs(sum(row.total_ns for row in summary.kernels) - busy) <= 2 * len(truths)
    assert {device.id for device in summary.devices} == {"amd-0", "amd-1"}
    assert summary.records is not None and summary.records.folded == len(truths)


@pytest.mark.parametrize(
    ("told", "ids"),
    [
        ("128=17ff74a1,129=c2ff74a1", ("17ff74a1", "c2ff74a1")),
        ("129=c2ff74a1", ("amd-0", "c2ff74a1")),
        ("12=a,,129=,=,128=b", ("amd-0", "amd-1")),
        ("128=" + 64 * "x" + ",129=c2ff74a1", ("amd-0", "c2ff74a1")),
    ],
)
def test_a_device_has_the_id_that_the_node_tells_for_its_render_node(
    traced: Traced, told: str, ids: tuple[str, str]
) -> None:
    traced.env |= {"STOKER_RENDER_NODES": told}
    traced.run(2, 3, 1000, 0)
    assert tuple(sorted(device.id for device in traced.view().devices())) == tuple(sorted(ids))


def test_a_clock_that_is_off_and_drifts_is_found_and_said(traced: Traced) -> None:
    traced.env |= {"FAKE_SKEW_NS": "5000000000", "FAKE_DRIFT_PPB": "-30000"}
    truths = traced.run(1, 300, 20_000, 10_000)
    view = traced.view()
    (device,) = view.devices()
    assert device.clock == "rocprofiler"  # none of the system's
    assert abs(device.offset_ns + 5_000_000_000) < 1_000_000
    assert abs(device.drift_ppb - 30_000) < 3_000
    # A line is through readings a second apart: what drifts in the first one is not known then.
    records = sorted(view.records(), key=lambda record: record.start_ns)
    for record, truth in zip(records, truths, strict=True):
        assert abs(record.start_ns - truth.start_ns) < 30_000 * 1.2 + device.error_ns


def test_dormant_sees_nothing_and_is_there_for_the_agent(traced: Traced) -> None:
    traced.mode = "dormant"
    truths = traced.run(2, 200, 10_000, 0, 5)
    view = traced.view()
    assert [truth.timed for truth in truths] == [0] * 410
    assert view.launches() == {} and view.copies() == {} and view.records() == []
    assert {window.phase for window in view.windows()} == {BLIND}


def test_modes_are_switched_in_a_running_program_and_windows_tell(traced: Traced) -> None:
    traced.mode = "dormant"
    process = traced.start(2, 20_000, 5_000, 100)
    view = traced.view()
    view.want("full", serial=1)
    full_from = view.wait_for_mode("full")
    time.sleep(0.3)
    full_to = time.monotonic_ns()
    view.want("dormant", serial=2)
    view.wait_for_mode("dormant")
    time.sleep(0.2)
    process.send_signal(signal.SIGSTOP)  # both look at the same moment
    seen = len(view.records())
    process.send_signal(signal.SIGCONT)
    truths = traced.finish(process)
    records = view.records()
    assert 0 < seen == len(records) == sum(truth.timed for truth in truths)
    inside = [truth for truth in truths if full_from < truth.called_ns < full_to]
    assert inside and all(truth.timed for truth in inside)
    timed = [window for window in view.windows() if window.phase == TIMED]
    assert len(timed) == 1
    # Every launch that began in the window has its record.
    in_window = [t for t in truths if timed[0].from_ns <= t.called_ns < timed[0].to_ns]
    starts = {(record.tid, record.name) for record in records}
    assert (
        len(in_window) <= len(records) and {(t.tid, NAMES[t.kernel]) for t in in_window} <= starts
    )


def test_switching_many_times_loses_nothing(traced: Traced) -> None:
    process = traced.start(2, 12_000, 2_000, 50)
    view = traced.view()
    for serial in range(1, 13):
        mode = "dormant" if serial % 2 else "full"
        view.want(mode, serial=serial)
        view.wait_for_mode(mode)
    truths = traced.finish(process)
    assert view.switches >= 12
    assert len(view.records()) == sum(truth.timed for truth in truths)
    assert view.counter("timed") == len(view.records())


def test_the_end_of_the_lease_is_dormant(traced: Traced) -> None:
    process = traced.start(1, 30_000, 1_000, 100)
    view = traced.view()
    asked = time.monotonic_ns()
    view.want("full", serial=1, lease_s=0.3)
    dormant = view.wait_for_mode("dormant")
    process.kill()
    process.wait()
    assert dormant - asked >= 300_000_000


def test_governed_times_some_windows_and_counts_the_rest(traced: Traced) -> None:
    traced.mode = "governed"
    process = traced.start(2, 14_000, 3_000, 100)
    view = traced.view()
    view.want("governed", serial=1, budget_ppm=20_000)
    truths = traced.finish(process)
    windows = view.windows()
    assert {TIMED, COUNTED} <= {window.phase for window in windows}
    drawn = [window for window in windows if window.chosen_ns]
    # A tick may be late on a busy machine, and windows end with one.
    assert drawn and all(w.to_ns - w.from_ns < w.chosen_ns + 10**9 for w in drawn)
    assert view.launches() == counted(truths)  # counted in every window
    recorded = len(view.records()) + view.counter("ring_full")  # nobody reads the ring
    assert 0 < recorded == sum(truth.timed for truth in truths) < len(truths)
    assert all(before.to_ns == after.from_ns for before, after in itertools.pairwise(windows))


def test_where_counting_is_too_dear_it_is_left_out_and_said(traced: Traced) -> None:
    traced.mode = "governed"
    process = traced.start(2, 14_000, 3_000, 100)
    view = traced.view()
    view.want("governed", serial=1, budget_ppm=100)
    truths = traced.finish(process)
    blind = [window for window in view.windows() if window.phase == BLIND]
    assert blind and sum(view.launches().values()) < len(truths)
    # A launch that was not counted was made while the segment says that nothing was seen.
    seen = sum(not any(w.from_ns <= truth.called_ns < w.to_ns for w in blind) for truth in truths)
    assert abs(sum(view.launches().values()) - seen) <= 2 * 2 * len(blind)


def test_what_the_profiler_drops_is_counted_and_nobody_waits_for_it(traced: Traced) -> None:
    traced.env |= {"FAKE_HOLD": "1", "FAKE_BUFFER_RECORDS": "100"}
    truths = traced.run(1, 500, 1_000, 0)
    view = traced.view()
    assert view.launches() == counted(truths)
    assert view.counter("timed") == 500
    assert len(view.records()) == 100
    assert view.vendor_dropped == 400
    assert view.oldest() == 0


def test_a_full_ring_is_counted(traced: Traced) -> None:
    traced.mode = "governed"  # small rings
    process = traced.start(1, 40_000, 100, 0)
    view = traced.view()
    view.want("full", serial=1)
    truths = traced.finish(process)
    records, full = len(view.records()), view.counter("ring_full")
    assert records == 1 << 14
    assert records + full + view.counter("pending_full") + view.vendor_dropped == sum(
        truth.timed for truth in truths
    )
    assert view.launches()["saxpy"] > records


def test_more_threads_than_slots_are_counted_and_said(traced: Traced) -> None:
    truths = traced.run(90, 20, 2_000, 2_000)
    view = traced.view()
    assert view.launches() == counted(truths)
    assert len(view.records()) + view.vendor_dropped == view.counter("timed") < len(truths)
    assert view.threads_refused > 0 and view.oldest() == 0


def test_a_missing_function_is_said_and_the_program_runs_on(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-DFAKE_WITHOUT_EXTERNAL")
    folder = tmp_path / "segments"
    folder.mkdir()
    traced = tracing(program, folder)
    truths = traced.run(1, 100, 1_000, 0)
    assert [truth.timed for truth in truths] == [0] * 100
    view = traced.view()
    assert view.holder.startswith("no rocprofiler_configure_external_correlation_id")
    assert (view.launches(), view.mode) == ({}, 3)


def test_a_library_that_is_too_old_is_said(traced: Traced) -> None:
    traced.env |= {"FAKE_VERSION": "503"}
    truths = traced.run(1, 100, 1_000, 0)
    assert len(truths) == 100
    assert traced.view().holder == "rocprofiler-sdk 0.5 is older than 1.0"


def test_a_process_that_is_not_traced_gets_nothing(traced: Traced) -> None:
    traced.env |= {"STOKER_TRACE_DIR": ""}
    truths = traced.run(1, 100, 1_000, 0)
    assert [truth.timed for truth in truths] == [0] * 100
    assert list(traced.folder.iterdir()) == []


def test_killed_at_any_time_the_records_so_far_are_whole(traced: Traced) -> None:
    process = traced.start(2, 30_000, 2_000, 50)
    view = traced.view()
    time.sleep(0.4)
    process.kill()
    process.wait()
    records = view.records()
    assert records and all(record.end_ns - record.start_ns == 2_000 for record in records[:-1])
