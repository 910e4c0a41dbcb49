# SPDX-License-Identifier: Apache-2.0
"""Processes of jobs that use a device without stoker's tracer, so that their work is not observed.

The evidence is the kernel's view of a living process. Such a process has mapped the driver of a CPU
device or has a GPU's device file open. It has also not mapped a tracer, or was started without the
variable that names the folder for its segment.

A process that has its tracer soon after was only starting: a later look finds the tracer or, if
the process has ended by then, the segment that it made. Soon is by its own time: a process that is
ready and gets no CPU cannot load anything. A process that ends before it has loaded its tracer
counts. Not observed is what a process does to its own tracer from inside.
Invariant: the number of remembered processes and the rate of reading mappings are bounded.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from stoker.agent.tracing.starved_time import ThreadTime, starved_ns, thread_times
from stoker.native.errors import StokerError
from stoker.probes.calls.library_copies import PROC, copies_of, start_time
from stoker.probes.kernels.job_trace import (
    Causes,
    CopyRow,
    DeviceRow,
    FoundSegment,
    KernelSummary,
    TraceSummary,
)
from stoker.probes.kernels.tracer_environment import LIBRARIES

DRIVERS = ("libpocl",)
"""Name prefixes of the drivers of CPU devices, which open no device file."""
SIMULATED = ("libcuda.so",)
"""Name prefixes of the drivers of simulated cards (SIM), which open no device file either."""
NODES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")
"""Path prefixes of the device files of GPUs."""
FILES_MAX = 4096
"""The largest number of open files of one process that are read."""
PROCESSES_MAX = 4096
"""The largest number of processes of one job; further ones are not examined."""
LOOK_FIRST_NS = 50_000_000
LOOK_NS = 500_000_000
LOOK_MAX_NS = 4_000_000_000
"""Nanoseconds between two readings of a process's mappings: LOOK_FIRST_NS for a new program, which
loads its libraries just then, LOOK_NS after a change, doubled while nothing changes, LOOK_MAX_NS at
most."""
FORGIVEN_NS = 2_000_000_000
"""A process that has a driver and no tracer after so many nanoseconds counts as hidden for its
life, whatever it executes later."""
STARVED_MAX_NS = 60_000_000_000
"""The longest time without a CPU that does not count among FORGIVEN_NS."""
ENVIRONMENT_MAX = 1 << 20

Kind = Literal["none", "traced", "hidden"]
"""A process uses no driver, or has its tracer, or uses a driver without a tracer."""

_TRACERS = tuple(library.removesuffix(".so") for library in LIBRARIES.values())
_Row = TypeVar("_Row", KernelSummary, CopyRow)
_FREE = (
    "held_idle_ns",
    "host_blocked_ns",
    "host_runnable_ns",
    "host_on_cpu_ns",
    "host_paging_ns",
    "peer_ns",
    "throttled_ns",
)
"""Causes in which a device seems to be free. Their time becomes not observed, in this order."""


class UntracedProcesses(msgspec.Struct, frozen=True):
    """The hidden processes of one job: their number, and for how long at least one lived."""

    ns: int = 0
    processes: int = 0


class _Process(msgspec.Struct):
    from_ns: int
    to_ns: int
    kind: Kind = "none"
    hidden_at: int = 0
    """The time of the first look of the newest unbroken series that found it hidden."""
    missed_at: int = 0
    """The time of the newest look that found it hidden."""
    starved_ns: int = 0
    """The time without a CPU since `hidden_at`, up to the newest look, at `starved_at`."""
    starved_at: int = 0
    threads: dict[int, ThreadTime] = msgspec.field(default_factory=dict)
    traced_at: int = 0
    """The time at which it made its newest segment; 0: it has made none since it is known."""
    look_at: int = 0
    wait_ns: int = LOOK_FIRST_NS // 2

    @property
    def hidden(self) -> bool:
        """True if the process uses a driver without a tracer. A segment made before a look that
        found no tracer belongs to a program that the process has replaced."""
        began = self.missed_at <= self.traced_at <= self.forgiven_to
        return self.kind == "hidden" and not began

    @property
    def forgiven_to(self) -> int:
        """The time until which it may be without a tracer."""
        return self.hidden_at + FORGIVEN_NS + min(self.starved_ns, STARVED_MAX_NS)

    def starve(self, threads: dict[int, ThreadTime], now_ns: int) -> None:
        """Add what it had no CPU since the last look; the first look of a series only begins it."""
        if self.hidden:
            self.starved_ns += starved_ns(self.threads, threads, now_ns - self.starved_at)
        else:
            self.starved_ns = 0
        self.threads, self.starved_at = threads, now_ns


class HiddenUse:
    """The hidden processes of one job. `look` and `look_again` are for one thread, the rest for
    any."""

    def __init__(self, last_look_ns: int, segments: Path) -> None:
        """`segments`: the folder to which the job's tracers write."""
        self._last_look_ns = last_look_ns
        self._segment_variable = f"STOKER_TRACE_DIR={segments}".encode()
        self._processes: dict[tuple[int, int], _Process] = {}
        self._living: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    def look(self, pids: Iterable[int], now_ns: int) -> None:
        """Record that these processes live now."""
        living = {(pid, started) for pid in pids if (started := start_time(pid)) is not None}
        with self._lock:
            for key in living | self._living:
                if key not in self._processes and len(self._processes) < PROCESSES_MAX:
                    # It began after the last look, which would have seen it.
                    self._processes[key] = _Process(self._last_look_ns, now_ns)
                if key in self._processes:
                    self._processes[key].to_ns = now_ns
            self._living, self._last_look_ns = living, now_ns
        self.look_again(now_ns)

    def look_again(self, now_ns: int) -> int:
        """Examine the processes of the last look that are due; return when the next one is."""
        with self._lock:
            living = [
                (key[0], self._processes[key]) for key in self._living & self._processes.keys()
            ]
        for pid, process in living:
            if now_ns >= process.look_at:
                self._examine(pid, process, now_ns)
        return min((process.look_at for _, process in living), default=now_ns + LOOK_NS)

    def began(self, pid: int) -> None:
        """Examine a process at the next look, and again soon: it has begun a program just now."""
        with self._lock:
            for key in self._living:
                if key[0] == pid and key in self._processes:
                    self._processes[key].look_at = 0
                    self._processes[key].wait_ns = LOOK_FIRST_NS // 2

    def found(self, segments: Iterable[FoundSegment], now_ns: int) -> None:
        """Record segments, made at `now_ns` at the latest, of the processes that made them. A
        process that was not examined before needs none: a later look finds the tracer itself."""
        with self._lock:
            for each in segments:
                process = self._processes.get((each.pid, each.start_time))
                if process is not None:
                    process.traced_at = max(process.traced_at, min(each.made_ns, now_ns))

    def _examine(self, pid: int, process: _Process, now_ns: int) -> None:
        if process.hidden:
            process.starve(thread_times(pid), now_ns)
        late = process.hidden and now_ns > process.forgiven_to
        kind = "hidden" if late else _kind(pid, self._segment_variable)
        if kind is None:
            return
        with self._lock:
            if kind == "hidden" and not process.hidden:
                process.starve(thread_times(pid), now_ns)
                process.hidden_at = now_ns
            if kind == "hidden":
                process.missed_at = now_ns
            is_settled = kind == process.kind and (late or kind != "hidden")
            process.wait_ns = process.wait_ns * 2 if is_settled else LOOK_NS
            process.look_at = now_ns + min(process.wait_ns, LOOK_MAX_NS)
            process.kind = kind

    def until(self, now_ns: int) -> UntracedProcesses:
        """Return the hidden processes; one that lived at the last look counts as living still."""
        with self._lock:
            spans = sorted(
                (process.from_ns, now_ns if key in self._living else process.to_ns)
                for key, process in self._processes.items()
                if process.hidden
            )
        covered, last = 0, 0
        for from_ns, to_ns in spans:
            covered += max(0, min(to_ns, now_ns) - max(from_ns, last))
            last = max(last, to_ns)
        return UntracedProcesses(covered, len(spans))


