# SPDX-License-Identifier: Apache-2.0
"""Modes and windows: what tracers are told, what was seen, and estimates of what was not."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from stoker.native import errors
from stoker.probes.kernels.job_trace import JobTrace, TraceSummary
from tests.probes.segment_file import (
    AT,
    BARRIER,
    BLIND,
    COUNTED,
    DORMANT,
    FULL,
    GOVERNED,
    KERNEL,
    NO_DEVICE,
    SYNC,
    TIMED,
    SegmentFile,
    record,
)

SPAN = struct.Struct("<QQIHH")
NOBODY = 1 << 30
MS = 1_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "segments"
    made.mkdir()
    return made


@pytest.fixture
def trace(folder: Path, tmp_path: Path) -> Iterator[JobTrace]:
    store = tmp_path / "store"
    store.mkdir()
    with JobTrace.open(folder, store, "governed", devices=["pocl-0"]) as opened:
        yield opened


def now() -> int:
    return time.monotonic_ns()


def check(summary: TraceSummary) -> None:
    """Checks the properties of every summary."""
    counts = summary.records
    assert counts is not None
    assert counts.made == counts.folded + counts.dropped
    for device in summary.devices:
        assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns
        assert device.window_ns == summary.window.to_ns - summary.window.from_ns


# --- telling tracers ------------------------------------------------------------------------------


def test_tracers_are_told_at_once_and_again(trace: JobTrace, folder: Path) -> None:
    first = SegmentFile(folder)
    trace.drain()
    assert first.control() == (0, 0)
    before = now()
    trace.control("full", 20_000, 3_000 * MS)
    wanted, lease = first.control()
    assert (wanted & 0xFF, wanted >> 8 & 0xFFFFFF) == (FULL, 20_000)
    assert before + 3_000 * MS <= lease <= now() + 3_000 * MS
    second = SegmentFile(folder, number=1)
    trace.drain()
    assert second.control()[0] == wanted
    assert first.control() == (wanted, lease), "the lease has hardly begun"
    trace.control("full", 20_000, 3_000 * MS)
    assert first.control()[0] == wanted, "the same again is no new wish"
    trace.control("dormant", 20_000, 3_000 * MS)
    assert first.control()[0] & 0xFF == DORMANT
    assert first.control()[0] >> 32 == (wanted >> 32) + 1


def test_a_lease_that_ran_out_is_counted(trace: JobTrace, folder: Path, tmp_path: Path) -> None:
    """Also by the next agent: the tracer was silent until it came."""
    segment = SegmentFile(folder)
    trace.drain()
    trace.control("full", 10_000, 1 * MS)
    trace.control("full", 10_000, 3_000 * MS)
    time.sleep(0.01)
    trace.drain()
    assert trace.summary().loss["leases_lapsed"] == 0
    trace.control("governed", 10_000, 1 * MS)
    time.sleep(0.01)
    trace.drain()
    assert trace.summary().loss["leases_lapsed"] == 1
    time.sleep(0.01)
    trace.close()
    with JobTrace.open(folder, tmp_path / "store", "full") as again:
        again.control("full", 10_000, 3_000 * MS)
        again.drain()
        again.drain()
        assert again.summary().loss["leases_lapsed"] == 2
        assert segment.control()[1] > now()


def test_what_a_job_writes_for_the_agent_is_counted_and_written_again(
    trace: JobTrace, folder: Path
) -> None:
    segment = SegmentFile(folder)
    trace.drain()
    trace.control("governed", 10_000, 3_000 * MS)
    trace.drain()
    told = segment.control()
    assert trace.summary().loss["control_changed"] == 0
    segment.put(120, struct.pack("<QQ", DORMANT | 7 << 32, now() + 3_600_000 * MS))
    trace.drain()
    assert trace.summary().loss["control_changed"] == 1
    wanted, lease = segment.control()
    assert wanted == told[0] and lease <= now() + 3_000 * MS
    trace.drain()
    assert trace.summary().loss["control_changed"] == 1


def test_the_lease_is_renewed_by_drains(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    trace.drain()
    trace.control("governed", 10_000, 30 * MS)
    wanted, lease = segment.control()
    time.sleep(0.015)
    trace.drain()
    again, longer = segment.control()
    assert again == wanted
    assert longer >= lease + 10 * MS


def test_a_process_that_has_ended_is_told_nothing(trace: JobTrace, folder: Path) -> None:
    trace.control("full", 10_000, 1_000 * MS)
    SegmentFile(folder, pid=NOBODY)
    trace.drain()
    assert trace.answer() == ()


@pytest.mark.parametrize("wish", [("off", 1, 1), ("full", 1, 0), ("full", 1 << 24, 1)])
def test_what_no_tracer_can_be_told_is_refused(trace: JobTrace, wish: tuple[str, int, int]) -> None:
    with pytest.raises(errors.BadRequest):
        trace.control(*wish)  # type: ignore[arg-type]


def test_tracers_answer(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.put(116, struct.pack("<I", 0x82))
    trace.drain()
    (answer,) = trace.answer()
    assert answer.wanted is None
    trace.control("governed", 5_000, 1_000 * MS)
    segment.open_window(now(), FULL, TIMED)
    trace.drain()
    (answer,) = trace.answer()
    assert (answer.mode, answer.settled, answer.wanted) == ("full", False, "governed")
    segment.open_window(now(), GOVERNED, COUNTED, applied=segment.control()[0])
    segment.put(AT["answer"] + 24, struct.pack("<QQQ", 7, 2, 1))
    trace.drain()
    (answer,) = trace.answer()
    assert (answer.mode, answer.settled, answer.budget_ppm) == ("governed", True, 5_000)
    assert (answer.phase, answer.switches, answer.switches_late, answer.pinned) == (
        "counted", 7, 2, 1,
    )  # fmt: skip
    assert (answer.tracer, answer.simulated, answer.stepped_aside) == ("cupti", True, False)


def test_a_tracer_that_stepped_aside_says_for_whom(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.put(AT["vendor"] + 16, struct.pack("<I", 1) + b"nsys 2026")
    trace.drain()
    (answer,) = trace.answer()
    assert (answer.stepped_aside, answer.holder) == (True, "nsys 2026")


# --- what was seen --------------------------------------------------------------------------------


def test_time_is_covered_by_windows_without_a_gap(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder, pid=NOBODY)
    segment.put(24, struct.pack("<Q", start))
    segment.close_window(start, start + 10 * MS, TIMED, 100 * MS)
    segment.close_window(start + 10 * MS, start + 70 * MS, COUNTED, 100 * MS)
    segment.close_window(start + 70 * MS, start + 100 * MS, BLIND, 100 * MS)
    segment.open_window(start + 100 * MS, DORMANT, BLIND)
    summary = trace.finish(start + 150 * MS)
    check(summary)
    (process,) = summary.processes
    assert (process.observed_ns, process.counted_ns, process.blind_ns, process.dormant_ns) == (
        10 * MS, 60 * MS, 30 * MS, 50 * MS,
    )  # fmt: skip
    assert summary.coverage is not None
    assert summary.coverage.windows == 3
    (device,) = summary.devices
    assert device.causes.not_observed_ns == 50 * MS, "dormant is not observed"
    assert device.causes.held_idle_ns == 100 * MS, "never called in all that was seen"
    assert device.observed_ns == 10 * MS


def test_lost_windows_are_not_observed(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment, count = SegmentFile(folder, pid=NOBODY), AT["windows_kept"] + 10
    segment.put(24, struct.pack("<Q", start))
    for i in range(count):
        segment.close_window(start + i * 1000, start + (i + 1) * 1000, TIMED)
    segment.open_window(start + count * 1000, FULL, TIMED)
    segment.publish(record(start + 11_000, start + 12_000))
    summary = trace.finish(start + count * 1000)
    check(summary)
    assert summary.loss["windows_lost"] == 10
    assert summary.processes[0].dormant_ns + summary.processes[0].observed_ns == count * 1000


def test_a_dormant_tracer_has_seen_nothing_though_it_began_later(
    trace: JobTrace, folder: Path
) -> None:
    """Time without a tracer stays apart: what was seen of the rest does not stand for it."""
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder, pid=NOBODY)
    segment.put(24, struct.pack("<Q", start))
    segment.close_window(start, start + 500, BLIND)
    segment.open_window(start + 500, FULL, TIMED)
    segment.publish(record(start + 600, start + 900))
    summary = trace.finish(start + 1000)
    check(summary)
    causes = summary.devices[0].causes
    assert causes.kernel_ns == 300
    assert causes.not_observed_ns >= 500
    (row,) = summary.kernels
    assert (row.count, row.seen, row.estimate) == (1, 0.5, False)
    assert row.error_ns >= 500, "the device may have worked for it all the time"


def test_an_open_window_counts_up_to_when_it_was_surely_open(trace: JobTrace, folder: Path) -> None:
    start = now() - 5_000 * MS
    trace.set_window(start)
    segment = SegmentFile(folder)
    segment.put(24, struct.pack("<Q", start))
    segment.open_window(start, GOVERNED, COUNTED)
    trace.drain()
    first = trace.summary().processes[0]
    trace.drain()
    second = trace.summary().processes[0]
    assert first.counted_ns == 0
    assert 5_000 * MS <= second.counted_ns < now() - start


def drains_without_a_write(trace: JobTrace, fold: Path) -> bool:
    """True if five drains within a second left the fold alone; a slow machine tries again."""
    for _ in range(20):
        began, written = now(), fold.stat().st_mtime_ns
        for _ in range(5):
            trace.drain()
        if fold.stat().st_mtime_ns == written:
            return True
        if now() - began < 500 * MS:
            return False
    return False


def test_a_quiet_job_writes_nothing(trace: JobTrace, folder: Path, tmp_path: Path) -> None:
    """A tracer writes nothing while its job does nothing: a node has many such jobs."""
    segment, start, fold = SegmentFile(folder), now(), tmp_path / "store/fold"
    segment.open_window(start, FULL, TIMED)
    segment.publish(record(start, start + 10))
    for _ in range(3):
        trace.drain()
    assert drains_without_a_write(trace, fold)
    closed = now()
    segment.close_window(start, closed, TIMED)
    segment.open_window(closed, DORMANT, BLIND)
    for _ in range(3):
        trace.drain()
    assert drains_without_a_write(trace, fold)


# --- host events ----------------------------------------------------------------------------------


def test_host_events_keep_no_device_busy(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder, pid=NOBODY)
    segment.publish(record(start + 100, start + 200), record(start + 300, start + 400, kind=17))
    for i, kind in enumerate((BARRIER, SYNC, SYNC, 34, 35, 36)):
        event = record(start + 400 + i, start + 500 + i, kind=kind)
        event[11] = NO_DEVICE if kind >= SYNC else 0
        segment.write(segment.head, event)
        segment.set_head(segment.head + 1)
    summary = trace.finish(start + 1000)
    check(summary)
    assert summary.devices[0].causes.kernel_ns == 200, "a graph keeps it busy as a kernel does"
    assert summary.kernels[0].count == 2
    assert [(row.name, row.count, row.total_ns) for row in summary.events] == [
        ("barrier", 1, 100),
        ("wait for the device", 2, 200),
        ("user event", 1, 100),
        ("profiler's own time", 1, 100),
        ("launch held back", 1, 100),
    ]
    assert summary.loss["unfinished"] == summary.loss["records_damaged"] == 0


# --- estimates ------------------------------------------------------------------------------------


@dataclass
class Simulated:
    """A job with one device and thread, and a governor's windows over it."""

    chance: random.Random
    period_ns: int = 100_000
    timed_share: float = 0.05
    counted_share: float = 0.95
    launches: list[tuple[int, int, int]] = field(default_factory=list)
    """(called, device time, name)."""
    end_ns: int = 0

    def run(self, periods: int) -> None:
        """Launches whose length and rate wander slowly, so that windows are not all alike."""
        at, pace = 0, 1.0
        self.end_ns = periods * self.period_ns
        while at < self.end_ns - 5_000:
            pace = min(2.0, max(0.5, pace * self.chance.uniform(0.98, 1.02)))
            name = 1 + (self.chance.random() < 0.3)
            busy = int(self.chance.uniform(200, 400) * pace * name)
            self.launches.append((at, busy, name))
            at += busy + int(self.chance.uniform(100, 900))

    def windows(self) -> Iterator[tuple[int, int, int]]:
        """(from, to, phase): in each period one timed window at a random place."""
        length = int(self.period_ns * self.timed_share)
        counted = int(self.period_ns * self.counted_share)
        for at in range(0, self.end_ns, self.period_ns):
            begin = at + self.chance.randrange(self.period_ns - length)
            cuts = [(at, begin), (begin, begin + length), (begin + length, at + self.period_ns)]
            seen = 0
            for i, (a, b) in enumerate(cuts):
                if i == 1:
                    yield a, b, TIMED
                    continue
                part = min(b - a, counted - seen)
                seen += part
                if part:
                    yield a, a + part, COUNTED
                if part < b - a:
                    yield a + part, b, BLIND

    def feed(self, trace: JobTrace, segment: SegmentFile, start: int) -> None:
        records, counts = [], {1: 0, 2: 0}
        windows = list(self.windows())
        step = iter(windows)
        a, b, phase = next(step)
        number = timed = seen = 0
        for called, busy, name in self.launches:
            while called >= b:
                segment.close_window(start + a, start + b, phase, self.period_ns, seen)
                number += 1
                seen = 0
                if number % 100 == 0:
                    self._publish(segment, records, counts)
                    trace.drain()
                a, b, phase = next(step)
            if phase == TIMED:
                each = record(start + called, start + called + busy, name=name)
                each[0], each[6] = start + called, 0
                records.append(each)
                timed += 1
            if phase != BLIND:
                counts[name] += 1
                seen += 1
        segment.close_window(start + a, start + b, phase, self.period_ns, seen)
        self._publish(segment, records, counts)

    def _publish(
        self, segment: SegmentFile, records: list[list[int]], counts: dict[int, int]
    ) -> None:
        for i, each in enumerate(records):
            segment.write(segment.head + i, each)
        segment.add("timed", len(records))
        for name, count in counts.items():
            segment.count(name, KERNEL, count)
            counts[name] = 0
        segment.set_head(segment.head + len(records))
        records.clear()


