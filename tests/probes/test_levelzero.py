# SPDX-License-Identifier: Apache-2.0
"""The Level Zero tracer in programs on a simulated loader (SIM): what it records against the truth.

The loader of tests/probes/levelzero keeps the rules of Level Zero's tracing layer that the tracer
relies on; no Intel device is needed, and none is looked at.
"""

from __future__ import annotations

import time
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.probes.kernels.job_trace import JobTrace
from tests.probes.segment_view import BLIND, COUNTED, KERNEL, TIMED, Record, SegmentView
from tests.probes.simulated import Traced, Truth, compile_pair

HERE = Path(__file__).parent / "levelzero"
COPY, FILL = 2, 3
KINDS = {100: COPY, 101: FILL}
TICK_NS = 80
"""Length of a tick of the simulated device, which is the resolution of its stamps."""
DEVICE = "11111111-1111-1111-1111-1111111111{:02}"


def compiled(folder: Path, *defines: str) -> Path:
    """The simulated loader and a program on it."""
    return compile_pair(HERE, folder, "libze_loader.so.1", *defines)


def tracing(program: Path, folder: Path) -> Traced:
    library = str(paths.library("libstoker-levelzero.so"))
    return Traced(program, folder, {"LD_PRELOAD": library, "ZE_ENABLE_TRACING_LAYER": "1"})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("ze"))


@pytest.fixture
def traced(program: Path, tmp_path: Path) -> Iterator[Traced]:
    folder = tmp_path / "segments"
    folder.mkdir()
    made = tracing(program, folder)
    yield made
    made.close()


def counted(truths: list[Truth]) -> dict[str, int]:
    return dict(Counter(f"kernel_{truth.kernel}" for truth in truths if truth.kernel < 100))


def pairs(view: SegmentView, truths: list[Truth]) -> Iterator[tuple[Record, Truth]]:
    """Devices work in order, so records and truths of one device belong together in order."""
    for number in (0, 1):
        ours = [r for r in view.records() if view.devices()[r.device].id == DEVICE.format(number)]
        theirs = [truth for truth in truths if truth.device == number]
        yield from zip(sorted(ours, key=lambda r: r.start_ns), theirs, strict=True)


def is_exact(view: SegmentView, truths: list[Truth]) -> None:
    """Every launch has a record, and it is the truth within the stated error."""
    error = max(device.error_ns for device in view.devices()) + TICK_NS
    assert view.launches() == counted(truths)
    assert len(view.records()) == len(truths) == view.counter("timed")
    for record, truth in pairs(view, truths):
        assert record.tid == truth.tid
        assert record.kind == KINDS.get(truth.kernel, KERNEL)
        assert record.kind != KERNEL or record.name == f"kernel_{truth.kernel}"
        assert record.bytes == truth.bytes
        assert abs(record.start_ns - truth.start_ns) <= error
        assert abs(record.end_ns - truth.end_ns) <= error + TICK_NS
        assert record.queued_ns <= truth.called_ns <= record.queued_ns + record.call_ns
    assert view.clock_mismatches == view.counter("unstamped") == view.counter("failed") == 0
    assert view.oldest() == 0 and view.command_buffers == 0


def test_launches_of_immediate_lists_get_events_of_ours(traced: Traced) -> None:
    truths = traced.run("immediate", 3, 300, 20_000, 50)
    view = traced.view()
    assert view.tracer == 0x84  # Level Zero, simulated
    is_exact(view, truths)
    assert len({record.correlation for record in view.records()}) == len(truths)


def test_events_of_the_program_are_read_before_it_resets_them(traced: Traced) -> None:
    truths = traced.run("events", 2, 300, 20_000, 0)
    assert all(truth.timed for truth in truths)  # their pool got the flag for stamps
    is_exact(traced.view(), truths)


def test_a_list_is_timed_at_every_execution(traced: Traced) -> None:
    truths = traced.run("list", 2, 60, 5_000, 0)
    view = traced.view()
    is_exact(view, truths)
    assert view.copies() == {COPY: (120, 120 * 32), FILL: (120, 120 * 16)}


def test_events_without_stamps_leave_launches_counted_and_say_so(traced: Traced) -> None:
    truths = traced.run("plain", 2, 100, 5_000, 0)
    view = traced.view()
    assert view.launches() == counted(truths)
    assert view.records() == [] and view.counter("pending_full") == len(truths)


