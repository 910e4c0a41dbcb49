# SPDX-License-Identifier: Apache-2.0
"""The fold of a job's segments: exact, hostile files refused, whole after kill -9."""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.native import _trace, errors
from stoker.probes import trace as trace_module
from stoker.probes.host_records import ThreadTimes, Times
from stoker.probes.trace import JobTrace, layer_environment, pack_open_states
from tests.probes.segment_file import AT, KERNEL, SegmentFile, record

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


def test_causes_add_up_and_explain_gaps(trace: JobTrace, folder: Path) -> None:
    start = now()
    trace.set_window(start)
    segment = SegmentFile(folder)
    segment.publish(record(start + 100, start + 200), record(start + 300, start + 350, kind=0))
    span = struct.Struct("<QQIHH")
    trace.add_spans(
        span.pack(start + 20, start + 240, 77, 1, 0xFFFF)
        + span.pack(start + 240, start + 280, 77, 2, 0xFFFF)
        + span.pack(start + 280, start + 500, 77, 3, 202)
    )
    summary = trace.finish(start + 600)
    (device,) = summary.devices
    causes = device.causes
    assert device.window_ns == sum(msgspec.structs.astuple(causes)) == 600
    assert (causes.kernel_ns, causes.copy_ns) == (100, 50)
    assert (causes.host_on_cpu_ns, causes.host_runnable_ns) == (80 + 40, 40)
    assert causes.host_blocked_ns == 20 + 150
    assert causes.held_idle_ns == 20 + 100  # before the thread began, after it ended
    assert causes.not_observed_ns == 0
    assert not device.estimate


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


