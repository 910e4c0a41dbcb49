# SPDX-License-Identifier: Apache-2.0
"""The summary of a job's trace for all readers: rows, causes, coverage and tracers' answers.

The contract page spells the same as JSON. All times are CLOCK_MONOTONIC ns.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, Self

import msgspec

from stoker.native import _trace
from stoker.probes.calls.call_records import CallRow
from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.host.pressure import JobPressure
from stoker.probes.host.wait_stacks import StackWait
from stoker.probes.kernels.clock_table import ClockRow as TableRow
from stoker.probes.kernels.clock_table import device_row

Mode = Literal["off", "governed", "full", "dormant"]
Phase = Literal["", "timed", "counted", "blind"]

MODES: tuple[Mode, ...] = ("off", "governed", "full", "dormant")
"""The modes, in the order of their numbers in a segment."""
BUDGET_PPM_MAX = (1 << 24) - 1
HOLD_WHOLE = 1024
"""SK_THROTTLE_WHOLE of native/records/throttle.h."""

_TRACERS = {1: "opencl", 2: "cupti", 3: "rocprofiler", 4: "level_zero"}
_SIMULATED = 0x80
THROTTLED = {False: "causes.throttled_ns", True: "clocks_lowered"}
"""The key under which a summary says why slowed devices are not told apart: beside launches that
were held back, which are throttled time that is known, it is the second one."""
_THROTTLED = 7
"""SK_CAUSE_THROTTLED of native/trace/causes/causes.h."""
_PHASES: tuple[Phase, ...] = ("", "timed", "counted", "blind")
_TIMELINE = ("timeline_dropped", "timeline_spans_dropped")
PEERS = "causes.peer_ns"
"""The key under which a summary says why waiting for a peer is not told apart."""
_NO_PEERS = "collective calls are not traced, so time spent waiting for a peer counts as host time"
_NO_THROTTLE = (
    "no throttle counter is read by the trace, so what a device runs slower counts as kernel time"
)


class TimeWindow(msgspec.Struct, frozen=True):
    """The accounted time of a job."""

    from_ns: int
    to_ns: int


class KernelSummary(msgspec.Struct, frozen=True):
    """All launches of one kernel name; `count` is what was counted: exact where `seen` is 1.

    `seen`: part of the time of the job's processes in which launches were counted; below 1 there
    were at least `count`. `unseen`: the estimated launches in blind windows, beside `count`.
    `estimate`: not every launch was timed. `total_ns` covers counted and unseen launches, with a
    95 % interval of plus or minus `error_ns`. All time in which no tracer looked is in `error_ns`,
    since the device may have worked for this row alone then. Percentiles are within 1.1 %, and None
    where no launch was timed. The row "(other)" holds the names with the least device time. A name
    that was there before it had a row lacks that time, which is in its `error_ns`.
    """

    name: str
    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    estimate: bool = False
    error_ns: int = 0
    unseen: int = 0
    seen: float = 1.0


class CopyRow(msgspec.Struct, frozen=True):
    """All copies of one kind (read, write, copy, fill, map, ...); see KernelSummary for fields."""

    name: str
    count: int
    total_ns: int
    p50_ns: int | None
    p99_ns: int | None
    bytes: int
    estimate: bool = False
    error_ns: int = 0
    unseen: int = 0
    seen: float = 1.0


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
    """The causes of a device's time; the fields add up to `window_ns` exactly."""

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


class ThrottleRow(msgspec.Struct, frozen=True):
    """One cause of throttling: for how long it was in force while the device worked for the job."""

    cause: str
    ns: int
    error_ns: int


class Throttle(msgspec.Struct, frozen=True):
    """The throttles of a device; causes may overlap, and the whole counts once.

    `source`: "counter" (the driver's), "quota" (the kernel's, of a CPU quota), "sampled" (the
    driver's present reasons, once a second), or empty: only launches held back are known.
    `busy_ns`: part of `throttled_ns` in which kernels and copies ran; it is in neither of these.
    """

    source: str
    busy_ns: int
    error_ns: int
    causes: tuple[ThrottleRow, ...] = ()


class DeviceEnergy(msgspec.Struct, frozen=True):
    """The energy of a whole device between two readings of its counter, `read_ns` apart, during the
    job; without it `absent` is the reason."""

    joules: float | None = None
    read_ns: int = 0
    absent: str = ""


class DeviceRow(msgspec.Struct, frozen=True):
    """One granted or used device. `error_ns`: 95 % half width of its busy time where that is an
    estimate; `observed_ns`: part of the window in which launches were timed or sampled."""

    id: str
    window_ns: int
    causes: Causes
    estimate: bool = False
    error_ns: int = 0
    observed_ns: int = 0
    throttle: Throttle | None = None
    """The causes of `throttled_ns`; None where nothing was read of them. The agent adds it."""
    energy: DeviceEnergy | None = None
    """The agent adds it where it is asked for, and at the end."""

    @property
    def busy_ns(self) -> int:
        """The time in which it ran kernels or copies, throttled or not."""
        slowed_ns = self.throttle.busy_ns if self.throttle is not None else 0
        return self.causes.kernel_ns + self.causes.copy_ns + slowed_ns