def test_the_fold_takes_it_as_any_trace(traced: Traced, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with JobTrace.open(traced.folder, store, "full") as trace:
        truths = traced.run("immediate", 2, 200, 30_000, 100)
        summary = trace.finish()
    assert {row.name: row.count for row in summary.kernels} == counted(truths)
    busy = sum(truth.end_ns - truth.start_ns for truth in truths if truth.kernel < 100)
    assert abs(sum(row.total_ns for row in summary.kernels) - busy) <= 2 * TICK_NS * len(truths)
    assert {row.name: row.count for row in summary.copies} == {"copy": 2, "fill": 2}


def test_stamps_that_wrap_are_put_where_they_belong(traced: Traced) -> None:
    # 24 bits of 12.5 MHz wrap every 1.3 s; the first time soon after the start.
    traced.env |= {"FAKE_BITS": "24", "FAKE_TICKS": str((1 << 32) - 2_000_000)}
    truths = traced.run("immediate", 1, 300, 20_000, 5_000)
    is_exact(traced.view(), truths)


def test_a_device_clock_that_drifts_is_followed(traced: Traced) -> None:
    traced.env |= {"FAKE_DRIFT_PPB": "40000"}
    truths = traced.run("immediate", 1, 300, 20_000, 8_000)
    view = traced.view()
    (device,) = view.devices()
    # The device gains on us, so we lose on it.
    assert abs(device.drift_ppb + 40_000) < 4_000
    for record, truth in pairs(view, truths):
        # A line is through readings a second apart: what drifts in the first is not known then.
        assert abs(record.start_ns - truth.start_ns) < 40_000 * 1.2 + device.error_ns


def test_dormant_sees_nothing_and_is_there_for_the_agent(traced: Traced) -> None:
    traced.mode = "dormant"
    traced.run("immediate", 2, 100, 5_000, 0)
    view = traced.view()
    assert view.launches() == {} and view.records() == []
    assert {window.phase for window in view.windows()} == {BLIND}


def test_lists_and_events_made_while_dormant_are_traced_later(traced: Traced) -> None:
    traced.mode = "dormant"
    process = traced.start("events", 2, 6_000, 10_000, 100)
    view = traced.view()
    time.sleep(0.2)
    assert view.launches() == {}
    view.want("full", serial=1)
    full_from = view.wait_for_mode("full")
    time.sleep(0.3)
    full_to = time.monotonic_ns()
    view.want("dormant", serial=2)
    view.wait_for_mode("dormant")
    truths = traced.finish(process)
    inside = [truth for truth in truths if full_from < truth.called_ns < full_to]
    starts = sorted(record.start_ns for record in view.records())
    error = max(device.error_ns for device in view.devices()) + TICK_NS
    assert inside and len(inside) <= len(starts) < len(truths)
    expected = sorted(truth.start_ns for truth in inside)
    first = min(range(len(starts)), key=lambda i: abs(starts[i] - expected[0]))
    found = starts[first : first + len(expected)]
    assert all(abs(a - b) <= error for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize(("how", "launches"), [("immediate", 12_000), ("list", 1_500)])
def test_switching_many_times_loses_nothing_and_tells_no_other_time(
    traced: Traced, how: str, launches: int
) -> None:
    process = traced.start(how, 2, launches, 3_000, 50)
    view = traced.view()
    for serial in range(1, 13):
        mode = "dormant" if serial % 2 else "full"
        view.want(mode, serial=serial)
        view.wait_for_mode(mode)
    truths = traced.finish(process)
    records = view.records()
    assert view.switches >= 12
    assert 0 < view.counter("timed") < len(truths)
    assert len(records) + view.counter("unstamped") == view.counter("timed")
    assert len(records) > view.counter("timed") * 0.99
    error = max(device.error_ns for device in view.devices()) + TICK_NS
    starts = sorted(truth.start_ns for truth in truths)
    for record in records:
        place = bisect(starts, record.start_ns + error)
        assert place and record.start_ns - starts[place - 1] <= error


def test_a_list_recorded_while_dormant_is_said_to_be_unseen(traced: Traced) -> None:
    traced.mode = "dormant"
    process = traced.start("list", 1, 4_000, 1_000, 100)
    view = traced.view()
    view.want("full", serial=1)
    view.wait_for_mode("full")
    time.sleep(0.2)
    traced.finish(process)
    assert view.launches() == {} and view.command_buffers > 0


def test_the_end_of_the_lease_is_dormant(traced: Traced) -> None:
    process = traced.start("immediate", 1, 60_000, 1_000, 100)
    view = traced.view()
    asked = time.monotonic_ns()
    view.want("full", serial=1, lease_s=0.3)
    dormant = view.wait_for_mode("dormant")
    process.kill()
    process.wait()
    assert dormant - asked >= 300_000_000


def test_governed_times_some_windows_and_counts_the_rest(traced: Traced) -> None:
    traced.mode = "governed"
    process = traced.start("immediate", 2, 14_000, 3_000, 100)
    view = traced.view()
    view.want("governed", serial=1, budget_ppm=8_000)
    truths = traced.finish(process)
    windows = view.windows()
    assert {TIMED, COUNTED} <= {window.phase for window in windows}
    drawn = [window for window in windows if window.chosen_ns]
    # A tick may be late on a busy machine, and windows end with one.
    assert drawn and all(w.to_ns - w.from_ns < w.chosen_ns + 10**9 for w in drawn)
    # On a busy machine even counting may be too dear for a while, and windows say so.
    blind = [window for window in windows if window.phase == BLIND]
    seen = [t for t in truths if not any(w.from_ns <= t.called_ns < w.to_ns for w in blind)]
    missed = sum(counted(seen).values()) - sum(view.launches().values())
    assert abs(missed) <= 2 * 2 * len(blind)  # launches of two threads at either end of a window
    assert blind or view.launches() == counted(truths)
    assert 0 < len(view.records()) < len(truths)
    assert len(view.records()) + view.counter("ring_full") == view.counter("timed")
    assert all(before.to_ns == after.from_ns for before, after in pairwise(windows))


def test_more_in_flight_than_there_are_events_is_counted(traced: Traced) -> None:
    # They are appended faster than one device does them, and there are 16,384 events of ours.
    truths = traced.run("immediate", 1, 24_000, 150_000, 0)
    view = traced.view()
    assert sum(view.launches().values()) == 24_000
    timed, refused = view.counter("timed"), view.counter("pending_full")
    assert timed + refused == len(truths) and refused > 0
    assert len(view.records()) + view.counter("ring_full") + view.counter("unstamped") == timed


@pytest.mark.parametrize("env", [{"ZE_ENABLE_TRACING_LAYER": "0"}])
def test_without_the_tracing_layer_it_steps_aside(traced: Traced, env: dict[str, str]) -> None:
    traced.env |= env
    truths = traced.run("immediate", 1, 100, 1_000, 0)
    assert len(truths) == 102
    view = traced.view()
    assert view.holder.startswith("no tracing layer") and view.launches() == {}


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("FAKE_WITHOUT_STAMPS", "no zeEventQueryKernelTimestamp"),
        ("FAKE_WITHOUT_CALLBACKS", "the tracing layer does not know a call"),
    ],
)
def test_a_missing_function_is_said_and_the_program_runs_on(
    tmp_path: Path, missing: str, said: str
) -> None:
    program = compiled(tmp_path, f"-D{missing}")
    folder = tmp_path / "segments"
    folder.mkdir()
    traced = tracing(program, folder)
    assert len(traced.run("events", 1, 100, 1_000, 0)) == 100
    view = traced.view()
    assert (view.holder, view.launches(), view.mode) == (said, {}, 3)


def test_an_older_loader_does(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-DFAKE_OLDER")
    folder = tmp_path / "segments"
    folder.mkdir()
    traced = tracing(program, folder)
    truths = traced.run("immediate", 1, 100, 1_000, 0)
    is_exact(traced.view(), truths)


def test_more_threads_than_slots_are_counted_and_said(traced: Traced) -> None:
    truths = traced.run("immediate", 90, 20, 2_000, 2_000)
    view = traced.view()
    assert view.launches() == counted(truths)
    dropped = view.vendor_dropped + view.counter("unstamped")
    assert len(view.records()) + dropped == view.counter("timed") < len(truths)
    assert view.threads_refused > 0 and view.oldest() == 0


def test_a_program_without_level_zero_is_left_alone(traced: Traced) -> None:
    traced.program = Path("/bin/true")
    traced.run()
    assert list(traced.folder.iterdir()) == []


def test_a_process_that_is_not_traced_gets_nothing(traced: Traced) -> None:
    traced.env |= {"STOKER_TRACE_DIR": ""}
    truths = traced.run("immediate", 1, 100, 1_000, 0)
    assert not any(truth.timed for truth in truths)
    assert list(traced.folder.iterdir()) == []
