# SPDX-License-Identifier: Apache-2.0
"""The Perfetto file, read back with Perfetto's own protos: tracks, slices, flows, losses."""

from __future__ import annotations

import platform
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stoker.native import errors
from stoker.probes.kernels.job_trace import JobTrace, TimeWindow
from tests.probes.segment_file import (
    NO_DEVICE,
    RECORD,
    SYNC,
    USER_EVENT,
    SegmentFile,
    record,
)

protos = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="perfetto is not installed"
)
SPAN = struct.Struct("<QQIHH")
BASE = 10**9
"""CLOCK_MONOTONIC ns: a moment that every machine has passed when it runs tests, since nothing may
be seen in the future."""
MONOTONIC = 3
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]


class Parsed:
    """A trace as a reader sees it."""

    def __init__(self, path: Path) -> None:
        self.packets = protos.Trace.FromString(path.read_bytes()).packet
        self.names: dict[int, str] = {}
        self.tracks: dict[int, Any] = {}
        self.events: dict[int, list[Any]] = defaultdict(list)
        for packet in self.packets:
            for name in packet.interned_data.event_names:
                self.names[name.iid] = name.name
            if packet.HasField("track_descriptor"):
                assert packet.track_descriptor.uuid not in self.tracks
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if packet.HasField("track_event"):
                assert packet.timestamp_clock_id == MONOTONIC
                self.events[packet.track_event.track_uuid].append(packet)

    def track(self, name: str) -> int:
        found = [uuid for uuid, track in self.tracks.items() if name in (
            track.name, track.thread.thread_name, track.process.process_name)]  # fmt: skip
        assert len(found) == 1, (name, found)
        return found[0]

    def slices(self, uuid: int) -> Iterator[tuple[str, int, int, Any]]:
        """(name, from, to, begin event); every slice closed before the next begins."""
        events = self.events[uuid]
        assert len(events) % 2 == 0
        last = 0
        for begin, end in zip(events[::2], events[1::2], strict=True):
            assert begin.track_event.type == begin.track_event.TYPE_SLICE_BEGIN
            assert end.track_event.type == end.track_event.TYPE_SLICE_END
            assert last <= begin.timestamp <= end.timestamp
            last = end.timestamp
            name = self.names[begin.track_event.name_iid]
            yield name, begin.timestamp, end.timestamp, begin.track_event


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[tuple[JobTrace, Path]]:
    folder, store = tmp_path / "segments", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    with JobTrace.open(folder, store, "full") as trace:
        trace.set_window(BASE)
        yield trace, folder


def parsed(trace: JobTrace, tmp_path: Path, title: str = "job 7") -> Parsed:
    path = tmp_path / "timeline"
    trace.write_timeline(path, title=title)
    return Parsed(path)


def notes(event: Any) -> dict[str, int]:
    return {note.name: note.uint_value for note in event.debug_annotations}


