# SPDX-License-Identifier: Apache-2.0
"""What a job did on its GPUs: its trace segments, folded into the summary that everybody reads.

Relied on by the agent (one JobTrace per traced job) and by the report. The segments belong to the
job and are read as hostile input; the fold is the agent's own file and is whole after kill -9 at
any point: no record is lost or counted twice. All times are CLOCK_MONOTONIC ns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol

import msgspec

from stoker.native import _trace, errors
from stoker.probes.call_records import CallRow

Mode = Literal["off", "governed", "full", "dormant"]
Phase = Literal["", "timed", "counted", "blind"]

SPAN_BYTES = 24
"""One thread span as BPF writes it: {u64 from_ns; u64 to_ns; u32 tid; u16 state; u16 detail}."""

_SPAN = struct.Struct("<QQIHH")
_MODES: tuple[Mode, ...] = ("off", "governed", "full", "dormant")
_TRACERS = {1: "opencl", 2: "cupti", 3: "rocprofiler", 4: "level_zero"}
_SIMULATED = 0x80
_PHASES: tuple[Phase, ...] = ("", "timed", "counted", "blind")
BUDGET_PPM_MAX = (1 << 24) - 1
_TIMELINE = ("timeline_dropped", "timeline_spans_dropped")
_NO_PEERS = "collective calls are not traced, so time spent waiting for a peer counts as host time"
_NO_THROTTLE = "no throttle counter is read by the trace, so throttled time counts as kernel time"

STORE_FILES = ("fold", "events", "spans")
"""What a JobTrace keeps in its store folder; created with the first segment, removed by nobody."""


class Window(msgspec.Struct, frozen=True):
    """The accounted time of a job."""

    from_ns: int
    to_ns: int


class KernelRow(msgspec.Struct, frozen=True):
    """All launches of one kernel name; `count` is what was counted, exactly.

    `estimate`: not every launch was timed; `total_ns` then has a 95 % interval of plus or minus
    `error_ns`. Percentiles are within 1.1 %, and None where no launch was timed. `unseen`: launches
    beside `count` that blind windows must have had; `total_ns` is of both. "(other)" holds names
    that had less device time than any that has a row; what a row lacks of its own time for having
    been there before is in its `error_ns`.
    """

    name: str
    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    estimate: bool = False
    error_ns: int = 0
    unseen: int = 0


class CopyRow(msgspec.Struct, frozen=True):
    """All copies of one kind (read, write, copy, fill, map, ...)."""

    name: str
    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    bytes: int
    estimate: bool = False
    error_ns: int = 0
    unseen: int = 0


class EventRow(msgspec.Struct, frozen=True):
    """Barriers, waits of the host, user events, a profiler's own time: they keep no device busy."""

    name: str
    count: int
    total_ns: int


class ProcessRow(msgspec.Struct, frozen=True):
    """One process of the job, or "(other)" for all beyond 255.

    `launches` and `copies` are counted, `unseen` is estimated beside them; `kernel_ns` and
    `copy_ns` are of all three. Its life is `observed_ns` (launches timed or sampled), `counted_ns`
    (counted alone), `blind_ns` (not seen by chance, estimated) and `dormant_ns` (not traced).
    """

    pid: int
    name: str
    tracer: str
    launches: int
    copies: int
    kernel_ns: int
    copy_ns: int
    tracer_ns: int
    observed_ns: int
    counted_ns: int = 0
    blind_ns: int = 0
    dormant_ns: int = 0
    unseen: int = 0
    estimate: bool = False
    error_ns: int = 0
    simulated: bool = False


class Causes(msgspec.Struct, frozen=True):
    """Where a device's window went; the fields add up to `window_ns` exactly."""

    kernel_ns: int = 0
    copy_ns: int = 0
    host_on_cpu_ns: int = 0
    host_runnable_ns: int = 0
    host_blocked_ns: int = 0
    host_paging_ns: int = 0
    peer_ns: int = 0
    throttled_ns: int = 0
    held_idle_ns: int = 0
    not_observed_ns: int = 0


class DeviceRow(msgspec.Struct, frozen=True):
    """One granted or used device. `error_ns`: 95 % half width of its busy time where that is an
    estimate; `observed_ns`: part of the window in which launches were timed or sampled."""

    id: str
    window_ns: int
    causes: Causes
    estimate: bool = False
    error_ns: int = 0
    observed_ns: int = 0


