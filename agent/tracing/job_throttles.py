# SPDX-License-Identifier: Apache-2.0
"""The throttled time of one job's devices, from its start to its end, also over another agent.

What was counted is kept in a file of the job's folder. An agent that takes a job over continues
there; the time in which nobody read the counters is in the error.
Invariant: the file is never needed. Without it all time before is not read.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

import msgspec

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.throttled_time import (
    DeviceThrottle,
    ThrottleCount,
    Totals,
    WorkDone,
    with_throttles,
)
from stoker.probes.kernels.trace_summary import TraceSummary
from stoker.scheduler.nouns import TaskKey

FILE = "throttled"
NEAR_NS = 250_000_000
"""A first reading that comes so soon after the start counts as one of the start."""


class Sources(Protocol):
    """Anything that tells the throttling of devices: `ThrottleSources` is one."""

    def read(self, key: TaskKey, device: str) -> ThrottleCount | Absent: ...


class _Nothing:
    def read(self, key: TaskKey, device: str) -> ThrottleCount | Absent:
        return Absent("no throttle counter is read on this node")


NO_SOURCES = _Nothing()


class JobThrottles:
    """The throttles of one job, for one thread."""

    def __init__(
        self, record: StartRecord, store: Path, began_ns: int, sources: Sources = NO_SOURCES
    ) -> None:
        self._record, self._path, self._began_ns = record, store / FILE, began_ns
        self._sources = sources
        self._devices: dict[str, DeviceThrottle] = {}
        self._reasons: dict[str, str] = {}
        self._newest: dict[str, ThrottleCount] = {}
        self._written: dict[str, Totals] = {}
        self._begun = False
        """True once every device was read."""

    def start(self, *, adopted: bool) -> None:
        """Make every device ready for its first reading. `adopted`: an earlier agent may have
        counted, which is continued."""
        kept = self._kept() if adopted else {}
        for device in self._record.devices:
            throttle = DeviceThrottle(kept.get(device))
            if device not in kept:
                throttle.work(WorkDone(self._began_ns, 0, 0, 0))
            self._devices[device] = throttle

    def _kept(self) -> dict[str, Totals]:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.msgpack.decode(self._path.read_bytes(), type=dict[str, Totals])
        return {}

    def read(self, *, quotas_alone: bool = False) -> None:
        """Read the counters, all of them the first time; a job that ends before that costs no file.
        Quotas are read more often, because they end with the job."""
        quotas_alone, self._begun = quotas_alone and self._begun, True
        for device, throttle in self._devices.items():
            before = self._newest.get(device)
            if quotas_alone and (before is None or before.source != "quota"):
                continue
            found = self._sources.read(self._record.key, device)
            if isinstance(found, Absent):
                self._reasons[device] = found.why
            elif before is None or not _gone(before, found):
                self._newest[device] = found
                if before is None:
                    self._count_first(throttle, found)
                else:
                    throttle.count(found)

    def _count_first(self, throttle: DeviceThrottle, found: ThrottleCount) -> None:
        """Take in the first reading. Counters that are 0 were 0 at the start as well, however late
        this reading is."""
        late_ns = found.at_ns - self._began_ns
        if late_ns > 0 and found.source != "sampled" and not any(found.ns.values()):
            throttle.count(found._replace(at_ns=self._began_ns))
        elif 0 < late_ns <= NEAR_NS:
            found = found._replace(at_ns=self._began_ns)
        throttle.count(found)

    def worked(self, summary: TraceSummary) -> None:
        """Take in how much the devices worked by the fold's own summary."""
        for row in summary.devices:
            if (throttle := self._devices.get(row.id)) is not None:
                throttle.work(WorkDone.of(summary.window.to_ns, row))

    def end(self, summary: TraceSummary) -> None:
        """Settle the rest with the final summary of the fold; the file is no longer needed."""
        self.worked(summary)
        for throttle in self._devices.values():
            throttle.end()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def keep(self) -> None:
        """Write what was counted, if it is more than before."""
        now = {
            id: each.totals for id, each in self._devices.items() if each.totals.last is not None
        }
        if now != self._written:
            copy = msgspec.msgpack.encode(now)
            with contextlib.suppress(OSError):
                partial = self._path.with_name(f".{FILE}.new")
                partial.write_bytes(copy)
                partial.replace(self._path)
            self._written = msgspec.msgpack.decode(copy, type=dict[str, Totals])

    def applied(self, summary: TraceSummary) -> TraceSummary:
        """Return the summary with the throttled time so far."""
        known = {
            id: each.totals
            for id, each in self._devices.items()
            if id in self._newest and each.totals.last is not None
        }
        return with_throttles(summary, known, self._reasons) if self._devices else summary


def _gone(before: ThrottleCount, found: ThrottleCount) -> bool:
    """True if the group of a quota was removed since: the job has ended, or is held no more."""
    return found.source == "quota" and sum(found.ns.values()) < sum(before.ns.values())