def test_threads_queues_and_flows(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    segment = SegmentFile(folder)
    segment.publish(record(BASE + 100, BASE + 200), record(BASE + 300, BASE + 350, name=2))
    segment.publish(record(BASE + 400, BASE + 410, kind=1, shift=2))
    trace.drain()
    found = parsed(trace, tmp_path)
    thread = found.track("thread 77")
    assert found.tracks[thread].thread.pid == segment.pid
    assert found.tracks[thread].thread.tid == 77
    assert found.tracks[found.track("worker?")].process.pid == segment.pid
    calls = list(found.slices(thread))
    assert [(name, start, stop) for name, start, stop, _ in calls] == [
        ("saxpy", BASE + 93, BASE + 97),
        ("smooth", BASE + 293, BASE + 297),
        ("write", BASE + 393, BASE + 397),
    ]
    queue = found.track("queue 3")
    assert found.tracks[queue].parent_uuid == found.track("pocl-0 cpu")
    work = list(found.slices(queue))
    assert [(name, start, stop) for name, start, stop, _ in work] == [
        ("saxpy", BASE + 100, BASE + 200),
        ("smooth", BASE + 300, BASE + 350),
        ("write", BASE + 400, BASE + 410),
    ]
    flows = [list(event.flow_ids) for *_, event in calls]
    assert flows == [list(event.terminating_flow_ids) for *_, event in work]
    assert len({flow for (flow,) in flows}) == 3
    assert notes(work[0][3]) == {"waited_ns": 5}
    assert notes(work[2][3]) == {"waited_ns": 5, "bytes": 0, "stands_for_launches": 4}


def test_work_that_overlaps_gets_tracks_of_its_own(
    opened: tuple[JobTrace, Path], tmp_path: Path
) -> None:
    trace, folder = opened
    SegmentFile(folder).publish(*(record(BASE + i, BASE + 100 + i) for i in range(12)))
    trace.drain()
    found = parsed(trace, tmp_path)
    queues = [uuid for uuid, track in found.tracks.items() if track.name == "queue 3"]
    assert len(queues) == 8
    assert sum(len(list(found.slices(uuid))) for uuid in queues) == 12


def test_thread_states(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    SegmentFile(folder).publish(record(BASE + 10, BASE + 20))
    trace.add_spans(
        b"".join(
            SPAN.pack(BASE + start, BASE + stop, 77, state, detail)
            for start, stop, state, detail in (
                (0, 5, 1, 0xFFFF),
                (5, 9, 2, 0xFFFF),
                (9, 30, 3, FUTEX),
                (9, 40, 3, FUTEX),  # the same state, told again when it ended
                (40, 45, 4, 0xFFFF),
                (45, 50, 3, 0xFFFF),
                (50, 60, 3, 1000),
            )
        )
    )
    trace.drain()
    found = parsed(trace, tmp_path)
    states = [(name, start - BASE, stop - BASE)
              for name, start, stop, _ in found.slices(found.track("thread 77 state"))]  # fmt: skip
    assert states == [
        ("on CPU", 0, 5),
        ("runnable", 5, 9),
        ("blocked in futex", 9, 30),
        ("blocked in futex", 30, 40),
        ("I/O or paging", 40, 45),
        ("blocked", 45, 50),
        ("blocked in system call 1000", 50, 60),
    ]


def test_one_call_may_launch_many(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    """A graph whose kernels have records of their own: one call, a flow to each of them."""
    trace, folder = opened
    kernels = []
    for i in range(3):
        each = record(BASE + 100 + 50 * i, BASE + 140 + 50 * i)
        each[0], each[5] = BASE + 95, 77
        kernels.append(each)
    SegmentFile(folder).publish(*kernels, record(BASE + 400, BASE + 410))
    trace.drain()
    found = parsed(trace, tmp_path)
    calls = list(found.slices(found.track("thread 77")))
    assert [start - BASE for _, start, _, _ in calls] == [93, 393]
    work = list(found.slices(found.track("queue 3")))
    assert list(calls[0][3].flow_ids) == [
        flow for *_, event in work[:3] for flow in event.terminating_flow_ids
    ]
    assert len(set(calls[0][3].flow_ids)) == 3


def test_waits_of_the_host(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    segment = SegmentFile(folder)
    segment.publish(record(BASE + 100, BASE + 200))
    for i, (start, stop, kind) in enumerate(((120, 205, SYNC), (130, 150, USER_EVENT))):
        event = record(BASE + start, BASE + stop, kind=kind)
        event[11] = NO_DEVICE
        segment.write(1 + i, event)
    segment.set_head(3)
    trace.drain()
    found = parsed(trace, tmp_path)
    tracks = [uuid for uuid, track in found.tracks.items() if track.name == "thread 77 waits"]
    waits = [(name, start - BASE, stop - BASE)
             for uuid in tracks for name, start, stop, _ in found.slices(uuid)]  # fmt: skip
    assert waits == [("wait for the device", 120, 205), ("user event", 130, 150)]
    assert len(list(found.slices(found.track("queue 3")))) == 1
    assert len(list(found.slices(found.track("thread 77")))) == 1


def test_what_was_seen_and_every_switch(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    segment = SegmentFile(folder)
    segment.put(24, struct.pack("<Q", BASE))
    segment.publish(record(BASE + 100, BASE + 200))
    for start, stop, phase, period in ((0, 100, 1, 0), (100, 300, 1, 1000), (300, 700, 2, 1000),
                                       (700, 1000, 3, 1000), (1000, 1500, 3, 0)):  # fmt: skip
        segment.close_window(BASE + start, BASE + stop, phase, period)
    segment.open_window(BASE + 1500, 2, 1)
    trace.drain()
    found = parsed(trace, tmp_path)
    seen = [(name, start - BASE, stop - BASE) for name, start, stop, _ in found.slices(
        found.track(f"process {segment.pid} seen"))]  # fmt: skip
    assert seen == [
        ("timed", 0, 300),
        ("counted", 300, 700),
        ("blind", 700, 1000),
        ("dormant", 1000, 1500),
    ]
    switches = found.events[found.track(f"process {segment.pid} switches")]
    assert [
        (found.names[each.track_event.name_iid], each.timestamp - BASE) for each in switches
    ] == [("counted", 300), ("blind", 700), ("dormant", 1000)]
    assert all(each.track_event.type == each.track_event.TYPE_INSTANT for each in switches)


def test_readings_of_devices(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    SegmentFile(folder).publish(record(BASE + 100, BASE + 200))
    for i in range(3):
        trace.add_counter("GPU-1", "power", BASE + 100 * i, 70.5 + i, "W")
    trace.add_counter("GPU-1", "clock", BASE + 50, 1980, "MHz")
    trace.drain()
    found = parsed(trace, tmp_path)
    power = found.track("GPU-1 power")
    assert found.tracks[power].counter.unit_name == "W"
    assert [(each.timestamp - BASE, each.track_event.double_counter_value)
            for each in found.events[power]] == [(0, 70.5), (100, 71.5), (200, 72.5)]  # fmt: skip
    assert all(each.track_event.type == 4 for each in found.events[power])
    assert len(found.events[found.track("GPU-1 clock")]) == 1
    part = TimeWindow(BASE + 100, BASE + 200)
    trace.write_timeline(tmp_path / "part", part=part)
    window = Parsed(tmp_path / "part")
    assert len(window.events[power]) == 1
    (note,) = window.events[window.track("losses")]
    assert note.timestamp == part.from_ns, "a note before the window would stretch it"


def test_readings_beyond_what_is_kept_are_counted(
    opened: tuple[JobTrace, Path], tmp_path: Path
) -> None:
    trace, folder = opened
    SegmentFile(folder).publish(record(BASE + 100, BASE + 200))
    for i in range((1 << 14) + 5):
        trace.add_counter("GPU-1", "power", BASE + i, i, "W")
    for i in range(70):
        trace.add_counter("GPU-1", f"figure {i}", BASE, i, "W")
    trace.drain()
    assert trace.summary().loss["timeline_counters_dropped"] == 5 + 63 + 7
    found = parsed(trace, tmp_path)
    kept = found.events[found.track("GPU-1 power")]
    assert kept[-1].track_event.double_counter_value == (1 << 14) + 4


def test_losses_are_a_note(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    segment = SegmentFile(folder)
    segment.publish(record(BASE + 10, BASE + 20))
    trace.drain()
    found = parsed(trace, tmp_path)
    (note,) = found.events[found.track("job 7: losses")]
    assert found.names[note.track_event.name_iid] == "nothing lost"
    segment.add("ring_full", 4)
    segment.add("timed", 4)
    segment.count(1, 16, 4)
    trace.drain()
    found = parsed(trace, tmp_path)
    (note,) = found.events[found.track("job 7: losses")]
    assert "4 lost" in found.names[note.track_event.name_iid]
    assert notes(note.track_event)["ring_full"] == 4


def test_what_no_tracer_looked_at_is_a_note(tmp_path: Path) -> None:
    folder, store = tmp_path / "segments", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    segment = SegmentFile(folder)
    begun = time.monotonic_ns() - 1_000_000
    segment.put(24, struct.pack("<Q", begun))
    segment.close_window(begun, begun + 400_000, 3)
    segment.open_window(begun + 400_000, 2, 1)
    with JobTrace.open(folder, store, "full") as trace:
        trace.set_window(begun)
        trace.drain()
        found = parsed(trace, tmp_path)
    (note,) = found.events[found.track("job 7: losses")]
    told = found.names[note.track_event.name_iid]
    assert told.startswith("nothing lost; no launch was counted in "), told


def test_the_clock_is_monotonic_and_tied_to_the_wall(
    opened: tuple[JobTrace, Path], tmp_path: Path
) -> None:
    trace, folder = opened
    SegmentFile(folder).publish(record(BASE + 10, BASE + 20))
    trace.drain()
    first = parsed(trace, tmp_path).packets[0]
    assert first.clock_snapshot.primary_trace_clock == MONOTONIC
    assert sorted(clock.clock_id for clock in first.clock_snapshot.clocks) == [1, MONOTONIC]
    assert first.sequence_flags == first.SEQ_INCREMENTAL_STATE_CLEARED


def test_only_the_newest_are_kept_in_order(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    segment = SegmentFile(folder, ring_records=1 << 13)
    kept = 1 << 16
    for lap in range(17):
        at = BASE + lap * 10_000_000
        data = b"".join(
            RECORD.pack(*record(at + i * 10, at + i * 10 + 5)[:-1],
                        lap * 4096 + i)
            for i in range(4096)
        )  # fmt: skip
        segment.put(segment.ring + (lap % 2) * 4096 * 64, data)
        segment.add("timed", 4096)
        segment.set_head((lap + 1) * 4096)
        trace.drain()
    counts = trace.write_timeline(tmp_path / "timeline")
    assert (counts.records, counts.records_dropped) == (kept, 17 * 4096 - kept)
    found = Parsed(tmp_path / "timeline")
    work = list(found.slices(found.track("queue 3")))
    assert len(work) == kept
    assert work[0][1] == BASE + 10_000_000


def test_long_names_and_titles_fit(opened: tuple[JobTrace, Path], tmp_path: Path) -> None:
    trace, folder = opened
    SegmentFile(folder, names=("k" * 187,)).publish(record(BASE + 1, BASE + 2))
    trace.drain()
    found = parsed(trace, tmp_path, title="t" * 5000)
    assert "k" * 187 in found.names.values()


def test_it_can_be_written_after_the_end_and_after_a_restart(tmp_path: Path) -> None:
    folder, store = tmp_path / "segments", tmp_path / "store"
    folder.mkdir()
    store.mkdir()
    with JobTrace.open(folder, store, "full") as trace:
        trace.set_window(BASE)
        SegmentFile(folder).publish(record(BASE + 10, BASE + 20))
        trace.finish()
        trace.write_timeline(tmp_path / "first", title="x")
    with JobTrace.open(folder, store, "full") as trace:
        trace.write_timeline(tmp_path / "second", title="x")
    first, second = Parsed(tmp_path / "first"), Parsed(tmp_path / "second")
    assert first.packets[1:] == second.packets[1:]  # all but the clock's reading


def test_a_place_that_cannot_be_written_is_named(
    opened: tuple[JobTrace, Path], tmp_path: Path
) -> None:
    trace, folder = opened
    SegmentFile(folder).publish(record(BASE + 10, BASE + 20))
    trace.drain()
    with pytest.raises(errors.StokerError, match="nowhere"):
        trace.write_timeline(tmp_path / "nowhere" / "x")
    (tmp_path / "x.part").symlink_to("/dev/full")
    with pytest.raises(errors.Refused, match="ENOSPC"):
        trace.write_timeline(tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert not (tmp_path / "x.part").is_symlink()