def _kind(pid: int, variable: bytes) -> Kind | None:
    """Return the kind of a process; None if it is gone or cannot be examined."""
    try:
        found = copies_of(pid, (*DRIVERS, *SIMULATED, *_TRACERS))
    except StokerError:
        return None
    names = [Path(copy.path).name for copy in found]
    simulated = any("/sim/" in copy.path and _is(copy.path, SIMULATED) for copy in found)
    if not simulated and not any(map(_driver, names)) and not _has_node(pid):
        return "none"
    if not any(name.startswith(_TRACERS) for name in names):
        return "hidden"
    variables = _environment(pid)
    if variables is None:
        return None
    return "traced" if variable in variables else "hidden"


def _driver(name: str) -> bool:
    return name.startswith(DRIVERS)


def _is(path: str, names: tuple[str, ...]) -> bool:
    return Path(path).name.startswith(names)


def _has_node(pid: int) -> bool:
    """True if the process has a GPU's device file open."""
    folder = PROC / str(pid) / "fd"
    try:
        for file in itertools.islice(folder.iterdir(), FILES_MAX):
            with contextlib.suppress(OSError):
                if str(file.readlink()).startswith(NODES):
                    return True
    except OSError:
        pass
    return False


def _environment(pid: int) -> list[bytes] | None:
    """Return the variables with which the process was started; None if it cannot be known.

    A process may end after its mappings were read, and the kernel then shows it without any
    variable.
    """
    try:
        with (PROC / str(pid) / "environ").open("rb") as file:
            text = file.read(ENVIRONMENT_MAX)
        over = not text and (PROC / str(pid) / "maps").read_bytes() == b""
    except OSError:
        return None
    return None if over else text.split(b"\0")


