# SPDX-License-Identifier: Apache-2.0
"""The fold of a job's segments: exact rows, causes that add up, windows, estimates."""

from __future__ import annotations

import json
import random
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from stoker.native import _trace, errors
from stoker.probes.host.host_records import FAULTED_ALL, StateDurations, ThreadTimes
from stoker.probes.kernels import job_trace as trace_module
from stoker.probes.kernels.job_trace import JobTrace
from tests.probes.segment_file import AT, HELD, KERNEL, NO_DEVICE, RECORD, SegmentFile, record

SPAN = struct.Struct("<QQIHH")

NOBODY = 1 << 30
"""A process id that no process has."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "segments"
    made.mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def trace(folder: Path, store: Path) -> Iterator[JobTrace]:
    with JobTrace.open(folder, store, "full", devices=["pocl-0"]) as opened:
        yield opened


def now() -> int:
    return time.monotonic_ns()


def check_records(trace: JobTrace) -> None:
    counts = trace.summary().records
    assert counts is not None
    assert counts.made == counts.folded + counts.dropped


def test_records_become_rows(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder), now()
    segment.publish(*(record(start + 100 * i, start + 100 * i + 40) for i in range(10)))
    segment.publish(record(start + 2000, start + 2500, name=2))
    segment.publish(record(start + 3000, start + 3010, kind=1))
    stats = trace.drain()
    assert (stats.records, stats.lost, stats.segments) == (12, 0, 1)
    assert stats.fill == pytest.approx(12 / 1024)
    summary = trace.summary()
    by_name = {row.name: row for row in summary.kernels}
    assert (by_name["saxpy"].count, by_name["saxpy"].total_ns) == (10, 400)
    assert (by_name["smooth"].count, by_name["smooth"].total_ns) == (1, 500)
    assert not by_name["saxpy"].estimate
    assert by_name["saxpy"].p50_ns == pytest.approx(40, rel=0.02)
    assert [(row.name, row.count, row.total_ns) for row in summary.copies] == [("write", 1, 10)]
    assert set(summary.loss.values()) == {0}
    assert segment.tail == 12
    check_records(trace)


def test_each_segment_is_found_once_also_of_a_process_that_is_over(
    trace: JobTrace, folder: Path
) -> None:
    living, over = SegmentFile(folder), SegmentFile(folder, pid=1 << 22, starttime=9, number=3)
    over.put(24, struct.pack("<Q", 1234))
    trace.drain()
    assert living.path.exists() and not over.path.exists()
    key = (living.pid, living.starttime)
    told = {(each.pid, each.start_time): each.made_ns for each in trace.found()}
    assert told == {key: 1, (1 << 22, 9): 1234}
    trace.drain()
    assert trace.found() == ()
    SegmentFile(folder, pid=1 << 22, starttime=10)
    trace.finish()
    assert [each.start_time for each in trace.found()] == [10]


def test_causes_add_up_and_explain_gaps(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder)
    segment.publish(record(start + 100, start + 200), record(start + 300, start + 350, kind=0))
    trace.add_spans(
        SPAN.pack(start + 20, start + 240, 77, 1, 0xFFFF)
        + SPAN.pack(start + 240, start + 280, 77, 2, 0xFFFF)
        + SPAN.pack(start + 280, start + 500, 77, 3, 202)
    )
    summary = trace.finish(start + 600)
    (device,) = summary.devices
    causes = device.causes
    assert device.window_ns == sum(msgspec.structs.astuple(causes)) == 600
    assert (causes.kernel_ns, causes.copy_ns) == (100, 50)
    assert (causes.host_on_cpu_ns, causes.host_runnable_ns) == (80 + 40, 40)
    assert causes.host_blocked_ns == 20
    # The parts: before the thread began, asleep after its last call, after it ended.
    assert causes.held_idle_ns == 20 + 150 + 100
    assert causes.not_observed_ns == 0
    assert not device.estimate


def test_a_launch_that_is_held_back_is_throttled_for_a_period_at_most(
    trace: JobTrace, folder: Path
) -> None:
    start, period = now() - 10**9, 20_000_000
    trace.set_window(start)
    segment = SegmentFile(folder, hidden=True, pid=NOBODY)
    segment.publish(record(start, start + 100), record(start + 3 * period, start + 3 * period + 50))
    event = record(start + 150, start + 3 * period, kind=HELD)
    event[11] = NO_DEVICE
    segment.write(segment.head, event)
    segment.set_head(segment.head + 1)
    segment.reveal()
    trace.add_spans(
        SPAN.pack(start, start + 200, 77, 1, 0xFFFF)
        + SPAN.pack(start + 200, start + 3 * period, 77, 3, 230)
    )
    summary = trace.finish(start + 3 * period + 50)
    causes = summary.devices[0].causes
    assert sum(msgspec.structs.astuple(causes)) == summary.devices[0].window_ns
    assert (causes.kernel_ns, causes.host_on_cpu_ns) == (150, 100)
    assert causes.throttled_ns == period - 50  # blocked from 50 ns after it was held
    assert causes.host_blocked_ns == 3 * period - 100 - 100 - causes.throttled_ns
    assert "causes.throttled_ns" not in summary.absent
    assert "no throttle counter" in summary.absent["clocks_lowered"]


def test_a_device_never_called_is_held_idle(folder: Path, store: Path) -> None:
    start = now()
    with JobTrace.open(folder, store, "full", devices=["pocl-0", "GPU-1"]) as trace:
        trace.set_window(start)
        SegmentFile(folder).publish(record(start + 10, start + 20))
        devices = {device.id: device for device in trace.finish(start + 100).devices}
    assert devices["GPU-1"].causes.held_idle_ns == 100
    assert devices["pocl-0"].causes.kernel_ns == 10


def test_a_job_without_opencl_is_not_observed(trace: JobTrace, store: Path) -> None:
    start = now()
    trace.set_window(start)
    summary = trace.finish(start + 50)
    assert summary.devices[0].causes.not_observed_ns == 50
    assert "no process" in summary.absent["kernels"]
    assert summary.cost is None
    assert not list(store.iterdir()), "a job that calls no GPU leaves no files"


def test_samples_are_an_estimate_with_exact_counts(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder), now()
    chance = random.Random(5)
    lengths = [chance.randrange(80, 120) for _ in range(500)]
    segment.publish(*(record(start + 200 * i, start + 200 * i + length, shift=3)
                      for i, length in enumerate(lengths)))  # fmt: skip
    segment.count(1, KERNEL, 5)
    (row,) = trace.finish().kernels
    assert row.count == 8 * 500 + 5
    assert row.estimate
    assert row.error_ns > 0
    assert abs(row.total_ns - 100 * row.count) <= 2 * row.error_ns
    (device,) = trace.summary().devices
    assert device.estimate
    assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns


def test_a_full_ring_is_counted(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder, ring_records=8), now()
    segment.publish(*(record(start + i * 10, start + i * 10 + 5) for i in range(8)))
    segment.add("timed", 3)
    segment.add("ring_full", 3)
    segment.count(1, KERNEL, 3)
    summary = trace.finish()
    assert summary.loss["ring_full"] == 3
    assert (summary.kernels[0].count, summary.kernels[0].estimate) == (11, True)
    assert summary.records == trace_module.RecordCounts(11, 8, 3)
    check_records(trace)


def test_a_ring_goes_round(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder, ring_records=16), now()
    for lap in range(20):
        at = start + lap * 1000
        segment.publish(*(record(at + i * 20, at + i * 20 + 10) for i in range(11)))
        assert trace.drain().records == 11
        assert segment.tail == segment.head
    assert trace.summary().kernels[0].total_ns == 20 * 11 * 10


def test_what_was_in_flight_when_its_process_died(folder: Path, store: Path) -> None:
    start = now()
    with JobTrace.open(folder, store, "full") as trace:
        trace.set_window(start)
        segment = SegmentFile(folder, pid=NOBODY)
        segment.publish(record(start + 10, start + 20))
        segment.in_flight(start + 30)
        summary = trace.finish(start + 100)
    assert summary.loss["unfinished"] == 1
    assert (summary.kernels[0].count, summary.kernels[0].total_ns) == (2, 20)
    assert summary.kernels[0].estimate
    (device,) = summary.devices
    assert (device.causes.kernel_ns, device.causes.not_observed_ns) == (10, 90)


def test_nothing_is_settled_beyond_a_launch_in_flight(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder)
    segment.publish(record(start + 10, start + 20))
    segment.in_flight(start + 30)
    trace.drain()
    assert trace.summary().window.to_ns <= start + 30


def test_dead_processes_leave_their_counts_and_no_file(trace: JobTrace, folder: Path) -> None:
    start = now()
    for i in range(40):
        segment = SegmentFile(folder, pid=NOBODY + i)
        segment.publish(record(start + i * 100, start + i * 100 + 10))
        trace.drain()
        assert not segment.path.exists()
    summary = trace.summary()
    assert (summary.kernels[0].count, summary.kernels[0].total_ns) == (40, 400)
    assert not list(folder.iterdir())
    check_records(trace)


def test_one_process_may_have_several_segments(trace: JobTrace, folder: Path) -> None:
    start = now()
    for number in range(3):
        SegmentFile(folder, number=number).publish(
            record(start + number * 50, start + 10 + number * 50)
        )
    trace.drain()
    assert trace.summary().kernels[0].count == 3


def test_more_segments_than_rows_are_counted(trace: JobTrace, folder: Path) -> None:
    start = now()
    for number in range(AT["segments_max"] + 5):
        SegmentFile(folder, number=number, ring_records=8).publish(record(start, start + 1))
    trace.drain()
    assert trace.summary().loss["segments_refused"] == 5
    assert trace.summary().kernels[0].count == AT["segments_max"]


def test_more_names_than_rows_share_one(trace: JobTrace, folder: Path) -> None:
    start = now()
    for number in range(2):
        names = tuple(f"kernel_{number}_{i}" for i in range(200))
        segment = SegmentFile(folder, number=number, names=names)
        segment.publish(*(record(start + i, start + i + 1, name=i + 1) for i in range(200)))
    trace.drain()
    summary = trace.summary()
    rows = {row.name: row.count for row in summary.kernels}
    assert len(rows) == 256
    assert rows["(other)"] == summary.loss["job_names_refused"] == 400 - 255
    assert sum(rows.values()) == 400


def test_the_names_with_the_most_device_time_have_rows(trace: JobTrace, folder: Path) -> None:
    """Names come and go, each process with others; the few that take the time are always told."""
    start, chance = now(), random.Random(9)
    truth: dict[str, int] = {}
    at = start
    for number in range(12):
        names = [f"kernel_{number}_{i}" for i in range(120)] + [f"hot_{i}" for i in range(5)]
        chance.shuffle(names)
        segment = SegmentFile(folder, number=number, names=tuple(names), ring_records=4096)
        for _ in range(4):
            batch = []
            for i in range(250):
                row = chance.randrange(len(names)) if i % 2 else names.index(f"hot_{i % 5}")
                length = 5000 if names[row].startswith("hot") else chance.randrange(1, 400)
                batch.append(record(at, at + length, name=row + 1))
                truth[names[row]] = truth.get(names[row], 0) + length
                at += length
            segment.publish(*batch)
            if number % 3:
                trace.drain()
    summary = trace.finish()
    check_records(trace)
    rows = {row.name: row for row in summary.kernels}
    whole = sum(truth.values())
    assert len(truth) > 1000
    assert len(rows) <= 256
    assert summary.loss["job_names_refused"] > 0
    assert sum(row.count for row in summary.kernels) == 12 * 1000
    must = [name for name, ns in truth.items() if ns > whole / 255]
    assert len(must) >= 5
    for name in must:
        assert name in rows
        assert abs(rows[name].total_ns - truth[name]) <= rows[name].error_ns + 0.01 * truth[name]
    assert {row.name for row in summary.kernels[:5]} == {f"hot_{i}" for i in range(5)}
    for name in set(rows) - {"(other)"}:
        assert rows[name].total_ns <= truth[name] * 1.001 + rows[name].error_ns


def test_records_of_a_name_that_lost_its_row_do_not_take_anothers(
    trace: JobTrace, folder: Path
) -> None:
    start = now()
    first = SegmentFile(folder, pid=NOBODY, names=tuple(f"a_{i}" for i in range(255)))
    first.publish(*(record(start + i, start + i + 1, name=i + 1) for i in range(255)))
    trace.drain()
    before = trace.names()
    second = SegmentFile(folder, pid=NOBODY + 1, names=("b",))
    second.publish(record(start + 1000, start + 9000))
    trace.drain()
    after = trace.names()
    (row,) = [i for i in range(256) if before[i] != after[i]]
    assert after[row] == "b"
    first_number, total, packed = trace.events(0, 1000)
    assert (first_number, total) == (0, 256)
    size, name_at = AT["event"], AT["event_name"]
    rows = [struct.unpack_from("<H", packed, i * size + name_at)[0] for i in range(total)]
    assert rows.count(0) == 2
    assert row not in rows


def test_processes_have_rows_of_their_own(trace: JobTrace, folder: Path) -> None:
    start = now()
    for i in range(3):
        segment = SegmentFile(folder, pid=NOBODY + i)
        segment.publish(
            *(record(start + 100 * j, start + 100 * j + 10 * (i + 1)) for j in range(i + 1)),
            record(start + 5000, start + 5001, kind=1),
        )
        trace.drain()
    found = {row.pid: row for row in trace.finish().processes}
    for i in range(3):
        row = found[NOBODY + i]
        assert (row.launches, row.copies, row.copy_ns) == (i + 1, 1, 1)
        assert row.kernel_ns == 10 * (i + 1) ** 2
        assert (row.name, row.estimate, row.unseen) == ("worker?", False, 0)


def test_processes_beyond_the_table_share_a_row(trace: JobTrace, folder: Path) -> None:
    start = now()
    for i in range(260):
        segment = SegmentFile(folder, pid=NOBODY + i, ring_records=8)
        segment.publish(record(start + 10 * i, start + 10 * i + 5))
        trace.drain()
    rows = trace.finish().processes
    assert len(rows) == 256
    assert (rows[-1].name, rows[-1].launches, rows[-1].kernel_ns) == ("(other)", 5, 25)


def test_histograms_of_jobs_are_merged(tmp_path: Path) -> None:
    """The merged histogram of two jobs has count, sum and every bucket of both."""
    found = []
    for job in range(2):
        folder, store = tmp_path / f"segments{job}", tmp_path / f"store{job}"
        folder.mkdir()
        store.mkdir()
        with JobTrace.open(folder, store, "full") as trace:
            start = now()
            SegmentFile(folder).publish(
                *(record(start + i, start + i + 20 * (i + 1) * (job + 1)) for i in range(50))
            )
            trace.drain()
            histogram = trace.histogram("saxpy")
            assert histogram is not None
            found.append(histogram)
    merged = trace_module.merged(found)
    assert merged.totals()[:2] == tuple(sum(each.totals()[i] for each in found) for i in range(2))
    for bucket, count in merged.buckets().items():
        assert count == sum(each.buckets().get(bucket, 0) for each in found)
    assert found[0].totals()[0] == 50, "those that were merged stay as they were"
    assert trace_module.merged([]).totals()[0] == 0


def test_the_slowest_launch_of_late_is_kept_for_ten_seconds(trace: JobTrace, folder: Path) -> None:
    second = 1_000_000_000
    segment, start = SegmentFile(folder), now() - 30 * second

    def slowest(end_s: int, ns: int) -> trace_module.TimedLaunch | None:
        end = start + end_s * second
        segment.publish(record(end - ns, end))
        trace.drain()
        return trace.slowest("saxpy")

    assert trace.slowest("saxpy") is None
    assert slowest(0, 50) == (50, start)
    assert slowest(1, 90) == (90, start + second)
    assert slowest(2, 60) == (90, start + second), "a faster one changes nothing"
    assert slowest(11, 10) == (90, start + second)
    assert slowest(12, 10) == (10, start + 12 * second), "no older than ten seconds beside others"
    assert trace.slowest("no such kernel") is None


def test_the_timeline_keeps_the_newest(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder, ring_records=1 << 17), now()
    total = AT["timeline_max"] + 1000
    data = b"".join(
        RECORD.pack(*record(start + i * 10, start + i * 10 + 5)[:-1], i) for i in range(total)
    )
    segment.put(segment.ring, data)
    segment.count(1, KERNEL, total)
    segment.add("timed", total)
    segment.set_head(total)
    trace.drain()
    summary = trace.summary()
    assert summary.timeline == trace_module.TimelineCounts(AT["timeline_max"], 1000, 0, 0)
    assert (summary.kernels[0].count, summary.kernels[0].total_ns) == (total, total * 5)
    assert "timeline_dropped" not in summary.loss


# --- spans, windows and small things --------------------------------------------------------------


def test_the_window_only_grows(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    SegmentFile(folder).publish(record(start + 10, start + 20))
    trace.drain()
    trace.set_window(start)
    with pytest.raises(errors.BadRequest):
        trace.set_window(start - 5)
    to_ns = trace.summary().window.to_ns
    assert trace.finish(start + 1).window.to_ns >= to_ns


def test_aggregates_divide_gaps_where_no_span_is_known(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    SegmentFile(folder).publish(record(start + 100, start + 500))
    trace.set_host_times({77: times(300, 100, 600, 0)})
    (device,) = trace.finish(start + 1000).devices
    assert device.estimate
    assert device.causes.kernel_ns == 400
    assert (device.causes.host_on_cpu_ns, device.causes.host_runnable_ns) == (300, 100)
    assert device.causes.host_blocked_ns == 200
    assert device.causes.not_observed_ns == 0


def test_missing_spans_are_made_good_by_totals(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder)
    segment.publish(record(start + 3000, start + 5000))
    segment.publish(record(start + 11_000, start + 11_500))
    trace.add_spans(
        SPAN.pack(start, 1, 77, 5, 0xFFFF)  # made by nobody known
        + SPAN.pack(start, start + 1000, 77, 1, 0)
        + SPAN.pack(start + 10_000, start + 11_000, 77, 1, 0)  # what was between is lost
    )
    # In the 9,000 ns between, it waited 2,000 for the device.
    trace.set_host_times({77: times(2000 + 3000, 1000, 2000 + 3000, 0)})
    (device,) = trace.finish(start + 11_500).devices
    assert device.estimate
    causes = device.causes
    assert (causes.kernel_ns, causes.host_on_cpu_ns) == (2500, 2000 + 3000)
    assert (causes.host_runnable_ns, causes.host_blocked_ns) == (1000, 3000)
    assert causes.not_observed_ns == 0


def test_time_in_page_faults_is_paging(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    SegmentFile(folder).publish(record(start + 1000, start + 1500))
    trace.add_spans(
        SPAN.pack(start, start + 600, 77, 1, FAULTED_ALL // 2)
        + SPAN.pack(start + 600, start + 800, 77, 3, FAULTED_ALL // 2)
        + SPAN.pack(start + 800, start + 1600, 77, 1, 0)
        + SPAN.pack(start + 1600, start + 2000, 77, 1, FAULTED_ALL)
    )
    causes = trace.finish(start + 2000).devices[0].causes
    assert (causes.host_on_cpu_ns, causes.host_paging_ns) == (300 + 200 + 100, 300 + 400)


def test_time_in_page_faults_is_paging_without_spans(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    SegmentFile(folder).publish(record(start + 600, start + 1000))
    trace.set_host_times({77: replace(times(300, 100, 600, 0), handling_ns=250)})
    causes = trace.finish(start + 1000).devices[0].causes
    assert (causes.host_on_cpu_ns, causes.host_paging_ns) == (50, 250)


def test_a_cpu_that_was_taken_away_is_no_time_on_it_without_spans(
    trace: JobTrace, folder: Path
) -> None:
    start = now()
    trace.set_window(start)
    SegmentFile(folder).publish(record(start + 600, start + 1000))
    trace.set_host_times({77: replace(times(300, 100, 600, 0), handling_ns=50, stolen_ns=200)})
    causes = trace.finish(start + 1000).devices[0].causes
    assert (causes.host_on_cpu_ns, causes.host_runnable_ns, causes.host_paging_ns) == (50, 300, 50)


def times(on_cpu: int, runnable: int, blocked: int, io: int) -> StateDurations:
    return StateDurations(on_cpu, runnable, blocked, io, 0, 0, 0, ())


def state(tid: int, number: int, since_ns: int) -> ThreadTimes:
    return ThreadTimes(tid, number, 0xFFFF, since_ns, since_ns, times(1, 1, 1, 1))


def blocked_by(trace: JobTrace, folder: Path, start: int) -> int:
    """Blocked time of thread 77, which launches at the end of the first millisecond."""
    SegmentFile(folder).publish(record(start + 1_000_000, start + 1_000_100))
    summary = trace.finish(start + 1_000_100)
    assert summary.loss["broken_spans"] == 0
    (device,) = summary.devices
    assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns
    return device.causes.host_blocked_ns


def test_a_state_that_goes_on_counts_before_it_ends(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    trace.add_spans(SPAN.pack(start, start + 100, 77, 1, 0xFFFF))
    for asked in (500, 1_000_000):  # again, longer
        trace.add_open_states([state(77, 3, start + 100)], start + asked)
    assert blocked_by(trace, folder, start) == 999_900


def test_a_state_read_before_spans_on_their_way_does_not_bar_them(
    trace: JobTrace, folder: Path
) -> None:
    start = now()
    trace.set_window(start)
    trace.add_spans(SPAN.pack(start, start + 100, 77, 1, 0xFFFF))
    trace.add_open_states([state(77, 1, start + 900_000)], start + 950_000)
    trace.add_spans(
        SPAN.pack(start + 100, start + 900_000, 77, 3, 202)
        + SPAN.pack(start + 900_000, start + 1_000_000, 77, 1, 0xFFFF)
    )
    assert blocked_by(trace, folder, start) == 899_900


def test_a_state_that_ended_meanwhile_changes_nothing(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    trace.add_spans(
        SPAN.pack(start, start + 100, 77, 1, 0xFFFF)
        + SPAN.pack(start + 100, start + 600, 77, 3, 202)
    )
    trace.add_open_states([state(77, 3, start + 100)], start + 700)
    trace.add_spans(SPAN.pack(start + 600, start + 1_000_000, 77, 1, 0xFFFF))
    assert blocked_by(trace, folder, start) == 500


def test_spans_come_whole(trace: JobTrace) -> None:
    with pytest.raises(errors.BadRequest):
        trace.add_spans(b"x" * 25)


def test_the_summary_is_what_the_contract_says(trace: JobTrace, folder: Path) -> None:
    SegmentFile(folder).publish(record(now(), now() + 10))
    found = json.loads(msgspec.json.encode(trace.finish()))
    assert {"mode", "window", "kernels", "copies", "devices", "loss", "clock", "cost",
            "absent"} <= set(found)  # fmt: skip
    assert set(found["kernels"][0]) == {
        "name", "count", "total_ns", "p50_ns", "p99_ns", "estimate", "error_ns", "unseen", "seen",
    }  # fmt: skip
    assert set(found["devices"][0]) == {
        "id", "window_ns", "estimate", "causes", "error_ns", "observed_ns", "throttle", "energy",
    }  # fmt: skip
    assert found["clock"] == {"source": "RAW", "offset_ns": -7, "drift_ppb": 3, "error_ns": 20}
    assert set(_trace.Job.__dict__) >= {"histogram"}
