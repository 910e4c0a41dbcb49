# SPDX-License-Identifier: Apache-2.0
"""A job's use of its GPUs: its trace segments, folded into one summary for all readers.

The segments belong to the job and are read as hostile input; the fold is the agent's own file and
is whole after kill -9 at any point: no record is lost or counted twice. All times are
CLOCK_MONOTONIC ns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import msgspec

from stoker.native import _trace, errors
from stoker.probes.kernels.trace_summary import (
    BUDGET_PPM_MAX,
    HOLD_WHOLE,
    MODES,
    Causes,
    ClockAlignment,
    CopyRow,
    CostRow,
    Coverage,
    DeviceRow,
    EventRow,
    KernelSummary,
    Mode,
    Phase,
    ProcessRow,
    RecordCounts,
    TimelineCounts,
    TimeWindow,
    TracerAnswer,
    TraceSummary,
    answered,
    summarized,
    timeline_counts,
)

__all__ = [
    "HOLD_WHOLE",
    "SPAN_BYTES",
    "STORE_FILES",
    "Causes",
    "ClockAlignment",
    "CopyRow",
    "CostRow",
    "Coverage",
    "DeviceRow",
    "DrainStats",
    "EventRow",
    "FoundSegment",
    "JobTrace",
    "KernelSummary",
    "Mode",
    "OpenState",
    "Phase",
    "ProcessRow",
    "RecordCounts",
    "StateTimes",
    "TimeWindow",
    "TimedLaunch",
    "TimelineCounts",
    "TraceSummary",
    "TracerAnswer",
    "merged",
    "summarized",
]

SPAN_BYTES = 24
"""One thread span as BPF writes it: {u64 from_ns; u64 to_ns; u32 tid; u16 state; u16 detail}. On a
CPU the detail is what part of it went into page faults: that part is paging."""

_SPAN = struct.Struct("<QQIHH")

STORE_FILES = ("fold", "events", "spans")
"""The files of a JobTrace in its store; made with the first segment and never removed."""


class DrainStats(msgspec.Struct, frozen=True):
    """The result of one drain: records folded by it, all records lost so far, and advice."""

    records: int
    lost: int
    threads: tuple[int, ...]
    """The threads that have called a device; their states explain its gaps."""
    segments: int
    """The number of processes with a segment that is still read."""
    fill: float
    """The level of the fullest ring, 0 to 1; above 0.25 drain again at once."""


class FoundSegment(msgspec.Struct, frozen=True):
    """A new segment of a process of the job, which shows that its tracer is loaded."""

    pid: int
    start_time: int
    """The clock ticks from boot to the start of the process."""
    made_ns: int
    """The CLOCK_MONOTONIC time of its making by the tracer."""


class TimedLaunch(NamedTuple):
    """One timed launch: its device time, and its end."""

    ns: int
    end_ns: int


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
    @property
    def handling_ns(self) -> int: ...
    @property
    def stolen_ns(self) -> int: ...


class OpenState(Protocol):
    """The current state of a living thread; `host_records.ThreadTimes` is one."""

    @property
    def tid(self) -> int: ...
    @property
    def state(self) -> int: ...
    @property
    def detail(self) -> int: ...
    @property
    def since_ns(self) -> int: ...


class JobTrace:
    """The fold of one job, for one thread at a time. `drain` and `finish` release the GIL."""

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

        `owner_uid`: the owner of accepted segments (None: the caller); `devices`: ids granted to
        the job, which the summary lists even if they are never used. Raises NotFound where a folder
        is missing, Corrupt where the fold contradicts itself.
        """
        job = _trace.Job()
        owner = os.getuid() if owner_uid is None else owner_uid
        number = MODES.index(mode)
        error = job.open(str(segment_dir), str(store_dir), number, owner, time.monotonic_ns())
        if error:
            raise errors.from_errno(error, f"open the trace in {segment_dir} and {store_dir}")
        for device in devices:
            if job.grant(device):
                raise errors.Refused(f"a trace knows at most 16 devices, not also {device}")
        return cls(job, MODES[job.summary()["mode"]])

    def drain(self, fed_ns: int | None = None) -> DrainStats:
        """Fold every published record; cheap when nothing happened.

        Spans that ended before `fed_ns` (None: now) have all been added, later ones may still come.
        Raises Refused when the store's disk is full: nothing is lost then, the rings keep it.
        """
        if fed_ns is not None:
            self._job.fed(fed_ns)
        return self._drained(self._job.drain(time.monotonic_ns()))

    def add_spans(self, spans: bytes) -> None:
        """Thread spans of the job, SPAN_BYTES each, per thread in order; call it before `drain`."""
        if len(spans) % SPAN_BYTES:
            raise errors.BadRequest(f"{len(spans)} bytes are no whole number of spans")
        self._job.add_spans(spans)

    def add_open_states(self, threads: Iterable[OpenState], asked_ns: int) -> None:
        """Add the states that were open at `asked_ns`.

        The kernel reports a state when it ends, so a thread in a long sleep would count as not
        observed until it wakes.

        First read the states, then the ring of spans, and add those spans before the states: a
        state that does not join its thread's newest span is left out.
        """
        packed = (
            _SPAN.pack(thread.since_ns, asked_ns, thread.tid, thread.state, thread.detail)
            for thread in threads
            if thread.since_ns < asked_ns
        )
        self._job.add_open(b"".join(packed))

    def add_waits(self, waits: bytes, to_ns: int) -> None:
        """Add the times in which threads waited for other ranks, SPAN_BYTES each.

        All before `to_ns` have been added by now. Time is settled no further, unless that takes
        more than 2 s."""
        self._job.add_waits(waits, to_ns)

    def set_host_times(self, times: Mapping[int, StateTimes]) -> None:
        """Set cumulative aggregates by thread id, which divide gaps without spans.

        Beyond 256 threads the later ones are left out.
        """
        for tid, each in times.items():
            paging = min(each.handling_ns, each.on_cpu_ns)
            stolen = min(each.stolen_ns, each.on_cpu_ns - paging)
            self._job.set_host_times(
                tid,
                each.on_cpu_ns - paging - stolen,
                each.runnable_ns + stolen,
                each.blocked_ns,
                each.io_ns + paging,
            )

    def add_counter(self, device: str, name: str, t_ns: int, value: float, unit: str) -> None:
        """Add a reading of a device to the timeline, such as its power in W.

        The newest 16,384 of up to 64 different ones are kept, in memory; others count as
        `timeline_counters_dropped`.
        """
        self._job.add_counter(device, name, t_ns, value, unit)

    def set_window(self, from_ns: int, to_ns: int | None = None) -> None:
        """Set the accounted time; without `to_ns` it grows with each drain.

        `from_ns` can be set before the first span or record, else BadRequest. Accounted time stays:
        an earlier `to_ns` is moved to its end.
        """
        if self._job.set_window_from(from_ns):
            raise errors.BadRequest("the window has been accounted for from another start")
        if to_ns is not None:
            self._job.set_window_to(to_ns)

    def control(self, mode: Mode, budget_ppm: int, lease_ns: int) -> None:
        """Set the mode of every tracer of the job, including those of later processes.

        `budget_ppm`: of the job's time, for `governed`. Written at once, and renewed by `drain`
        when a third of the lease is over: without drains for `lease_ns` the tracers are dormant.
        """
        if mode == "off" or lease_ns <= 0 or not 0 <= budget_ppm <= BUDGET_PPM_MAX:
            raise errors.BadRequest(f"no tracer can be told {mode}, {budget_ppm}, {lease_ns}")
        self._job.control(MODES.index(mode), budget_ppm, lease_ns, time.monotonic_ns())

    def hold(self, share: int) -> None:
        """Let launches of the job begin only in this part of the time, 1 to HOLD_WHOLE (no limit).

        Tracers with `TracerAnswer.holds` obey it, including those of later processes.

        Written at once and renewed by `drain`; without drains launches go on within a second.
        """
        if not 1 <= share <= HOLD_WHOLE:
            raise errors.BadRequest(f"launches cannot be held to {share} of {HOLD_WHOLE}")
        self._job.hold(share, time.monotonic_ns())

    def answer(self) -> tuple[TracerAnswer, ...]:
        """Return the state of each living process's tracer, as the last drain found it."""
        return tuple(answered(each) for each in self._job.answers())

    def found(self) -> tuple[FoundSegment, ...]:
        """Return the segments that drains have found since the last call, also of ended processes.

        Called after every drain and after `finish`, it misses no folded one.
        """
        return tuple(FoundSegment(*each) for each in self._job.found())

    def summary(self) -> TraceSummary:
        """Return the summary of all records up to the last drain."""
        return summarized(self._job.summary())

    def finish(self, to_ns: int | None = None) -> TraceSummary:
        """Drain the rest after the job's last process, close the window, return the final summary.

        The folded segments are removed. Calling it again returns the same summary.
        """
        self._drained(self._job.finish(time.monotonic_ns() if to_ns is None else to_ns))
        return self.summary()

    def histogram(self, kernel: str) -> _trace.Histogram | None:
        """Return device times of one kernel as an OTLP exponential histogram.

        Its scale is 5, its zero threshold 16 ns; None for an unknown name.
        """
        return self._job.histogram(kernel)

    def slowest(self, kernel: str) -> TimedLaunch | None:
        """Return the slowest launch of one kernel of late: none that ended within ten seconds after
        it took longer. None if there was none since this trace was opened."""
        found = self._job.slowest(kernel)
        return TimedLaunch(*found) if found is not None else None

    def events(self, first: int, most: int) -> tuple[int, int, bytes]:
        """Return at most `most` kept records from number `first` on.

        The result is the number of the first one, the number ever folded, and the records as packed
        by `record_batches.py`.
        """
        return self._job.events(first, most)

    def names(self) -> list[str]:
        """Return the kernel names by the rows that records refer to."""
        return self._job.names()

    def write_timeline(
        self,
        path: Path,
        *,
        title: str = "",
        part: TimeWindow | None = None,
        events: BinaryIO | None = None,
    ) -> TimelineCounts:
        """Write the newest 65,536 records and spans, or those that touch `part`, as a Perfetto
        trace; `path` is replaced. `events`: a file of at most 262,144 records as `events()` gave
        them, instead. The counts: what was written, and what is no longer kept of the whole."""
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
        kept = timeline_counts(self._job.summary())
        return TimelineCounts(records, kept.records_dropped, spans, kept.spans_dropped)

    def close(self) -> None:
        """Close the files; the store stays and can be opened again."""
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
    """Return the sum of histograms, such as those of a kernel in several jobs.

    It is exact, because all have the same bounds.
    """
    together = _trace.Histogram()
    for each in histograms:
        together.merge(each)
    return together
