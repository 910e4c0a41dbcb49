# SPDX-License-Identifier: Apache-2.0
"""The energy that a job's devices drew while it held them, from their drivers' own counters.

The counter is read when the job is first seen and whenever somebody asks; the first reading is
kept in a file of the job's folder, so that an agent that takes the job over continues there.
Invariant: what is told is the difference of two readings of one counter, with the time between
them, which is at least half of the job's; nothing is added for the rest. What is not known has
the reason.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from stoker.agent.devices.readings import Absent, CardReadings, Reading
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.kernels.trace_summary import DeviceEnergy, DeviceRow, TraceSummary

FILE = "energy"
COUNTER = "energy_j"
SECOND_NS = 1_000_000_000

EnergySource = Callable[[str], Reading | Absent]
"""Returns the newest reading of a device's counter."""


def nothing_read(device: str) -> Reading | Absent:
    """Return why no counter of a device is read."""
    return Absent("no driver is read for it")


def source_of(readings: Callable[[str], CardReadings | None]) -> EnergySource:
    """Return the source of a node; `readings`: a card's newest, None if no driver is read."""

    def read(device: str) -> Reading | Absent:
        found = readings(device)
        if found is None:
            return nothing_read(device)
        if found.state not in ("ok", "starting"):
            return Absent(f"its driver does not answer: {found.why}")
        return found.fields.get(COUNTER) or Absent("its driver has no counter of energy")

    return read


class _First(msgspec.Struct):
    """The first reading of a counter during the job."""

    joules: float
    at_ns: int


class JobEnergy:
    """The energy of one job, for one thread."""

    def __init__(
        self, record: StartRecord, store: Path, source: EnergySource, *, adopted: bool
    ) -> None:
        """`adopted`: an earlier agent may have read the counters first."""
        self._record, self._path, self._source = record, store / FILE, source
        self._first: dict[str, _First] = self._kept() if adopted else {}
        self._looked = False

    def _kept(self) -> dict[str, _First]:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.msgpack.decode(self._path.read_bytes(), type=dict[str, _First])
        return {}

    def look(self) -> None:
        """Read each counter for the first time; further calls change nothing."""
        if self._looked:
            return
        self._looked, before = True, len(self._first)
        for device in self._record.devices:
            found = self._source(device)
            if device not in self._first and isinstance(found, Reading):
                self._first[device] = _First(float(found.value), found.t_ns)
        if len(self._first) > before:
            self._keep()

    def _keep(self) -> None:
        with contextlib.suppress(OSError):
            partial = self._path.with_name(f".{FILE}.new")
            partial.write_bytes(msgspec.msgpack.encode(self._first))
            partial.replace(self._path)

    def applied(self, summary: TraceSummary) -> TraceSummary:
        """Return the summary with the energy up to now of each device that the job holds."""
        held = frozenset(self._record.devices)
        rows = tuple(
            msgspec.structs.replace(row, energy=self._of(row)) if row.id in held else row
            for row in summary.devices
        )
        return msgspec.structs.replace(summary, devices=rows)

    def _of(self, row: DeviceRow) -> DeviceEnergy:
        self.look()
        first, found = self._first.get(row.id), self._source(row.id)
        if isinstance(found, Absent):
            return DeviceEnergy(absent=found.why)
        if first is None or float(found.value) < first.joules:
            return DeviceEnergy(absent="its counter began anew during the job")
        read_ns = max(0, found.t_ns - first.at_ns)
        if 2 * read_ns < row.window_ns:
            part = f"{read_ns / SECOND_NS:.3g} s of {row.window_ns / SECOND_NS:.3g} s"
            return DeviceEnergy(read_ns=read_ns, absent=f"its counter was read over {part} alone")
        return DeviceEnergy(float(found.value) - first.joules, read_ns)

    def end(self) -> None:
        """Remove the file, which no other agent needs."""
        with contextlib.suppress(OSError):
            self._path.unlink()