class ClockRow(msgspec.Struct, frozen=True):
    """How device stamps were put on CLOCK_MONOTONIC; `error_ns` bounds the alignment."""

    source: str
    offset_ns: int
    drift_ppb: int
    error_ns: int


class CostRow(msgspec.Struct, frozen=True):
    """What tracing cost the job's threads, by the tracer's own clock; share is of their time.
    `profiler_ns`: what the vendor's own profiler says it took beside that."""

    launches: int
    tracer_ns: int
    ns_per_launch: float
    share: float
    profiler_ns: int = 0


class TraceSummary(msgspec.Struct, frozen=True):
    """The trace of one job as the contract page spells it. `absent`: what has no value, and why."""

    mode: Mode
    window: Window
    kernels: tuple[KernelRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    loss: dict[str, int] = {}
    """Every counter by name, zeros included."""
    clock: ClockRow | None = None
    cost: CostRow | None = None
    absent: dict[str, str] = {}
    records: RecordCounts | None = None
    timeline: TimelineCounts | None = None
    processes: tuple[ProcessRow, ...] = ()
    events: tuple[EventRow, ...] = ()
    coverage: Coverage | None = None
    calls: tuple[CallRow, ...] = ()
    """Into GPU libraries, as the kernel saw them; the agent puts them in."""


class Coverage(msgspec.Struct, frozen=True):
    """Time of all processes together, by what was seen of it; they add up to their lives."""

    observed_ns: int
    counted_ns: int
    blind_ns: int
    dormant_ns: int
    windows: int


class TracerAnswer(msgspec.Struct, frozen=True):
    """What the tracer of one living process says of itself, and what it was told.

    `settled`: what was last told is in force. `switches_late`: times that a switch was put off
    because a call was under way; `pinned`: queues that cannot be moved and stay as they were.
    """

    pid: int
    name: str
    tracer: str
    mode: Mode
    settled: bool
    wanted: Mode | None = None
    """None where nothing was told."""
    budget_ppm: int = 0
    phase: Phase = ""
    since_ns: int = 0
    switches: int = 0
    switches_late: int = 0
    pinned: int = 0
    stepped_aside: bool = False
    holder: str = ""
    lease_ns: int = 0
    """CLOCK_MONOTONIC ns until when it believes what it was told."""
    simulated: bool = False


class RecordCounts(msgspec.Struct, frozen=True):
    """made = folded + dropped + in flight between ring and fold; the last is 0 after `finish`."""

    made: int
    folded: int
    dropped: int


class TimelineCounts(msgspec.Struct, frozen=True):
    """What a timeline written now would hold; what it no longer holds was folded all the same."""

    records: int
    records_dropped: int
    spans: int
    spans_dropped: int


class DrainStats(msgspec.Struct, frozen=True):
    """One drain: records folded by it, records lost so far for whatever reason, and advice."""

    records: int
    lost: int
    threads: tuple[int, ...]
    """Threads that have called a device: theirs are the states that explain its gaps."""
    segments: int
    """Processes with a segment that is still read."""
    fill: float
    """Fullest ring seen, 0 to 1; above 0.25 drain again at once."""


class StateTimes(Protocol):
    """Aggregate states of one thread, cumulative ns: `host_records.Times` is one."""

    @property
    def on_cpu_ns(self) -> int: ...
    @property
    def runnable_ns(self) -> int: ...
    @property
    def blocked_ns(self) -> int: ...
    @property
    def io_ns(self) -> int: ...


class OpenState(Protocol):
    """What a living thread is doing now: `host_records.ThreadTimes` is one."""

    @property
    def tid(self) -> int: ...
    @property
    def state(self) -> int: ...
    @property
    def detail(self) -> int: ...
    @property
    def since_ns(self) -> int: ...


class JobTrace:
    """The fold of one job; for one thread at a time. `drain`, `finish` release the GIL."""

    def __init__(self, job: _trace.Job, mode: Mode) -> None:
        self._job = job
        self._mode: Mode = mode

    @classmethod
    def open(
        cls,
        segment_dir: Path,
        store_dir: Path,
        mode: Mode,
        owner_uid: int | None = None,
        devices: Sequence[str] = (),
    ) -> JobTrace:
        """Open or continue; the window of a new trace starts now.

        `owner_uid`: whose segments are believed (None: the caller's own); `devices`: ids granted
        to the job, listed in the summary also when never used. Raises NotFound where a folder is
        missing, Corrupt where the fold contradicts itself.
        """
        job = _trace.Job()
        owner = os.getuid() if owner_uid is None else owner_uid
        number = _MODES.index(mode)
        error = job.open(str(segment_dir), str(store_dir), number, owner, time.monotonic_ns())
        if error:
            raise errors.from_errno(error, f"open the trace in {segment_dir} and {store_dir}")
        for device in devices:
            if job.grant(device):
                raise errors.Refused(f"a trace knows at most 16 devices, not also {device}")
        return cls(job, _MODES[job.summary()["mode"]])

    def drain(self) -> DrainStats:
        """Fold every published record; cheap when nothing happened.

        Raises Refused when the store's disk is full: nothing is lost then, the rings keep it.
        """
        return self._drained(self._job.drain(time.monotonic_ns()))

    def add_spans(self, spans: bytes) -> None:
        """Thread spans of the job, SPAN_BYTES each, per thread in order; call it before `drain`."""
        if len(spans) % SPAN_BYTES:
            raise errors.BadRequest(f"{len(spans)} bytes are no whole number of spans")
        self._job.add_spans(spans)

    def add_open_states(self, threads: Iterable[OpenState], asked_ns: int) -> None:
        """The states that went on at `asked_ns`: the kernel tells of a state when it ends, and a
        thread that sleeps for long would count as not observed until it wakes.

        Call it after `add_spans` of what was in the ring later than the states were read: one
        that does not join its thread's newest span is left out.
        """
        packed = (
            _SPAN.pack(thread.since_ns, asked_ns, thread.tid, thread.state, thread.detail)
            for thread in threads
            if thread.since_ns < asked_ns
        )
        self._job.add_open(b"".join(packed))

    def set_host_times(self, times: Mapping[int, StateTimes]) -> None:
        """Cumulative aggregates by thread id; they divide gaps where there are no spans.

        Beyond 256 threads the others are left out: those given first stay.
        """
        for tid, each in times.items():
            self._job.set_host_times(
                tid, each.on_cpu_ns, each.runnable_ns, each.blocked_ns, each.io_ns
            )

    def set_host_faults(self, faults: Mapping[int, int]) -> None:
        """Cumulative ns by thread id that it was on a CPU inside of page faults. The kernel's
        scheduler knows a thread that handles faults as one on a CPU; in a device's gaps that time
        becomes paging."""
        for tid, ns in faults.items():
            self._job.set_faults(tid, ns)

    def add_counter(self, device: str, name: str, t_ns: int, value: float, unit: str) -> None:
        """A reading of a device for the timeline, as its power in W. The newest 16,384 of up to 64
        different ones are kept, in memory; others count as `timeline_counters_dropped`."""
        self._job.add_counter(device, name, t_ns, value, unit)

    def set_window(self, from_ns: int, to_ns: int | None = None) -> None:
        """The time to account for; without `to_ns` it grows with each drain.

        `from_ns` can be set before the first span or record, else BadRequest. What has been
        accounted for stays: an earlier `to_ns` is moved to where that ends.
        """
        if self._job.set_window_from(from_ns):
            raise errors.BadRequest("the window has been accounted for from another start")
        if to_ns is not None:
            self._job.set_window_to(to_ns)

    def control(self, mode: Mode, budget_ppm: int, lease_ns: int) -> None:
        """What every tracer of the job is to do from now on, those of later processes included.

        `budget_ppm`: of the job's time, for `governed`. Written at once, and renewed by `drain`
        when a third of the lease is over: without drains for `lease_ns` the tracers are dormant.
        """
        if mode == "off" or lease_ns <= 0 or not 0 <= budget_ppm <= BUDGET_PPM_MAX:
            raise errors.BadRequest(f"no tracer can be told {mode}, {budget_ppm}, {lease_ns}")
        self._job.control(_MODES.index(mode), budget_ppm, lease_ns, time.monotonic_ns())

    def answer(self) -> tuple[TracerAnswer, ...]:
        """What is in force in each living process, as the last drain found it."""
        return tuple(_answer(each) for each in self._job.answers())

    def summary(self) -> TraceSummary:
        """What is known since the last drain."""
        return summarized(self._job.summary())

    def finish(self, to_ns: int | None = None) -> TraceSummary:
        """After the job's last process: drain the rest, close the window, give the final summary.

        Removes the segments it has folded. Calling it again gives the same summary.
        """
        self._drained(self._job.finish(time.monotonic_ns() if to_ns is None else to_ns))
        return self.summary()

    def histogram(self, kernel: str) -> _trace.Histogram | None:
        """Device times of one kernel as an OTLP exponential histogram of scale 5, zero threshold
        16 ns; None for a name that is not known."""
        return self._job.histogram(kernel)

    def events(self, first: int, most: int) -> tuple[int, int, bytes]:
        """Records from number `first` on, or from the oldest that is kept, at most `most`: the
        number of the first of them, how many were ever folded, and the records packed as
        `probes/records.py` says."""
        return self._job.events(first, most)

    def names(self) -> list[str]:
        """Kernel names by the rows that records speak of."""
        return self._job.names()

    def write_timeline(
        self,
        path: Path,
        *,
        title: str = "",
        part: Window | None = None,
        events: BinaryIO | None = None,
    ) -> TimelineCounts:
        """Write the newest 65,536 records and spans, or those of them that touch `part`, as a
        Perfetto trace; `path` is replaced. The counts: what was written, and what is no longer
        kept of the whole.

        `events`: a file of records as `events()` gave them, at most 262,144, instead of those that
        are kept.
        """
        whole = path.with_name(path.name + ".part")
        try:
            with whole.open("wb") as file:
                ends = (part.from_ns, part.to_ns) if part else (0, (1 << 64) - 1)
                error, records, spans, _ = self._job.write_timeline(
                    file.fileno(),
                    title,
                    time.monotonic_ns(),
                    time.time_ns(),
                    *ends,
                    -1 if events is None else events.fileno(),
                )
            if not error:
                whole.replace(path)
        except OSError as failed:
            error = -(failed.errno or errno.EIO)
        if error:
            with contextlib.suppress(OSError):
                whole.unlink()
            raise errors.from_errno(error, f"write the timeline {path}")
        kept = _timeline(self._job.summary())
        return TimelineCounts(records, kept.records_dropped, spans, kept.spans_dropped)

    def close(self) -> None:
        """Let go of files; the store stays and can be opened again."""
        self._job.close()

    def __enter__(self) -> JobTrace:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _drained(self, drained: _trace.Drained) -> DrainStats:
        error, records, lost, threads, segments, fill = drained
        if error:
            raise errors.from_errno(error, "keep what was drained from a job's trace")
        return DrainStats(records, lost, threads, segments, fill)


def merged(histograms: Iterable[_trace.Histogram]) -> _trace.Histogram:
    """One histogram of all, as of a kernel in several jobs: no bucket is lost, for all have the
    same bounds."""
    together = _trace.Histogram()
    for each in histograms:
        together.merge(each)
    return together


def summarized(found: _trace.Summary) -> TraceSummary:
    """The C fold's answer as the contract page spells it."""
    launches, tracer_ns, thread_ns = found["cost"]
    devices = tuple(_device(each) for each in found["devices"])
    clock = next((_clock(each) for each in found["devices"] if each[3] and each[6]), None)
    return TraceSummary(
        mode=_MODES[found["mode"]],
        window=Window(*found["window"]),
        kernels=tuple(sorted((_kernel(row) for row in found["kernels"]), key=_by_total)),
        copies=tuple(sorted((_copy(row) for row in found["copies"]), key=_by_total)),
        devices=devices,
        loss={name: count for name, count in found["loss"].items() if name not in _TIMELINE},
        clock=clock,
        cost=CostRow(
            launches,
            tracer_ns,
            tracer_ns / launches if launches else 0.0,
            tracer_ns / thread_ns if thread_ns else 0.0,
            found["profiler_ns"],
        )
        if found["segments"]
        else None,
        absent=_absent(found),
        records=RecordCounts(
            found["made"],
            found["records"],
            found["loss"]["ring_full"] + found["loss"]["records_damaged"],
        ),
        timeline=_timeline(found),
        processes=tuple(_process(row) for row in found["processes"]),
        events=tuple(EventRow(*row) for row in found["events"]),
        coverage=_coverage(found),
    )


def _coverage(found: _trace.Summary) -> Coverage | None:
    covers = [row[10] for row in found["processes"]]
    observed, counted, blind, dormant = (sum(cover[i] for cover in covers) for i in range(4))
    return Coverage(observed, counted, blind, dormant, found["windows"]) if covers else None


def _timeline(found: _trace.Summary) -> TimelineCounts:
    lost, spans_lost = (found["loss"][name] for name in _TIMELINE)
    return TimelineCounts(found["records"] - lost, lost, found["spans"] - spans_lost, spans_lost)


def _kernel(row: _trace.Row) -> KernelRow:
    name, count, total_ns, p50_ns, p99_ns, _bytes, estimate, error_ns, _timed, unseen = row
    return KernelRow(name, count, total_ns, p50_ns, p99_ns, estimate, error_ns, unseen)


def _copy(row: _trace.Row) -> CopyRow:
    name, count, total_ns, p50_ns, p99_ns, size, estimate, error_ns, _timed, unseen = row
    return CopyRow(name, count, total_ns, p50_ns, p99_ns, size, estimate, error_ns, unseen)


def _tracer(number: int) -> tuple[str, bool]:
    kind = number & ~_SIMULATED
    return _TRACERS.get(kind, str(kind)), bool(number & _SIMULATED)


def _process(row: _trace.Process) -> ProcessRow:
    pid, name, number, launches, copies, unseen, kernel_ns, copy_ns = row[:8]
    estimate, tracer_ns, cover, error = row[8:]
    tracer, simulated = _tracer(number)
    error_ns = int(error * (kernel_ns + copy_ns)) if estimate else 0
    return ProcessRow(pid, name, tracer, launches, copies, kernel_ns, copy_ns, tracer_ns, *cover,
                      unseen, estimate, error_ns, simulated)  # fmt: skip


# A tracer's words are the job's: what they cannot mean becomes what is nearest.
def _answer(row: _trace.Answer) -> TracerAnswer:
    pid, name, number, wanted, applied, mode, phase, since_ns, switches, late, pinned = row[:11]
    stepped_aside, holder, lease_ns = row[11:]
    tracer, simulated = _tracer(number)
    return TracerAnswer(
        pid,
        name,
        tracer,
        _MODES[mode] if mode < len(_MODES) else "off",
        wanted == applied or stepped_aside,
        _MODES[wanted & 3] if wanted else None,
        wanted >> 8 & BUDGET_PPM_MAX,
        _PHASES[phase] if phase < len(_PHASES) else "",
        since_ns,
        switches,
        late,
        pinned,
        stepped_aside,
        holder,
        lease_ns,
        simulated,
    )


def _by_total(row: KernelRow | CopyRow) -> tuple[int, str]:
    return -row.total_ns, row.name


def _device(row: _trace.Device) -> DeviceRow:
    causes, estimate = row[4], row[5]
    return DeviceRow(row[0], sum(causes), Causes(*causes), estimate, row[10], row[11])


def _clock(row: _trace.Device) -> ClockRow:
    return ClockRow(*row[6:10])


# Which parts of the summary have no value, and why.
def _absent(found: _trace.Summary) -> dict[str, str]:
    absent = {"causes.peer_ns": _NO_PEERS, "causes.throttled_ns": _NO_THROTTLE}
    if not found["segments"]:
        absent["kernels"] = absent["copies"] = absent["cost"] = absent["clock"] = (
            "no process of the job has called OpenCL"
        )
    if not found["spans_seen"]:
        absent["spans"] = "no thread spans were given, so host causes are estimates or not observed"
    untimed = [row[0] for row in found["kernels"] + found["copies"] if not row[8]]
    if untimed:
        absent["total_ns"] = f"no launch was timed of: {', '.join(untimed[:8])}"
    if found["command_buffers"]:
        absent["command_buffers"] = "launches inside of command buffers are not seen by the layer"
    return absent