class ClockAlignment(msgspec.Struct, frozen=True):
    """Alignment of a device's timestamps to CLOCK_MONOTONIC; `error_ns` bounds its error."""

    source: str
    offset_ns: int
    drift_ppb: int
    error_ns: int


class CostRow(msgspec.Struct, frozen=True):
    """Tracing's cost to the job's threads by the tracer's own clock; the share is of their time.
    `profiler_ns`: what the vendor's own profiler says it took beside that."""

    launches: int
    tracer_ns: int
    ns_per_launch: float
    share: float
    profiler_ns: int = 0


class TraceSummary(msgspec.Struct, frozen=True):
    """The trace of one job as the contract page spells it. `absent`: what has no value, and why."""

    mode: Mode
    window: TimeWindow
    kernels: tuple[KernelSummary, ...] = ()
    copies: tuple[CopyRow, ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    loss: dict[str, int] = {}
    """Every counter by name, zeros included."""
    clock: ClockAlignment | None = None
    cost: CostRow | None = None
    absent: dict[str, str] = {}
    records: RecordCounts | None = None
    timeline: TimelineCounts | None = None
    processes: tuple[ProcessRow, ...] = ()
    events: tuple[EventRow, ...] = ()
    coverage: Coverage | None = None
    calls: tuple[CallRow, ...] = ()
    """The calls into GPU libraries, as the kernel saw them; the agent adds them."""
    clocks: tuple[TableRow, ...] = ()
    """Every device that was used; the agent puts the node's clocks before them."""
    pressure: JobPressure | None = None
    """Delays of the job's threads other than by each other; the agent adds them at the end."""
    waits: tuple[StackWait, ...] = ()
    """The places where its threads waited longest, for a job with a full trace; the agent adds
    them.
    """
    collectives: Collectives | None = None
    """The waits of the job's ranks for each other, None if it has none; the agent adds them."""


class Coverage(msgspec.Struct, frozen=True):
    """The time of all processes by coverage; the fields add up to their lives."""

    observed_ns: int
    counted_ns: int
    blind_ns: int
    dormant_ns: int
    windows: int

    @property
    def seen(self) -> float:
        """Return the part in which launches were counted, rounded so that 1 means all of it."""
        unseen = self.blind_ns + self.dormant_ns
        life = self.observed_ns + self.counted_ns + unseen
        return 1 - max(math.ceil(unseen / life * 1e4), 1) / 1e4 if unseen and life else 1.0


class TracerAnswer(msgspec.Struct, frozen=True):
    """State and orders of the tracer of one living process.

    `settled`: the last request is in force. `switches_late`: the number of switches delayed by a
    call under way; `pinned`: queues that cannot be moved and stay as they were.
    """

    pid: int
    name: str
    tracer: str
    mode: Mode
    settled: bool
    wanted: Mode | None = None
    """The request; None if there was none."""
    budget_ppm: int = 0
    phase: Phase = ""
    since_ns: int = 0
    switches: int = 0
    switches_late: int = 0
    pinned: int = 0
    stepped_aside: bool = False
    holder: str = ""
    lease_ns: int = 0
    """The CLOCK_MONOTONIC ns until which it obeys the request."""
    simulated: bool = False
    holds: bool = False
    """True if it can delay launches."""
    hold_share: int = 0
    """The part of the time, of HOLD_WHOLE, in which launches begin, by its segment; 0: no limit."""
    hold_until_ns: int = 0
    """The CLOCK_MONOTONIC ns until which that limit holds."""
    held: int = 0
    """The launches and copies that waited for it."""
    held_ns: int = 0
    """The time they waited, summed over threads."""


class RecordCounts(msgspec.Struct, frozen=True):
    """made = folded + dropped + in flight between ring and fold; the last is 0 after `finish`."""

    made: int
    folded: int
    dropped: int


class TimelineCounts(msgspec.Struct, frozen=True):
    """Size of a timeline written now; records that it no longer has are still in the summary."""

    records: int
    records_dropped: int
    spans: int
    spans_dropped: int


def summarized(found: _trace.Summary) -> TraceSummary:
    """Convert the C fold's summary to the names of the contract page."""
    launches, tracer_ns, thread_ns = found["cost"]
    devices = tuple(_device(each) for each in found["devices"])
    coverage = _coverage(found)
    bounds = _Bounds.of(coverage, len(devices))
    clocks = [(each[0], _clock(each)) for each in found["devices"] if each[3] and each[6]]
    return TraceSummary(
        mode=MODES[found["mode"]],
        window=TimeWindow(*found["window"]),
        kernels=tuple(sorted((_kernel(row, bounds) for row in found["kernels"]), key=_by_total)),
        copies=tuple(sorted((_copy(row, bounds) for row in found["copies"]), key=_by_total)),
        devices=devices,
        loss={name: count for name, count in found["loss"].items() if name not in _TIMELINE},
        clock=clocks[0][1] if clocks else None,
        clocks=tuple(device_row(id, clock) for id, clock in clocks),
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
        timeline=timeline_counts(found),
        processes=tuple(_process(row) for row in found["processes"]),
        events=tuple(EventRow(*row) for row in found["events"]),
        coverage=coverage,
    )


def _coverage(found: _trace.Summary) -> Coverage | None:
    covers = [row[10] for row in found["processes"]]
    observed, counted, blind, dormant = (sum(cover[i] for cover in covers) for i in range(4))
    return Coverage(observed, counted, blind, dormant, found["windows"]) if covers else None


def timeline_counts(found: _trace.Summary) -> TimelineCounts:
    lost, spans_lost = (found["loss"][name] for name in _TIMELINE)
    return TimelineCounts(found["records"] - lost, lost, found["spans"] - spans_lost, spans_lost)


class _Bounds(NamedTuple):
    """The unobserved parts of a job, which each of its rows must state."""

    seen: float = 1.0
    hidden_ns: int = 0
    """The device time that any one row may have had while no tracer looked."""

    @classmethod
    def of(cls, coverage: Coverage | None, devices: int) -> Self:
        if coverage is None:
            return cls()
        return cls(coverage.seen, coverage.dormant_ns * max(devices, 1))


def _kernel(row: _trace.Row, bounds: _Bounds) -> KernelSummary:
    name, count, total_ns, p50_ns, p99_ns, _bytes, estimate, error_ns, _timed, unseen = row
    error_ns += bounds.hidden_ns
    return KernelSummary(
        name, count, total_ns, p50_ns, p99_ns, estimate, error_ns, unseen, bounds.seen
    )


def _copy(row: _trace.Row, bounds: _Bounds) -> CopyRow:
    name, count, total_ns, p50_ns, p99_ns, size, estimate, error_ns, _timed, unseen = row
    error_ns += bounds.hidden_ns
    return CopyRow(
        name, count, total_ns, p50_ns, p99_ns, size, estimate, error_ns, unseen, bounds.seen
    )


def _tracer(number: int) -> tuple[str, bool]:
    kind = number & ~_SIMULATED
    return _TRACERS.get(kind, str(kind)), bool(number & _SIMULATED)


def _process(row: _trace.Process) -> ProcessRow:
    pid, name, number, launches, copies, unseen, kernel_ns, copy_ns = row[:8]
    estimate, tracer_ns, cover, error_ns = row[8:]
    tracer, simulated = _tracer(number)
    error_ns = int(error_ns) if estimate else 0
    return ProcessRow(pid, name, tracer, launches, copies, kernel_ns, copy_ns, tracer_ns, *cover,
                      unseen, estimate, error_ns, simulated)  # fmt: skip


# The job can write a tracer's words: an invalid one becomes the nearest valid one.
def answered(row: _trace.Answer) -> TracerAnswer:
    pid, name, number, wanted, applied, mode, phase, since_ns, switches, late, pinned = row[:11]
    stepped_aside, holder, lease_ns, holds, hold, held, held_ns = row[11:]
    tracer, simulated = _tracer(number)
    return TracerAnswer(
        pid,
        name,
        tracer,
        MODES[mode] if mode < len(MODES) else "off",
        wanted == applied or stepped_aside,
        MODES[wanted & 3] if wanted else None,
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
        holds,
        hold % HOLD_WHOLE,
        hold - hold % HOLD_WHOLE,
        held,
        held_ns,
    )


def _by_total(row: KernelSummary | CopyRow) -> tuple[int, str]:
    return -row.total_ns, row.name


def _device(row: _trace.Device) -> DeviceRow:
    causes, estimate = row[4], row[5]
    return DeviceRow(row[0], sum(causes), Causes(*causes), estimate, row[10], row[11])


def _clock(row: _trace.Device) -> ClockAlignment:
    return ClockAlignment(*row[6:10])


# Returns the parts of the summary that have no value, with the reason.
def _absent(found: _trace.Summary) -> dict[str, str]:
    held = any(row[4][_THROTTLED] for row in found["devices"])
    # A tracer sees the launches that it delayed, and cannot see a device slow itself down.
    absent = {PEERS: _NO_PEERS, THROTTLED[held]: _NO_THROTTLE}
    if not found["segments"]:
        absent["kernels"] = absent["copies"] = absent["cost"] = absent["clock"] = (
            "no process of the job has called a GPU runtime that stoker traces"
        )
    if not found["spans_seen"]:
        absent["spans"] = "no thread spans were given, so host causes are estimates or not observed"
    untimed = [row[0] for row in found["kernels"] + found["copies"] if not row[8]]
    if untimed:
        absent["total_ns"] = f"no launch was timed of: {', '.join(untimed[:8])}"
    if found["command_buffers"]:
        absent["command_buffers"] = "launches inside of command buffers are not seen by the layer"
    return absent