def simulate(
    trace: JobTrace, folder: Path, seed: int, counted_share: float
) -> tuple[TraceSummary, Simulated]:
    job = Simulated(random.Random(seed), counted_share=counted_share)
    job.run(400)
    start = now() - job.end_ns - MS
    trace.set_window(start)
    segment = SegmentFile(folder, ring_records=1 << 14)
    segment.put(24, struct.pack("<Q", start))
    trace.add_spans(SPAN.pack(start, start + job.end_ns, 77, 1, 0xFFFF))
    job.feed(trace, segment, start)
    summary = trace.finish(start + job.end_ns)
    check(summary)
    return summary, job


@pytest.mark.parametrize("counted_share", [0.95, 0.25])
def test_what_windows_did_not_show_is_estimated_within_its_error(
    trace: JobTrace, folder: Path, counted_share: float
) -> None:
    summary, job = simulate(trace, folder, 5, counted_share)
    (device,) = summary.devices
    truth = sum(busy for _, busy, _ in job.launches)
    assert device.estimate
    assert 0 < device.error_ns < 0.1 * truth
    assert abs(device.causes.kernel_ns - truth) <= device.error_ns
    assert abs(device.causes.kernel_ns - truth) <= 0.02 * truth
    assert device.causes.not_observed_ns <= 0.001 * device.window_ns
    idle = device.window_ns - truth
    assert abs(device.causes.host_on_cpu_ns - idle) <= 0.02 * idle
    count = len(job.launches)
    assert abs(sum(row.count + row.unseen for row in summary.kernels) - count) <= 0.02 * count
    for row in summary.kernels:
        own = sum(busy for _, busy, name in job.launches if name == 1 + (row.name == "smooth"))
        assert row.estimate
        assert abs(row.total_ns - own) <= 1.5 * row.error_ns + 0.02 * own
    (process,) = summary.processes
    assert abs(process.kernel_ns - truth) <= 0.02 * truth
    assert process.estimate
    assert process.unseen == sum(row.unseen for row in summary.kernels) or counted_share < 0.9