def without(summary: TraceSummary, hidden: UntracedProcesses) -> TraceSummary:
    """Return the trace without claims about the time in which hidden processes lived."""
    if not hidden.ns:
        return summary
    window_ns = max(summary.window.to_ns - summary.window.from_ns, 1)
    seen = max(0.0, 1 - max(hidden.ns, 1) / window_ns)
    hidden_ns = hidden.ns * max(len(summary.devices), 1)
    return msgspec.structs.replace(
        summary,
        kernels=tuple(_row(row, seen, hidden_ns) for row in summary.kernels),
        copies=tuple(_row(row, seen, hidden_ns) for row in summary.copies),
        devices=tuple(_device(row, hidden.ns) for row in summary.devices),
        absent={**summary.absent, "tracer": hidden_reason(hidden)},
    )


def hidden_reason(hidden: UntracedProcesses) -> str:
    """Return the reason why that time is not observed, for people."""
    some = "a process" if hidden.processes == 1 else f"{hidden.processes} processes"
    return (
        f"{some} of the job used a device without the tracer, which the job took away or never "
        f"loaded, for {hidden.ns / 1e9:.3g} s: that time is not observed and charged as held"
    )


def _row(row: _Row, seen: float, hidden_ns: int) -> _Row:
    return msgspec.structs.replace(row, seen=min(row.seen, seen), error_ns=row.error_ns + hidden_ns)


def _device(row: DeviceRow, hidden_ns: int) -> DeviceRow:
    """Move time that seemed free to `not observed`; time in which the device worked stays."""
    causes: dict[str, int] = msgspec.structs.asdict(row.causes)
    left = max(0, hidden_ns - causes["not_observed_ns"])
    for name in _FREE:
        taken = min(left, causes[name])
        causes[name] -= taken
        causes["not_observed_ns"] += taken
        left -= taken
    return msgspec.structs.replace(row, causes=Causes(**causes))