def test_the_timeline_keeps_the_newest(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder, ring_records=1 << 17), now()
    total = AT["timeline_max"] + 1000
    data = b"".join(
        struct.pack("<QQQQQIIIHBBHBBI", *record(start + i * 10, start + i * 10 + 5)[:-1], i)
        for i in range(total)
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


# --- hostile files --------------------------------------------------------------------------------


def wrong_magic(segment: SegmentFile) -> None:
    segment.put(0, b"\xff" * 8)


def wrong_version(segment: SegmentFile) -> None:
    segment.put(8, struct.pack("<I", 99))


def too_many_slots(segment: SegmentFile) -> None:
    segment.put(36, struct.pack("<I", 65))


def too_many_names(segment: SegmentFile) -> None:
    segment.put(40, struct.pack("<I", 257))


def longer_than_the_file(segment: SegmentFile) -> None:
    segment.put(16, struct.pack("<Q", 1 << 40))


def cut_short(segment: SegmentFile) -> None:
    os.truncate(segment.path, 5000)


def made_a_link(segment: SegmentFile) -> None:
    target = segment.path.with_name("elsewhere")
    segment.path.rename(target)
    segment.path.symlink_to(target)


def made_a_fifo(segment: SegmentFile) -> None:
    segment.path.unlink()
    os.mkfifo(segment.path)


def made_a_folder(segment: SegmentFile) -> None:
    segment.path.unlink()
    segment.path.mkdir()


def given_a_second_name(segment: SegmentFile) -> None:
    os.link(segment.path, segment.path.with_name("second"))


BAD_FILES = [
    wrong_magic,
    wrong_version,
    too_many_slots,
    too_many_names,
    longer_than_the_file,
    cut_short,
    made_a_link,
    made_a_fifo,
    made_a_folder,
    given_a_second_name,
]


@pytest.mark.parametrize("spoil", BAD_FILES, ids=lambda f: f.__name__)
def test_a_file_that_is_no_segment_is_refused_once(trace: JobTrace, folder: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    good, bad = SegmentFile(folder), SegmentFile(folder, number=1)
    spoil(bad)
    good.publish(record(now(), now() + 10))
    for _ in range(3):
        trace.drain()
    summary = trace.summary()
    assert summary.loss["segments_damaged"] == 1
    assert summary.kernels[0].count == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a file to another user")
def test_another_users_file_is_refused(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.publish(record(now(), now() + 10))
    os.chown(segment.path, 12345, 12345)
    trace.drain()
    assert trace.summary().loss["segments_damaged"] == 1
    assert not trace.summary().kernels


def bad_records(start: int) -> dict[str, list[int]]:
    good = record(start, start + 10)
    changed = {"kind": (9, 17), "device": (10, 5), "shift": (12, 16), "name": (8, 300),
               "backwards": (3, start - 1), "far": (3, 1 << 63)}  # fmt: skip
    return {what: [*good[:at], value, *good[at + 1 :]] for what, (at, value) in changed.items()}


@pytest.mark.parametrize("what", bad_records(100))
def test_a_record_that_makes_no_sense_is_counted(trace: JobTrace, folder: Path, what: str) -> None:
    segment, start = SegmentFile(folder), now()
    segment.write(0, bad_records(start)[what])
    segment.add("timed", 1)
    segment.set_head(1)
    segment.publish(record(start, start + 10))
    trace.drain()
    summary = trace.summary()
    assert summary.loss["records_damaged"] == 1
    assert summary.kernels[0].total_ns == 10
    check_records(trace)


def test_a_cell_that_was_never_written_is_told(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder), now()
    segment.publish(record(start, start + 10))
    segment.set_head(3)
    trace.drain()
    assert trace.summary().loss["records_damaged"] == 2


@pytest.mark.parametrize("head", [1 << 63, 2000, (1 << 64) - 1])
def test_a_head_that_cannot_be_is_told(trace: JobTrace, folder: Path, head: int) -> None:
    segment = SegmentFile(folder)
    segment.set_head(head)
    stats = trace.drain()
    assert trace.summary().loss["records_damaged"] == 1
    assert stats.fill <= 1


def test_rings_outside_of_the_file_are_told(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.publish(record(now(), now() + 10))
    for records, offset in ((1024, 1 << 62), (1000, segment.ring), (1 << 30, segment.ring), (8, 8)):
        segment.put(segment.slot_at() + 132, struct.pack("<IQ", records, offset))
        segment.set_head(segment.head + 1)
        trace.drain()
    assert trace.summary().loss["records_damaged"] >= 4


def test_a_segment_cut_while_it_is_read_keeps_what_was_folded(
    trace: JobTrace, folder: Path
) -> None:
    segment, start = SegmentFile(folder), now()
    segment.publish(record(start, start + 10))
    trace.drain()
    os.truncate(segment.path, 100)
    trace.drain()
    summary = trace.summary()
    assert summary.loss["segments_damaged"] == 1
    assert (summary.kernels[0].count, summary.kernels[0].total_ns) == (1, 10)


def test_random_bytes_do_no_harm(trace: JobTrace, folder: Path) -> None:
    chance = random.Random(11)
    for number in range(60):
        segment = SegmentFile(folder, number=number, ring_records=64)
        segment.publish(*(record(now(), now() + 10) for _ in range(5)))
        size = segment.path.stat().st_size
        for _ in range(chance.randrange(1, 200)):
            at = chance.choice((chance.randrange(8, 45056), chance.randrange(8, size - 8)))
            segment.put(at, chance.randbytes(chance.randrange(1, 8)))
        trace.drain()
    summary = trace.finish()
    for device in summary.devices:
        assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns
    msgspec.json.encode(summary)


def test_names_are_fit_for_a_terminal(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(
        folder, names=("a\x1b[2J\nb", "c\udcff".encode("utf-8", "surrogatepass").decode("latin-1"))
    )
    segment.publish(record(now(), now() + 1), record(now(), now() + 1, name=2))
    trace.drain()
    names = [row.name for row in trace.summary().kernels]
    assert "a?[2J?b" in names
    msgspec.json.encode(names)


def test_other_files_are_nobodys_business(trace: JobTrace, folder: Path) -> None:
    for name in ("notes", "1-2.seg", "1-2-3.seg.tmp", "01-2-3.seg", "-1-2-3.seg", "a-b-c.seg"):
        (folder / name).write_bytes(b"x" * 500_000)
    trace.drain()
    assert trace.summary().loss["segments_damaged"] == 0


# --- whole after a crash --------------------------------------------------------------------------

AGENT = """
import os, sys
from pathlib import Path
from stoker.probes.trace import JobTrace
trace = JobTrace.open(Path(sys.argv[1]), Path(sys.argv[2]), "full")
print("open", flush=True)
while True:
    trace.drain()
"""


def test_a_killed_agent_loses_nothing_and_counts_nothing_twice(folder: Path, store: Path) -> None:
    """Readers are killed at random moments while records are published and processes end."""
    chance = random.Random(3)
    start, made, total = now(), 0, 0
    for round_number in range(12):
        argv = [sys.executable, "-c", AGENT, str(folder), str(store)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as agent:
            assert agent.stdout is not None
            assert agent.stdout.readline() == b"open\n"
            deadline = time.monotonic() + chance.uniform(0.005, 0.08)
            serial = 0
            while time.monotonic() < deadline:
                segment = SegmentFile(
                    folder, pid=NOBODY + round_number, number=serial, ring_records=32, hidden=True
                )
                serial += 1
                lengths = [chance.randrange(1, 50) for _ in range(chance.randrange(1, 30))]
                segment.publish(*(record(start, start + length) for length in lengths))
                segment.reveal()
                made, total = made + len(lengths), total + sum(lengths)
                if serial > 60:
                    break
            agent.send_signal(signal.SIGKILL)
    with JobTrace.open(folder, store, "full") as trace:
        summary = trace.finish()
        check_records(trace)
    (row,) = summary.kernels
    assert made > 200
    assert (row.count, row.total_ns, row.estimate) == (made, total, False)
    assert not list(folder.glob("*.seg"))


def timed_ns(trace: JobTrace) -> int:
    """What the fold itself holds, without a look at any segment."""
    histogram = trace.histogram("saxpy")
    assert histogram is not None
    return histogram.totals()[1]


@pytest.mark.parametrize("cut", range(12))
def test_a_commit_torn_at_any_write_is_the_old_or_the_new(
    folder: Path, store: Path, tmp_path: Path, cut: int
) -> None:
    """The file as it is after the first `cut` of a batch's writes have reached it."""
    segment, start = SegmentFile(folder), now()
    segment.publish(record(start, start + 10))
    with JobTrace.open(folder, store, "full") as trace:
        trace.drain()
    before = (store / "fold").read_bytes()
    segment.publish(record(start + 100, start + 130))
    with JobTrace.open(folder, store, "full") as trace:
        trace.drain()
        expected = trace.summary().kernels[0].total_ns
    after = (store / "fold").read_bytes()
    assert expected == 40
    before = before.ljust(len(after), b"\0")
    changed = [i for i in range(0, len(after), 4096) if before[i : i + 4096] != after[i : i + 4096]]
    assert changed[0] == 0
    body = changed[1:]  # the word that makes them count comes last
    torn = bytearray(before)
    for page in body[: 1 + cut * len(body) // 12]:
        torn[page : page + 4096] = after[page : page + 4096]
    (store / "fold").write_bytes(torn)
    with JobTrace.open(folder, store, "full") as trace:
        assert timed_ns(trace) == 10
        trace.drain()
        assert timed_ns(trace) == 40
        assert trace.summary().kernels[0].count == 2


@pytest.mark.parametrize("at", [0, 8, 16, 4096, 4104])
def test_a_fold_that_contradicts_itself_is_corrupt(folder: Path, store: Path, at: int) -> None:
    SegmentFile(folder).publish(record(now(), now() + 10))
    with JobTrace.open(folder, store, "full") as trace:
        trace.drain()
        trace.drain()
    fold = bytearray((store / "fold").read_bytes())
    fold[at : at + 8] = b"\xff" * 8
    if at >= 4096:  # in both copies
        other = (len(fold) - 4096) // 2 + at
        fold = bytearray(b"".join((fold[:8], struct.pack("<Q", 77), fold[16:])))
        fold[other % len(fold) : other % len(fold) + 1] = b"\xff"
    (store / "fold").write_bytes(fold)
    with pytest.raises(errors.Corrupt):
        JobTrace.open(folder, store, "full")


def test_finish_twice_is_the_same_also_after_a_restart(folder: Path, store: Path) -> None:
    start = now()
    SegmentFile(folder).publish(record(start, start + 10))
    with JobTrace.open(folder, store, "full", devices=["pocl-0"]) as trace:
        first = trace.finish(start + 100)
        again = trace.finish(start + 999)
    assert first == again
    folder.rmdir()
    with JobTrace.open(folder, store, "full") as trace:
        assert trace.finish() == first


def test_a_finished_trace_takes_nothing_more(trace: JobTrace, folder: Path) -> None:
    SegmentFile(folder).publish(record(now(), now() + 10))
    first = trace.finish()
    SegmentFile(folder, number=1).publish(record(now(), now() + 10))
    trace.drain()
    assert trace.summary() == first


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match="nowhere"):
        JobTrace.open(tmp_path / "nowhere", tmp_path, "full")


def test_a_full_disk_refuses_and_recovers(folder: Path, store: Path) -> None:
    """Files of the store cannot be made: nothing is lost, the rings keep it."""
    segment, start = SegmentFile(folder), now()
    with JobTrace.open(folder, store, "full") as trace:
        (store / "fold").symlink_to("/nowhere")
        segment.publish(record(start, start + 10))
        with pytest.raises(errors.StokerError):
            trace.drain()
        assert segment.tail == 0
        (store / "fold").unlink()
        trace.drain()
        assert segment.tail == 1
        assert trace.summary().kernels[0].total_ns == 10


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


def times(on_cpu: int, runnable: int, blocked: int, io: int) -> Times:
    return Times(on_cpu, runnable, blocked, io, 0, 0, 0, ())


def test_open_states_are_spans_up_to_now() -> None:
    thread = ThreadTimes(7, 3, 202, 1000, 900, times(1, 1, 1, 1))
    young = ThreadTimes(8, 1, 0xFFFF, 5000, 900, times(1, 1, 1, 1))
    assert pack_open_states([thread, young], 5000) == struct.pack("<QQIHH", 1000, 5000, 7, 3, 202)


def test_spans_come_whole(trace: JobTrace) -> None:
    with pytest.raises(errors.BadRequest):
        trace.add_spans(b"x" * 25)


def test_the_environment_of_a_job() -> None:
    library, folder = Path("/lib/layer.so"), Path("/shm/1")
    assert layer_environment(library, folder, "off") == {}
    assert layer_environment(library, folder, "full", layers="/own.so") == {
        "OPENCL_LAYERS": "/lib/layer.so:/own.so",
        "STOKER_TRACE_DIR": "/shm/1",
        "STOKER_TRACE_MODE": "full",
    }


def test_the_summary_is_what_the_contract_says(trace: JobTrace, folder: Path) -> None:
    SegmentFile(folder).publish(record(now(), now() + 10))
    found = json.loads(msgspec.json.encode(trace.finish()))
    assert {"mode", "window", "kernels", "copies", "devices", "loss", "clock", "cost",
            "absent"} <= set(found)  # fmt: skip
    assert set(found["kernels"][0]) == {
        "name", "count", "total_ns", "p50_ns", "p99_ns", "estimate", "error_ns",
    }  # fmt: skip
    assert set(found["devices"][0]) == {"id", "window_ns", "estimate", "causes"}
    assert found["clock"] == {"source": "RAW", "offset_ns": -7, "drift_ppb": 3, "error_ns": 20}
    assert set(_trace.Job.__dict__) >= {"histogram"}