def test_errors_are_as_often_right_as_they_say(tmp_path: Path) -> None:
    """The stated 95 % interval holds the truth in nearly all of 24 runs, without bias."""
    inside, ratios = 0, []
    for seed in range(24):
        folder, store = tmp_path / f"segments{seed}", tmp_path / f"store{seed}"
        folder.mkdir()
        store.mkdir()
        with JobTrace.open(folder, store, "governed", devices=["pocl-0"]) as trace:
            job = Simulated(random.Random(seed), period_ns=50_000, counted_share=0.4)
            job.run(100)
            start = now() - job.end_ns - MS
            trace.set_window(start)
            segment = SegmentFile(folder, ring_records=1 << 13)
            segment.put(24, struct.pack("<Q", start))
            job.feed(trace, segment, start)
            (device,) = trace.finish(start + job.end_ns).devices
        truth = sum(busy for _, busy, _ in job.launches)
        inside += abs(device.causes.kernel_ns - truth) <= device.error_ns
        ratios.append(device.causes.kernel_ns / truth)
    assert inside >= 21
    assert abs(sum(ratios) / len(ratios) - 1) <= 0.02


@pytest.mark.parametrize("unseen_ns", [10 * MS, 40 * MS, 100 * MS])
def test_the_stated_error_holds_a_stop_that_nobody_saw(
    trace: JobTrace, folder: Path, unseen_ns: int
) -> None:
    """100 launches of 20 us in every 10 ms, seen every other 10 ms; then nothing is seen."""
    start = now() - 200 * MS
    trace.set_window(start)
    segment = SegmentFile(folder, pid=NOBODY)
    segment.put(24, struct.pack("<Q", start))
    for at in range(start, start + 100 * MS, 20 * MS):
        segment.publish(
            *(record(called, called + 20_000) for called in range(at, at + MS, MS // 10))
        )
        segment.count(1, KERNEL, 90)
        segment.close_window(at, at + MS, TIMED, 20 * MS, 10)
        segment.close_window(at + MS, at + 10 * MS, COUNTED, 20 * MS, 90)
        segment.close_window(at + 10 * MS, at + 20 * MS, BLIND, 20 * MS, 0)
    segment.open_window(start + 100 * MS, 1, BLIND)
    (kernel,) = trace.finish(start + 90 * MS + unseen_ns).kernels
    most = (900 + unseen_ns // 100_000) * 20_000
    assert abs(kernel.total_ns - most) <= 0.01 * most
    assert kernel.error_ns == pytest.approx(most - 900 * 20_000, rel=0.02)
